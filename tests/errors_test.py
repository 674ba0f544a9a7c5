"""Checks tests/errors/*.relay: each is refused, and the message says what the file expects.

  // error: text that stands in the message     (also: // warning: ..., then the file is accepted)
"""

import os
import re
import unittest

import relayvm

ERRORS = os.path.join(relayvm.ROOT, "tests/errors")


def expectations(path):
    with open(path, encoding="utf-8") as file:
        return re.findall(r"^// (error|warning): (.*)$", file.read(), re.MULTILINE)


class Errors(unittest.TestCase):
    def check_file(self, path):
        expected = expectations(path)
        self.assertTrue(expected, "the file expects nothing")
        done = relayvm.run(relayvm.COMPILER, "check", path)
        refused = any(severity == "error" for severity, _ in expected)
        self.assertEqual(done.returncode, 1 if refused else 0, done.stderr)
        for severity, text in expected:
            self.assertIn(f" {severity}: ", done.stderr)
            self.assertIn(text, done.stderr)
        # The place, and the line it stands on.
        self.assertRegex(done.stderr, re.escape(os.path.basename(path)) + r":\d+:\d+: ")
        self.assertIn("^", done.stderr)
        first = done.stderr.splitlines()[0]
        message = re.sub(r" \[[a-z-]+\]$", "", first.split(f" {expected[0][0]}: ", 1)[-1])
        self.assertFalse(message.endswith("."), f"docs/diagnostics.md: no full stop: {first}")


def add_tests():
    for name in sorted(os.listdir(ERRORS)):
        path = os.path.join(ERRORS, name)
        setattr(Errors, f"test_{name.removesuffix('.relay')}", lambda self, path=path: self.check_file(path))


add_tests()
