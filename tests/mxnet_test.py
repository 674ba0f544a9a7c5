"""MXNet and NNVM graphs: equal to what MXNet computed (mxnet/make.py) at each level; files of weights in each form; errors
that say what is wrong."""

import importlib.util
import json
import os
import sys
import tempfile
import zlib

import numpy as np

import in_process
import relayvm

HERE = os.path.join(relayvm.ROOT, "tests", "mxnet")
SPEC = importlib.util.spec_from_file_location("mxnet_weights", os.path.join(HERE, "weights.py"))
weights = importlib.util.module_from_spec(SPEC)
sys.modules[SPEC.name] = weights
SPEC.loader.exec_module(weights)

LEVELS = (["-O0"], ["-O2"], ["--target", "portable"])


def models(path):
    """{name: (graph, weights, inputs, results)} of a file that make.py wrote."""
    stored = np.load(os.path.join(HERE, path))
    found = {}
    for name in (key[:-len(".model")] for key in stored.files if key.endswith(".model")):
        model = json.loads(zlib.decompress(stored[f"{name}.model"].tobytes()))
        inputs = {key[len(name) + 4:]: stored[key] for key in stored.files if key.startswith(f"{name}.in.")}
        if "image" in inputs:
            inputs["image"] = weights.image(int(inputs["image"]))
        count = sum(key.startswith(f"{name}.out.") for key in stored.files)
        labels = {key for key in model["shapes"] if "label" in key}
        found[name] = (model["graph"], {key: weights.draw(key, shape) for key, shape in model["shapes"].items() if key not in labels},
                       inputs, [stored[f"{name}.out.{i}"] for i in range(count)])
    return found


def graph(*nodes, heads=None):
    """The JSON of a graph of (op, name, inputs, attributes); an input is the name of a node, or that and an output."""
    numbers = {name: i for i, (_, name, _, _) in enumerate(nodes)}
    entry = lambda given: [numbers[given], 0, 0] if isinstance(given, str) else [numbers[given[0]], given[1], 0]
    return json.dumps({"nodes": [{"op": op, "name": name, "inputs": [entry(given) for given in inputs], **({"attrs": attrs} if attrs else {})} for op, name, inputs, attrs in nodes],
                       "arg_nodes": [i for i, node in enumerate(nodes) if node[0] == "null"], "heads": [entry(head) for head in heads or [nodes[-1][1]]]})


def var(name, **attrs):
    return ("null", name, [], attrs)


class Models(relayvm.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.place = folder.name

    def save(self, text, params=None, name="model"):
        path = os.path.join(self.place, f"{name}-symbol.json")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        if params is not None:
            with open(os.path.join(self.place, f"{name}-0000.params"), "wb") as file:
                file.write(params)
        return path

    def outputs(self, path, feeds, *options):
        executable = os.path.join(self.place, "model.rvm")
        relayvm.must(relayvm.COMPILER, "compile", path, "-o", executable, *options)
        got = in_process.load(executable)["main"](*feeds)
        return [np.asarray(part) for part in (got if isinstance(got, tuple) else (got,))]

    def check(self, text, params, inputs, expected, levels=LEVELS, near=1e-4, options=()):
        """`inputs`: in the order of the graph's variables."""
        path = self.save(text, params)
        order = [node["name"] for node in json.loads(text)["nodes"] if node["op"] == "null" and node["name"] in inputs]
        shapes = [option for name in order for option in ("--shape", f"{name}={','.join(map(str, np.shape(inputs[name])))}")]
        for level in levels:
            got = self.outputs(path, [inputs[name] for name in order], *shapes, *level, *options)
            self.assertEqual(len(got), len(expected))
            for i, (a, b) in enumerate(zip(got, expected)):
                with self.subTest(level=level, output=i):
                    self.assertEqual((a.shape, a.dtype), (b.shape, b.dtype))
                    np.testing.assert_allclose(a, b, rtol=near, atol=near * max(1, np.abs(b).max(initial=0)))

    def fails(self, text, message, *options, params=None):
        done = relayvm.run(relayvm.COMPILER, "check", self.save(text, params), *options)
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn(message, done.stderr)
        return done.stderr


class Fixtures(Models):
    def test_operators(self):
        for name, (text, drawn, inputs, expected) in models("operators.npz").items():
            with self.subTest(name):
                self.check(text, weights.params(drawn), inputs, expected)

    def test_networks(self):
        for name, (text, drawn, inputs, expected) in models("networks.npz").items():
            with self.subTest(name):
                self.check(text, weights.params({f"arg:{key}": value for key, value in drawn.items()}), inputs, expected, (["-O2"],))

    def test_named_extents(self):
        text, drawn, inputs, expected = models("operators.npz")["language"]
        path = self.save(text, weights.params(drawn))
        got = self.outputs(path, inputs.values(), "--shape", "data=batch,steps")
        np.testing.assert_allclose(got[0], expected[0], rtol=1e-4, atol=1e-4)


class Nnvm(Models):
    def test_network(self):
        random = np.random.RandomState(2)
        x, w, v = (random.standard_normal(shape).astype("float32") for shape in ((1, 3, 8, 8), (4, 3, 3, 3), (5, 36)))
        scale = {name: random.uniform(.5, 1.5, 4).astype("float32") for name in ("gamma", "beta", "mean", "var")}
        text = graph(var("data"), var("w"), var("gamma"), var("beta"), var("mean"), var("var"), var("v"),
                     ("conv2d", "conv", ["data", "w"], {"channels": "4", "kernel_size": "[3, 3]", "strides": "(1, 1)", "padding": "(0, 0)", "use_bias": "False"}),
                     ("batch_norm", "norm", ["conv", "gamma", "beta", "mean", "var"], {"epsilon": "1e-3"}), ("relu", "relu", ["norm"], {}),
                     ("max_pool2d", "pool", ["relu"], {"pool_size": "(2, 2)", "strides": "(2, 2)"}), ("flatten", "flat", ["pool"], {}),
                     ("dense", "dense", ["flat", "v"], {"units": "5", "use_bias": "False"}), ("__mul_scalar__", "twice", ["dense"], {"scalar": "2.0"}), ("softmax", "softmax", ["twice"], {}))
        places = np.lib.stride_tricks.sliding_window_view(x, (3, 3), (2, 3))
        y = np.einsum("bcpquv,ocuv->bopq", places, w)
        around = lambda name: scale[name].reshape(-1, 1, 1)
        y = (y - around("mean")) / np.sqrt(around("var") + 1e-3) * around("gamma") + around("beta")
        y = np.maximum(y, 0).reshape(1, 4, 3, 2, 3, 2).max((3, 5)).reshape(1, 36) @ v.T * 2
        expected = np.exp(y - y.max()) / np.exp(y - y.max()).sum()
        self.check(text, weights.nnvm_params({"w": w, "v": v, **scale}), {"data": x}, [expected])

    def test_operators(self):
        x = np.arange(24, dtype="float32").reshape(2, 3, 4)
        cases = {"split": ({"indices_or_sections": "(1, 2)", "axis": "1"}, [x[:, :1], x[:, 1:2], x[:, 2:]]), "leaky_relu": ({"alpha": "0.5"}, [x]),
                 "transpose": ({"axes": "(2, 0, 1)"}, [x.transpose(2, 0, 1)]), "expand_dims": ({"axis": "1", "num_newaxis": "2"}, [x[:, None, None]]),
                 "strided_slice": ({"begin": "(0, 1)", "end": "(2, 3)"}, [x[:, 1:3]]), "pad": ({"pad_width": "((0, 0), (1, 0), (0, 2))", "pad_value": "5"}, [np.pad(x, ((0, 0), (1, 0), (0, 2)), constant_values=5)]),
                 "__rsub_scalar__": ({"scalar": "1"}, [1 - x]), "sum": ({"axis": "(1,)", "keepdims": "1"}, [x.sum(1, keepdims=True)])}
        nodes = [(op, op, ["x"], attrs) for op, (attrs, _) in cases.items()]
        heads = [(op, i) for op, (_, results) in cases.items() for i in range(len(results))]
        self.check(graph(var("x"), *nodes, heads=heads), None, {"x": x}, [result for _, results in cases.values() for result in results])


class Doors(Models):
    def setUp(self):
        super().setUp()
        self.text, drawn, self.inputs, self.expected = models("operators.npz")["mlp"]
        self.drawn = drawn
        self.path = self.save(self.text, weights.params(drawn))
        self.shape = ("--shape", "data=n,7")

    def close(self, got):
        np.testing.assert_allclose(got[0], self.expected[0], rtol=1e-4, atol=1e-5)

    def test_forms_of_weights(self):
        self.drawn["unused"] = np.arange(3, dtype="int64")
        for params in (*(weights.params(self.drawn, form) for form in (2, 1, 0)), weights.nnvm_params(self.drawn)):
            path = self.save(self.text, params)
            self.close(self.outputs(path, self.inputs.values(), *self.shape))

    def test_weights_elsewhere(self):
        other = os.path.join(self.place, "model-0012.params")
        os.rename(os.path.join(self.place, "model-0000.params"), other)
        self.close(self.outputs(self.path, self.inputs.values(), *self.shape, "--params", other))
        shown = self.fails(self.text, "an input: it has neither a value, for want of a file of weights, nor a shape", *self.shape)
        self.assertIn("`fc1_weight`, `fc1_bias`, `fc2_weight`", shown)

    def test_import(self):
        program = os.path.join(self.place, "model.relay")
        relayvm.must(relayvm.COMPILER, "import", self.path, "-o", program, *self.shape)
        text = open(program, encoding="utf-8").read()
        self.assertIn("FullyConnected node `fc1` of", text)
        self.assertIn('result_names=["softmax"]', text)
        self.close(self.outputs(program, self.inputs.values()))

    def test_inputs(self):
        types = relayvm.must(relayvm.COMPILER, "check", self.path, "--types", *self.shape)
        self.assertIn("@main: fn [n: ShapeVar](Tensor[(n, 7), float32]) -> Tensor[(n, 4), float32]", types)
        np.save(os.path.join(self.place, "x.npy"), self.inputs["data"])
        types = relayvm.must(relayvm.COMPILER, "check", self.path, "--types", "--freeze", f"data=@{self.place}/x.npy")
        self.assertIn("@main: fn () -> Tensor[(3, 4), float32]", types)
        text = graph(var("x", __shape__="(0, 4)", __dtype__="4"), ("_plus_scalar", "y", ["x"], {"scalar": "1"}))
        self.assertIn("Tensor[(?, 4), int32]", relayvm.must(relayvm.COMPILER, "check", self.save(text), "--types"))
        self.fails(self.text, "the model has no input `dat`", "--shape", "dat=1,2", params=weights.params(self.drawn))

    def test_names_of_files(self):
        path = os.path.join(self.place, "plain.json")
        os.rename(self.path, path)
        done = relayvm.run(relayvm.COMPILER, "check", path)
        self.assertNotEqual(done.returncode, 0)  # a saved program, which it is not


class Values(Models):
    """Elements where a plain formula goes wrong."""

    def value(self, inputs, *nodes):
        variables = [var(name, __shape__=str(x.shape), __dtype__=str({"float32": 0, "uint8": 3}[str(x.dtype)])) for name, x in inputs.items()]
        return self.outputs(self.save(graph(*variables, *nodes)), inputs.values())[0]

    def test_rounding(self):
        x = np.array([8388609, 8388611, 0.5, 1.5, -0.5, -2.5], "float32")
        np.testing.assert_array_equal(self.value({"x": x}, ("rint", "y", ["x"], {})), [8388609, 8388611, 0, 1, -1, -3])

    def test_small_sums(self):
        x = np.array([-20, -1, 0, 90], "float32")
        np.testing.assert_allclose(self.value({"x": x}, ("Activation", "y", ["x"], {"act_type": "softrelu"})), np.logaddexp(0, x.astype("float64")), rtol=1e-6)

    def test_remainders_by_zero(self):
        x, y = np.array([5, -5, 5, 0], "float32"), np.array([0, 0, 3, 0], "float32")
        np.testing.assert_array_equal(self.value({"x": x, "y": y}, ("broadcast_mod", "r", ["x", "y"], {})), [0, 0, 2, 0])
        np.testing.assert_array_equal(self.value({"x": x}, ("_mod_scalar", "r", ["x"], {"scalar": "0"})), np.zeros(4))
        bytes_ = np.array([7, 0], "uint8")
        np.testing.assert_array_equal(self.value({"x": bytes_, "y": bytes_[::-1].copy()}, ("_mod", "r", ["x", "y"], {})), [0, 0])

    def test_indices_of_bytes(self):
        x, i = np.arange(600, dtype="float32").reshape(2, 300), np.array([200, 3], "uint8")
        np.testing.assert_array_equal(self.value({"x": x, "i": i}, ("pick", "y", ["x", "i"], {"axis": "1"})), [200, 303])

    def test_parts_of_an_unknown_extent(self):
        path = self.save(graph(var("x", __shape__="(0, 2)"), ("SliceChannel", "y", ["x"], {"axis": "0", "num_outputs": "2"}), heads=[("y", 0), ("y", 1)]))
        x = np.arange(12, dtype="float32").reshape(6, 2)
        np.testing.assert_array_equal(np.concatenate(self.outputs(path, [x])), x)
        with self.assertRaisesRegex(Exception, "split|parts|extent"):
            self.outputs(path, [x[:5]])


class Mistakes(Models):
    X = ("null", "x", [], {"__shape__": "(2, 3, 4, 4)"})

    def test_graphs(self):
        for text, message in (
                ("", "byte 0"), ("[]", "saw no arrays `nodes` and `heads`"), ('{"nodes": 1, "heads": []}', "saw no arrays"), ('{"nodes": [], "heads": []}', "`heads`: expected at least one result"),
                ('{"nodes": [], "heads": [[0, 0]]}', "a head: expected a node before it; there is none"), ('{"nodes": [{"op": 3, "name": "x"}], "heads": []}', "node 0: expected its operator as a string"),
                ('{"nodes": [{"op": "null", "name": "x", "inputs": [[0, 0, 0]]}], "heads": []}', "an input of node 0: expected a node before it; there is none"),
                ('{"nodes": [{"op": "null", "name": "x", "attrs": {"a": 1}}], "heads": [[0, 0]]}', "node 0: expected a string as `a`")):
            with self.subTest(text):
                self.fails(text, message)

    def test_nodes(self):
        for op, attrs, message in (
                ("Activation", {"act_type": "sine"}, "the activation `sine`"), ("Convolution", {}, "input 1 is missing"), ("Pooling", {"kernel": "(0, 2)"}, "`kernel` has 0"),
                ("Pooling", {"kernel": "(2, 2, 2)"}, "its windows have 3 axes; its input has 2 of space"), ("Pooling", {"kernel": "(2, x)"}, "`kernel`: saw `(2, x)`; expected integers"),
                ("Reshape", {"shape": "(0, 0, 0, 0, 0)"}, "more extents than its input has, 4"), ("Reshape", {"shape": "(-5,)"}, "its shape has -5"), ("SliceChannel", {"num_outputs": "2"}, "an extent of 3 is not 2 equal parts"),
                ("sum", {"axis": "7"}, "axis 7 is none of a tensor of rank 4"), ("clip", {"a_min": "low"}, "`a_min`: saw `low`; expected a number"), ("topk", {"ret_typ": "mask"}, "`ret_typ=mask`"),
                ("Cast", {"dtype": "float31"}, "`dtype`: saw `float31`"), ("RNN", {"mode": "lstm", "state_size": "4", "num_layers": "1"}, "its input has not rank 3"),
                ("Dropout", {"mode": "always"}, "`mode=always`"), ("BatchNorm", {"output_mean_var": "True"}, "`output_mean_var`"), ("slice", {"begin": "(0, 0)", "end": "(1,)"}, "it has 2 begins and 1 ends")):
            with self.subTest(op, attrs=attrs):
                self.fails(graph(self.X, (op, "y", ["x"], attrs)), message)

    def test_all_refusals(self):
        shown = self.fails(graph(self.X, ("_foreach", "a", ["x"], {}), ("SpatialTransformer", "b", ["x"], {}), ("elemwise_add", "c", [("a", 3), "b"], {})), "_foreach: this operator is not supported (`a`)")
        self.assertIn("SpatialTransformer: this operator is not supported (`b`)", shown)
        self.fails(graph(self.X, ("relu", "a", ["x"], {}), ("relu", "b", [("a", 1)], {})), "it reads output 1 of `a`, which has not as many")
        self.fails(graph(self.X, ("relu", "a", ["x"], {}), heads=[("a", 2)]), "its node has no output 2")

    def test_inputs_of_vectors(self):
        inputs = var("x", __shape__="(3,)"), var("y", __shape__="(3,)")
        self.fails(graph(*inputs, ("_rnn_param_concat", "z", ["x", ("y", 1)], {"dim": "0"})), "input 1 is missing")
        inputs = var("x", __shape__="(1, 1, 576460752303423488)"), var("w", __shape__="(4,)"), var("s", __shape__="(1, 1, 16)")
        self.fails(graph(*inputs, ("RNN", "z", ["x", "w", "s"], {"mode": "rnn_tanh", "state_size": "16", "num_layers": "1"})), "its input has 576460752303423488 numbers; expected at most 16777216")

    def test_files_of_weights(self):
        text = graph(var("data", __shape__="(1, 4)"), var("w"), ("elemwise_add", "y", ["data", "w"], {}))
        whole = weights.params({"w": np.ones((1, 4), "float32")})
        for params, message in ((b"x", "is no list of arrays"), (whole[:30], "the file ends in it"), (whole[:-3], "the file of weights ends in a name"), (whole[:24] + b"\xff" * 4 + whole[28:], "its rank is 4294967295"),
                                (whole[:44] + b"\xff" * 8 + whole[52:], "its shape is"), (weights.params({}) [:20], "expected as many names")):
            with self.subTest(message):
                self.fails(text, message, params=params)

    def test_damaged_files(self):
        text, drawn, _, _ = models("operators.npz")["mlp"]
        params = weights.params(drawn)
        for end in range(0, len(params), 97):
            done = relayvm.run(relayvm.COMPILER, "check", self.save(text, params[:end]), "--shape", "data=1,7")
            self.assertEqual(done.returncode, 1)
