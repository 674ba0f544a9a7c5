#!/usr/bin/env python3
"""Runs tests/*_test.py, one line per test, and counts.

  run_python_tests.py [--summary FILE] [--jobs N] [NAME...]     NAME: layering, g2p, ... or part of a test's name

Each class of tests has a process of its own, so that none sees what another left behind, and one that crashes is one
that failed; N of them run at once. Classes with RUNS_FIRST, which take minutes, come first: all processors are then busy
to the end.
"""

import argparse
import importlib
import multiprocessing
import multiprocessing.connection
import os
import resource
import sys
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))


def processor_seconds():
    """Of this process and of all that it started and waited for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


class Result(unittest.TestResult):
    """Prints tests as they end: their time, and that of all processors, which others that run at once do not lengthen.

    Sub-tests are not counted apart.
    """

    def __init__(self):
        super().__init__()
        self.passed = 0
        self.names = {"FAILED": [], "SKIPPED": []}

    def startTest(self, test):
        super().startTest(test)
        self.began, self.used = time.monotonic(), processor_seconds()
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
        took, used = time.monotonic() - self.began, processor_seconds() - self.used
        lines = [f"{self.verdict:7} {name} ({took:.2f} s, {used:.2f} s of processors)"]
        lines += [f"        {line}" for line in self.detail.rstrip().splitlines()]
        # In one piece: other processes print, too.
        sys.stdout.write("".join(line + "\n" for line in lines))
        sys.stdout.flush()


def run(suite, sink):
    result = Result()
    suite.run(result)
    sink.send((result.passed, result.names))


def run_all(suites, jobs):
    """Runs each suite in a process of its own; gives (suite, what it sent or None, exit code) as they end."""
    context = multiprocessing.get_context("fork")
    waiting, running = list(suites), {}
    while waiting or running:
        while waiting and len(running) < jobs:
            suite = waiting.pop(0)
            source, sink = context.Pipe(duplex=False)
            process = context.Process(target=run, args=(suite, sink))
            process.start()
            sink.close()
            running[source] = suite, process
        for source in multiprocessing.connection.wait(list(running)):
            suite, process = running.pop(source)
            try:
                sent = source.recv()
            except EOFError:  # it died
                sent = None
            process.join()
            yield suite, sent, process.exitcode


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--summary", help="write `PASSED FAILED` here")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="so many processes at once")
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    sys.path.insert(0, HERE)
    began = time.monotonic()
    suites = []
    for file in sorted(os.listdir(HERE)):
        if not file.endswith("_test.py"):
            continue
        module = importlib.import_module(file[:-3])
        for group in unittest.defaultTestLoader.loadTestsFromModule(module):
            chosen = [test for test in group if not options.names or any(name in test.id() for name in options.names)]
            if chosen:
                suites.append(unittest.TestSuite(chosen))
    suites.sort(key=lambda suite: not getattr(next(iter(suite)), "RUNS_FIRST", False))
    passed, names = 0, {"FAILED": [], "SKIPPED": []}
    for suite, sent, code in run_all(suites, options.jobs):
        if sent is None:
            test = next(iter(suite))
            sent = 0, {"FAILED": [f"{type(test).__module__}.{type(test).__qualname__}"], "SKIPPED": []}
            print(f"FAILED  {sent[1]['FAILED'][0]}: its process ended with {code} before its last test", flush=True)
        passed += sent[0]
        for verdict, tests in sent[1].items():
            names[verdict] += tests
    for verdict in ("SKIPPED", "FAILED"):
        for name in sorted(names[verdict]):
            print(f"{verdict:7} {name}")
    failed = len(names["FAILED"])
    print(f"python tests: {passed} passed, {failed} failed, {time.monotonic() - began:.0f} s", flush=True)
    if options.summary:
        with open(options.summary, "w", encoding="utf-8") as file:
            file.write(f"{passed} {failed}\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
