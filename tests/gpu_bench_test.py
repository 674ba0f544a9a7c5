"""What `./run bench gpu` packs, small, checked and timed on the driver that interprets PTX; a wrong result is found."""

import glob
import os
import subprocess
import sys
import tempfile
import unittest

import relayvm

PATHS = os.pathsep.join(os.path.join(relayvm.ROOT, name) for name in ("tests", "benchmarks"))
FAKE = os.path.join(relayvm.ROOT, "bazel-bin/tests/cuda")


class GpuBench(relayvm.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = os.path.join(folder.name, "gpu")
        relayvm.must(sys.executable, os.path.join(relayvm.ROOT, "benchmarks/gpu/pack.py"), self.folder, "--small",
                     env={**os.environ, "PYTHONPATH": PATHS})

    def measure(self):
        return subprocess.run([sys.executable, os.path.join(self.folder, "measure.py")], capture_output=True, text=True, check=False,
                              env={**os.environ, "LD_LIBRARY_PATH": FAKE})

    def test_all_is_right(self):
        done = self.measure()
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertRegex(done.stdout, r"Operators: [1-9]\d* cases, 0 differ\.")
        for program in ("launches", "copies", "matmul 24", "LSTM 6->8", "GRU 6->8", "BERT, 1 layers of 16"):
            self.assertRegex(done.stdout, rf"\| {program} \| [^|]* \|( [0-9.e+]+ [^|]*\|){{3}} \d+, \d+%, \d+ \| ")
        self.assertRegex(done.stdout, r"\| LSTM 6->8 \| .*, [5-9]\d%, \d+ \| ")

    def test_a_wrong_result_is_named(self):
        for path in glob.glob(os.path.join(self.folder, "*.txt")):
            with open(path, encoding="utf-8") as file:
                text = file.read()
            with open(path, "w", encoding="utf-8") as file:
                file.write(text.replace("1", "2").replace("0.", "7."))
        done = self.measure()
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertRegex(done.stdout, r"(?m)^- .*: number \d+ is .*; expected ")
        self.assertIn("differs: ", done.stdout)


if __name__ == "__main__":
    unittest.main()
