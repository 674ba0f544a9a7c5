"""Runs tests/programs/*.relay: on the reference evaluator and on the VM: unoptimised, optimised and portable.

A program says what it gives:
  // run: entry(ARG, ...) => VALUE
  // fails: entry(ARG, ...) => part of the message

What a program prints before its value, by functions that are parameters, stands before it, a blank for each end of a line.
"""

import os
import re
import tempfile
import unittest

import relayvm

PROGRAMS = os.path.join(relayvm.ROOT, "tests/programs")
BUILDS = {"-O0": (0, []), "-O3": (3, []), "portable": (2, ["--target", "portable"])}


def split_arguments(text):
    """At the commas that stand in no bracket."""
    arguments, depth, start = [], 0, 0
    for i, c in enumerate(text):
        depth += (c in "([") - (c in ")]")
        if c == "," and depth == 0:
            arguments.append(text[start:i].strip())
            start = i + 1
    last = text[start:].strip()
    return arguments + [last] if last else arguments


def cases(path):
    """(kind, entry, arguments, expected) per line that says one."""
    with open(path, encoding="utf-8") as file:
        for line in file:
            found = re.match(r"// (run|fails): (\w+)\((.*)\) => (.*)$", line)
            if re.match("// (run|fails):", line) and not found:
                raise ValueError(f"{path}: saw `{line.strip()}`; expected `// run: entry(ARG, ...) => VALUE`")
            if found:
                kind, entry, arguments, expected = found.groups()
                yield kind, entry, split_arguments(arguments), expected.strip()


class Programs(unittest.TestCase):
    def check(self, kind, expected, done):
        if kind == "run":
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(" ".join(done.stdout.strip().split("\n")), expected)
        else:
            self.assertEqual(done.returncode, 1, f"expected an error, saw {done.stdout!r} {done.stderr!r}")
            self.assertIn(expected, done.stderr)

    def check_program(self, path):
        found = list(cases(path))
        self.assertTrue(found, "the program says nothing to run")
        with tempfile.TemporaryDirectory() as folder:
            entries = [flag for entry in dict.fromkeys(case[1] for case in found) for flag in ("--entry", entry)]
            models = {name: relayvm.compile_file(path, os.path.join(folder, f"{name}.rvm"), level, extra=entries + flags)
                      for name, (level, flags) in BUILDS.items()}
            for kind, entry, arguments, expected in found:
                call = f"{entry}({', '.join(arguments)})"
                with self.subTest(f"{call}, reference evaluator"):
                    self.check(kind, expected, relayvm.run(relayvm.COMPILER, "eval", path, "--entry", entry, *arguments))
                for name, model in models.items():
                    with self.subTest(f"{call}, VM {name}"):
                        self.check(kind, expected, relayvm.run(relayvm.RUNTIME, model, "--entry", entry, *arguments))

    def check_format(self, path):
        """What `fmt` writes means the same, in some cases without --long, and `fmt` leaves it alone."""
        with tempfile.TemporaryDirectory() as folder:
            once = os.path.join(folder, "once.relay")
            text = relayvm.must(relayvm.COMPILER, "fmt", path)
            with open(once, "w", encoding="utf-8") as file:
                file.write(text)
            self.assertEqual(relayvm.must(relayvm.COMPILER, "fmt", once), text)
            for kind, entry, arguments, expected in list(cases(once))[:relayvm.long_or(None, 2)]:
                self.check(kind, expected, relayvm.run(relayvm.COMPILER, "eval", once, "--entry", entry, *arguments))


class MachineCode(relayvm.TestCase):
    MOST_GROWTH = 6

    def growth(self, path):
        """How many times as large the file is with machine code of its functions."""
        entries = [flag for entry in dict.fromkeys(case[1] for case in cases(path)) for flag in ("--entry", entry)]
        with tempfile.TemporaryDirectory() as folder:
            def size(control):
                model = os.path.join(folder, f"{control}.rvm")
                return os.path.getsize(relayvm.compile_file(path, model, extra=[*entries, "--control", control]))

            return size("native") / size("bytecode")

    def test_files_grow_at_most_sixfold(self):
        """Every eighth program; all of them with --long."""
        seen = {path: self.growth(path) for path in paths()[::relayvm.long_or(1, 8)]}
        self.assert_none([f"{path}: {times:.2f} times" for path, times in seen.items() if times > self.MOST_GROWTH],
                         "larger by machine code")
        self.assertGreater(max(seen.values()), 1.2, "no file has machine code")
        print(f"        {len(seen)} files, at most {max(seen.values()):.2f} times as large with machine code")


def paths():
    return [os.path.join(PROGRAMS, name) for name in sorted(os.listdir(PROGRAMS)) if name.endswith(".relay")]


def add_tests():
    for path in paths():
        stem = os.path.basename(path).removesuffix(".relay")
        setattr(Programs, f"test_{stem}", lambda self, path=path: self.check_program(path))
        setattr(Programs, f"test_{stem}_formatted", lambda self, path=path: self.check_format(path))


add_tests()
