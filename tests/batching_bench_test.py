"""The workloads of `./run bench batching`, few of each: results are compared with numpy's; the table says when there is no PyTorch."""

import os
import re
import sys
import tempfile
import unittest
import unittest.mock

import relayvm

sys.path.insert(0, os.path.join(relayvm.ROOT, "benchmarks"))

from batching import compare, workloads  # pylint: disable=wrong-import-position


@unittest.skipUnless(os.path.exists(relayvm.COMPILER), "the compiler is not built")
class BatchingBench(relayvm.TestCase):
    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory())

    def test_table_without_pytorch(self):
        python = os.path.join(self.folder, "python")
        with open(python, "w", encoding="utf-8") as file:
            file.write("#!/bin/sh\nexit 1\n")
        os.chmod(python, 0o755)
        few = workloads.workloads(2, seed=3)[:relayvm.long_or(None, 1)]
        with unittest.mock.patch.dict(os.environ, {compare.TORCH_PYTHON: python}), \
                unittest.mock.patch.object(compare, "ROUNDS", 1), \
                unittest.mock.patch.object(compare, "SECONDS", 0.01), \
                unittest.mock.patch.object(workloads, "workloads", lambda: few):
            text = compare.table(self.folder)
        self.assertIn("has no PyTorch", text)
        for workload in few:
            self.assertRegex(text, re.escape(f"| {workload.name} | {workload.steps()} | ") + r"[0-9.]+ \| [0-9.]+ \([0-9.]+\) \|  \|  \|")

    def test_another_result_ends_the_comparison(self):
        workload = workloads.workloads(1, seed=3)[0]
        models = compare.compile_pair(workload.kind, self.folder)
        wrong = [state + 1 for state in workload.expected()]
        with unittest.mock.patch.object(workloads.Workload, "expected", lambda self: wrong):
            with self.assertRaisesRegex(AssertionError, workload.name):
                compare.measure(workload, models, self.folder, 1)
