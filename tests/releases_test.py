"""What releases promised still holds: docs/versions.md. releases/make.py keeps it."""

import glob
import json
import os
import re
import sys
import unittest

import python_test
import relayvm

RELEASES = os.path.join(relayvm.ROOT, "tests/releases")


def symbols():
    library = relayvm.built("//capi:librelayvm.so.1")
    return sorted(line.split()[-1] for line in relayvm.must("nm", "-D", "--defined-only", library).splitlines())


def python_names():
    """Public names, and of classes their public members."""
    own = sys.modules["relayvm"]
    try:
        package = python_test.packages()
    finally:
        sys.modules["relayvm"] = own
    names = []
    for name in package.__all__:
        value = getattr(package, name)
        members = vars(value) if isinstance(value, type) else []
        names += [name, *(f"{name}.{member}" for member in members if not member.startswith("_"))]
    return sorted(names)


def commands():
    """The commands of the tools with their options."""
    found = []
    for tool in (relayvm.COMPILER, relayvm.RUNTIME):
        name = os.path.basename(tool)
        text = relayvm.must(tool, "--help")
        listed = re.findall(r"^  relayvm ([a-z]+)  ", text, re.MULTILINE) if tool == relayvm.COMPILER else []
        for command in ["", *listed]:
            help_text = relayvm.must(tool, command, "--help") if command and command != "help" else text
            found += sorted({" ".join([name, command, option]) for option in re.findall(r"(?<![\w-])--[a-z][a-z-]*", help_text)})
    return found


def surfaces():
    return {"symbols": symbols(), "python": python_names(), "commands": commands()}


class Releases(relayvm.TestCase):
    def test_executables_run(self):
        """Files of older versions give the same results, portable or with machine code."""
        files = glob.glob(os.path.join(RELEASES, "*/calls.jsonl"))
        self.assertTrue(files)
        for path in files:
            with open(path, encoding="utf-8") as file:
                calls = [json.loads(line) for line in file]
            self.assertGreater(len(calls), 100)
            for name, entry, arguments, expected in calls:
                with self.subTest(name, entry=entry, arguments=arguments):
                    executable = os.path.join(os.path.dirname(path), name)
                    self.assertEqual(relayvm.must(relayvm.RUNTIME, executable, "--entry", entry, *arguments).strip(), expected)

    def test_nothing_was_removed(self):
        now = surfaces()
        for path in glob.glob(os.path.join(RELEASES, "*/*.txt")):
            with open(path, encoding="utf-8") as file:
                promised = file.read().splitlines()
            self.assertTrue(promised)
            name = os.path.basename(path).removesuffix(".txt")
            self.assert_none([line for line in promised if line not in set(now[name])])

    def test_the_changelog_knows_the_version(self):
        with open(os.path.join(relayvm.ROOT, "CHANGELOG.md"), encoding="utf-8") as file:
            headings = re.findall(r"^## (\S+)", file.read(), re.MULTILINE)
        version = re.search(r"[\d.]+", relayvm.must(relayvm.COMPILER, "--version"))[0]
        self.assertIn(version, headings)
        for release in os.listdir(RELEASES):
            if os.path.isdir(os.path.join(RELEASES, release)) and release[0].isdigit():
                self.assertIn(release, headings)


if __name__ == "__main__":
    unittest.main()
