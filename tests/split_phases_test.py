"""Transposed convolutions as ordinary ones (`split_phases`): beside the sum of windows in numpy, for shapes that the pass
takes and some that it leaves, with one, two and three axes."""

import itertools
import os
import tempfile
import unittest

import numpy as np

import relayvm

# (data, outputs per group, window, stride, padding, output padding, dilation, groups)
TAKEN = [
    ((1, 8, 16, 16), 12, (4, 4), (2, 2), (1, 1), (0, 0), (1, 1), 1),
    ((2, 6, 9, 7), 5, (3, 3), (2, 2), (1, 1), (1, 1), (1, 1), 1),
    ((1, 6, 9, 7), 5, (3, 3), (2, 2), (1, 1), (0, 1), (1, 1), 1),  # odd extents: the last positions are cut
    ((1, 6, 5, 8), 3, (5, 4), (3, 2), (2, 1), (0, 0), (1, 1), 2),  # as many phases as taps allow, in groups
    ((1, 4, 6, 7), 4, (6, 6), (2, 2), (2, 2), (0, 0), (1, 1), 1),  # phases are 3x3: tiles of results
    ((1, 20, 9, 10), 16, (3, 3), (1, 1), (1, 1), (0, 0), (1, 1), 1),
    ((2, 5, 8, 9), 4, (3, 3), (1, 1), (2, 2), (0, 0), (2, 2), 1),
    ((1, 4, 6, 5), 3, (4, 3), (2, 1), (1, 1), (0, 0), (1, 1), 1),  # one axis of stride 1
    ((1, 10, 1, 3), 7, (4, 4), (1, 2), (1, 1), (0, 0), (1, 1), 1),  # one element along an axis
    ((1, 8, 33), 6, (16,), (8,), (4,), (0,), (1,), 1),
    ((1, 8, 33), 6, (7,), (4,), (2,), (1,), (1,), 1),
    ((1, 8, 6, 6), 5, (2, 2), (2, 2), (0, 0), (0, 0), (1, 1), 1),  # all phases are one convolution
    ((1, 3, 4, 5, 3), 4, (4, 3, 4), (2, 1, 2), (1, 1, 1), (0, 0, 0), (1, 1, 1), 1),
]
LEFT = [
    ((1, 8, 6, 6), 5, (2, 2), (3, 3), (0, 0), (0, 0), (1, 1), 1),  # phases without taps
    ((1, 8, 6, 6), 5, (3, 3), (2, 2), (1, 1), (0, 0), (2, 2), 1),  # taps at a distance
    ((1, 8, 6, 6), 5, (3, 3), (1, 1), (0, 3), (0, 0), (1, 1), 1),  # cut within the data
]


def random(shape, seed):
    return np.random.default_rng(seed).standard_normal(shape).astype("float32")


def transposed(x, w, stride, pad, extra, dilation, groups):
    """Adds each element, times the filters, to the window that it reaches, in float64."""
    axes = len(stride)
    n, inputs = x.shape[:2]
    outputs = w.shape[1] * groups
    whole = [(e - 1) * s + (k - 1) * d + 1 + o for e, s, k, d, o in zip(x.shape[2:], stride, w.shape[2:], dilation, extra)]
    out = np.zeros((n, outputs, *whole))
    x, w = (v.astype("float64") for v in (x, w))
    for tap in itertools.product(*map(range, w.shape[2:])):
        places = tuple(slice(t * d, t * d + (e - 1) * s + 1, s) for t, d, e, s in zip(tap, dilation, x.shape[2:], stride))
        at = (slice(None), slice(None), *tap)
        for g in range(groups):
            i, o = (slice(g * c // groups, (g + 1) * c // groups) for c in (inputs, outputs))
            out[(slice(None), o, *places)] += np.einsum("ni...,io->no...", x[:, i], w[i][at])
    return out[(slice(None), slice(None), *(slice(p, e - p) for p, e in zip(pad, whole)))]


class SplitPhases(relayvm.TestCase):
    def check(self, shape, *extra, level=2, threads=1, taken=True, batch=None):
        data, outputs, window, stride, pad, more, dilation, groups = shape
        axes = len(stride)
        x, w = random(data, 1), random((data[1], outputs, *window), 2)
        bias = random((outputs * groups,), 3)
        expected = np.maximum(transposed(x, w, stride, pad, more, dilation, groups) + bias.reshape(-1, *[1] * axes), 0)
        source = (f"def @main(%x: Tensor[({batch or data[0]}, {', '.join(map(str, data[1:]))}), float32],\n"
                  f"          %w: Tensor[{w.shape}, float32], %b: Tensor[({len(bias)},), float32]) {{\n"
                  f"  nn.relu(nn.bias_add(nn.conv{axes}d_transpose(%x, %w, strides={list(stride)}, padding={list(pad)}, "
                  f"output_padding={list(more)}, dilation={list(dilation)}, groups={groups}), %b))\n}}\n")
        with tempfile.TemporaryDirectory() as folder:
            def path(name):
                return os.path.join(folder, name)

            with open(path("layer.relay"), "w", encoding="utf-8") as file:
                file.write(source)
            np.savez(path("weights.npz"), w=w, b=bias)
            np.save(path("x.npy"), x)
            model = relayvm.compile_file(path("layer.relay"), path("layer.rvm"), level, params=[path("weights.npz")],
                                         extra=["--verify-passes", *extra])
            shown = relayvm.must(relayvm.COMPILER, "inspect", "--kernels", model)
            self.assertEqual(f"conv{axes}d_transpose" not in shown, taken, f"{shape}: {shown}")
            relayvm.must(relayvm.RUNTIME, model, "--threads", threads, "--out", path("out.npy"), f"@{path('x.npy')}")
            seen = np.load(path("out.npy"))
        self.assertEqual(seen.shape, expected.shape)
        np.testing.assert_allclose(seen, expected, rtol=1e-4, atol=2e-5 * np.abs(expected).max(), err_msg=f"{shape} with {extra}")

    def test_shapes(self):
        for shape in TAKEN:
            with self.subTest(shape=shape):
                self.check(shape)

    def test_narrow_vectors(self):
        for shape in TAKEN[:4]:
            with self.subTest(shape=shape):
                self.check(shape, "--target", "x86-64")

    def test_portable(self):
        for shape in TAKEN[:3]:
            with self.subTest(shape=shape):
                self.check(shape, "--target", "portable")

    def test_unknown_batch(self):
        for shape in TAKEN[:5]:
            with self.subTest(shape=shape):
                self.check(shape, batch="n")

    def test_several_threads(self):
        self.check(((2, 32, 30, 33), 24, (4, 4), (2, 2), (1, 1), (0, 0), (1, 1), 1), threads=2)

    def test_other_shapes_are_left(self):
        for shape in LEFT:
            with self.subTest(shape=shape):
                self.check(shape, taken=False)

    def test_lower_levels_leave_all(self):
        self.check(TAKEN[0], level=1, taken=False)


if __name__ == "__main__":
    unittest.main()
