"""The examples of documents are true: those of Relay, and of the command line (`console`) on any page, give what they say,
that of C++ is the builder's test."""

import os
import re
import subprocess
import sys
import tempfile

import doc_commands_test
import programs_test
import relayvm


def read(path):
    with open(os.path.join(relayvm.ROOT, path), encoding="utf-8") as file:
        return file.read()


def examples(path, language):
    return re.findall(rf"^```{language}\n(.*?)^```$", read(path), re.MULTILINE | re.DOTALL)


class Docs(relayvm.TestCase):
    def check_example(self, source, text):
        with open(source, "w", encoding="utf-8") as file:
            file.write(text)
        expected_error = re.search(r"^// error: (.*)$", text, re.MULTILINE)
        if expected_error:
            done = relayvm.run(relayvm.COMPILER, "check", source)
            self.assertEqual(done.returncode, 1)
            self.assertIn(f"error: {expected_error.group(1)}", done.stderr)
            return
        cases = list(programs_test.cases(source))
        self.assertTrue(cases, "the example says nothing to run")
        entries = [flag for entry in dict.fromkeys(case[1] for case in cases) for flag in ("--entry", entry)]
        model = relayvm.compile_file(source, source + ".rvm", extra=entries)
        for kind, entry, arguments, expected in cases:
            done = relayvm.run(relayvm.RUNTIME, model, "--entry", entry, *arguments)
            self.assertEqual(done.returncode, 0 if kind == "run" else 1, done.stderr)
            if kind == "run":
                self.assertEqual(" ".join(done.stdout.strip().split("\n")), expected)
            else:
                self.assertIn(expected, done.stderr)

    def check_page(self, path, fewest):
        found = examples(path, "relay")
        self.assertGreaterEqual(len(found), fewest)
        with tempfile.TemporaryDirectory() as folder:
            for i, text in enumerate(found):
                with self.subTest(f"{path}, example {i + 1}: {text.splitlines()[0]}"):
                    self.check_example(os.path.join(folder, f"example{i + 1}.relay"), text)

    def check_console(self, text, folder):
        """Runs lines that begin with `$`; those behind are what is printed, `...` is anything. `cat` of a file that is
        not there makes it."""
        tools = [os.path.dirname(path) for path in (relayvm.COMPILER, relayvm.RUNTIME, sys.executable)]
        environment = {**os.environ, "PATH": os.pathsep.join([*tools, os.environ["PATH"]])}
        for command, printed in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", text, re.MULTILINE):
            shown = re.fullmatch(r"cat (\S+)", command)
            if shown and not os.path.exists(os.path.join(folder, shown[1])):
                with open(os.path.join(folder, shown[1]), "w", encoding="utf-8") as file:
                    file.write(printed)
            done = subprocess.run(["bash", "-c", command], cwd=folder, env=environment, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True, timeout=120, check=False)
            pattern = ".*".join(re.escape(part) for part in ("\n" + printed).split("..."))
            self.assertRegex("\n" + done.stdout, re.compile(f"^{pattern}$", re.DOTALL), command)

    def test_console(self):
        """The blocks of a page run in one folder, in their order."""
        pages = [path for path in doc_commands_test.documents() if examples(path, "console")]
        self.assertIn("docs/commands.md", pages)
        for path in pages:
            with self.subTest(path), tempfile.TemporaryDirectory() as folder:
                for text in examples(path, "console"):
                    self.check_console(text, folder)

    def test_wrong_output_is_found(self):
        with tempfile.TemporaryDirectory() as folder:
            self.check_console("$ cat new\na\n$ cat new\n...a\n", folder)
            for text in ("$ cat new\nb\n", "$ cat new\n", "$ echo a b\na...c\n"):
                with self.assertRaises(AssertionError):
                    self.check_console(text, folder)

    def test_first_program(self):
        """README's, which is indented."""
        (text,) = re.findall(r"^## A first program\n\n((?:    .*\n)+)", read("README.md"), re.MULTILINE)
        with tempfile.TemporaryDirectory() as folder:
            self.check_console(text.replace("    ", "", 1).replace("\n    ", "\n"), folder)

    def test_language(self):
        self.check_page("docs/language.md", 11)

    def test_generation(self):
        self.check_page("docs/generation.md", 7)

    def test_gradients(self):
        self.check_page("docs/gradients.md", 7)

    def test_builder(self):
        tested = re.search(r"^// \[example\]\n(.*?)^// \[end\]", read("compiler/builder/program_builder_test.cc"),
                           re.MULTILINE | re.DOTALL)
        self.assertEqual(examples("docs/builder.md", "cpp"), [tested.group(1)])
