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


FLOAT, SHAPE = (6, 1), (7, [(2, [(1, 2)])])
X = node("x", "Placeholder", dtype=FLOAT, shape=SHAPE)


class Models(relayvm.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.models = {**models(), **models("states")}

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
