"""3x3 convolutions by tiles (`winograd`): beside numpy, for shapes that the pass takes and some that it leaves.

The error is compared with the largest result: with tiles of 4x4 it is 4e-6 to 2e-5 of that for 16 to 512 channels.
"""

import os
import tempfile
import unittest

import numpy as np

import relayvm
from operator_cases.neural import conv2d
from operators_test import runs_here

TOLERANCE = 2e-5  # of the largest result
TARGETS = ("x86-64", "x86-64-v3", "x86-64-v4")

# (batch, channels, height, width, results), padding (before, after): odd extents, one pixel, batches, channels that fill
# no vector, padding on one side only.
TAKEN = [
    ((1, 16, 12, 12, 16), (1, 1, 1, 1)),
    ((1, 64, 14, 14, 32), (1, 1, 1, 1)),
    ((2, 33, 13, 17, 19), (1, 1, 1, 1)),
    ((3, 20, 9, 31, 50), (0, 0, 0, 0)),
    ((1, 24, 19, 18, 100), (2, 0, 0, 1)),
    ((1, 17, 28, 35, 16), (0, 2, 3, 1)),
    ((16, 32, 4, 4, 40), (1, 1, 1, 1)),
    ((40, 32, 3, 4, 40), (1, 1, 1, 1)),
]
LEFT = [
    ((16, 32, 1, 1, 40), (1, 1, 1, 1)),
    ((40, 32, 3, 2, 40), (1, 1, 1, 1)),
    ((1, 3, 20, 20, 32), (1, 1, 1, 1)),
    ((1, 8, 20, 20, 8), (1, 1, 1, 1)),
]


def random(shape, seed):
    return np.random.default_rng(seed).standard_normal(shape).astype("float32")


class Layer:
    """A convolution with what usually follows it: bias, a residual and relu. The extents are those of TAKEN."""

    def __init__(self, extents, pad, batch=None):
        n, c, h, w, k = extents
        out = (k, h + pad[0] + pad[2] - 2, w + pad[1] + pad[3] - 2)
        self.x, self.residual = random((n, c, h, w), 1), random((n, *out), 2)
        self.weights = {"w": random((k, c, 3, 3), 3), "b": random((k,), 4)}
        self.source = (
            f"def @main(%x: Tensor[({batch or n}, {c}, {h}, {w}), float32], %r: Tensor[({batch or n}, {', '.join(map(str, out))}), float32],\n"
            f"          %w: Tensor[({k}, {c}, 3, 3), float32], %b: Tensor[({k}), float32]) {{\n"
            f"  nn.relu(nn.bias_add(nn.conv2d(%x, %w, padding={list(pad)}), %b) + %r)\n}}\n")
        plain = conv2d(self.x.astype("float64"), self.weights["w"].astype("float64"), pad=pad)
        self.largest = np.abs(plain).max()
        self.expected = np.maximum(plain + self.weights["b"][:, None, None] + self.residual, 0)


class Winograd(relayvm.TestCase):
    def check(self, shape, *extra, level=2, threads=1, taken=True, runs=True, **options):
        layer = Layer(*shape, **options)
        with tempfile.TemporaryDirectory() as folder:
            def path(name):
                return os.path.join(folder, name)

            with open(path("layer.relay"), "w", encoding="utf-8") as file:
                file.write(layer.source)
            np.savez(path("weights.npz"), **layer.weights)
            np.save(path("x.npy"), layer.x)
            np.save(path("r.npy"), layer.residual)
            model = relayvm.compile_file(path("layer.relay"), path("layer.rvm"), level, params=[path("weights.npz")], extra=extra)
            shown = relayvm.must(relayvm.COMPILER, "inspect", "--kernels", model)
            self.assertEqual("winograd" in shown, taken, f"{shape}: {shown}")
            if not runs:
                return
            relayvm.must(relayvm.RUNTIME, model, "--threads", threads, "--out", path("out.npy"), f"@{path('x.npy')}", f"@{path('r.npy')}")
            seen = np.load(path("out.npy"))
        self.assertEqual(seen.shape, layer.expected.shape)
        self.assertLessEqual(np.abs(seen - layer.expected).max() / layer.largest, TOLERANCE, f"{shape} with {extra}")

    def test_each_target(self):
        """Each shape on one target, two on all; where this CPU does not run one, its code is made."""
        with tempfile.TemporaryDirectory() as folder:
            for number, target in enumerate(TARGETS):
                runs = runs_here(folder, target)
                for shape in [*TAKEN[:2], *TAKEN[2 + number::len(TARGETS)]]:
                    with self.subTest(target=target, shape=shape):
                        self.check(shape, "--target", target, runs=runs)

    def test_shapes(self):
        for shape in TAKEN[2:]:
            with self.subTest(shape=shape):
                self.check(shape)

    def test_portable(self):
        self.check(TAKEN[0], "--target", "portable")

    def test_unknown_batch(self):
        for shape in TAKEN[:5]:
            with self.subTest(shape=shape):
                self.check(shape, batch="n")

    def test_several_threads(self):
        self.check(((4, 32, 57, 43, 48), (1, 1, 1, 1)), threads=2)

    def test_other_shapes_are_left(self):
        for shape in LEFT:
            with self.subTest(shape=shape):
                self.check(shape, taken=False)

    def test_lower_levels_leave_all(self):
        self.check(TAKEN[0], level=1, taken=False)


if __name__ == "__main__":
    unittest.main()
