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

    def test_casts_to_fewer_bits_are_done_once(self):
        """By the compiler, for all calls that cast the constant, whatever its size; casts to more bits are not."""
        program = """
free_var %once: Tensor[(200, 300), float32];
def @other(%x: Tensor[(n, 300), bfloat16]) { nn.dense(%x * 2bf16, cast(%once, dtype="bfloat16")) }
def @main(%x: Tensor[(n, 300), bfloat16]) { (nn.dense(%x, cast(%once, dtype="bfloat16")), @other(%x)) }
def @halves(%x: Tensor[(n, 300), float16]) { nn.dense(%x, cast(%once, dtype="float16")) }
def @wide(%x: Tensor[(n, 300), float64]) { nn.dense(%x, cast(%once, dtype="float64")) }
"""
        once = self.once[0].copy()
        once[0, :4] = [np.inf, -0.0, 1e-41, 3.3961775e38]
        np.savez(self.weights, once=once)
        with open(self.source, "w", encoding="utf-8") as file:
            file.write(program)
        for flags in [], ["--device", "cuda", "--target", "host,sm_80"]:
            for entries, constants in (["main", "other"], ["bfloat16"]), (["halves"], ["float16"]), (["wide"], ["float32"]):
                with self.subTest(entries, flags=flags):
                    options = [flag for entry in entries for flag in ("--entry", entry)]
                    model = relayvm.compile_file(self.source, f"{self.folder}/c.rvm", 2, [self.weights], [*flags, *options])
                    shown = relayvm.must(relayvm.COMPILER, "inspect", model, "--constants")
                    self.assertEqual(re.findall(r"^ +\d+ +Tensor\[.*, (\w+)\]", shown, re.M), constants, shown)
        cast = "def @main() { cast(%s, dtype=\"bfloat16\") }\n"
        with open(self.source, "w", encoding="utf-8") as file:
            file.write("free_var %once: Tensor[(200, 300), float32];\n" + cast % "%once")
        folded, computed = [relayvm.compile_file(self.source, f"{self.folder}/{level}.rvm", level, [self.weights]) for level in (2, 0)]
        self.assertEqual(relayvm.execute(folded), relayvm.execute(computed))

    def test_the_file_holds_them_once(self):
        model = relayvm.compile_file(self.source, f"{self.folder}/p.rvm", 1, [self.weights], ["--target", "portable"])
        constants = relayvm.must(relayvm.COMPILER, "inspect", model, "--constants")
        sizes = [int(size) for size in re.findall(r"(\d+) bytes(?:  \w+)?$", constants, re.M) if int(size) > 1000]
        self.assertIn(f"{self.once.nbytes}", constants)
        self.assertEqual(sorted(sizes)[-2:], sorted([self.once.nbytes, self.line.nbytes]), constants)
        self.assertLess(os.path.getsize(model), 1.1 * (self.once.nbytes + self.line.nbytes))
