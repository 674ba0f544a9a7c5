"""The cache of compile actions: it serves another checkout, never the result of a test, and only for the same tools."""

import os
import shutil
import subprocess
import tempfile
import unittest

import relayvm

FOLDER = os.path.join(relayvm.ROOT, "third_party", "build_cache", "folder")
# The test reads a file that Bazel knows nothing of; the action gives another number each time it runs.
BUILD = """genrule(name = "number", outs = ["number.txt"], cmd = "date +%s%N > $@")
sh_test(name = "verdict", srcs = ["verdict.sh"], data = ["number.txt"])
"""


@unittest.skipUnless(shutil.which("bazel"), "bazel is not installed")
class BuildCache(relayvm.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def write(self, text, *names):
        os.makedirs(os.path.dirname(self.path(*names)), exist_ok=True)
        with open(self.path(*names), "w", encoding="utf-8") as file:
            file.write(text)
        return self.path(*names)

    def checkout(self, name):
        """A workspace with the toolchain, the options and the runner of this repository, and a test."""
        self.write(BUILD, name, "BUILD")
        self.write(f"#!/bin/sh\nexec test \"$(cat {self.path('verdict')})\" = right\n", name, "verdict.sh")
        os.chmod(self.path(name, "verdict.sh"), 0o755)
        self.write(f"build --disk_cache={self.path('cache')}\n", name, "build", "cache.bazelrc")
        for copied in "WORKSPACE", ".bazelrc", os.path.join("tests", "run_bazel_tests.py"):
            os.makedirs(os.path.dirname(self.path(name, copied)), exist_ok=True)
            shutil.copy(os.path.join(relayvm.ROOT, copied), self.path(name, copied))
        # The folder of glibc has a test of its own.
        shutil.copytree(os.path.join(relayvm.ROOT, "third_party"), self.path(name, "third_party"), symlinks=True,
                        ignore=shutil.ignore_patterns("glibc"))
        self.addCleanup(relayvm.run, "bazel", "clean", "--expunge", cwd=self.path(name))
        return self.path(name)

    def outcome(self, checkout):
        done = relayvm.run("python3", "tests/run_bazel_tests.py", cwd=checkout)
        with open(os.path.join(checkout, "bazel-bin", "number.txt"), encoding="utf-8") as file:
            return done.stdout.strip().splitlines()[-1], file.read()

    def test_results_of_tests_are_never_from_a_cache(self):
        self.write("right", "verdict")
        first, second = self.checkout("first"), self.checkout("second")
        verdict, number = self.outcome(first)
        self.assertEqual(verdict, "bazel tests: 1 passed, 0 failed")
        self.write("wrong", "verdict")
        for checkout in first, second:
            # The action is not run again: it is the cache that serves the second checkout.
            self.assertEqual(self.outcome(checkout), ("bazel tests: 0 passed, 1 failed", number))

    def folder_for(self, packages):
        """The folder of the cache on a machine with these packages."""
        self.write(f"#!/bin/sh\ncat <<'END'\n{packages}END\n", "bin", "dpkg-query")
        os.chmod(self.path("bin", "dpkg-query"), 0o755)
        return subprocess.run([FOLDER, "/cache"], env={**os.environ, "PATH": self.path("bin") + ":" + os.environ["PATH"]},
                              stdout=subprocess.PIPE, text=True, check=False).stdout.strip()

    def test_each_set_of_tools_has_its_folder(self):
        packages = "clang-19 1:19.1.7-3 amd64 installed\nlibabsl-dev 20220623.1-1 amd64 installed\n"
        folder = self.folder_for(packages)
        self.assertRegex(folder, "^/cache/[0-9a-f]{16}$")
        self.assertEqual(self.folder_for("".join(sorted(packages.splitlines(True), reverse=True))), folder)
        self.assertEqual(self.folder_for(packages + "libfoo-dev 1 amd64 not-installed\n"), folder)
        for other in (packages.replace("19.1.7-3", "19.1.7-4"), packages.replace("amd64", "i386"), packages.splitlines(True)[0]):
            self.assertNotEqual(self.folder_for(other), folder)
        self.assertEqual(self.folder_for(""), "")


if __name__ == "__main__":
    unittest.main()
