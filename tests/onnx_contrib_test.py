"""Operators of com.microsoft, alone in a model, beside ONNX Runtime: products of a few bits, quantised layers, attention."""

import os
import tempfile
import unittest

import in_process
import onnx_test
import relayvm

LEVELS = (["-O0"], ["-O2"], ["--target", "x86-64-v3"], ["--target", "portable"])


class Models(relayvm.TestCase):
    SETS = {"": 21, "com.microsoft": 1}

    def setUp(self):
        import numpy  # pylint: disable=import-outside-toplevel
        import onnx  # pylint: disable=import-outside-toplevel
        self.np, self.onnx = numpy, onnx
        self.random = numpy.random.default_rng(7)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.place = folder.name

    def node(self, kind, inputs, outputs, domain="com.microsoft", **attributes):
        return self.onnx.helper.make_node(kind, inputs, outputs, domain=domain, **attributes)

    def floats(self, *shape):
        return self.random.standard_normal(shape).astype("float32")

    def bytes(self, dtype, *shape):
        info = self.np.iinfo(dtype)
        return self.random.integers(info.min, info.max + 1, shape).astype(dtype)

    def save(self, nodes, inputs, outputs, weights, name="model.onnx"):
        """`inputs`: by name (dtype, extents). `outputs`: names, or (name, extents)."""
        helper, types = self.onnx.helper, self.onnx.TensorProto
        inputs = [helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(self.np.dtype(dtype)), extents) for name, (dtype, extents) in inputs.items()]
        outputs = [helper.make_tensor_value_info(*((out, types.UNDEFINED, None) if isinstance(out, str) else (out[0], types.FLOAT, out[1]))) for out in outputs]
        for out in outputs:
            if out.type.tensor_type.elem_type == types.UNDEFINED:
                out.ClearField("type")
        arrays = [value if isinstance(value, self.onnx.TensorProto) else self.onnx.numpy_helper.from_array(self.np.asarray(value), name)
                  for name, value in weights.items() if any(name in node.input for node in nodes)]
        sets = [helper.make_opsetid(domain, version) for domain, version in self.SETS.items()]
        path = os.path.join(self.place, name)
        self.onnx.save(helper.make_model(helper.make_graph(nodes, "graph", inputs, outputs, arrays), opset_imports=sets, ir_version=10), path)
        return path

    def check(self, nodes, feeds, weights, outputs=("y",), extents=None, levels=LEVELS, near=1e-4, quanta=0, valid=None, reference=None):
        """All outputs for each feed. `quanta`: how far integers may lie apart, one in fifty of them; `valid` picks what is
        compared of (number of the output, feed, array); `reference`: other nodes, for what ONNX Runtime has not for CPUs."""
        import onnxruntime  # pylint: disable=import-outside-toplevel
        np, extents = self.np, extents or {}
        inputs = {name: (array.dtype, extents.get(name, list(array.shape))) for name, array in feeds[0].items()}
        model = self.save(nodes if isinstance(nodes, list) else [nodes], inputs, outputs, weights)
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.log_severity_level = 3
        other = model if reference is None else self.save(reference, inputs, outputs, weights, "reference.onnx")
        session = onnxruntime.InferenceSession(other, options, providers=["CPUExecutionProvider"])
        executable = os.path.join(self.place, "model.rvm")
        for level in levels:
            relayvm.must(relayvm.COMPILER, "compile", model, "-o", executable, *level)
            program = in_process.load(executable)
            for feed in feeds:
                expected = session.run(None, feed)
                got = program["main"](*feed.values())
                got = list(got) if isinstance(got, tuple) else [got]
                self.assertEqual(len(got), len(expected))
                for i, (a, b) in enumerate(zip(got, expected)):
                    a = np.asarray(a)
                    with self.subTest(level=level, output=i, shapes={name: array.shape for name, array in feed.items()}):
                        self.assertEqual((a.shape, a.dtype), (b.shape, b.dtype))
                        if valid is not None:
                            a, b = valid(i, feed, a), valid(i, feed, b)
                        if a.dtype.kind in "iu":
                            apart = np.abs(a.astype(np.int64) - b.astype(np.int64))
                            self.assertLessEqual(apart.max(initial=0), quanta)
                            self.assertLessEqual((apart > 0).mean() if apart.size else 0, 0.02)
                        else:
                            scale = max(1, float(np.abs(b.astype(np.float64)).max(initial=0)))
                            np.testing.assert_allclose(a.astype(np.float64) / scale, b.astype(np.float64) / scale, atol=4e-3 if a.dtype == np.float16 else near, rtol=0)
        return model

    def fails(self, node, inputs, weights, message):
        model = self.save([node], inputs, ["y"], weights)
        done = relayvm.run(relayvm.COMPILER, "check", model)
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn(message, done.stderr)


@unittest.skipUnless(onnx_test.has_runtime(), "the Python packages onnx and onnxruntime are not installed")
class LowBits(Models):
    def product(self, depth, columns, bits, block, zeros="none", bias=False, scale="float32", rows=("n",), **attributes):
        """(node, weights) of a MatMulNBits of random weights."""
        np, blocks = self.np, -(-depth // block)
        weights = {"b": self.bytes("uint8", columns, blocks, block * bits // 8), "s": (self.random.random((columns, blocks)) / 50).astype(scale)}
        if zeros == "packed":
            weights["z"] = self.bytes("uint8", columns, -(-blocks * bits // 8))
        elif zeros == "same":
            code = 3 if bits > 2 else 1
            weights["z"] = np.full((columns, -(-blocks * bits // 8)), sum(code << at for at in range(0, 8, bits)), "uint8")
        elif zeros == "floats":
            weights["z"] = (self.random.random((columns, blocks)) * (1 << bits)).astype(scale)
        names = ["x", "b", "s", "z" if "z" in weights else "", "", "bias" if bias else ""]
        if bias:
            weights["bias"] = self.floats(columns).astype(scale)
        while not names[-1]:
            names.pop()
        return self.node("MatMulNBits", names, ["y"], K=depth, N=columns, bits=bits, block_size=block, **attributes), weights

    def test_products(self):
        """Bits, blocks that fit the depth or not, zero points of each form, and rows; all larger than what is folded."""
        cases = [(256, 300, 4, 32, "none", False), (288, 311, 4, 16, "packed", True), (512, 160, 4, 128, "same", False), (300, 400, 4, 64, "packed", False),
                 (256, 290, 8, 32, "packed", True), (256, 300, 8, 256, "none", False), (320, 270, 4, 32, "floats", False), (256, 290, 2, 64, "none", True),
                 (256, 290, 2, 32, "packed", False), (64, 33, 4, 16, "packed", True)]
        for depth, columns, bits, block, zeros, bias in cases:
            with self.subTest(depth=depth, columns=columns, bits=bits, block=block, zeros=zeros):
                node, weights = self.product(depth, columns, bits, block, zeros, bias)
                self.check(node, [{"x": self.floats(rows, depth)} for rows in (1, 7, 40)], weights, extents={"x": ["n", depth]})

    def test_rows_of_bytes(self):
        """`accuracy_level` 4: blocks of rows are rounded to int8, and kernels multiply bytes."""
        cases = [(256, 300, 4, 32, "none", False), (288, 311, 4, 16, "packed", True), (512, 160, 4, 128, "same", False), (300, 400, 4, 64, "packed", False),
                 (256, 290, 8, 32, "packed", True), (256, 300, 8, 256, "none", False), (320, 270, 4, 32, "floats", False)]
        for depth, columns, bits, block, zeros, bias in cases:
            with self.subTest(depth=depth, columns=columns, bits=bits, block=block, zeros=zeros):
                node, weights = self.product(depth, columns, bits, block, zeros, bias, accuracy_level=4)
                feeds = [{"x": self.floats(rows, depth)} for rows in (1, 7, 40)]
                # ONNX Runtime rounds rows of some of them only.
                model = self.check(node, feeds, weights, extents={"x": ["n", depth]}, near=1e-2)
                relayvm.must(relayvm.COMPILER, "compile", model, "-o", os.path.join(self.place, "model.rvm"), "--target", "x86-64-v3")
                kernels = relayvm.must(relayvm.COMPILER, "inspect", os.path.join(self.place, "model.rvm"), "--kernels")
                self.assertIn(f"blocks of bytes by {4 if bits < 8 else 2}", kernels)
        node, weights = self.product(128, 96, 4, 32, "packed")
        zero = self.np.zeros((3, 128), "float32")
        node.attribute.append(self.onnx.helper.make_attribute("accuracy_level", 4))
        self.check(node, [{"x": zero}], weights, near=0)

    def test_batches_and_halves(self):
        node, weights = self.product(256, 300, 4, 32, "packed", True)
        self.check(node, [{"x": self.floats(2, 3, 256)}], weights, extents={"x": ["b", "n", 256]})
        node, weights = self.product(256, 300, 4, 32, "packed", True, scale="float16")
        self.check(node, [{"x": self.floats(3, 256).astype("float16")}], weights)

    def test_weights_stay_packed(self):
        """The file holds four bits for each weight, and one kernel reads them."""
        node, weights = self.product(1024, 1024, 4, 32, "none")
        model = self.save([node], {"x": ("float32", ["n", 1024])}, ["y"], weights)
        executable = os.path.join(self.place, "model.rvm")
        for target in ("x86-64-v4", "x86-64-v3", "portable"):
            relayvm.must(relayvm.COMPILER, "compile", model, "-o", executable, "--target", target)
            self.assertLess(os.path.getsize(executable), 1024 * 1024 * 0.75)
            if target != "portable":
                kernels = relayvm.must(relayvm.COMPILER, "inspect", executable, "--kernels")
                self.assertIn("packed, computed from 2 constants, scaled behind 1 axes", kernels)
                self.assertNotIn("loops", kernels)

    def test_refused(self):
        for attributes, more, message in (({"bits": 3}, {}, "MatMulNBits: weights of 3 bits; expected 2, 4 or 8"),
                                          ({"block_size": 24}, {}, "MatMulNBits: `block_size` is 24; expected a power of 2 of 16 or more"),
                                          ({}, {"g": self.np.zeros(64, "int32")}, "MatMulNBits: `g_idx`, an order of the rows of the weight"),
                                          ({"N": 9}, {}, "MatMulNBits: its weight has shape (8, 2, 16); expected 9x32 elements")):
            weights = {"b": self.bytes("uint8", 8, 2, 16), "s": self.floats(8, 2), **more}
            node = self.node("MatMulNBits", ["x", "b", "s", *(["", "g"] if more else [])], ["y"], **{"K": 64, "N": 8, "bits": 4, "block_size": 32, **attributes})
            self.fails(node, {"x": ("float32", [2, 64])}, weights, message)

    def test_gathered_rows(self):
        np = self.np
        for bits, zeros in ((4, True), (4, False), (8, True), (8, False)):
            weights = {"d": self.bytes("uint8", 50, 96 * bits // 8), "s": self.floats(50, 3)}
            if zeros:
                weights["z"] = self.bytes("uint8", 50, -(-3 * bits // 8))
            node = self.node("GatherBlockQuantized", ["d", "i", "s", *(["z"] if zeros else [])], ["y"], bits=bits, block_size=32, gather_axis=0, quantize_axis=1)
            with self.subTest(bits=bits, zeros=zeros):
                self.check(node, [{"i": np.array(i)} for i in ([[1, 49, 7]], [[0, 3], [-1, 2]])], weights, extents={"i": ["b", "n"]})

    def initialiser(self, name, kind, *shape):
        """Random integers of 4 or 2 bits."""
        count = int(self.np.prod(shape)) * int(kind[-1])
        raw = self.bytes("uint8", -(-count // 8)).tobytes()
        return self.onnx.TensorProto(name=name, data_type=getattr(self.onnx.TensorProto, kind), dims=shape, raw_data=raw)

    def test_dequantised_initialisers(self):
        """By blocks along either axis, by one axis and by one scale, of rows that fill bytes or not, into a product."""
        for kind in ("INT4", "UINT4"):
            for shape, axis, block, scales in (((256, 300), 0, 32, (8, 300)), ((256, 301), 0, 64, (4, 301)), ((128, 96), 1, 16, (128, 6)), ((96, 40), 1, 0, (40,)), ((64, 33), 0, 0, ())):
                for has_zeros in (False, True):
                    weights = {"w": self.initialiser("w", kind, *shape), "s": (self.random.random(scales) / 50).astype("float32")}
                    if has_zeros:
                        weights["z"] = self.initialiser("z", kind, *scales)
                    nodes = [self.node("DequantizeLinear", ["w", "s", *(["z"] if has_zeros else [])], ["d"], domain="", axis=axis, **({"block_size": block} if block else {})),
                             self.node("MatMul", ["x", "d"], ["y"], domain="")]
                    with self.subTest(kind=kind, shape=shape, axis=axis, block=block, has_zeros=has_zeros):
                        self.check(nodes, [{"x": self.floats(rows, shape[0])} for rows in (1, 9)], weights, extents={"x": ["n", shape[0]]})

    def test_dequantised_weights_stay_packed(self):
        weights = {"w": self.initialiser("w", "INT4", 1024, 1024), "s": self.floats(32, 1024)}
        nodes = [self.node("DequantizeLinear", ["w", "s"], ["d"], domain="", axis=0, block_size=32), self.node("MatMul", ["x", "d"], ["y"], domain="")]
        model = self.save(nodes, {"x": ("float32", ["n", 1024])}, ["y"], weights)
        executable = os.path.join(self.place, "model.rvm")
        relayvm.must(relayvm.COMPILER, "compile", model, "-o", executable, "--target", "x86-64-v3")
        self.assertLess(os.path.getsize(executable), 1024 * 1024 * 0.75)
        self.assertNotIn("loops", relayvm.must(relayvm.COMPILER, "inspect", executable, "--kernels"))

    def test_constants_and_two_bits(self):
        """Constants of nodes, and integers of 2 bits, beside the product of what they stand for."""
        np = self.np
        for kind in ("INT2", "UINT2", "INT4", "UINT4"):
            for axis, block, scales in ((0, 32, (4, 24)), (1, 0, (24,)), (0, 0, ())):
                bits, tensor = int(kind[-1]), self.initialiser("w", kind, 128, 24)
                codes = (np.frombuffer(tensor.raw_data, "uint8")[:, None] >> np.arange(0, 8, bits) & (2**bits - 1)).reshape(128, 24).astype("float32")
                if kind[0] == "I":
                    codes = np.where(codes >= 2 ** (bits - 1), codes - 2**bits, codes)
                weights = {"s": (self.random.random(scales) / 50).astype("float32")}
                weights["dense"] = (codes * (np.repeat(weights["s"], 32, axis=0) if block else weights["s"])).astype("float32")
                nodes = [self.node("Constant", [], ["w"], domain="", value=tensor),
                         self.node("DequantizeLinear", ["w", "s"], ["d"], domain="", axis=axis, **({"block_size": block} if block else {})),
                         self.node("MatMul", ["x", "d"], ["y"], domain="")]
                with self.subTest(kind=kind, axis=axis, block=block):
                    self.check(nodes, [{"x": self.floats(rows, 128)} for rows in (1, 9)], weights, extents={"x": ["n", 128]},
                               reference=[self.node("MatMul", ["x", "dense"], ["y"], domain="")])

    def test_results_of_few_bits_are_refused(self):
        node = self.node("Identity", ["w"], ["y"], domain="")
        self.fails(node, {"x": ("float32", [1])}, {"w": self.initialiser("w", "INT4", 4, 6)},
                   "an output: integers of fewer than 8 bits, which Relay has in constants alone")

    def test_gathered_rows_of_initialisers(self):
        for kind in ("INT4", "UINT4"):
            for has_zeros in (False, True):
                weights = {"d": self.initialiser("d", kind, 50, 96), "s": self.floats(50, 6)}
                if has_zeros:
                    weights["z"] = self.initialiser("z", kind, 50, 6)
                node = self.node("GatherBlockQuantized", ["d", "i", "s", *(["z"] if has_zeros else [])], ["y"], block_size=16, gather_axis=0, quantize_axis=1)
                with self.subTest(kind=kind, has_zeros=has_zeros):
                    self.check(node, [{"i": self.np.array([[1, 49, 7], [0, 3, 3]])}], weights)

    def test_initialisers_that_do_not_fit(self):
        for dims, message in (([4, 5], "has 3 bytes of elements"), ([-2, -3], "elements")):
            tensor = self.onnx.TensorProto(name="w", data_type=self.onnx.TensorProto.INT4, dims=dims, raw_data=bytes(3))
            node = self.node("DequantizeLinear", ["w", "s"], ["y"], domain="")
            self.fails(node, {"x": ("float32", [1])}, {"w": tensor, "s": self.np.float32(1)}, message)


@unittest.skipUnless(onnx_test.has_runtime(), "the Python packages onnx and onnxruntime are not installed")
class QuantisedLayers(Models):
    def quantised(self, name, dtype, scale, zero):
        return {name + "_s": self.np.float32(scale), name + "_z": self.np.array(zero, dtype)}

    def both(self):
        return ((self.np.uint8, 3, 131), (self.np.int8, -5, 20))

    def test_elements(self):
        for dtype, zero, other in self.both():
            weights = {**self.quantised("a", dtype, 0.03, zero), **self.quantised("b", dtype, 0.02, other), **self.quantised("y", dtype, 0.05, other)}
            a, b = ["a", "a_s", "a_z"], ["b", "b_s", "b_z"]
            feed = {"a": self.bytes(dtype, 2, 3, 40), "b": self.bytes(dtype, 3, 1)}
            with self.subTest(dtype=dtype):
                for kind in ("QLinearAdd", "QLinearMul"):
                    self.check(self.node(kind, [*a, *b, "y_s", "y_z"], ["y"]), [feed], weights, quanta=1)
                one = {"a": feed["a"]}
                self.check(self.node("QLinearSigmoid", [*a, "y_s", "y_z"], ["y"]), [one], {**weights, "y_s": self.np.float32(1 / 256)}, quanta=1)
                self.check(self.node("QLinearLeakyRelu", [*a, "y_s", "y_z"], ["y"], alpha=0.1), [one], weights, quanta=1)
                join = {"a": feed["a"], "b": self.bytes(dtype, 2, 5, 40)}
                self.check(self.node("QLinearConcat", ["y_s", "y_z", *a, *b], ["y"], axis=1), [join], weights, quanta=1)
                where = {"c": self.random.random((2, 3, 40)) < 0.5, "a": feed["a"], "b": self.bytes(dtype, 2, 3, 40)}
                self.check(self.node("QLinearWhere", ["c", *a, *b, "y_s", "y_z"], ["y"]), [where], weights, quanta=1)

    def test_averages(self):
        for dtype, zero, other in self.both():
            weights = {**self.quantised("a", dtype, 0.03, zero), **self.quantised("y", dtype, 0.0173, other)}
            ends = ["a", "a_s", "a_z", "y_s", "y_z"]
            with self.subTest(dtype=dtype):
                for last in (0, 1):
                    feed = {"a": self.bytes(dtype, 2, *((6, 5, 8) if last else (8, 6, 5)))}
                    self.check(self.node("QLinearGlobalAveragePool", ends, ["y"], channels_last=last), [feed], weights, quanta=1)
                    self.check(self.node("QLinearAveragePool", ends, ["y"], channels_last=last, kernel_shape=[3, 2], strides=[2, 1], pads=[1, 0, 1, 1]), [feed], weights, quanta=1)
                feed = {"a": self.bytes(dtype, 2, 4, 9)}
                mean = [self.node("DequantizeLinear", ends[:3], ["d"], domain=""), self.node("ReduceMean", ["d", "axes"], ["m"], domain="", keepdims=1),
                        self.node("QuantizeLinear", ["m", *ends[3:]], ["y"], domain="")]
                self.check(self.node("QLinearReduceMean", ends, ["y"], axes=[-1], keepdims=1), [feed], {**weights, "axes": self.np.array([-1])}, quanta=1, reference=mean)
                weights["y_s"] = self.np.float32(1 / 256)
                weights["y_z"] = self.np.array(0 if dtype == self.np.uint8 else -128, dtype)
                self.check(self.node("QLinearSoftmax", ends, ["y"], axis=-1, opset=13), [feed], weights, quanta=1)

    def test_products(self):
        np = self.np
        # 7 bits: on CPUs without VNNI, ONNX Runtime adds pairs of products in 16 bits, which saturate from 8-bit weights.
        small = lambda *shape: self.random.integers(-60, 60, shape).astype("int8")  # noqa: E731
        column_scales = (self.random.random(24) / 100).astype("float32")
        for scales, zeros in ((np.float32(0.01), np.int8(0)), (column_scales, np.zeros(24, "int8")), (column_scales, small(24))):
            for turned in (0, 1):
                weights = {**self.quantised("a", "uint8", 0.02, 7), "b": small(24, 40) if turned else small(40, 24), "b_s": scales, "b_z": zeros,
                           "c": self.random.integers(-900, 900, 24).astype("int32"), **self.quantised("y", "uint8", 0.05, 90)}
                feeds = [{"a": self.bytes("uint8", rows, 40)} for rows in (1, 6)]
                names = ["a", "a_s", "a_z", "b", "b_s", "b_z", "c"]
                self.check(self.node("QGemm", [*names, "y_s", "y_z"], ["y"], transB=turned), feeds, weights, extents={"a": ["n", 40]}, quanta=1)
                self.check(self.node("QGemm", names, ["y"], transB=turned, alpha=0.5), feeds, weights, extents={"a": ["n", 40]})
            weights = {"b": small(40, 24), "b_s": scales, "b_z": zeros, **self.quantised("a", "uint8", 0.02, 7), "bias": self.floats(24)}
            for end in (["a_z", "b_z", "bias"], ["a_z", "b_z"], ["a_z"] if not zeros.any() else ["a_z", "b_z"]):
                node = self.node("MatMulIntegerToFloat", ["a", "b", "a_s", "b_s", *end], ["y"])
                self.check(node, [{"a": self.bytes("uint8", 2, 3, 40)}], weights, extents={"a": ["k", "n", 40]})
            node = self.node("DynamicQuantizeMatMul", ["a", "b", "b_s", "b_z", "bias"], ["y"])
            self.check(node, [{"a": self.floats(2, 3, 40)}, {"a": self.floats(1, 1, 40)}], weights, extents={"a": ["k", "n", 40]}, near=2e-3)

    def test_attention(self):
        np = self.np
        weights = {"w": self.random.integers(-60, 60, (24, 72)).astype("int8"), "bias": self.floats(72), "x_s": np.float32(0.02), "w_s": np.float32(0.01),
                   "x_z": np.uint8(128), "w_z": np.int8(0)}
        names = ["x", "w", "bias", "x_s", "w_s"]
        x = self.bytes("uint8", 2, 5, 24)
        self.check(self.node("QAttention", [*names, "", "x_z", "w_z"], ["y"], num_heads=3), [{"x": x}], weights)
        self.check(self.node("QAttention", [*names, "m", "x_z", "w_z"], ["y"], num_heads=3), [{"x": x, "m": np.array([5, 3], "int32")}], weights)
        feed = {"x": x[:, :2], "past": self.floats(2, 2, 3, 4, 8)}
        self.check(self.node("QAttention", [*names, "", "x_z", "w_z", "past"], ["y", "p"], num_heads=3, unidirectional=1), [feed], weights, ["y", "p"])


@unittest.skipUnless(onnx_test.has_runtime(), "the Python packages onnx and onnxruntime are not installed")
class Language(Models):
    def test_norms(self):
        x, weights = self.floats(2, 3, 40), {"g": self.floats(40), "b": self.floats(40)}
        self.check(self.node("SimplifiedLayerNormalization", ["x", "g"], ["y"], domain="", epsilon=1e-4), [{"x": x}], weights)
        skip = {"x": x, "s": self.floats(2, 3, 40)}
        for inputs in (["x", "s", "g"], ["x", "s", "g", "b"]):
            self.check(self.node("SkipSimplifiedLayerNormalization", inputs, ["y", "", "", "sum"], epsilon=1e-4), [skip], weights, ["y", "sum"])
        ids = {"i": self.random.integers(0, 9, (2, 5)).astype("int32"), "t": self.random.integers(0, 2, (2, 5)).astype("int32"), "m": self.np.ones((2, 5), "int32")}
        weights.update(w=self.floats(9, 40), p=self.floats(7, 40), u=self.floats(2, 40))
        self.check(self.node("EmbedLayerNormalization", ["i", "t", "w", "p", "u", "g", "b", "m"], ["y", "k"], epsilon=1e-5), [ids], weights, ["y", "k"])

    def test_activations(self):
        self.check(self.node("QuickGelu", ["x"], ["y"], alpha=1.5), [{"x": self.floats(3, 5)}], {})
        self.check(self.node("BiasGelu", ["x", "b"], ["y"]), [{"x": self.floats(3, 5)}], {"b": self.floats(5)})

    def test_distances(self):
        for metric in ({}, {"metric": "euclidean"}, {"metric": "sqeuclidean"}):
            node = self.node("CDist", ["a", "b"], ["y"], **metric)
            feeds = [{"a": self.floats(m, 7), "b": self.floats(n, 7)} for m, n in ((4, 3), (1, 20))]
            self.check(node, feeds, {}, extents={"a": ["m", 7], "b": ["n", 7]})
            self.check(node, [{"a": feeds[0]["a"]}], {"b": feeds[0]["b"]})
        model = self.save([self.node("CDist", ["a", "b"], ["y"], metric="cosine")], {"a": ("float32", [4, 7]), "b": ("float32", [3, 7])}, ["y"], {})
        self.assertIn("the metric cosine", relayvm.run(relayvm.COMPILER, "check", model).stderr)

    def test_rotary_embeddings(self):
        np = self.np
        for interleaved in (0, 1):
            for half, size in ((8, 16), (4, 16)):
                weights = {"cos": self.floats(30, half), "sin": self.floats(30, half)}
                attributes = {"interleaved": interleaved} | ({"num_heads": 3, "rotary_embedding_dim": 2 * half} if size != 2 * half else {})
                node = self.node("RotaryEmbedding", ["x", "p", "cos", "sin"], ["y"], **attributes)
                feeds = [{"x": self.floats(2, 5, 3 * size), "p": self.random.integers(0, 30, (2, 5))}]
                self.check(node, feeds, weights, extents={"x": ["b", "s", 3 * size], "p": ["b", "s"]})
                self.check(node, [{"x": self.floats(2, 3, 5, size), "p": np.array([11])}], weights)

    def test_attention(self):
        np = self.np
        weights = {"w": self.floats(24, 72) / 4, "b": self.floats(72)}
        x = self.floats(2, 5, 24)
        attend = lambda *names, **attributes: self.node("Attention", ["x", "w", "b", *names], ["y"], num_heads=3, **attributes)  # noqa: E731
        self.check(attend(), [{"x": x}], weights, extents={"x": ["b", "s", 24]})
        self.check(attend("m", unidirectional=1), [{"x": x, "m": np.array([5, 3], "int32")}], weights)
        self.check(attend("m"), [{"x": x, "m": (self.random.random((2, 5)) < 0.7).astype("int32")}], weights)
        many = lambda *names, outputs=("y",), **attributes: self.node("MultiHeadAttention", ["q", "k", "v", *names], list(outputs), num_heads=3, **attributes)  # noqa: E731
        feed = {"q": self.floats(2, 5, 24), "k": self.floats(2, 7, 24), "v": self.floats(2, 7, 24)}
        self.check(many(), [feed], {})
        self.check(many("b", "m", scale=0.3), [{**feed, "m": np.array([7, 4], "int32")}], weights)
        self.check(many("", "", "a"), [{**feed, "a": self.floats(1, 3, 5, 7)}], {})
        cached = {"q": self.floats(2, 2, 24), "k": self.floats(2, 2, 24), "v": self.floats(2, 2, 24), "pk": self.floats(2, 3, 6, 8), "pv": self.floats(2, 3, 6, 8)}
        self.check(many("", "", "", "pk", "pv", outputs=("y", "nk", "nv"), unidirectional=1), [cached], {}, ["y", "nk", "nv"],
                   extents={"pk": ["n", 3, "past", 8], "pv": ["n", 3, "past", 8]})

    # ---- GroupQueryAttention: 4 heads of queries, 2 of keys and values, of 16

    def step(self, batch, steps, past, totals=None, packed=False, capacity=None):
        """A feed: `totals`: steps of each sequence, with the new ones; `capacity`: extent of the cache."""
        np, size = self.np, 16
        totals = totals or [past + steps] * batch
        feed = {"q": self.floats(batch, steps, (8 if packed else 4) * size)}
        if not packed:
            feed.update(k=self.floats(batch, steps, 2 * size), v=self.floats(batch, steps, 2 * size))
        cache = past if capacity is None else capacity
        return {**feed, "pk": self.floats(batch, 2, cache, size), "pv": self.floats(batch, 2, cache, size),
                "seqlens": np.array(totals, "int32") - 1, "total": np.array(max(totals), "int32")}

    def groups(self, packed=False, rotary=False, more=(), **attributes):
        names = ["q", *(["", ""] if packed else ["k", "v"]), "pk", "pv", "seqlens", "total", *(["cos", "sin"] if rotary else ["", ""]), *more]
        while not names[-1]:
            names.pop()
        return self.node("GroupQueryAttention", names, ["y", "nk", "nv"], num_heads=4, kv_num_heads=2, do_rotary=int(rotary), **attributes)

    def extents(self, batch, packed=False):
        width = {} if packed else {"k": [batch, "steps", 32], "v": [batch, "steps", 32]}
        return {"q": [batch, "steps", 128 if packed else 64], **width, "pk": [batch, 2, "past", 16], "pv": [batch, 2, "past", 16], "seqlens": [batch]}

    @staticmethod
    def used(i, feed, array):
        """What a step leaves in use of the cache of each sequence."""
        if i == 0:
            return array
        return array[[[[t <= last for t in range(array.shape[2])]] * array.shape[1] for last in feed["seqlens"]]]

    def test_query_groups(self):
        weights = {"cos": self.floats(40, 8), "sin": self.floats(40, 8)}
        outputs = ["y", "nk", "nv"]
        for batch in (1, "batch"):
            for packed, rotary, attributes in ((False, False, {}), (True, True, {}), (False, True, {"rotary_interleaved": 1}), (True, False, {"softcap": 5.0, "scale": 0.4}),
                                               (False, True, {"local_window_size": 4}), (True, False, {"smooth_softmax": 1})):
                count = 1 if batch == 1 else 2
                feeds = [self.step(count, 6, 0, packed=packed), self.step(count, 1, 9, packed=packed), self.step(1, 3, 9, packed=packed)]
                with self.subTest(batch=batch, packed=packed, rotary=rotary, **attributes):
                    self.check(self.groups(packed, rotary, **attributes), feeds, weights, outputs, self.extents(batch, packed), LEVELS[1:2] if attributes else LEVELS)

    def test_sequences_of_other_lengths(self):
        weights = {"cos": self.floats(40, 8), "sin": self.floats(40, 8)}
        feeds = [self.step(3, 1, 9, totals=[4, 10, 7]), self.step(2, 1, 5, totals=[6, 2])]
        self.check(self.groups(rotary=True), feeds, weights, ["y", "nk", "nv"], self.extents("batch"), valid=self.used)

    def test_caches_that_keep_their_extent(self):
        """The model declares one name for the extents of the cache before and behind the node."""
        weights = {"cos": self.floats(40, 8), "sin": self.floats(40, 8)}
        outputs = ["y", ("nk", ["batch", 2, "past", 16]), ("nv", ["batch", 2, "past", 16])]
        feeds = [self.step(2, 1, 9, totals=[4, 10], capacity=32), self.step(1, 4, 0, capacity=32)]
        self.check(self.groups(rotary=True), feeds, weights, outputs, self.extents("batch"), valid=self.used)

    def test_norms_sinks_and_biases(self):
        weights = {"qn": self.floats(16), "kn": self.floats(16), "sink": self.floats(4)}
        feed = {**self.step(1, 2, 5), "a": self.floats(1, 4, 2, 7)}
        self.check(self.groups(more=["", "a", "sink"]), [feed], weights, ["y", "nk", "nv"])
        weights.update(heads=self.np.array([0, 0, -1, 16]), rows=self.np.array([0, 0, -1]))
        norms = [self.groups()]
        for x in "qk":
            norms[-1].input["qk".index(x)] = x + "3"
            norms[-1:-1] = [self.node("Reshape", [x, "heads"], [x + "1"], domain=""), self.node("SimplifiedLayerNormalization", [x + "1", x + "n"], [x + "2"], domain="", epsilon=1e-5),
                            self.node("Reshape", [x + "2", "rows"], [x + "3"], domain="")]
        norm = self.groups(more=["", "", "", "", "", "qn", "kn"], qk_norm_epsilon=1e-5)
        self.check(norm, [self.step(1, 2, 5)], weights, ["y", "nk", "nv"], reference=norms)

    def test_totals_that_do_not_fit(self):
        feed = self.step(1, 2, 5)
        inputs = {name: (array.dtype, self.extents(1).get(name, list(array.shape))) for name, array in feed.items()}
        model = self.save([self.groups()], inputs, ["y", "nk", "nv"], {})
        executable = os.path.join(self.place, "model.rvm")
        relayvm.must(relayvm.COMPILER, "compile", model, "-o", executable)
        program = in_process.load(executable)
        with self.assertRaisesRegex(Exception, "the cache with the new steps, and `total_sequence_length`"):
            program["main"](*{**feed, "total": self.np.array(9, "int32")}.values())

    def test_refused(self):
        node = self.groups(more=["", "", "", "scale"])
        inputs = {name: (array.dtype, list(array.shape)) for name, array in self.step(1, 2, 5).items()}
        self.fails(node, inputs, {"scale": self.np.ones(1, "float32")}, "GroupQueryAttention: caches of integers (`k_scale`)")

    # ---- a decoder as onnxruntime-genai's builder writes it

    def decoder(self, layers=2, width=64, heads=4, groups=2, vocabulary=80):
        """(nodes, weights) of a decoder of int4 weights; logits, then keys and values of each layer."""
        np, size, weights = self.np, width // heads, {}
        nodes = [self.node("Gather", ["table", "input_ids"], ["x0"], domain=""), self.node("ReduceSum", ["attention_mask", "one"], ["sums"], domain="", keepdims=0),
                 self.node("Sub", ["sums", "one"], ["last"], domain=""), self.node("Cast", ["last"], ["seqlens"], domain="", to=6),
                 self.node("Shape", ["attention_mask"], ["shape"], domain=""), self.node("Gather", ["shape", "axis"], ["length"], domain=""),
                 self.node("Cast", ["length"], ["total"], domain="", to=6)]
        weights.update(table=self.floats(vocabulary, width), one=np.array([1]), axis=np.array(1))
        angles = np.arange(64)[:, None] / 10000 ** (np.arange(0, size, 2) / size)
        weights.update(cos=np.cos(angles).astype("float32"), sin=np.sin(angles).astype("float32"))

        def product(name, x, depth, columns):
            weights[name + "_b"] = self.bytes("uint8", columns, depth // 32, 16)
            weights[name + "_s"] = ((0.5 + self.random.random((columns, depth // 32))) / 4 / depth**0.5).astype("float32")
            nodes.append(self.node("MatMulNBits", [x, name + "_b", name + "_s"], [name], K=depth, N=columns, bits=4, block_size=32))
            return name

        def norm(name, x, skip=None):
            weights[name + "_g"] = 1 + self.floats(width) / 10
            if skip is None:
                nodes.append(self.node("SimplifiedLayerNormalization", [x, name + "_g"], [name], domain="", epsilon=1e-5))
                return name, x
            nodes.append(self.node("SkipSimplifiedLayerNormalization", [x, skip, name + "_g"], [name, "", "", name + "_sum"], epsilon=1e-5))
            return name, name + "_sum"

        h, x = norm("n0", "x0")
        for i in range(layers):
            q, k, v = (product(f"{part}{i}", h, width, columns) for part, columns in (("q", width), ("k", groups * size), ("v", groups * size)))
            nodes.append(self.node("GroupQueryAttention", [q, k, v, f"pk{i}", f"pv{i}", "seqlens", "total", "cos", "sin"], [f"a{i}", f"nk{i}", f"nv{i}"],
                                   num_heads=heads, kv_num_heads=groups, do_rotary=1))
            h, x = norm(f"m{i}", x, product(f"o{i}", f"a{i}", width, width))
            gate, up = product(f"gate{i}", h, width, 96), product(f"up{i}", h, width, 96)
            nodes += [self.node("Sigmoid", [gate], [f"sigmoid{i}"], domain=""), self.node("Mul", [gate, f"sigmoid{i}"], [f"silu{i}"], domain=""),
                      self.node("Mul", [f"silu{i}", up], [f"act{i}"], domain="")]
            h, x = norm(f"n{i + 1}", x, product(f"down{i}", f"act{i}", 96, width))
        product("logits", h, width, vocabulary)
        return nodes, weights, ["logits", *(f"n{kind}{i}" for i in range(layers) for kind in "kv")]

    def test_a_decoder(self):
        """A prompt, then token by token, with the caches that the step before gave; one sequence and several."""
        import onnxruntime  # pylint: disable=import-outside-toplevel
        np = self.np
        nodes, weights, outputs = self.decoder()
        for batch in (1, "batch"):
            inputs = {"input_ids": ("int64", [batch, "sequence"]), "attention_mask": ("int64", [batch, "total"])}
            inputs.update({f"p{kind}{i}": ("float32", [batch, 2, "past", 16]) for i in range(2) for kind in "kv"})
            model = self.save(nodes, inputs, outputs, weights)
            session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
            for level in LEVELS[1::2]:
                executable = os.path.join(self.place, "model.rvm")
                relayvm.must(relayvm.COMPILER, "compile", model, "-o", executable, *level)
                program = in_process.load(executable)
                for count in (1,) if batch == 1 else (1, 3):
                    tokens, caches, total = self.random.integers(0, 80, (count, 5)), [np.zeros((count, 2, 0, 16), "float32")] * 4, 5
                    for _ in range(4):
                        feed = dict(zip(inputs, [tokens, np.ones((count, total), "int64"), *caches]))
                        expected, got = session.run(None, feed), [np.asarray(a) for a in program["main"](*feed.values())]
                        for a, b in zip(got, expected):
                            with self.subTest(level=level, batch=batch, count=count, total=total):
                                self.assertEqual(a.shape, b.shape)
                                np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4)
                        tokens, caches, total = expected[0][:, -1:].argmax(-1), expected[1:], total + 1


if __name__ == "__main__":
    unittest.main()
