#!/usr/bin/env python3
"""The fuzz targets of executables on what the compiler makes today, and on mutations of it.

  fuzz_test.py FOLDER     writes those executables to FOLDER, to fuzz from
"""

import glob
import os
import sys
import tempfile
import unittest

import relayvm


def write_executables(folder):
    """Portable executables of the test programs, as plain and as optimised code."""
    os.makedirs(folder, exist_ok=True)
    files = []
    for source in sorted(glob.glob(os.path.join(relayvm.ROOT, "tests/programs/*.relay"))):
        name = os.path.basename(source).removesuffix(".relay")
        for level in (0, 3):
            output = os.path.join(folder, f"{name}_O{level}.rvm")
            # Programs that are refused on purpose have no executable.
            if relayvm.run(relayvm.COMPILER, "compile", source, "-o", output, f"-O{level}", "--target",
                           "portable").returncode == 0:
                files.append(output)
    return files


class Fuzz(relayvm.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.files = write_executables(folder.name)

    def replay(self, target):
        self.assertGreater(len(self.files), 100)
        done = relayvm.run(relayvm.built(f"//tests/fuzz:{target}_replay"), *self.files, timeout=600)
        self.assertEqual(done.returncode, 0, (done.stdout + done.stderr)[-3000:])

    def test_decoder(self):
        self.replay("decoder_fuzzer")

    def test_run(self):
        self.replay("run_fuzzer")


if __name__ == "__main__":
    print(len(write_executables(sys.argv[1])), "executables")
