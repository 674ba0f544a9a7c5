"""Models of a few nodes, made here: equal to ONNX Runtime at each level, and errors that say what is wrong."""

import os
import tempfile
import unittest

import onnx_test
import relayvm

LEVELS = (["-O0"], ["-O3"], ["--target", "portable"])


@unittest.skipUnless(onnx_test.has_runtime(), "the Python packages onnx and onnxruntime are not installed")
class Nodes(relayvm.TestCase):
    def setUp(self):
        import numpy  # pylint: disable=import-outside-toplevel
        import onnx  # pylint: disable=import-outside-toplevel
        self.np, self.onnx = numpy, onnx
        self.node, self.sequence = onnx.helper.make_node, onnx.helper.make_tensor_sequence_value_info
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.place = folder.name

    def value(self, name, shape, dtype="FLOAT"):
        return self.onnx.helper.make_tensor_value_info(name, getattr(self.onnx.TensorProto, dtype), shape)

    def graph(self, nodes, inputs, outputs, weights=()):
        arrays = [self.onnx.numpy_helper.from_array(self.np.array(value), name) for name, value in dict(weights).items()]
        return self.onnx.helper.make_graph(list(nodes), "graph", list(inputs), list(outputs), arrays)

    def save(self, nodes, inputs, outputs, weights=(), functions=(), opset=18):
        helper = self.onnx.helper
        sets = [helper.make_opsetid("", opset), helper.make_opsetid("local", 1)]
        model = helper.make_model(self.graph(nodes, inputs, outputs, weights), opset_imports=sets, ir_version=9,
                                  functions=list(functions))
        path = os.path.join(self.place, "model.onnx")
        self.onnx.save(model, path)
        return path

    def arguments(self, feed):
        args = []
        for name, array in feed.items():
            args.append("@" + os.path.join(self.place, name + ".npy"))
            self.np.save(args[-1][1:], array)
        return args

    def compare(self, model, feeds, *options):
        """The one output of the model, beside ONNX Runtime, at each level."""
        import onnxruntime  # pylint: disable=import-outside-toplevel
        session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
        executable, out = (os.path.join(self.place, name) for name in ("model.rvm", "y.npy"))
        for level in LEVELS:
            relayvm.must(relayvm.COMPILER, "compile", model, "-o", executable, *level, *options)
            for feed in feeds:
                with self.subTest(level=level):
                    relayvm.must(relayvm.RUNTIME, executable, *self.arguments(feed), "--out", out)
                    got, expected = self.np.load(out), session.run(None, feed)[0]
                    self.assertEqual(got.shape, expected.shape)
                    self.np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)

    def fails(self, model, message, feed=None, *options):
        """`message` is in the error of the import, or of a run at each level where `feed` is given."""
        verb = ["check"] if feed is None else ["run"]
        for level in LEVELS[:1] if feed is None else LEVELS:
            arguments = [] if feed is None else [*self.arguments(feed), *level]
            done = relayvm.run(relayvm.COMPILER, *verb, model, *options, *arguments)
            self.assertEqual(done.returncode, 1, (level, done.stdout))
            self.assertIn(message, done.stderr)

    def floats(self, *shape):
        return self.np.random.default_rng(shape).standard_normal(shape).astype("float32")

    # ---- products of integers

    def imported(self, model):
        """The program as text."""
        path = os.path.join(self.place, "imported.relay")
        relayvm.must(relayvm.COMPILER, "import", model, "-o", path)
        with open(path, encoding="utf-8") as file:
            return file.read()

    def test_integer_products(self):
        """Bytes of either kind and any zero points, beside sums in int64; constant matrices are multiplied as they are stored."""
        np, random = self.np, self.np.random.default_rng(8)
        kinds = {"UINT8": np.uint8, "INT8": np.int8}

        def extremes(kind, *shape):
            info = np.iinfo(kinds[kind])
            return np.where(random.random(shape) < 0.3, info.max, np.where(random.random(shape) < 0.3, info.min, random.integers(info.min, info.max, shape))).astype(kinds[kind])

        for number, (a_kind, b_kind) in enumerate((a, b) for a in kinds for b in kinds):
            for rows, depth, zeros in (((5,), 7, "none"), ((2, 3), 40, "scalars"), ((4,), 67, "vectors"), ((1,), 32, "zero")):
                a, b = extremes(a_kind, *rows, depth), extremes(b_kind, depth, 19)
                za, zb = {"none": (None, None), "scalars": (extremes(a_kind), extremes(b_kind)), "zero": (extremes(a_kind), np.zeros((), b.dtype)),
                          "vectors": (extremes(a_kind, 4), extremes(b_kind, 19))}[zeros]
                for is_constant in (True, False):
                    with self.subTest(a=a_kind, b=b_kind, zeros=zeros, is_constant=is_constant):
                        weights = {} if za is None else {"za": za, "zb": zb}
                        inputs, feed = [self.value("a", ["n", *a.shape[1:]] if zeros != "vectors" else list(a.shape), a_kind)], {"a": a}
                        if is_constant:
                            weights["b"] = b
                        else:
                            inputs.append(self.value("b", list(b.shape), b_kind))
                            feed["b"] = b
                        model = self.save([self.node("MatMulInteger", ["a", "b", *(["za", "zb"] if za is not None else [])], ["y"])], inputs, [self.value("y", None, "INT32")], weights)
                        less = lambda x, zero, axis: x.astype(np.int64) if zero is None else x.astype(np.int64) - (zero.astype(np.int64)[:, None] if zero.ndim and axis == 0 else zero.astype(np.int64))
                        expected = less(a, za, 0) @ less(b, zb, 1)
                        level, out = LEVELS[number % 3], os.path.join(self.place, "y.npy")
                        executable = os.path.join(self.place, "model.rvm")
                        relayvm.must(relayvm.COMPILER, "compile", model, "-o", executable, *level)
                        relayvm.must(relayvm.RUNTIME, executable, *self.arguments(feed), "--out", out)
                        np.testing.assert_array_equal(np.load(out), expected)
                        if is_constant and b_kind == "INT8" and zeros != "vectors":
                            self.assertNotIn('dtype="int16"', self.imported(model))

    def dequantised(self, name, values, scale, zero, axis=0):
        """(node, weights) of a DequantizeLinear that gives `name`; `values` is an array, or the name of a tensor."""
        weights = {name + "_s": self.np.float32(scale), name + "_z": zero}
        if not isinstance(values, str):
            weights[name + "_q"] = values
        return self.node("DequantizeLinear", [values if isinstance(values, str) else name + "_q", name + "_s", name + "_z"], [name], axis=axis), weights

    def test_products_of_dequantised_tensors(self):
        """Convolutions and products between DequantizeLinear are integer ones: zero points, padding, groups, scales by channel."""
        np, random = self.np, self.np.random.default_rng(9)

        def check(node, w, x, axis, scales, zero, is_integer=True, opset=18):
            x_node, x_weights = self.dequantised("xf", "x", 0.03, np.array(zero, x.dtype))
            shape = np.shape(scales)
            w_node, w_weights = self.dequantised("wf", w, scales, np.zeros(shape, w.dtype), axis)
            bias = self.floats(*(() if node.op_type == "MatMul" else (node_channels(node, w),)))
            weights = {**x_weights, **w_weights, **({} if node.op_type == "MatMul" else {"b": bias})}
            model = self.save([x_node, w_node, node], [self.value("x", list(x.shape), "UINT8" if x.dtype == np.uint8 else "INT8")],
                              [self.value("y", None)], weights, opset=opset)
            self.assertEqual('out_dtype="int32"' in self.imported(model), is_integer)
            import onnxruntime  # pylint: disable=import-outside-toplevel
            options = onnxruntime.SessionOptions()
            options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
            expected = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"]).run(None, {"x": x})[0]
            executable, out = (os.path.join(self.place, name) for name in ("model.rvm", "y.npy"))
            for level in LEVELS:
                relayvm.must(relayvm.COMPILER, "compile", model, "-o", executable, *level)
                relayvm.must(relayvm.RUNTIME, executable, *self.arguments({"x": x}), "--out", out)
                np.testing.assert_allclose(np.load(out), expected, rtol=1e-4, atol=1e-4)

        def node_channels(node, w):
            is_turned = any(attribute.name == "transB" and attribute.i for attribute in node.attribute)
            return w.shape[0] if node.op_type == "Conv" or is_turned else w.shape[1]

        def integers(dtype, *shape):
            return random.integers(np.iinfo(dtype).min, np.iinfo(dtype).max + 1, shape).astype(dtype)

        channels = np.linspace(0.01, 0.05, 12).astype("float32")
        for dtype, zero in ((np.uint8, 0), (np.uint8, 131), (np.int8, 0), (np.int8, -7)):
            with self.subTest(dtype=dtype, zero=zero):
                conv = self.node("Conv", ["xf", "wf", "b"], ["y"], pads=[1, 0, 2, 1], strides=[2, 1])
                check(conv, integers(np.int8, 12, 8, 3, 3), integers(dtype, 1, 8, 9, 11), 0, channels, zero)
                grouped = self.node("Conv", ["xf", "wf", "b"], ["y"], group=3, auto_pad="SAME_UPPER")
                check(grouped, integers(np.int8, 12, 2, 3, 3), integers(dtype, 2, 6, 7, 5), 0, channels, zero)
                check(self.node("MatMul", ["xf", "wf"], ["y"]), integers(np.int8, 17, 12), integers(dtype, 2, 3, 17), 1, channels, zero)
                check(self.node("Gemm", ["xf", "wf", "b"], ["y"], transB=1, alpha=0.5), integers(np.int8, 12, 21), integers(dtype, 4, 21), 0, channels, zero)
        check(self.node("Gemm", ["xf", "wf", "b"], ["y"]), integers(np.uint8, 21, 12), integers(np.uint8, 4, 21), 1, 0.02, 3)
        depthwise = self.node("Conv", ["xf", "wf", "b"], ["y"], group=12, pads=[1, 1, 1, 1])
        check(depthwise, integers(np.int8, 12, 1, 3, 3), integers(np.uint8, 1, 12, 7, 5), 0, channels, 3)
        # Scales along the axis that is summed over have no product in integers.
        check(self.node("MatMul", ["xf", "wf"], ["y"]), integers(np.int8, 12, 6), integers(np.uint8, 4, 12), 0, channels, 3, is_integer=False)

    def test_convolutions_by_kernels_with_zero_points(self):
        """Zero points of both factors are taken out of the sums: also one that the model computes, and in groups."""
        np, random = self.np, self.np.random.default_rng(11)
        bytes_of = lambda *shape: random.integers(0, 256, shape).astype("uint8")  # noqa: E731
        for attributes, w, extents in (({"pads": [1, 0, 2, 1], "strides": [2, 1]}, (12, 8, 3, 3), (1, 8, 9, 11)),
                                       ({"group": 3, "auto_pad": "SAME_UPPER"}, (12, 4, 3, 2), (2, 12, 7, 5)),
                                       ({"group": 4}, (8, 8, 1), (1, 32, 6)), ({"group": 6, "pads": [1, 1]}, (6, 1, 3), (1, 6, 9)),
                                       ({"dilations": [2, 2]}, (5, 3, 2, 2), (1, 3, 6, 6))):
            with self.subTest(attributes=attributes):
                node = self.node("ConvInteger", ["x", "w", "xz", "wz"], ["y"], **attributes)
                kernels, x = bytes_of(*w), bytes_of(*extents)
                inputs = [self.value("x", list(extents), "UINT8"), self.value("xz", [], "UINT8")]
                model = self.save([node], inputs, [self.value("y", None, "INT32")], {"w": kernels, "wz": np.uint8(131)})
                self.compare(model, [{"x": x, "xz": np.array(zero, "uint8")} for zero in (0, 117)])
                self.assertNotIn("int16", self.imported(model) if w[1] > 1 else "")

    # ---- branches

    def branch(self, *nodes, weights=(), output="r"):
        return self.graph(nodes, [], [self.value(output, None)], weights)

    def test_branches_of_other_extents(self):
        part = self.branch(self.node("Slice", ["x", "zero", "three"], ["r"]))
        twice = self.branch(self.node("Concat", ["x", "x"], ["r"], axis=0))
        nested = self.branch(self.node("If", ["d"], ["r"], then_branch=twice, else_branch=self.branch(
            self.node("Transpose", ["x"], ["r"]))))
        model = self.save([self.node("If", ["c"], ["t"], then_branch=part, else_branch=nested), self.node("Add", ["t", "t"], ["y"])],
                          [self.value("x", [4, 5]), self.value("c", [], "BOOL"), self.value("d", [], "BOOL")],
                          [self.value("y", None)], {"zero": [0], "three": [3]})
        x = self.floats(4, 5)
        self.compare(model, [{"x": x, "c": self.np.array(c), "d": self.np.array(d)} for c in (True, False) for d in (True, False)])

    def test_branches_in_a_loop(self):
        """The state grows by one or two rows a step; its first extent is a number before the loop."""
        grow = self.branch(self.node("Concat", ["s", "row"], ["r"], axis=0))
        more = self.branch(self.node("Concat", ["row", "s", "row"], ["r"], axis=0))
        body = self.graph(
            [self.node("Identity", ["c"], ["d"]), self.node("Mod", ["i", "two"], ["m"]), self.node("Equal", ["m", "zero"], ["e"]),
             self.node("If", ["e"], ["t"], then_branch=grow, else_branch=more)],
            [self.value("i", [], "INT64"), self.value("c", [], "BOOL"), self.value("s", None)],
            [self.value("d", [], "BOOL"), self.value("t", None)])
        model = self.save([self.node("Loop", ["n", "", "x"], ["y"], body=body)],
                          [self.value("x", [2, 3]), self.value("n", [], "INT64")], [self.value("y", None)],
                          {"row": self.floats(1, 3), "two": 2, "zero": 0})
        self.compare(model, [{"x": self.floats(2, 3), "n": self.np.array(n)} for n in (0, 1, 4)])

    def test_branches_of_sequences(self):
        one = self.graph([self.node("SequenceConstruct", ["x", "x"], ["q"])], [], [self.sequence("q", 1, None)])
        other = self.graph([self.node("Concat", ["x", "x"], ["xx"], axis=0), self.node("SequenceConstruct", ["xx"], ["q"])],
                           [], [self.sequence("q", 1, None)])
        model = self.save([self.node("If", ["c"], ["q"], then_branch=one, else_branch=other),
                           self.node("SequenceInsert", ["q", "x"], ["p"]),
                           self.node("ConcatFromSequence", ["p"], ["y"], axis=0)],
                          [self.value("x", [3]), self.value("c", [], "BOOL")], [self.value("y", None)])
        self.compare(model, [{"x": self.floats(3), "c": self.np.array(c)} for c in (True, False)])

    # ---- functions

    def test_functions_without_their_optional_inputs(self):
        helper, sets = self.onnx.helper, [self.onnx.helper.make_opsetid("", 18), self.onnx.helper.make_opsetid("local", 1)]
        inner = helper.make_function("local", "Bound", ["x", "low", "high"], ["y"], [self.node("Clip", ["x", "low", "high"], ["y"])], sets)
        outer = helper.make_function(
            "local", "Both", ["x", "low", "high"], ["y"],
            [self.node("Bound", ["x", "low", "high"], ["a"], domain="local"), self.node("Bound", ["a", "low"], ["b"], domain="local"),
             self.node("Add", ["b", "b"], ["y"])], sets)
        weights = {"low": self.np.float32(-0.5), "high": self.np.float32(0.25)}
        for given in (["x"], ["x", "low"], ["x", "", "high"], ["x", "low", "high"], ["x", "", ""]):
            model = self.save([self.node("Both", given, ["y"], domain="local")], [self.value("x", ["n"])], [self.value("y", None)],
                              weights, [outer, inner])
            self.compare(model, [{"x": self.floats(9)}])
        for given, message in ((["x", "lo"], "local.Both: its input `lo` is undefined; expected a name that stands before it"),
                               (["x", "low", "high", "x"], "local.Both: it has 4 inputs; its function has 3"),
                               (["", "low"], "Clip: input 0 is missing")):
            model = self.save([self.node("Both", given, ["y"], domain="local")], [self.value("x", ["n"])], [self.value("y", None)],
                              weights, [outer, inner])
            self.fails(model, message)

    # ---- elements

    def test_indices_smaller_than_the_data(self):
        for shape, axis in ((["n", 4, 3], 1), ([3, "m", 3], -2), (None, 0)):
            shapes = shape or ["a", "b", "c"]
            model = self.save([self.node("GatherElements", ["x", "i"], ["y"], axis=axis)],
                              [self.value("x", shapes), self.value("i", ["p", "q", "r"], "INT64")], [self.value("y", None)])
            x = self.floats(3, 4, 3)
            index = self.np.random.default_rng(1).integers(-3, 3, (2, 2, 3))
            self.compare(model, [{"x": x, "i": index}, {"x": x, "i": index[:1, :, :2]}, {"x": x, "i": index[:0]}])
            if axis != 0:
                self.fails(model, "`gather`: extents of data and indices beside the axis: 3 is below 4",
                           {"x": x, "i": self.np.zeros((4, 1, 1), "int64")})

    def test_tiles_of_nothing(self):
        for shape, repeats in ((["n", 2], [0, 1]), ([3, 2], [2, 0]), ([3, "m"], [0, 0])):
            model = self.save([self.node("Tile", ["x", "r"], ["y"])], [self.value("x", shape)], [self.value("y", None)], {"r": repeats})
            self.compare(model, [{"x": self.floats(3, 2)}])

    # ---- sizes, indices and lengths that do not fit

    def split(self, sizes, *weights, shape=("n", 2), axis=0, outputs=("a", "b")):
        return self.save([self.node("Split", ["x", "s"], list(outputs), axis=axis), self.node("Concat", list(outputs)[::-1], ["y"], axis=axis)],
                         [self.value("x", list(shape)), *([] if weights else [self.value("s", sizes, "INT64")])],
                         [self.value("y", None)], {"s": weights} if weights else {})

    def test_sizes_of_parts(self):
        x = self.floats(5, 2)
        for model in (self.split(None, 2, 3), self.split(None, 2, 3, shape=(5, 2))):
            self.compare(model, [{"x": x}])
        from_data = self.split([2]), self.split(["k"])
        for model in from_data:
            self.compare(model, [{"x": x, "s": self.np.array(sizes)} for sizes in ([2, 3], [0, 5])])
            for sizes, message in (([2, 2], "the sum of the sizes of its parts: the extent 5 differs from 4"),
                                   ([-1, 6], "the least size of a part: -1 is below 0")):
                self.fails(model, message, {"x": x, "s": self.np.array(sizes)})
        self.fails(from_data[1], "the sizes of a split, and its outputs: the extent 3 differs from 2", {"x": x, "s": self.np.array([2, 2, 1])})
        self.fails(self.split(None, 2, 2), "the sum of the sizes of its parts: the extent 5 differs from 4", {"x": x})
        self.fails(self.split(None, 2, 2, shape=(5, 2)), "Split: the sizes of its parts add up to 4; axis 0 of its input has extent 5")
        self.fails(self.split(None, 7, -2, shape=(5, 2)), "Split: the size of a part is -2")
        self.fails(self.split([3]), "Split: it has 3 sizes and 2 outputs")

    def test_sizes_of_sequences(self):
        x = self.floats(5, 2)

        def model(size, *weights):
            return self.save([self.node("SplitToSequence", ["x", "s"], ["q"], axis=0), self.node("SequenceAt", ["q", "one"], ["y"])],
                             [self.value("x", ["n", 2]), *([] if weights else [self.value("s", size, "INT64")])], [self.value("y", None)],
                             {"one": 1, **({"s": weights} if weights else {})})

        self.compare(model(["k"]), [{"x": x, "s": self.np.array(sizes)} for sizes in ([1, 4], [2, 2, 1], [5, 0])])
        self.compare(model([]), [{"x": x, "s": self.np.array(size)} for size in (2, 4)])
        self.fails(model(["k"]), "the sum of the sizes of its parts: the extent 5 differs from 6", {"x": x, "s": self.np.array([4, 2])})
        self.fails(model([]), "the size of the parts: 0 is below 1", {"x": x, "s": self.np.array(0)})
        self.fails(model(None, 4, 2), "the sum of the sizes of its parts: the extent 5 differs from 6", {"x": x})

    def test_indices_of_sequences(self):
        x, z = self.floats(2), self.floats(2) + 1

        def model(*nodes):
            return self.save([self.node("SequenceConstruct", ["x", "z", "x"], ["q"]), *nodes],
                             [self.value("x", [2]), self.value("z", [2]), self.value("p", [], "INT64")], [self.value("y", None)])

        def feed(p):
            return {"x": x, "z": z, "p": self.np.array(p)}

        join = self.node("ConcatFromSequence", ["r"], ["y"], axis=0)
        for nodes, count in (([self.node("SequenceAt", ["q", "p"], ["y"])], 3), ([self.node("SequenceErase", ["q", "p"], ["r"]), join], 3),
                             ([self.node("SequenceInsert", ["q", "z", "p"], ["r"]), join], 4)):
            made = model(*nodes)
            self.compare(made, [feed(p) for p in range(-3, count)])
            for p, message in ((count, "the index of a sequence is out of bounds"),
                               (-4, "the index of a sequence is out of bounds: the index and the least one: -4 is below -3")):
                self.fails(made, message, feed(p))
        self.compare(model(self.node("SequenceErase", ["q"], ["r"]), join), [feed(0)])

    def test_an_empty_sequence(self):
        none = self.node("SplitToSequence", ["x", "one"], ["q"], axis=0)
        model = self.save([none, self.node("ConcatFromSequence", ["q"], ["y"], axis=0)], [self.value("x", ["n"])], [self.value("y", None)], {"one": 1})
        self.compare(model, [{"x": self.floats(3)}])
        self.fails(model, "an empty sequence cannot be joined", {"x": self.floats(0)})

    def test_lengths_of_sequences(self):
        weights = {"w": self.floats(1, 12, 2), "r": self.floats(1, 12, 3)}
        nodes = {"LSTM": self.node("LSTM", ["x", "w", "r", "", "n"], ["", "y"], hidden_size=3),
                 "ReverseSequence": self.node("ReverseSequence", ["x", "n"], ["y"], time_axis=0, batch_axis=1)}
        for kind, dtype in (("LSTM", "INT32"), ("ReverseSequence", "INT64")):
            model = self.save([nodes[kind]], [self.value("x", ["t", "b", 2]), self.value("n", ["b"], dtype)], [self.value("y", None)],
                              weights if kind == "LSTM" else ())
            feed = [{"x": self.floats(4, 2, 2), "n": self.np.array(lengths, dtype.lower())} for lengths in ([4, 1], [5, 1], [2, -1])]
            self.compare(model, feed[:1])
            self.fails(model, "the greatest that there is, and the length of a sequence: 4 is below 5", feed[1])
            self.fails(model, "the length of a sequence, and the least one that there is: -1 is below 0", feed[2])

    def test_numbers_of_images(self):
        rois = self.np.array([[0, 0, 2, 2], [1, 1, 3, 3]], "float32")
        model = self.save([self.node("RoiAlign", ["x", "r", "b"], ["y"], output_height=2, output_width=2, sampling_ratio=2)],
                          [self.value("x", ["n", 1, 4, 4]), self.value("r", ["k", 4]), self.value("b", ["k"], "INT64")], [self.value("y", None)])
        feed = [{"x": self.floats(2, 1, 4, 4), "r": rois, "b": self.np.array(numbers)} for numbers in ([1, 0], [2, 0], [0, -1])]
        self.compare(model, feed[:1])
        self.fails(model, "the greatest that there is, and the number of an image: 1 is below 2", feed[1])
        self.fails(model, "the number of an image, and the least one that there is: -1 is below 0", feed[2])

    def test_scales(self):
        model = self.save([self.node("Resize", ["x", "", "s"], ["y"], mode="nearest")],
                          [self.value("x", [1, "n"]), self.value("s", [2])], [self.value("y", None)])
        x = self.floats(1, 4)
        self.compare(model, [{"x": x, "s": self.np.array([1, 2], "float32")}])
        for scale in (0, -1, self.np.nan):
            self.fails(model, "a scale is not above 0", {"x": x, "s": self.np.array([1, scale], "float32")})

    # ---- lengths that are not known

    def test_lengths_that_are_not_known(self):
        cases = [("Expand", [("x", ["n", 2]), ("s", [None])], "the length of its shape", "s=N"),
                 ("Tile", [("x", ["n", 2]), ("s", [None])], "the length of its repeats", "s=N"),
                 ("Reshape", [("x", ["n", 2]), ("s", ["k"])], "the length of its shape", "s=N"),
                 ("GatherND", [("x", [2, 3]), ("i", ["n", None])], "the extent of axis 1 of its index tuples", "i=n,N"),
                 ("ScatterND", [("x", [2, 3]), ("i", [None, 3, "m"]), ("x", [2, 3])], "the extent of axis 2 of its index tuples", "i=?,3,N"),
                 ("Slice", [("x", ["n", 2]), ("b", [None]), ("e", [None])], "the length of its starts", "b=N"),
                 ("Resize", [("x", ["n", 2]), ("", ()), ("", ()), ("s", [None])], "the length of its sizes", "s=N")]
        for kind, inputs, what, option in cases:
            named = {name: self.value(name, shape, "FLOAT" if name == "x" else "INT64") for name, shape in inputs if name}
            model = self.save([self.node(kind, [name for name, _ in inputs], ["y"])], named.values(), [self.value("y", None)])
            self.fails(model, f"{kind}: {what} is not known; give it as a number N: --shape {option}")
            if kind != "ScatterND":  # whose updates would have to fit
                options = [word for name, shape in inputs if name and name != "x"
                           for word in ("--shape", f"{name}=" + ",".join(["2"] * len(shape)))]
                relayvm.must(relayvm.COMPILER, "check", model, *options)
        model = self.save([self.node("Identity", ["s"], ["t"]), self.node("Abs", ["t"], ["u"]), self.node("Expand", ["x", "u"], ["y"])],
                          [self.value("x", [2]), self.value("s", [None], "INT64")], [self.value("y", None)])
        self.fails(model, "give the extents of the inputs that decide it: --shape INPUT=EXTENT,...")
        model = self.save([self.node("ConstantOfShape", ["s"], ["y"])], [self.value("s", [None], "INT64")], [self.value("y", None)])
        self.fails(model, "ConstantOfShape: the length of its shape is not known; give it as a number N: --shape s=N")

    def test_pads_whose_number_is_not_known(self):
        model = self.save([self.node("Pad", ["x", "p"], ["y"])], [self.value("x", ["n", 2]), self.value("p", [None], "INT64")], [self.value("y", None)])
        self.compare(model, [{"x": self.floats(3, 2), "p": self.np.array([1, 0, 0, 2])}])
        self.fails(model, "the pads, two for each axis: the extent 2 differs from 4", {"x": self.floats(3, 2), "p": self.np.array([1, 0])})

    # ---- sequences in loops

    def loop(self, *nodes, state, weights=()):
        body = self.graph([self.node("Identity", ["c"], ["d"]), *nodes],
                          [self.value("i", [], "INT64"), self.value("c", [], "BOOL"), state[0]], [self.value("d", [], "BOOL"), state[1]], weights)
        return self.node("Loop", ["n", "", state[2]], [state[3]], body=body)

    def test_sequences_in_loops_are_linear(self):
        """Read at the counter, or only appended to, under a condition, too: with fuel for a few calls per element."""
        read = self.loop(self.node("SequenceAt", ["q", "i"], ["e"]), self.node("Add", ["s", "e"], ["t"]),
                         state=(self.value("s", [1]), self.value("t", [1]), "zero", "y"))
        keep = self.graph([self.node("Identity", ["s"], ["r"])], [], [self.sequence("r", 1, None)])
        push = self.graph([self.node("SequenceInsert", ["s", "e"], ["r"])], [], [self.sequence("r", 1, None)])
        some = self.loop(self.node("SequenceAt", ["q", "i"], ["e"]), self.node("Less", ["e", "limit"], ["b"]), self.node("Squeeze", ["b"], ["g"]),
                         self.node("If", ["g"], ["t"], then_branch=push, else_branch=keep),
                         state=(self.sequence("s", 1, None), self.sequence("t", 1, None), "none", "p"))
        every = self.loop(self.node("SequenceAt", ["p", "i"], ["e"]),
                          self.node("Neg", ["e"], ["f"]), self.node("SequenceInsert", ["s", "f"], ["t"]),
                          state=(self.sequence("s", 1, None), self.sequence("t", 1, None), "none", "r"))
        start = [self.node("SplitToSequence", ["x", "one"], ["q"], axis=0), self.node("SequenceEmpty", [], ["none"], dtype=1)]
        join = self.node("ConcatFromSequence", ["r"], ["y"], axis=0)
        count = self.node("SequenceLength", ["q"], ["n"])
        weights = {"one": 1, "zero": self.np.zeros(1, "float32"), "limit": [self.np.float32(10)]}
        for nodes in ([*start, count, read], [*start, count, some, every, join]):
            model = self.save(nodes, [self.value("x", ["k"])], [self.value("y", None)], weights)
            self.compare(model, [{"x": self.floats(7)}])
            done = relayvm.run(relayvm.COMPILER, "run", model, *self.arguments({"x": self.floats(2000)}), "--fuel", "60000", "--target", "portable")
            self.assertEqual(done.returncode, 0, done.stderr)

    def test_lists_that_a_loop_reads_and_changes(self):
        """The last element, the length, the front, and two loops within each other."""
        body = [self.node("SequenceAt", ["s", "last"], ["a"]), self.node("SequenceLength", ["s"], ["l"]),
                self.node("Cast", ["l"], ["f"], to=1), self.node("Add", ["a", "f"], ["b"]), self.node("SequenceInsert", ["s", "b"], ["t"])]
        front = [self.node("SequenceAt", ["s", "i"], ["a"]), self.node("Add", ["a", "a"], ["b"]), self.node("SequenceInsert", ["s", "b"], ["t"])]
        erase = [self.node("SequenceErase", ["s"], ["u"]), self.node("SequenceAt", ["q", "i"], ["a"]), self.node("SequenceInsert", ["u", "a"], ["v"]),
                 self.node("SequenceLength", ["v"], ["l"]), self.node("SequenceInsert", ["v", "a", "l"], ["t"])]
        start = self.node("SplitToSequence", ["x", "one"], ["q"], axis=0)
        join = self.node("ConcatFromSequence", ["p"], ["y"], axis=0)
        for nodes in (body, front, erase):
            model = self.save([start, self.loop(*nodes, state=(self.sequence("s", 1, None), self.sequence("t", 1, None), "q", "p")), join],
                              [self.value("x", [3]), self.value("n", [], "INT64")], [self.value("y", None)], {"one": 1, "last": -1})
            self.compare(model, [{"x": self.floats(3), "n": self.np.array(n)} for n in (0, 3)])
        read = self.loop(self.node("SequenceAt", ["q", "i"], ["e"]), self.node("Add", ["s", "e"], ["t"]),
                         state=(self.value("s", [1]), self.value("t", [1]), "x", "y"))
        model = self.save([start, read], [self.value("x", [1]), self.value("n", [], "INT64")], [self.value("y", None)], {"one": 1})
        self.fails(model, "the index of a sequence is out of bounds: the greatest one and the index: 0 is below 1", {"x": self.floats(1), "n": self.np.array(3)})


if __name__ == "__main__":
    unittest.main()
