#!/usr/bin/env python3
"""Runs tests/*_test.py, one line per test, and counts.

  run_python_tests.py [--summary FILE] [NAME...]     NAME: layering, g2p, ... or part of a test's name
"""

import argparse
import importlib
import os
import sys
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))


class Result(unittest.TestResult):
    """Prints tests as they end. Sub-tests are not counted apart."""

    def __init__(self):
        super().__init__()
        self.passed = 0
        self.names = {"FAILED": [], "SKIPPED": []}

    def startTest(self, test):
        super().startTest(test)
        self.began = time.monotonic()
        self.verdict, self.detail = "passed", ""

    def _fail(self, error):
        self.verdict = "FAILED"
        self.detail += self._exc_info_to_string(*error) if isinstance(error, tuple) else str(error)

    def _exc_info_to_string(self, kind, value, trace):
        if issubclass(kind, AssertionError):
            return f"{value}\n"
        return "".join(__import__("traceback").format_exception(kind, value, trace))

    def addError(self, test, err):
        if not hasattr(test, "_testMethodName"):  # a set-up of a class or module
            self.names["FAILED"].append(str(test))
            print(f"FAILED  {test}\n{self._exc_info_to_string(*err)}", flush=True)
            return
        self._fail(err)

    def addFailure(self, test, err):
        self._fail(err)

    def addSubTest(self, test, subtest, err):
        if err is not None:
            self.detail += f"[{subtest._subDescription()}]\n"
            self._fail(err)

    def addSkip(self, test, reason):
        self.verdict, self.detail = "SKIPPED", reason + "\n"

    def stopTest(self, test):
        super().stopTest(test)
        name = ".".join(test.id().split(".")[-3:])
        if self.verdict == "passed":
            self.passed += 1
        else:
            self.names[self.verdict].append(name)
        print(f"{self.verdict:7} {name} ({time.monotonic() - self.began:.2f} s)", flush=True)
        for line in self.detail.rstrip().splitlines():
            print(f"        {line}", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--summary", help="write `PASSED FAILED` here")
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    sys.path.insert(0, HERE)
    result = Result()
    for file in sorted(os.listdir(HERE)):
        if not file.endswith("_test.py"):
            continue
        suite = unittest.defaultTestLoader.loadTestsFromModule(importlib.import_module(file[:-3]))
        chosen = unittest.TestSuite(
            test for group in suite for test in group
            if not options.names or any(name in test.id() for name in options.names))
        if chosen.countTestCases():
            chosen.run(result)
    failed = len(result.names["FAILED"])
    for name in result.names["SKIPPED"] + result.names["FAILED"]:
        print(f"{'FAILED ' if name in result.names['FAILED'] else 'SKIPPED'} {name}")
    print(f"python tests: {result.passed} passed, {failed} failed", flush=True)
    if options.summary:
        with open(options.summary, "w", encoding="utf-8") as file:
            file.write(f"{result.passed} {failed}\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
