"""Machine code of kernels: sums of register tiles stay in registers, and transforms are vectors for any batch."""

import os
import re
import tempfile
import unittest

import numpy as np

import relayvm

PRODUCT = """#[version = "0.0.5"]
free_var %w: Tensor[(256, 256), float32];
def @main(%x: Tensor[(ROWS, 256), float32]) {
  let %y = nn.dense(%x, %w);
  ACTIVATION
}
"""
CONVOLUTION = """#[version = "0.0.5"]
free_var %w: Tensor[(128, 128, 1, 1), float32];
def @main(%x: Tensor[(1, 128, 28, 28), float32]) {
  let %y = nn.conv2d(%x, %w);
  ACTIVATION
}
"""
WINOGRAD = """#[version = "0.0.5"]
free_var %w: Tensor[(64, 64, 3, 3), float32];
def @main(%x: Tensor[(BATCH, 64, 56, 56), float32]) { nn.conv2d(%x, %w, padding=[1, 1]) }
"""
ACTIVATIONS = {
    "relu": "nn.relu(%y)",
    "silu": "%y * sigmoid(%y)",
    "tanh": "tanh(%y)",
    "gelu": "%y * 0.5f * (1f + erf(%y * 0.70710678f))",
}


def busiest_loop(assembly):
    """The instructions of the innermost loop with the most multiplications."""
    lines = [line.split("#")[0].strip() for line in assembly.splitlines()]
    labels = {line[:-1]: number for number, line in enumerate(lines) if line.endswith(":")}
    loops = [lines[labels[jump[1]]:number + 1] for number, line in enumerate(lines)
             if (jump := re.fullmatch(r"j\w+\s+(\S+)", line)) and labels.get(jump[1], number) < number]
    innermost = [loop for loop in loops if sum(re.match(r"j\w+\s", line) is not None for line in loop) == 1]
    return max(innermost, key=lambda loop: sum(line.startswith("vfmadd") for line in loop))


def assembly_of(program, weights, target):
    with tempfile.TemporaryDirectory() as folder:
        source, params = os.path.join(folder, "m.relay"), os.path.join(folder, "w.npz")
        with open(source, "w", encoding="utf-8") as file:
            file.write(program)
        np.savez(params, w=np.ones(weights, "float32"))
        return relayvm.must(relayvm.COMPILER, "compile", source, "--params", params, "--target", target, "--print-assembly", "-o",
                            os.path.join(folder, "m.rvm"))


class MachineCode(relayvm.TestCase):
    def check(self, program, weights, target):
        loop = busiest_loop(assembly_of(program, weights, target))
        self.assertGreaterEqual(sum(line.startswith("vfmadd") for line in loop), 8, "\n".join(loop))
        self.assertEqual([line for line in loop if re.search(r",\s*-?\d*\(%rsp", line)], [], "\n".join(loop))

    def test_sums_are_not_spilled(self):
        programs = {"known rows": (PRODUCT.replace("ROWS", "197"), (256, 256)), "any rows": (PRODUCT.replace("ROWS", "?"), (256, 256)),
                    "convolution": (CONVOLUTION, (128, 128, 1, 1))}
        for name, (program, weights) in programs.items():
            for activation, text in ACTIVATIONS.items():
                for target in ("x86-64-v3", "x86-64-v4"):
                    with self.subTest(name, activation=activation, target=target):
                        self.check(program.replace("ACTIVATION", text), weights, target)

    def test_transforms_are_vectors_for_any_batch(self):
        """Of 3x3 convolutions by tiles of 4x4 results, at positions that batches divide."""
        packed = {}
        for batch in (1, 2, 4):
            text = assembly_of(WINOGRAD.replace("BATCH", str(batch)), (64, 64, 3, 3), "x86-64-v4")
            packed[batch] = len(re.findall(r"\tv(?:add|sub|mul)ps\s.*%zmm", text))
        self.assertGreater(packed[1], 100)
        for batch in (2, 4):
            self.assertGreaterEqual(packed[batch], packed[1], f"batch {batch}")


if __name__ == "__main__":
    unittest.main()
