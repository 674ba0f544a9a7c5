"""ONNX nodes at the edges of what they accept: masked rows, computed counts, parameters of any rank, borders, nothing."""

import os
import re
import tempfile
import unittest

import numpy as np

import onnx_test
import relayvm

# How a node is compiled, and whether its extents are names.
FORMS = (((), True), ((), False), (("-O0",), True), (("-O3",), False), (("--target", "portable"), True))


def arrays(text):
    """The tensors of a result, one or a tuple of them."""
    shapes = re.findall(r"Constant\(\[\], \(([0-9, ]*)\), \w+\)", text)
    if shapes:  # here all of such a result are empty
        return [np.zeros(tuple(map(int, re.findall(r"\d+", shape)))) for shape in shapes]
    value = relayvm.parse_value(text)
    return [np.array(field) for field in (value if isinstance(value, tuple) else (value,))]


@unittest.skipIf(onnx_test.suite() is None, "the Python package onnx is not installed")
class Nodes(relayvm.TestCase):
    def run_node(self, node, inputs, options=(), symbolic=True, opset=21, constants=(), fixed=()):
        """The outputs of a model of one node, or the message of the error that ends it."""
        import onnx  # pylint: disable=import-outside-toplevel
        helper = onnx.helper
        infos = [helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype),
                                               [f"{name}{i}" for i in range(array.ndim)] if symbolic and name not in fixed else array.shape)
                 for name, array in inputs.items() if name not in constants]
        outputs = [helper.make_empty_tensor_value_info(name) for name in node.output if name]
        weights = [onnx.numpy_helper.from_array(inputs[name], name) for name in constants]
        graph = helper.make_graph([node], "graph", infos, outputs, weights)
        with tempfile.TemporaryDirectory() as folder:
            model, executable = os.path.join(folder, "model.onnx"), os.path.join(folder, "model.rvm")
            onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10), model)
            done = relayvm.run(relayvm.COMPILER, "compile", model, "-o", executable, *options)
            if done.returncode != 0:
                return done.stderr
            args = []
            for info in infos:
                args.append("@" + os.path.join(folder, info.name + ".npy"))
                np.save(args[-1][1:], inputs[info.name])
            done = relayvm.run(relayvm.RUNTIME, executable, *args)
            if done.returncode != 0:
                return done.stderr
            return arrays(done.stdout)

    def check(self, node, inputs, *expected, **options):
        for level, symbolic in FORMS:
            with self.subTest(op=node.op_type, level=level, symbolic=symbolic):
                seen = self.run_node(node, inputs, level, symbolic, **options)
                self.assertNotIsInstance(seen, str, seen)
                for got, wanted in zip(seen, expected, strict=True):
                    self.assertEqual(got.shape, wanted.shape)
                    np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)

    def refuse(self, node, inputs, message, **options):
        for symbolic in (True, False):
            with self.subTest(op=node.op_type, symbolic=symbolic):
                seen = self.run_node(node, inputs, (), symbolic, **options)
                self.assertIsInstance(seen, str)
                self.assertIn(message, seen)

    def node(self, op, inputs, outputs=("y",), **attributes):
        import onnx  # pylint: disable=import-outside-toplevel
        return onnx.helper.make_node(op, inputs, outputs, **attributes)

    def test_attention_of_masked_rows(self):
        random = np.random.default_rng(3)
        q, k, v = (random.standard_normal((2, 2, n, 4)).astype("float32") for n in (3, 5, 5))
        masks = {"bool": random.random((2, 1, 3, 5)) < 0.5}
        masks["bool"][0, 0, 1] = masks["bool"][1, 0, 2] = False
        masks["float32"] = np.where(masks["bool"], 0, -np.inf).astype("float32")
        for mask in masks.values():
            for causal in (0, 1):
                seen = np.broadcast_to(masks["bool"], (2, 2, 3, 5)) & (np.tri(3, 5, dtype=bool) if causal else True)
                powers = np.exp(q.astype(float) @ k.swapaxes(2, 3) / 2) * seen
                sums = powers.sum(3, keepdims=True)
                weights = powers / np.where(sums == 0, 1, sums)
                node = self.node("Attention", ["q", "k", "v", "m"], ("y", "", "", "w"), is_causal=causal, qk_matmul_output_mode=3)
                inputs = {"q": q, "k": k, "v": v, "m": mask}
                self.check(node, inputs, weights @ v, weights, opset=23)
        lengths = {"q": q, "k": k, "v": v, "n": np.array([0, 2])}
        powers = np.exp(q.astype(float) @ k.swapaxes(2, 3) / 2)[..., :2]
        expected = np.stack([np.zeros((2, 3, 4)), (powers / powers.sum(3, keepdims=True))[1] @ v[1, :, :2]])
        self.check(self.node("Attention", ["q", "k", "v", "", "", "", "n"]), lengths, expected, opset=24)

    def test_average_pools_that_hang_over(self):
        x = np.arange(1, 6, dtype="float32").reshape(1, 1, 5)
        shared = {"kernel_shape": [2], "strides": [2], "ceil_mode": 1}
        self.check(self.node("AveragePool", ["x"], **shared, count_include_pad=1), {"x": x}, np.array([[[1.5, 3.5, 5]]]))
        padded = self.node("AveragePool", ["x"], kernel_shape=[3], strides=[3], pads=[0, 1], ceil_mode=1, count_include_pad=1)
        self.check(padded, {"x": x}, np.array([[[2, 3]]]))
        wide = self.node("AveragePool", ["x"], kernel_shape=[5], strides=[3], pads=[1, 1], ceil_mode=1, count_include_pad=1)
        self.check(wide, {"x": x}, np.array([[[2, 3]]]))
        square = np.arange(9, dtype="float32").reshape(1, 1, 3, 3)
        self.check(self.node("AveragePool", ["x"], kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1, count_include_pad=1), {"x": square},
                   np.array([[[[2, 3.5], [6.5, 8]]]]))

    def test_nan_is_the_greatest(self):
        x = np.array([[1, np.nan, 3], [np.nan, 2, np.nan]], "float32")
        k = np.array([2])
        for constants in ((), ("k",)):
            self.check(self.node("TopK", ["x", "k"], ("y", "i")), {"x": x, "k": k}, np.array([[np.nan, 3], [np.nan, np.nan]]),
                       np.array([[1, 2], [0, 2]]), constants=constants)
            self.check(self.node("TopK", ["x", "k"], ("y", "i"), largest=0), {"x": x, "k": k}, np.array([[1, 3], [2, np.nan]]),
                       np.array([[0, 2], [1, 0]]), constants=constants)

    def test_computed_numbers_of_elements(self):
        node, x = self.node("TopK", ["x", "k"], ("y", "i"), axis=0), np.array([[3, 1], [2, 5], [4, 4]], "float32")
        for constants in ((), ("k",)):
            for k in range(4):
                order = np.argsort(-x, axis=0)[:k]
                self.check(node, {"x": x, "k": np.array([k])}, np.take_along_axis(x, order, 0), order, constants=constants)
            self.refuse(node, {"x": x, "k": np.array([4])}, "the extent of the axis and `k`", constants=constants)
            self.refuse(node, {"x": x, "k": np.array([-1])}, "`k`", constants=constants)
        self.check(node, {"x": x[:0], "k": np.array([0])}, x[:0], np.zeros((0, 2)))

    def test_pools_of_negative_integers(self):
        x = np.array([[[[-9, -8, -7], [-6, -5, -128], [-3, -2, -100]]]], "int8")
        for auto_pad, expected in (("SAME_UPPER", [[-5, -7], [-2, -100]]), ("SAME_LOWER", [[-9, -7], [-3, -2]])):
            node = self.node("MaxPool", ["x"], kernel_shape=[2, 2], strides=[2, 2], auto_pad=auto_pad)
            self.check(node, {"x": x}, np.array([[expected]]))
        self.check(self.node("MaxPool", ["x"], kernel_shape=[3], strides=[2], auto_pad="SAME_UPPER"),
                   {"x": np.array([[[1, 2, 3, 4]]], "uint8")}, np.array([[[3, 4]]]))

    def test_small_regions(self):
        x = np.arange(16, dtype="float32").reshape(1, 1, 4, 4)
        inputs = {"x": x, "r": np.array([[1, 1, 1.5, 1.25], [2, 1, 2, 3]], "float32"), "b": np.array([0, 0])}
        # The centres of the regions; the second has no width, so that it has no samples unless their number is given.
        node = self.node("RoiAlign", ["x", "r", "b"], output_height=1, output_width=1)
        self.check(node, inputs, np.array([[[[0.625 * 4 + 0.75]]], [[[0]]]]))
        node = self.node("RoiAlign", ["x", "r", "b"], output_height=1, output_width=1, sampling_ratio=1)
        self.check(node, inputs, np.array([[[[0.625 * 4 + 0.75]]], [[[1.5 * 4 + 1.5]]]]))
        node = self.node("RoiAlign", ["x", "r", "b"], output_height=1, output_width=1,
                         coordinate_transformation_mode="output_half_pixel")
        self.check(node, inputs, np.array([[[[1.5 * 4 + 1.5]]], [[[2 * 4 + 2.5]]]]))

    def test_parameters_of_the_rank_of_matrices(self):
        random = np.random.default_rng(5)
        a, b = random.integers(0, 255, (2, 3, 4)).astype("uint8"), random.integers(0, 255, (2, 4, 5)).astype("uint8")
        zero_a, zero_b = random.integers(0, 255, (2, 3, 1)).astype("uint8"), random.integers(0, 255, (2, 1, 5)).astype("uint8")
        product = (a.astype(int) - zero_a) @ (b.astype(int) - zero_b)
        node = self.node("MatMulInteger", ["a", "b", "za", "zb"])
        self.check(node, {"a": a, "b": b, "za": zero_a, "zb": zero_b}, product)
        self.refuse(node, {"a": a, "b": b, "za": zero_a[0], "zb": zero_b}, "a scale or zero point has 2 axes; expected 0, 1 or 3")
        scale_a, scale_b = (random.random(z.shape).astype("float32") / 8 for z in (zero_a, zero_b))
        scale_y, zero_y = random.random((2, 3, 1)).astype("float32") * 8 + 1, random.integers(0, 255, (2, 3, 1)).astype("uint8")
        inputs = {"a": a, "sa": scale_a, "za": zero_a, "b": b, "sb": scale_b, "zb": zero_b, "sy": scale_y, "zy": zero_y}

        def quantised(product, scale, scale_y, zero_y):
            return np.clip(np.rint((product.astype("float32") * (scale / scale_y)).astype("float32")) + zero_y, 0, 255)

        node = self.node("QLinearMatMul", list(inputs))
        self.check(node, inputs, quantised(product, scale_a * scale_b, scale_y, zero_y))
        # A vector is a row or a column, whose axis is not in the product.
        one = np.array(3, "float32")
        vector = dict(inputs, b=b[0, :, 0], sb=scale_b[0, 0, 0], zb=zero_b[0, 0, 0], sy=one, zy=zero_y[0, 0, 0])
        product = (a.astype(int) - zero_a) @ (b[0, :, 0].astype(int) - zero_b[0, 0, 0])
        self.check(node, vector, quantised(product, scale_a[..., 0] * scale_b[0, 0, 0], one, zero_y[0, 0, 0]))
        vector = dict(vector, a=a[0], sa=scale_a[0, :, 0], za=zero_a[0, :, 0])
        self.check(node, vector, quantised(product[0], scale_a[0, :, 0] * scale_b[0, 0, 0], one, zero_y[0, 0, 0]))
        vector = dict(inputs, a=a[0, 0], sa=scale_a[0, 0, 0], za=zero_a[0, 0, 0], sy=one, zy=zero_y[0, 0, 0])
        product = (a[0, 0].astype(int) - zero_a[0, 0, 0]) @ (b.astype(int) - zero_b)
        self.check(node, vector, quantised(product, scale_a[0, 0, 0] * scale_b[:, 0], one, zero_y[0, 0, 0]))

    def test_extremes_of_nothing(self):
        for op in ("ArgMax", "ArgMin"):
            self.refuse(self.node(op, ["x"], axis=1), {"x": np.zeros((2, 0), "float32")}, "the number of elements searched")
            self.check(self.node(op, ["x"], axis=1), {"x": np.zeros((0, 2), "float32")}, np.zeros((0, 1)))

    def test_borders(self):
        x = np.arange(1, 7, dtype="float32")
        for pads in ([2, 3], [5, 0], [-2, 3], [-1, 4]):
            for constants in ((), ("p",)):
                inputs = {"x": x, "p": np.array(pads)}
                kept = x[max(-pads[0], 0):]
                self.check(self.node("Pad", ["x", "p"], mode="wrap"), inputs, np.pad(kept, np.maximum(pads, 0), mode="wrap"),
                           constants=constants)
        for constants in ((), ("p",)):
            node = self.node("Pad", ["x", "p"], mode="reflect")
            self.check(node, {"x": x, "p": np.array([5, 4])}, np.pad(x, (5, 4), mode="reflect"), constants=constants)
            for pads in ([6, 0], [1, 7]):
                self.refuse(node, {"x": x, "p": np.array(pads)}, "the extent, and the least that its mirrored border needs",
                            constants=constants)

    def test_shapes_of_nothing(self):
        x = np.zeros((0, 4, 6), "float32")
        for shape, expected in (([0, -1], (0, 24)), ([0, 8, -1], (0, 8, 3)), ([0, 0, -1], (0, 4, 6)), ([-1, 24], (0, 24))):
            for constants in ((), ("s",)):
                for symbolic in (True, False):
                    seen = self.run_node(self.node("Reshape", ["x", "s"]), {"x": x, "s": np.array(shape)}, (), symbolic,
                                         constants=constants, fixed=("s",))
                    self.assertNotIsInstance(seen, str, seen)
                    self.assertEqual(seen[0].shape, expected, (shape, constants, symbolic))
