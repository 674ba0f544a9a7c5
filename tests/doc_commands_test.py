"""The commands that documents name exist: every `.md` file of the tree, in code blocks and between backquotes.

The verbs and options of `relayvm` and `relayvm-run` are those of their `--help`, options of a script those that stand in
its source. A `--option` alone must be one of any of them, tests apart. Results of past measurements and decisions name the options
of their time, so they are left out.
"""

import os
import re
import shlex
import subprocess

import relayvm

# Programs of others, whose options are theirs.
FOREIGN = {"bazel", "clang-19", "dpkg", "apt-get", "git", "gdb", "pip", "qemu-aarch64", "scp", "ssh", "gcc", "cc", "c++", "g++",
           "echo", "cat", "sudo", "docker", "dpkg-buildpackage", "perf", "tar", "export", "cd", "cmake", "pkg-config"}
TOOLS = {"relayvm", "relayvm-run"}
OPTION = re.compile(r"^--[a-z][a-z0-9-]*|^-[a-zA-Z]")
NO_COMMANDS = {"relayvm executable 1"}  # the key of a hash


def documents():
    listed = subprocess.run(["git", "ls-files", "*.md"], cwd=relayvm.ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout
    return [path for path in listed.split() if not path.startswith(("benchmarks/results/", "docs/decisions/"))]


def read(path):
    with open(os.path.join(relayvm.ROOT, path), encoding="utf-8") as file:
        return file.read()


def help_of(tool, *verb):
    """The names of the options that `--help` lists."""
    text = relayvm.must(tool, *verb, "--help")
    return set(re.findall(r"^  (--[a-z][a-z-]*|-[a-zA-Z])", text, re.MULTILINE)) | {"--help", "-h"}


def commands(text):
    """Pairs of a line number and a command: lines of code blocks, their continuations joined, and what stands between
    backquotes."""
    is_fenced = False
    joined = ""
    for number, line in enumerate(text.split("\n"), 1):
        if line.startswith("```"):
            is_fenced = not is_fenced
            continue
        if is_fenced or line.startswith("    "):
            code = joined + re.sub(r"^ *(\$ )?", "", line)
            joined = code[:-1] if code.endswith("\\") else ""
            if not joined:
                yield number, code
            continue
        for code in re.findall(r"`([^`]+)`", line):
            yield number, code


class DocCommands(relayvm.TestCase):
    @classmethod
    def setUpClass(cls):
        verbs = re.findall(r"^  relayvm ([a-z]+) ", relayvm.must(relayvm.COMPILER, "help"), re.MULTILINE)
        cls.options = {verb: help_of(relayvm.COMPILER, verb) for verb in verbs if verb not in ("version", "help")}
        cls.options["relayvm-run"] = help_of(relayvm.RUNTIME)
        tracked = subprocess.run(["git", "ls-files", "*.py", "run", ".ci/*", "tests/*.cc"], cwd=relayvm.ROOT, stdout=subprocess.PIPE,
                                 text=True, check=True).stdout.split()
        cls.scripts = {path: set(re.findall(r"(?<![\w-])--[a-z][a-z0-9-]*", read(path))) for path in tracked}

    def options_of_script(self, word):
        """Those that stand in the source of a script or test program; None if there is no such file."""
        path = word.removeprefix("./").removeprefix("bazel-bin/")
        for name in (path, path + ".cc", f"tests/random/{path}.cc"):
            if name in self.scripts:
                return self.scripts[name]
        return None

    def complaint(self, code):
        """The mistake of a command, or None."""
        if code in NO_COMMANDS:
            return None
        try:
            words = shlex.split(re.sub(r"\s+#.*| \|.*|[<>].*", "", code.strip()))
        except ValueError:
            return None
        while words and (re.match(r"^[A-Z_]+=", words[0]) or os.path.basename(words[0]).startswith("python")):
            words.pop(0)
        if not words or words[0] in FOREIGN:
            return None
        tool = os.path.basename(words[0])
        flags = [OPTION.match(word).group() for word in words[1:] if OPTION.match(word)]
        if tool == "relayvm" and len(words) > 1 and re.fullmatch(r"[a-z]+", words[1]):
            if words[1] not in self.options and words[1] not in ("help", "version"):
                return f"`relayvm` has no verb `{words[1]}`"
            known = self.options.get(words[1], set())
        elif tool == "relayvm-run":
            known = self.options["relayvm-run"]
        elif words[0] in self.options and flags:  # `compile --verbose`
            known = self.options[words[0]]
        elif OPTION.match(words[0]) and words[0].startswith("--"):
            scripts = [options for path, options in self.scripts.items() if not path.endswith("_test.py")]
            known = set().union(*self.options.values(), *scripts)
            flags = [OPTION.match(words[0]).group()]
        else:
            known = self.options_of_script(words[0])
            if known is None:
                return None
            flags = [flag for flag in flags if flag.startswith("--")]
        unknown = [flag for flag in flags if flag not in known]
        return f"`{tool}` has no option `{unknown[0]}`" if unknown else None

    def test_commands_exist(self):
        seen = 0
        wrong = []
        for path in documents():
            for number, code in commands(read(path)):
                seen += "--" in code
                complaint = self.complaint(code)
                if complaint:
                    wrong.append(f"{path}:{number}: {complaint}: {code}")
        self.assertGreater(seen, 120)
        self.assert_none(wrong, "commands that do not exist")

    def test_mistakes_are_found(self):
        for code, expected in (("relayvm chekc x.relay", "no verb `chekc`"), ("relayvm check x.relay --type", "`--type`"),
                               ("$ relayvm-run x.rvm --statz".removeprefix("$ "), "`--statz`"), ("--print-afterr", "`--print-afterr`"),
                               ("compile --verbos", "`--verbos`"), ("./run test --longer", "`--longer`"),
                               ("bazel-bin/tools/relayvm/relayvm run x.relay --target host --kee y", "`--kee`")):
            with self.subTest(code):
                self.assertIn(expected, self.complaint(code) or "")
        for code in ("relayvm check x.relay --types", "relayvm compile x.relay -O3 -o y.rvm", "bazel build --jobs=2", "%x - 1"):
            with self.subTest(code):
                self.assertIsNone(self.complaint(code))
