"""TensorFlow's SavedModels and frozen graphs: equal to what TensorFlow computed, and errors that say what is wrong."""

import io
import lzma
import os
import tempfile
import unittest

import numpy as np

import in_process
import relayvm

HERE = os.path.join(relayvm.ROOT, "tests/tensorflow")


def models(file="models"):
    """By name: the files by path, the inputs and the outputs."""
    with lzma.open(os.path.join(HERE, f"{file}.npz.xz")) as file:
        arrays = np.load(io.BytesIO(file.read()))
    found = {}
    for key in arrays.files:
        name, kind, part = key.split("|")
        found.setdefault(name, {"file": {}, "in": {}, "out": {}})[kind][part] = arrays[key]
    return found


def message(*fields):
    """Bytes of a protobuf message of (number, value): an integer, a text, bytes or a list of fields."""
    content = b""

    def varint(value):
        digits = []
        while value > 127:
            digits.append(value & 127 | 128)
            value >>= 7
        return bytes([*digits, value])

    for number, value in fields:
        if isinstance(value, int):
            content += varint(number << 3) + varint(value & (1 << 64) - 1)
            continue
        data = value.encode() if isinstance(value, str) else message(*value) if isinstance(value, list) else value
        content += varint(number << 3 | 2) + varint(len(data)) + data
    return content


def node(name, op, *inputs, **attrs):
    """A NodeDef in a GraphDef. An attribute is a field of an AttrValue."""
    return (1, [(1, name), (2, op), *((3, given) for given in inputs), *((5, [(1, key), (2, [value])]) for key, value in attrs.items())])


def ints(name, values):
    """A constant of int32."""
    array = np.int32(values)
    return node(name, "Const", dtype=INT32, value=(8, [(1, 3), (2, [(2, [(1, extent)]) for extent in array.shape]), (4, array.tobytes())]))


def saved(signatures, *nodes):
    """A SavedModel, whose signatures are an input and an output by name."""
    entries = [(5, [(1, name), (2, [(1, [(1, given), (2, [(1, f"{given}:0")])]), (2, [(1, result), (2, [(1, f"{result}:0")])])])])
               for name, (given, result) in signatures.items()]
    return message((1, 1), (2, [(2, [*nodes]), *entries]))


FLOAT, INT32, SHAPE = (6, 1), (6, 3), (7, [(2, [(1, 2)])])
X = node("x", "Placeholder", dtype=FLOAT, shape=SHAPE)


class Models(relayvm.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.models = {**models(), **models("states"), **models("signatures"), **models("captured"), **models("spectra"), **models("matrices")}

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.place = folder.name

    def unpack(self, name, **changed):
        """The path of a fixture, with other files where they are given."""
        folder = os.path.join(self.place, name)
        for path, content in {**self.models[name]["file"], **changed}.items():
            if content is None:
                continue
            os.makedirs(os.path.dirname(os.path.join(folder, path)), exist_ok=True)
            with open(os.path.join(folder, path), "wb") as file:
                file.write(bytes(content))
        graph = os.path.join(folder, "graph.pb")
        return graph if os.path.exists(graph) else folder

    def equals(self, name, *options):
        path, arrays = self.unpack(name), self.models[name]
        inputs = [arrays["in"][str(k)] for k in range(len(arrays["in"]))]
        relayvm.must(relayvm.COMPILER, "compile", path, "-o", path + ".rvm", *options)
        got = in_process.load(path + ".rvm")["main"](*inputs)
        got = [np.asarray(x) for x in (got if isinstance(got, tuple) else (got,))]
        self.assertEqual(len(got), len(arrays["out"]))
        for number, value in enumerate(got):
            wanted = arrays["out"][str(number)]
            self.assertEqual((value.shape, value.dtype), (wanted.shape, wanted.dtype))
            np.testing.assert_allclose(value, wanted, rtol=1e-4, atol=1e-5)

    def compute(self, path, *inputs, options=()):
        relayvm.must(relayvm.COMPILER, "compile", path, "-o", path + ".rvm", *options)
        return np.asarray(in_process.load(path + ".rvm")["main"](*inputs))

    def imported(self, path, *options):
        """The text of the program that a model becomes."""
        output = os.path.join(self.place, "imported.relay")
        relayvm.must(relayvm.COMPILER, "import", path, "-o", output, *options)
        with open(output, encoding="utf-8") as file:
            return file.read()

    def fails(self, path, *said, options=()):
        done = relayvm.run(relayvm.COMPILER, "check", path, *options)
        self.assertEqual(done.returncode, 1, done.stderr)
        for text in said:
            self.assertIn(text, done.stderr)

    def graph(self, *nodes):
        path = os.path.join(self.place, "graph.pb")
        with open(path, "wb") as file:
            file.write(message(*nodes))
        return path

    # ---- values

    def test_programs_with_control_flow(self):
        programs = [name for name in self.models if name.endswith((".functions", ".frames"))]
        self.assertGreaterEqual(len(programs), 60)
        for number, name in enumerate(programs):
            if number % relayvm.long_or(1, 4) == 0:
                with self.subTest(name):
                    self.equals(name)

    def test_networks(self):
        networks = [name for name in self.models if name.endswith((".saved", ".frozen"))]
        self.assertEqual(len(networks), 14)
        for number, name in enumerate(networks):
            if number % relayvm.long_or(1, 2) == 0:
                with self.subTest(name):
                    self.equals(name)

    def test_variables_that_functions_capture(self):
        self.equals("captured")
        index = "variables/variables.index"
        content = bytes(self.models["captured"]["file"][index]).replace(b"_CHECKPOINTABLE", b"_CHECKPOINTABLF")
        self.fails(self.unpack("captured", **{index: content}), "has no value: the checkpoint has no")

    def test_transforms_and_complex_numbers(self):
        self.equals("spectra", "--target", "portable")
        self.equals("spectra")

    def test_linear_algebra_and_windows(self):
        self.equals("matrices", "--target", "portable")
        self.equals("matrices")

    def test_levels(self):
        for options in (["-O0"], ["--target", "portable"]):
            for name in ("recurrent.saved", "nested.functions", "array_of_unknown.functions"):
                with self.subTest(f"{name} {options}"):
                    self.equals(name, *options)

    def test_the_loop_of_figure_2(self):
        """TensorFlow's while loop of the paper, and the loop in Relay that it becomes."""
        path = self.unpack("figure2.functions")
        text = self.imported(path).replace(self.place + "/", "")
        golden = os.path.join(HERE, "figure2.relay")
        if os.environ.get("UPDATE_GOLDENS"):
            with open(golden, "w", encoding="utf-8") as file:
                file.write(text)
        with open(golden, encoding="utf-8") as file:
            self.assertEqual(text, file.read())
        self.equals("figure2.functions")

    def test_variables_that_a_run_changes(self):
        for name in ("totals", "branches", "loops"):
            for options in ([], ["-O0"], ["--target", "portable"]):
                with self.subTest(f"{name} {options}"):
                    path, arrays = self.unpack(name), self.models[name]
                    relayvm.must(relayvm.COMPILER, "compile", path, "-o", path + ".rvm", *options)
                    loaded = in_process.load(path + ".rvm")
                    state = loaded["initial_state"]()
                    state = state if isinstance(state, tuple) else (state,)
                    for run in range(len(arrays["in"])):
                        wanted = [arrays["out"][f"{run}.{k}"] for k in range(sum(key.startswith(f"{run}.") for key in arrays["out"]))]
                        results = loaded["main"](arrays["in"][str(run)], *state)
                        got, state = results[:len(wanted)], results[len(wanted):]
                        for value, expected in zip(got, wanted, strict=True):
                            np.testing.assert_allclose(np.asarray(value), expected, rtol=1e-5)
                            self.assertEqual(np.asarray(value).dtype, expected.dtype)
        # What no run changes stays a constant.
        self.assertIn("def @main(%x: float32, %high: float32, %low: float32, result_names", self.imported(self.unpack("branches")))

    # ---- signatures

    def saved(self, *names):
        """A SavedModel with signatures of those names: each the sum of x and its number."""
        folder = os.path.join(self.place, "saved")
        os.makedirs(folder, exist_ok=True)
        nodes = [X]
        for number, name in enumerate(names):
            nodes += [node(f"c{number}", "Const", dtype=FLOAT, value=(8, [(1, 1), (2, []), (4, np.float32([number]).tobytes())])),
                      node(f"y{number}", "AddV2", "x", f"c{number}")]
        with open(os.path.join(folder, "saved_model.pb"), "wb") as file:
            file.write(saved({name: ("x", f"y{number}") for number, name in enumerate(names)}, *nodes))
        return folder

    def test_which_signature(self):
        def result(path, *options):
            return relayvm.must(relayvm.COMPILER, "run", path, *options, "[1, 2]").strip()

        self.assertEqual(result(self.saved("a")), "[1f, 2f]")
        path = self.saved("a", "serving_default", "b c")
        self.assertEqual(result(path), "[2f, 3f]")
        self.assertEqual(result(path, "--signature", "b c"), "[3f, 4f]")
        several = ["--signature", "b c", "--signature", "a"]
        self.assertEqual(result(path, *several), "[3f, 4f]")
        self.assertEqual(result(path, *several, "--entry", "a"), "[1f, 2f]")
        types = relayvm.must(relayvm.COMPILER, "check", path, "--types", *several, "--signature", "serving_default", "--shape", "x=n")
        for name in ("main", "a", "serving_default"):
            self.assertIn(f"@{name}: fn [n: ShapeVar](Tensor[(n), float32]) -> Tensor[(n), float32]", types)
        # An imported model has the options of the command.
        program = os.path.join(self.place, "program.relay")
        with open(program, "w", encoding="utf-8") as file:
            file.write('import "saved" as @m(signature="a", signature="b c");\ndef @main(%x: Tensor[(2), float32]) { @m(@m.b_c(%x)) }\n')
        self.assertEqual(result(program), "[3f, 4f]")

    def test_signatures_that_are_wrong(self):
        path = self.saved("a", "b")
        self.fails(path, "the SavedModel has the signatures `a`, `b`, and none is `serving_default`; choose by --signature NAME")
        self.fails(path, "the SavedModel has no signature `c`; it has the signatures `a`, `b`", options=["--signature", "c"])
        self.fails(path, "signature `a` is chosen twice", options=["--signature", "a", "--signature", "a"])
        self.fails(self.saved(), "the SavedModel has no signature; save it with `signatures=`")
        self.fails(self.graph(X, node("y", "Relu", "x")), "a graph has no signatures", options=["--signature", "a"])
        other = os.path.join(self.place, "model.onnx")
        with open(other, "wb") as file:
            file.write(b"")
        self.fails(other, "signature `a`: models of the format onnx have no signatures to choose from", options=["--signature", "a"])

    def test_signatures_share_weights_and_state(self):
        path, arrays = self.unpack("coder"), self.models["coder"]
        relayvm.must(relayvm.COMPILER, "compile", path, "-o", path + ".rvm", "--signature", "encode", "--signature", "decode")
        loaded = in_process.load(path + ".rvm")
        names = {"encode": "main", "decode": "decode"}
        state = loaded["initial_state"]()
        for call, signature in (key.split(".") for key in sorted(arrays["in"])):
            *got, state = loaded[names[signature]](arrays["in"][f"{call}.{signature}"], state)
            wanted = [arrays["out"][key] for key in sorted(arrays["out"]) if key.startswith(f"{call}.")]
            for value, expected in zip(got, wanted, strict=True):
                np.testing.assert_allclose(np.asarray(value), expected, rtol=1e-5)
        text = self.imported(path, "--signature", "encode", "--signature", "decode")
        self.assertEqual(text.count("free_var"), 1, text)
        self.assertRegex(text, r"def @decode\(%x_1: Tensor\[\(\?, 8\), float32\], %calls_1: int32, result_names")

    # ---- sizes that depend on extents

    def test_resizing_by_extents(self):
        image = node("x", "Placeholder", dtype=FLOAT, shape=(7, [(2, [(1, 1)]), (2, [(1, -1)]), (2, [(1, -1)]), (2, [(1, 1)])]))
        nodes = [image, ints("two", 2), ints("begin", [1]), ints("end", [3]), ints("step", [1]),
                 node("shape", "Shape", "x", T=FLOAT, out_type=INT32),
                 node("size", "StridedSlice", "shape", "begin", "end", "step"), node("twice", "Mul", "size", "two"),
                 node("y", "ResizeNearestNeighbor", "x", "twice", half_pixel_centers=(5, 1))]
        given = np.arange(6, dtype=np.float32).reshape(1, 2, 3, 1)
        wanted = given.repeat(2, axis=1).repeat(2, axis=2)
        path = self.graph(*nodes)
        for options in ([], ["--shape", "x=1,h,w,1"], ["--shape", "x=1,2,3,1"]):
            np.testing.assert_array_equal(self.compute(path, given, options=options), wanted)
        types = relayvm.must(relayvm.COMPILER, "check", path, "--types", "--shape", "x=1,h,w,1")
        self.assertIn("2 * h", types.replace("h * 2", "2 * h"))

    def test_pooling_by_inputs(self):
        image = node("x", "Placeholder", dtype=FLOAT, shape=(7, [(2, [(1, extent)]) for extent in (1, 4, 4, 1)]))
        nodes = [image, ints("k", [1, 2, 2, 1]), node("y", "MaxPoolV2", "x", "k", "k", T=FLOAT, padding=(2, "VALID"))]
        given = np.arange(16, dtype=np.float32).reshape(1, 4, 4, 1)
        np.testing.assert_array_equal(self.compute(self.graph(*nodes), given), given[:, 1::2, 1::2])
        placeholder = node("k", "Placeholder", dtype=INT32, shape=(7, [(2, [(1, 4)])]))
        path = self.graph(image, placeholder, *nodes[2:])
        self.fails(path, "MaxPoolV2: its list `strides` is known only when the model runs; freeze the input it is")

    def test_bicubic_resizing(self):
        """What is linear stays so but for the border."""
        image = node("x", "Placeholder", dtype=FLOAT, shape=(7, [(2, [(1, extent)]) for extent in (1, 8, 8, 1)]))
        path = self.graph(image, ints("s", [16, 8]), node("y", "ResizeBicubic", "x", "s", T=FLOAT, half_pixel_centers=(5, 1)))
        ramp = np.tile(np.arange(8, dtype=np.float32)[None, :, None, None], (1, 1, 8, 1))
        got = self.compute(path, ramp)
        self.assertEqual(got.shape, (1, 16, 8, 1))
        places = (np.arange(16) + .5) / 2 - .5
        np.testing.assert_allclose(got[0, 3:13], np.tile(places[3:13, None, None], (1, 8, 1)), rtol=1e-6)
        np.testing.assert_allclose(self.compute(path, np.full_like(ramp, 3)), 3, rtol=1e-6)

    def test_counts(self):
        numbers = np.int32([[1, 4, 1, 9], [0, 0, 0, 2]])
        given = node("x", "Placeholder", dtype=INT32, shape=(7, [(2, [(1, extent)]) for extent in numbers.shape]))
        rows = [np.bincount(row[row < 5], minlength=5) for row in numbers]

        def graph(size, weights, **attrs):
            some = [ints("one", 1), ints("axes", [0, 1]), node("m", "Max", "x", "axes"), node("all", "AddV2", "m", "one"),
                    node("some", "Maximum", "all", "n")]
            more = {"n": [], "some": some, "five": [*some, node("five", "Minimum", "n", "some")],
                    "none": [node("none", "Const", dtype=FLOAT, value=(8, [(1, 1), (2, [(2, [(1, 0)])])]))],
                    "w": [node("w", "Cast", "x", SrcT=INT32, DstT=FLOAT)]}
            return self.graph(given, ints("n", 5), *more[size], *more[weights], node("y", "DenseBincount", "x", size, weights, **attrs))

        for size in ("n", "five"):
            np.testing.assert_array_equal(self.compute(graph(size, "none"), numbers), rows)
            np.testing.assert_array_equal(self.compute(graph(size, "none", binary_output=(5, 1)), numbers), np.minimum(rows, 1))
            np.testing.assert_array_equal(self.compute(graph(size, "w"), numbers), rows * np.arange(5))
            self.assertIn("-> Tensor[(2, 5), float32]", relayvm.must(relayvm.COMPILER, "check", graph(size, "w"), "--types"))
        self.assertEqual(self.compute(graph("some", "none"), numbers).shape, (2, 10))

    # ---- what is wrong

    def test_all_refusals_at_once(self):
        path = self.graph(X, node("a", "Strange", "x"), node("b", "Odd", "x"), node("c", "AddV2", "a", "b"))
        self.fails(path, "Strange: this operator is not supported (`a`)", "Odd: this operator is not supported (`b`)")

    def test_numbers_that_are_no_variables(self):
        handle = node("h", "Const", dtype=(6, 9), value=(8, [(1, 9), (2, []), (10, 1 << 40)]))
        path = self.graph(X, handle, node("r", "ReadVariableOp", "h", dtype=FLOAT), node("y", "AddV2", "x", "r"))
        self.fails(path, "input 0 is no variable")

    def test_a_missing_checkpoint(self):
        path = self.unpack("dense.saved", **{"variables/variables.index": None, "variables/variables.data-00000-of-00001": None})
        self.fails(path, "variables/variables.index", "No such file")

    def test_names_of_any_bytes_are_shown(self):
        self.fails(self.graph(X, node("y", "Relu", b"\xff\x1bx")), "node `y` has the input `\\xff\\x1bx`, which no node of its graph gives")

    def test_a_damaged_checkpoint(self):
        index = bytes(self.models["dense.saved"]["file"]["variables/variables.index"])
        path = self.unpack("dense.saved", **{"variables/variables.index": index[:-1]})
        self.fails(path, "variables/variables.index: it does not end as a table does")
        path = self.unpack("dense.saved", **{"variables/variables.data-00000-of-00001": b"12"})
        self.fails(path, "it lies behind the end of its file")

    def test_graphs_that_are_wrong(self):
        self.fails(self.graph(node("y", "Relu", "x")), "node `y` has the input `x`, which no node of its graph gives")
        self.fails(self.graph(node("y", "Relu", "z"), node("z", "Relu", "y"), node("w", "Relu", "z")), "a node depends on itself")
        self.fails(self.graph(X, node("y", "AddV2", "x")), "AddV2: input 1 is missing (`y`)")
        self.fails(self.graph(), "the file is malformed")
        self.fails(self.graph((5, b"1")), "it is no SavedModel and no GraphDef of TensorFlow")

    def test_an_unknown_rank(self):
        path = self.graph(node("x", "Placeholder", dtype=FLOAT), node("y", "Relu", "x"))
        self.fails(path, "an input: its rank is unknown; give its shape by --shape (`x`)")
        self.assertIn("Tensor[(2, 3), float32]", self.imported(path, "--shape", "x=2,3"))

    def test_freeze(self):
        path = self.graph(X, node("k", "Placeholder", dtype=FLOAT, shape=(7, [])), node("y", "Mul", "x", "k"))
        self.assertEqual(relayvm.must(relayvm.COMPILER, "run", path, "[1, 2]", "--freeze", "k=3").strip(), "[3f, 6f]")


if __name__ == "__main__":
    unittest.main()
