"""Constants under another shape are constants: kernels read them packed, and the file holds them once."""

import os
import re
import tempfile

import numpy as np

import relayvm

# As importers write weights: with an axis too many, in one line, under another order of extents.
PROGRAM = """
free_var %once: Tensor[(1, 200, 300), float32];
free_var %line: Tensor[(40000), float32];
def @main(%x: Tensor[(n, 300), float32]) -> Tensor[(n, 200), float32] {
  let %w = squeeze(%once, axis=[0]);
  let %v = reshape(expand_dims(%line, axis=0), newshape=[200, -1]);
  nn.dense(tanh(nn.dense(%x, %w)), %v)
}
"""


class WeightsTest(relayvm.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = scratch.name
        rng = np.random.default_rng(3)
        self.once = rng.normal(size=(1, 200, 300), scale=0.1).astype(np.float32)
        self.line = rng.normal(size=40000, scale=0.1).astype(np.float32)
        self.source, self.weights = f"{self.folder}/p.relay", f"{self.folder}/w.npz"
        np.savez(self.weights, once=self.once, line=self.line)
        with open(self.source, "w", encoding="utf-8") as file:
            file.write(PROGRAM)

    def test_kernels_read_them_packed(self):
        x = np.random.default_rng(4).normal(size=(7, 300)).astype(np.float32)
        np.save(f"{self.folder}/x.npy", x)
        expected = np.tanh(x @ self.once[0].T) @ self.line.reshape(200, 200).T
        for level in range(4):
            with self.subTest(level=level):
                model = relayvm.compile_file(self.source, f"{self.folder}/{level}.rvm", level, [self.weights])
                relayvm.must(relayvm.RUNTIME, model, "--out", f"{self.folder}/y.npy", f"@{self.folder}/x.npy")
                np.testing.assert_allclose(np.load(f"{self.folder}/y.npy"), expected, rtol=1e-4, atol=1e-5)
                if level > 0:
                    kernels = relayvm.must(relayvm.COMPILER, "inspect", model, "--kernels")
                    self.assertEqual(kernels.count(" packed"), 2, kernels)

    def test_the_file_holds_them_once(self):
        model = relayvm.compile_file(self.source, f"{self.folder}/p.rvm", 1, [self.weights], ["--target", "portable"])
        constants = relayvm.must(relayvm.COMPILER, "inspect", model, "--constants")
        sizes = [int(size) for size in re.findall(r"(\d+) bytes$", constants, re.M) if int(size) > 1000]
        self.assertIn(f"{self.once.nbytes}", constants)
        self.assertEqual(sorted(sizes)[-2:], sorted([self.once.nbytes, self.line.nbytes]), constants)
        self.assertLess(os.path.getsize(model), 1.1 * (self.once.nbytes + self.line.nbytes))
