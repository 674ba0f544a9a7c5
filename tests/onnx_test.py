"""The ONNX backend suite (onnx 1.22): every case is equal or stands in tests/onnx_cases.tsv with its reason.

`UPDATE_GOLDENS=1 .venv/bin/python tests/run_python_tests.py onnx` rewrites the table; read the difference.
`./run test --long` also runs machine code; the quick run takes recipes.
"""

import glob
import os
import subprocess
import tempfile
import unittest

import relayvm

TABLE = os.path.join(relayvm.ROOT, "tests/onnx_cases.tsv")
GROUPS = ("node", "simple", "pytorch-converted", "pytorch-operator")
CORPUS = os.path.join(relayvm.ROOT, "tests/fuzz/corpus/onnx")
HEAD = """# Cases of the ONNX backend suite that are not equal: where, the case, what came of it, why.
# `known`: extents as the models have them, parameters frozen; `unknown`: the same with every extent `?`.
"""


def suite():
    """The folder of the suite's cases, or None where onnx is not installed."""
    try:
        import onnx  # pylint: disable=import-outside-toplevel
    except ImportError:
        return None
    return os.path.join(os.path.dirname(onnx.__file__), "backend/test/data")


def folders(groups=GROUPS):
    return [folder for group in groups for folder in sorted(glob.glob(os.path.join(suite(), group, "*")))]


def outcomes(cases, *options):
    """{name: (word, why)}; a crash is an outcome of the case that it happened in."""
    found = {}
    while len(found) < len(cases):
        rest = cases[len(found):]
        done = subprocess.run([relayvm.built("//tests:run_onnx_cases"), *options], input="\n".join(rest) + "\n",
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=3600, check=False)
        for line in done.stdout.splitlines():
            name, word, why = line.split("\t")
            found[name] = (word, why)
        if len(found) < len(cases) and done.returncode != 0:
            found[os.path.basename(cases[len(found)])] = ("crash", done.stderr.strip().replace("\n", " ")[-200:])
    return found


def is_equal(outcome):
    return outcome[0] in ("equal", "frozen")


def read_table():
    rows = {}
    with open(TABLE, encoding="utf-8") as file:
        for line in file:
            if not line.startswith("#"):
                where, name, word, why = line.rstrip("\n").split("\t")
                rows[where, name] = (word, why)
    return rows


@unittest.skipIf(suite() is None, "the Python package onnx is not installed")
class Suite(relayvm.TestCase):
    def compare(self, where, found):
        if os.environ.get("UPDATE_GOLDENS"):
            self.rewrite(where, found)
        rows = read_table()
        wrong = [f"{name}: {' '.join(outcome)}; the table does not list it" for name, outcome in found.items()
                 if not is_equal(outcome) and (where, name) not in rows]
        wrong += [f"{name}: equal, but the table lists it" for name, outcome in found.items()
                  if is_equal(outcome) and (where, name) in rows]
        wrong += [f"{name}: the table lists it, and there is no such case" for at, name in rows
                  if at == where and name not in found]
        self.assert_none(wrong)

    def rewrite(self, where, found):
        rows = {key: row for key, row in read_table().items() if key[0] != where} if os.path.exists(TABLE) else {}
        for name, outcome in found.items():
            if not is_equal(outcome):
                rows[where, name] = (outcome[0], outcome[1].split(" (")[0][:110])
        with open(TABLE, "w", encoding="utf-8") as file:
            file.write(HEAD)
            for (at, name), row in sorted(rows.items()):
                file.write("\t".join([at, name, *row]) + "\n")

    def test_cases(self):
        found = outcomes(folders())
        self.compare("known", found)
        nodes = {os.path.basename(folder) for folder in folders(("node",))}
        equal = sum(is_equal(outcome) for name, outcome in found.items() if name in nodes)
        self.assertGreaterEqual(equal, 1572, "node cases that are equal")

    def test_unknown_extents(self):
        found = outcomes(folders(("node",)), "--unknown")
        self.compare("unknown", found)
        self.assertGreaterEqual(sum(map(is_equal, found.values())), 1530)

    @unittest.skipUnless(os.environ.get("RELAYVM_SOAK"), "only with --long")
    def test_machine_code(self):
        self.compare("known", outcomes(folders(), "--target", "host"))


def has_runtime():
    try:
        import numpy, onnx, onnxruntime  # noqa: F401 pylint: disable=import-outside-toplevel,unused-import,multiple-imports
    except ImportError:
        return False
    return True


@unittest.skipUnless(has_runtime(), "the Python packages onnx and onnxruntime are not installed")
class AgainstRuntime(relayvm.TestCase):
    """Networks with symbolic extents at several of them, beside ONNX Runtime."""

    def compare(self, nodes, inputs, weights, feeds, opset=17):
        import numpy as np  # pylint: disable=import-outside-toplevel
        import onnx  # pylint: disable=import-outside-toplevel
        import onnxruntime  # pylint: disable=import-outside-toplevel
        graph = onnx.helper.make_graph(
            nodes, "graph", inputs, [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)],
            [onnx.numpy_helper.from_array(value, name) for name, value in weights.items()])
        domains = [onnx.helper.make_opsetid("", opset), onnx.helper.make_opsetid("com.microsoft", 1)]
        with tempfile.TemporaryDirectory() as folder:
            model = os.path.join(folder, "model.onnx")
            onnx.save(onnx.helper.make_model(graph, opset_imports=domains, ir_version=9), model)
            executable = os.path.join(folder, "model.rvm")
            relayvm.must(relayvm.COMPILER, "compile", model, "-o", executable)
            session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
            for feed in feeds:
                args = []
                for info in inputs:
                    args.append("@" + os.path.join(folder, info.name + ".npy"))
                    np.save(args[-1][1:], feed[info.name])
                out = os.path.join(folder, "y.npy")
                relayvm.must(relayvm.RUNTIME, executable, *args, "--out", out)
                np.testing.assert_allclose(np.load(out), session.run(None, feed)[0], rtol=1e-3, atol=1e-3)

    def recurrent(self, kind, gates, **attributes):
        import numpy as np  # pylint: disable=import-outside-toplevel
        from onnx import TensorProto, helper  # pylint: disable=import-outside-toplevel
        random = np.random.default_rng(7)
        normal = lambda *shape: (random.standard_normal(shape) * 0.3).astype(np.float32)  # noqa: E731
        both = 2 if attributes.get("direction") == "bidirectional" else 1
        node = helper.make_node(kind, ["x", "w", "r", "b", "lengths"], ["y"], hidden_size=6, **attributes)
        inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["steps", "batch", 8]),
                  helper.make_tensor_value_info("lengths", TensorProto.INT32, ["batch"])]
        weights = {"w": normal(both, gates * 6, 8), "r": normal(both, gates * 6, 6), "b": normal(both, 2 * gates * 6)}
        self.compare([node], inputs, weights,
                     [{"x": normal(5, 2, 8), "lengths": np.array([5, 3], np.int32)},
                      {"x": normal(7, 3, 8), "lengths": np.array([7, 1, 4], np.int32)},
                      {"x": normal(1, 1, 8), "lengths": np.array([1], np.int32)}])

    def test_recurrent(self):
        self.recurrent("LSTM", 4, direction="bidirectional")
        self.recurrent("GRU", 3, direction="reverse", linear_before_reset=1)
        self.recurrent("RNN", 1, activations=["Relu"])

    def test_deformed_convolution(self):
        import numpy as np  # pylint: disable=import-outside-toplevel
        from onnx import TensorProto, helper  # pylint: disable=import-outside-toplevel
        random = np.random.default_rng(7)
        normal = lambda *shape: random.standard_normal(shape).astype(np.float32)  # noqa: E731
        for kernel in (["filters", 2, 3, 2], ["filters", 2, "kh", "kw"]):
            for names in (["x", "w", "offset", "b"], ["x", "w", "offset", "b", "mask"]):
                node = helper.make_node("DeformConv", names, ["y"], group=2, offset_group=2, strides=[2, 1],
                                        dilations=[1, 2], pads=[1, 0, 2, 1])
                shapes = {"x": ["n", 4, "h", "w"], "w": kernel, "offset": ["n", "offsets", "p", "q"], "mask": ["n", "taps", "p", "q"]}
                inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shapes[name]) for name in names if name != "b"]
                feeds = [{"x": normal(n, 4, h, w), "w": normal(6, 2, 3, 2), "offset": normal(n, 24, p, q) * 2, "mask": normal(n, 12, p, q)}
                         for n, h, w, p, q in ((1, 5, 6, 3, 5), (2, 8, 3, 5, 2))]
                self.compare([node], inputs, {"b": normal(6)},
                             [{key: value for key, value in feed.items() if key in names} for feed in feeds], opset=19)

    def test_square_matrices(self):
        import numpy as np  # pylint: disable=import-outside-toplevel
        from onnx import TensorProto, helper  # pylint: disable=import-outside-toplevel
        random = np.random.default_rng(7)
        for extents in (["n", "n"], ["batch", 9, 9], ["batch", 3, 3], ["batch", "n", "n"]):
            inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, extents)]
            feeds = []
            for sizes in ({"batch": 2, "n": 5}, {"batch": 1, "n": 1}):
                x = random.standard_normal([sizes.get(extent, extent) for extent in extents])
                feeds.append({"x": (x / 3 + np.eye(x.shape[-1])).astype(np.float32)})
            self.compare([helper.make_node("Det", ["x"], ["y"])], inputs, {}, feeds, opset=22)
            self.compare([helper.make_node("Inverse", ["x"], ["y"], domain="com.microsoft")], inputs, {}, feeds)

    def test_quantised_recurrent(self):
        import numpy as np  # pylint: disable=import-outside-toplevel
        from onnx import TensorProto, helper  # pylint: disable=import-outside-toplevel
        random = np.random.default_rng(7)
        node = helper.make_node("DynamicQuantizeLSTM",
                                ["x", "w", "r", "", "", "", "", "", "w_scale", "zero", "r_scale", "zero"], ["y"],
                                domain="com.microsoft", hidden_size=6)
        # 7 bits: on CPUs without VNNI, ONNX Runtime adds pairs of products in 16 bits, which saturate from 8-bit weights.
        weights = {"w": random.integers(-63, 64, (1, 8, 24), np.int8), "r": random.integers(-63, 64, (1, 6, 24), np.int8),
                   "w_scale": np.array([0.005], np.float32), "r_scale": np.array([0.004], np.float32),
                   "zero": np.array([0], np.int8)}
        inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["steps", "batch", 8])]
        self.compare([node], inputs, weights,
                     [{"x": random.standard_normal(shape).astype(np.float32)} for shape in ((5, 2, 8), (3, 1, 8))])
        # Both directions, with a scale for each and for each column.
        node.attribute.append(helper.make_attribute("direction", "bidirectional"))
        for columns in ((), (24,)):
            weights = {"w": random.integers(-63, 64, (2, 8, 24), np.int8),
                       "r": random.integers(-63, 64, (2, 6, 24), np.int8),
                       "w_scale": (random.random((2, *columns)) / 100).astype(np.float32),
                       "r_scale": (random.random((2, *columns)) / 100).astype(np.float32),
                       "zero": np.zeros((2, *columns), np.int8)}
            self.compare([node], inputs, weights, [{"x": random.standard_normal((5, 2, 8)).astype(np.float32)}])


@unittest.skipUnless(has_runtime(), "the Python packages onnx and onnxruntime are not installed")
class RandomNumbers(relayvm.TestCase):
    """What nodes draw depends on the model's argument `seed`, or on their own."""

    def save(self, *nodes):
        from onnx import TensorProto, helper, save  # pylint: disable=import-outside-toplevel
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["rows", 3])]
        graph = helper.make_graph(list(nodes), "graph", inputs, [helper.make_tensor_value_info("y", TensorProto.UNDEFINED, None)])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
        model.graph.output[0].ClearField("type")
        path = os.path.join(folder.name, "model.onnx")
        save(model, path)
        return path

    def draw(self, node, x, *seed, before=()):
        import numpy as np  # pylint: disable=import-outside-toplevel
        model = self.save(*before, node)
        folder = os.path.dirname(model)
        np.save(f"{folder}/x.npy", np.asarray(x, np.float32))
        relayvm.must(relayvm.COMPILER, "run", model, f"@{folder}/x.npy", *seed, "--out", f"{folder}/y.npy")
        return np.load(f"{folder}/y.npy")

    def test_distributions(self):
        import numpy as np  # pylint: disable=import-outside-toplevel
        from onnx import TensorProto, helper  # pylint: disable=import-outside-toplevel
        zeros = np.zeros((4000, 3))
        normal = self.draw(helper.make_node("RandomNormalLike", ["x"], ["y"], mean=2.0, scale=3.0), zeros, 1)
        self.assertEqual(normal.shape, (4000, 3))
        self.assertLess(abs(normal.mean() - 2), 0.15)
        self.assertLess(abs(normal.std() - 3), 0.15)
        uniform = self.draw(helper.make_node("RandomUniformLike", ["x"], ["y"], low=-1.0, high=3.0, dtype=TensorProto.DOUBLE), zeros, 1)
        self.assertEqual(uniform.dtype, np.float64)
        self.assertTrue(uniform.min() >= -1 and uniform.max() < 3 and abs(uniform.mean() - 1) < 0.1)
        kept = self.draw(helper.make_node("Bernoulli", ["x"], ["y"], dtype=TensorProto.INT64), zeros + [0, 0.25, 1], 1)
        np.testing.assert_allclose(kept.mean(axis=0), [0, 0.25, 1], atol=0.03)
        samples = self.draw(helper.make_node("Multinomial", ["x"], ["y"], sample_size=5000), np.log([[0.2, 0.5, 0.3]]), 1)
        self.assertEqual(samples.dtype, np.int32)
        np.testing.assert_allclose([(samples == k).mean() for k in range(3)], [0.2, 0.5, 0.3], atol=0.03)
        fixed = self.draw(helper.make_node("RandomNormal", [], ["y"], shape=[50, 40], dtype=TensorProto.FLOAT16, seed=3.0), zeros)
        self.assertEqual((fixed.shape, fixed.dtype), ((50, 40), np.float16))

    def test_dropout_while_training(self):
        import numpy as np  # pylint: disable=import-outside-toplevel
        from onnx import TensorProto, helper  # pylint: disable=import-outside-toplevel
        x = np.arange(1, 12001).reshape(4000, 3)
        trains = helper.make_node("Constant", [], ["t"], value=helper.make_tensor("t", TensorProto.BOOL, [], [True]))
        ratio = helper.make_node("Constant", [], ["r"], value=helper.make_tensor("r", TensorProto.FLOAT, [], [0.75]))
        dropped = self.draw(helper.make_node("Dropout", ["x", "r", "t"], ["y"]), x, 1, before=[trains, ratio])
        kept = dropped != 0
        self.assertLess(abs(kept.mean() - 0.25), 0.03)
        np.testing.assert_array_equal(dropped[kept], x[kept] * 4)
        half = self.draw(helper.make_node("Dropout", ["x", "", "t"], ["", "y"], seed=3), x, before=[trains])
        self.assertEqual(half.dtype, np.bool_)
        self.assertLess(abs(half.mean() - 0.5), 0.03)
        evaluated = self.draw(helper.make_node("Dropout", ["x", "r"], ["y"]), x, before=[ratio])
        np.testing.assert_array_equal(evaluated, x)

    def test_seeds(self):
        import numpy as np  # pylint: disable=import-outside-toplevel
        from onnx import helper  # pylint: disable=import-outside-toplevel
        node = helper.make_node("RandomNormalLike", ["x"], ["y"])
        first, again, other = (self.draw(node, np.zeros((2, 3)), seed) for seed in (1, 1, 2))
        np.testing.assert_array_equal(first, again)
        self.assertFalse(np.any(first == other))
        seeded = [self.draw(helper.make_node("RandomUniform", [], ["y"], shape=[4], seed=seed), [[0, 0, 0]]) for seed in (1.0, 1.0, 2.0)]
        np.testing.assert_array_equal(seeded[0], seeded[1])
        self.assertFalse(np.any(seeded[0] == seeded[2]))
        two = [helper.make_node("RandomUniformLike", ["x"], [name]) for name in "ab"]
        model = self.save(*two, helper.make_node("Sub", ["a", "b"], ["y"]))
        self.assertNotIn("[[0f, 0f, 0f]]", relayvm.must(relayvm.COMPILER, "run", model, "[[0, 0, 0]]", 5))

    def test_in_a_loop_they_are_refused(self):
        from onnx import TensorProto, helper  # pylint: disable=import-outside-toplevel
        value = helper.make_tensor_value_info
        body = helper.make_graph(
            [helper.make_node("RandomUniformLike", ["s"], ["t"]), helper.make_node("Identity", ["c"], ["d"])], "body",
            [value("i", TensorProto.INT64, []), value("c", TensorProto.BOOL, []), value("s", TensorProto.FLOAT, [1, 3])],
            [value("d", TensorProto.BOOL, []), value("t", TensorProto.FLOAT, [1, 3])])
        count = helper.make_node("Constant", [], ["n"], value_int=3)
        model = self.save(count, helper.make_node("Loop", ["n", "", "x"], ["y"], body=body))
        self.assertIn("random numbers inside of a subgraph", relayvm.run(relayvm.COMPILER, "check", model).stderr)


class Tools(relayvm.TestCase):
    """`relayvm import`, and .onnx files where the other verbs take programs."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.model = os.path.join(folder.name, "model.onnx")
        with open(os.path.join(CORPUS, "mlp"), "rb") as source, open(self.model, "wb") as target:
            target.write(source.read())
        self.place = folder.name

    def test_import_and_run(self):
        value = relayvm.must(relayvm.COMPILER, "run", self.model, "[[1.0, 2.0, 3.0]]")
        self.assertEqual(value, "[[7f, 8f]]\n")
        program = os.path.join(self.place, "program.relay")
        relayvm.must(relayvm.COMPILER, "import", self.model, "-o", program)
        self.assertEqual(relayvm.must(relayvm.COMPILER, "run", program, "[[1.0, 2.0, 3.0]]"), value)
        executable = os.path.join(self.place, "model.rvm")
        relayvm.must(relayvm.COMPILER, "import", self.model, "-o", executable)
        self.assertEqual(relayvm.must(relayvm.RUNTIME, executable, "[[1.0, 2.0, 3.0]]"), value)

    def test_shape_and_freeze(self):
        types = relayvm.must(relayvm.COMPILER, "check", self.model, "--types", "--shape", "x=4,3")
        self.assertIn("@main: fn (Tensor[(4, 3), float32]) -> Tensor[(4, 2), float32]", types)
        types = relayvm.must(relayvm.COMPILER, "check", self.model, "--types", "--shape", "x=rows,3")
        self.assertIn("Tensor[(rows, 3), float32]", types)
        done = relayvm.run(relayvm.COMPILER, "check", self.model, "--freeze", "y=3")
        self.assertIn("the model has no input `y` to freeze", done.stderr)

    def test_extents_named_like_words_of_the_language(self):
        program, weights = (os.path.join(self.place, name) for name in ("program.relay", "program.safetensors"))
        for name in ("float32", "int8", "type", "List", "extern", "import"):
            types = relayvm.must(relayvm.COMPILER, "check", self.model, "--types", "--shape", f"x={name},3")
            self.assertIn(f"Tensor[({name}_, 3), float32]", types)
            relayvm.must(relayvm.COMPILER, "import", self.model, "--shape", f"x={name},3", "-o", program)
            options = ["--params", weights] if os.path.exists(weights) else []
            self.assertEqual(relayvm.must(relayvm.COMPILER, "run", program, "[[1.0, 2.0, 3.0]]", *options), "[[7f, 8f]]\n")

    @unittest.skipIf(suite() is None, "the Python package onnx is not installed")
    def test_errors_name_the_node(self):
        from onnx import TensorProto, helper  # pylint: disable=import-outside-toplevel
        info = helper.make_tensor_value_info
        body = helper.make_graph([helper.make_node("Add", ["x", "y"], ["inner"], name="sum")], "body", [],
                                 [info("inner", TensorProto.FLOAT, None)])
        other = helper.make_graph([helper.make_node("Identity", ["x"], ["same"])], "other", [],
                                  [info("same", TensorProto.FLOAT, None)])
        graph = helper.make_graph(
            [helper.make_node("If", ["go"], ["z"], then_branch=body, else_branch=other, name="choose")], "graph",
            [info("go", TensorProto.BOOL, []), info("x", TensorProto.FLOAT, [None]),
             info("y", TensorProto.FLOAT, [None])], [info("z", TensorProto.FLOAT, None)])
        with open(self.model, "wb") as file:
            file.write(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]).SerializeToString())
        place = f"in `main` at Add node `sum` in graph `body` of {self.model}"
        done = relayvm.run(relayvm.COMPILER, "run", self.model, "true", "[1.0, 2.0]", "[1.0, 2.0, 3.0]")
        self.assertEqual(done.returncode, 1)
        self.assertIn(place, done.stderr)
        executable = os.path.join(self.place, "model.rvm")
        relayvm.must(relayvm.COMPILER, "compile", self.model, "-o", executable)
        done = relayvm.run(relayvm.RUNTIME, executable, "true", "[1.0, 2.0]", "[1.0, 2.0, 3.0]")
        self.assertIn(place, done.stderr)

    def test_refuses_what_is_no_model(self):
        with open(self.model, "wb") as file:
            file.write(b"\x0a\xff\xff")
        done = relayvm.run(relayvm.COMPILER, "check", self.model)
        self.assertEqual(done.returncode, 1)
        self.assertIn("this is no ONNX model, or it is cut off", done.stderr)

    def test_names_pointers_of_git_lfs(self):
        for name in ("model.onnx", "model.pt2"):
            with open(os.path.join(self.place, name), "w", encoding="utf-8") as file:
                file.write("version https://git-lfs.github.com/spec/v1\noid sha256:0123\nsize 12345\n")
            done = relayvm.run(relayvm.COMPILER, "check", file.name)
            self.assertEqual(done.returncode, 1)
            self.assertIn(f"`{file.name}`: this is a pointer of Git LFS, not the file that it stands for", done.stderr)
