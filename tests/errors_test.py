"""Checks tests/errors/*.relay: each is refused (or warned about) with exactly the text it expects.

A file is a program, then the whole message:

  // command: compile --entry f          what is run on it, where that is not `check`
  // with: w = [1, 2] float32            a weight, given with `--params`; may be repeated
  // EXPECT:
  // name.relay:3:7: error: ...

`python3 tests/errors_test.py --update [NAME...]` writes the expectations anew: read the difference.
"""

import os
import re
import sys
import tempfile
import unittest

import relayvm

ERRORS = os.path.join(relayvm.ROOT, "tests/errors")
MARK = "// EXPECT:\n"


def read(path):
    """(the program, the expected text)"""
    with open(path, encoding="utf-8") as file:
        program, _, expected = file.read().partition(MARK)
    return program, "".join(re.sub(r"^// ?", "", line) for line in expected.splitlines(keepends=True))


def write_weights(program, folder):
    """The options that give the weights of the program's `// with:` lines, and lists the weights as its files."""
    import numpy
    options = []
    for i, (name, values, dtype) in enumerate(re.findall(r"^// with: (\w+) = (.*) (\w+)$", program, re.MULTILINE)):
        path = os.path.join(folder, f"weights{i}.npz")
        numpy.savez(path, **{name: numpy.array(eval(values), dtype)})  # our own text
        options += ["--params", path]
    return options


def diagnose(path):
    """(exit code, messages) of the tool, run on a copy without the expectation."""
    program, _ = read(path)
    command = re.search(r"^// command: (.*)$", program, re.MULTILINE)
    words = command.group(1).split() if command else ["check"]
    with tempfile.TemporaryDirectory() as folder:
        copy = os.path.join(folder, os.path.basename(path))
        with open(copy, "w", encoding="utf-8") as file:
            file.write(program)
        output = ["-o", os.path.join(folder, "out.rvm")] if words[0] == "compile" else []
        done = relayvm.run(relayvm.COMPILER, words[0], copy, *words[1:], *write_weights(program, folder), *output)
        times = re.compile(r"^(pass .*|all passes|the whole compilation.*) +[0-9.]+ ms\n", re.MULTILINE)  # of --verbose
        return done.returncode, times.sub("", done.stderr.replace(folder + os.sep, ""))


def update(path):
    program, _ = read(path)
    _, shown = diagnose(path)
    with open(path, "w", encoding="utf-8") as file:
        file.write(program + MARK + "".join(f"// {line}".rstrip() + "\n" for line in shown.splitlines()))


class Errors(unittest.TestCase):
    maxDiff = None

    def check_file(self, path):
        _, expected = read(path)
        self.assertTrue(expected, "the file expects nothing: run tests/errors_test.py --update and read what it wrote")
        code, shown = diagnose(path)
        self.assertEqual("\n".join(line.rstrip() for line in shown.splitlines()), expected.rstrip("\n"))
        self.assertEqual(code, 1 if " error: " in f" {shown}" else 0)
        for message in re.findall(r"(?:error|warning|remark): (.*) \[[a-z-]+\]$", shown, re.MULTILINE):
            self.assertFalse(message.endswith("."), f"docs/diagnostics.md: no full stop: {message}")


def paths():
    return [os.path.join(ERRORS, name) for name in sorted(os.listdir(ERRORS)) if name.endswith(".relay")]


for file_path in paths():
    setattr(Errors, f"test_{os.path.basename(file_path).removesuffix('.relay')}",
            lambda self, path=file_path: self.check_file(path))


if __name__ == "__main__":
    if sys.argv[1:2] != ["--update"]:
        sys.exit("usage: errors_test.py --update [NAME...]   (run_python_tests.py runs the tests)")
    for file_path in paths():
        if not sys.argv[2:] or any(name in file_path for name in sys.argv[2:]):
            update(file_path)
