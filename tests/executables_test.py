#!/usr/bin/env python3
"""The executables that the compiler makes of the test programs today: mutated, and run for long.

  executables_test.py FOLDER     writes portable ones to FOLDER, to fuzz from
"""

import glob
import os
import sys
import tempfile
import unittest

import relayvm


def write_executables(folder, *options):
    """Executables of the test programs, as plain and as optimised code."""
    os.makedirs(folder, exist_ok=True)
    files = []
    for source in sorted(glob.glob(os.path.join(relayvm.ROOT, "tests/programs/*.relay"))):
        name = os.path.basename(source).removesuffix(".relay")
        for level in (0, 3):
            output = os.path.join(folder, f"{name}_O{level}.rvm")
            # Programs that are refused on purpose have no executable.
            if relayvm.run(relayvm.COMPILER, "compile", source, "-o", output, f"-O{level}", *options).returncode == 0:
                files.append(output)
    return files


class Executables(relayvm.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.portable = write_executables(os.path.join(folder.name, "portable"), "--target", "portable")
        cls.native = write_executables(os.path.join(folder.name, "native"))

    def replay(self, target):
        self.assertGreater(len(self.portable), 100)
        done = relayvm.run(relayvm.built(f"//tests/fuzz:{target}_replay"), *self.portable, timeout=600)
        self.assertEqual(done.returncode, 0, (done.stdout + done.stderr)[-3000:])

    def test_the_decoder_fuzzer_begins_with_them(self):
        self.replay("decoder_fuzzer")

    def test_the_run_fuzzer_begins_with_them(self):
        self.replay("run_fuzzer")

    def test_soak(self):
        """A million runs with RELAYVM_SOAK=1000000, as `./run test --long` does."""
        self.assertGreater(len(self.native), 100)
        runs = os.environ.get("RELAYVM_SOAK", "20000")
        done = relayvm.run(relayvm.built("//tests/soak:soak"), "--runs", runs, *self.native, timeout=3600)
        self.assertEqual(done.returncode, 0, (done.stdout + done.stderr)[-3000:])
        print(done.stdout.strip())


if __name__ == "__main__":
    print(len(write_executables(sys.argv[1], "--target", "portable")), "executables")
