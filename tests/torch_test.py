"""Exported programs of PyTorch: `.pt2` files where tools take programs, equal to what PyTorch computed.

The fixtures and the script that made them are in tests/torch. No test needs PyTorch.
"""

import glob
import io
import json
import os
import random
import re
import sys
import tempfile
import unittest
import zipfile

import relayvm

FIXTURES = os.path.join(relayvm.ROOT, "tests/torch")


def programs():
    """[(the path of a .pt2, the path of its cases)], of both forms. What draws random numbers has no cases."""
    paths = [(path, path.removesuffix(".pt2").removesuffix("_core") + ".npz")
             for path in sorted(glob.glob(os.path.join(FIXTURES, "*.pt2")))]
    return [(path, cases) for path, cases in paths if not os.path.basename(path).startswith("draws")]


class Fixtures(relayvm.TestCase):
    """Each fixture at the shapes of all of its cases."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.place = folder.name

    def cases(self, path):
        import numpy as np  # pylint: disable=import-outside-toplevel
        arrays = np.load(path)
        for number in range(len({name.split(".")[0] for name in arrays.files})):
            def all_of(kind):
                count = sum(name.startswith(f"{number}.{kind}.") for name in arrays.files)  # noqa: B023
                return [arrays[f"{number}.{kind}.{i}"] for i in range(count)]  # noqa: B023
            yield all_of("in"), all_of("out")

    def outputs(self, executable, inputs):
        import numpy as np  # pylint: disable=import-outside-toplevel
        args = []
        for array in inputs:
            args.append("@" + os.path.join(self.place, f"{len(args)}.npy"))
            np.save(args[-1][1:], array)
        value = relayvm.parse_value(relayvm.execute(executable, *args))
        return value if isinstance(value, tuple) else (value,)

    def compare(self, path, cases, *options):
        import numpy as np  # pylint: disable=import-outside-toplevel
        executable = os.path.join(self.place, "model.rvm")
        relayvm.must(relayvm.COMPILER, "compile", path, "-o", executable, *options)
        for number, (inputs, expected) in enumerate(self.cases(cases)):
            outputs = self.outputs(executable, inputs)
            self.assertEqual(len(outputs), len(expected), path)
            for i, (got, wanted) in enumerate(zip(outputs, expected)):
                got = np.array(got).reshape(wanted.shape)
                np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5,
                                           err_msg=f"{os.path.basename(path)}, case {number}, output {i}")

    def test_all_forms_are_there(self):
        self.assertGreaterEqual(len(programs()), 20)

    def test_portable(self):
        for path, cases in programs():
            with self.subTest(os.path.basename(path)):
                self.compare(path, cases, "--target", "portable")

    def test_machine_code(self):
        for path, cases in programs()[::relayvm.long_or(1, 3)]:
            if not path.endswith("_core.pt2"):
                with self.subTest(os.path.basename(path)):
                    self.compare(path, cases)


def with_program(path, change, part="models/model.json"):
    """The bytes of a .pt2 file whose program, or another part, `change` has changed."""
    out = io.BytesIO()
    with zipfile.ZipFile(path) as archive, zipfile.ZipFile(out, "w") as changed:
        for name in archive.namelist():
            content = archive.read(name)
            if name.endswith(part):
                program = json.loads(content)
                change(program)
                content = json.dumps(program).encode()
            changed.writestr(name, content)
    return out.getvalue()


def ones(rows, columns):
    """A matrix as the command line takes it."""
    return "[" + ", ".join(["[" + ", ".join(["1f"] * columns) + "]"] * rows) + "]"


class Tools(relayvm.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.place = folder.name

    def model(self, content):
        path = os.path.join(self.place, "model.pt2")
        with open(path, "wb") as file:
            file.write(content)
        return path

    def fixture(self, name):
        return os.path.join(FIXTURES, name + ".pt2")

    def test_verbs_take_programs(self):
        output = os.path.join(self.place, "model.relay")
        relayvm.must(relayvm.COMPILER, "import", self.fixture("mlp"), "-o", output)
        self.assertTrue(os.path.exists(os.path.join(self.place, "model.safetensors")))
        one = "[" + ", ".join(["[1f, 0f, 0f, 0f, 0f, 2f]"]) + "]"
        direct = relayvm.must(relayvm.COMPILER, "run", self.fixture("mlp"), one, "--target", "portable")
        printed = relayvm.must(relayvm.COMPILER, "run", output, one, "--target", "portable", "--params",
                               os.path.join(self.place, "model.safetensors"))
        self.assertEqual(direct, printed)
        self.assertEqual(relayvm.must(relayvm.COMPILER, "check", self.fixture("mlp")), "")

    def test_ranges_are_checked(self):
        tokens = "[[" + ", ".join(["1i64"] * 201) + "]]"
        done = relayvm.run(relayvm.COMPILER, "run", self.fixture("attention"), tokens, "--target", "portable")
        self.assertEqual(done.returncode, 1)
        self.assertIn("axis 1 of `tokens`, which was exported to be at most 200", done.stderr)

    def test_conditions_are_checked(self):
        x = "[" + ", ".join(["[1f, 2f, 3f]"] * 6) + "]"
        done = relayvm.run(relayvm.COMPILER, "run", self.fixture("dynamic"), x, "6i64", "--target", "portable")
        self.assertEqual(done.returncode, 1)
        self.assertIn("Runtime assertion failed for expression u0 <= 5", done.stderr)

    def guarded(self, *guards):
        """The fixture `shapes`, whose export assumed other things."""
        def change(program):
            program["guards_code"] = list(guards)

        return self.model(with_program(self.fixture("shapes"), change))

    def test_guards_are_checked(self):
        arguments = [ones(4, 4), ones(8, 4)]
        for guard in ("L['x'].size()[0] == 3", "L['x'].size()[0] == 4 and not L['y'].size()[0] == 8",
                      "max(L['x'].size()[0], 5, L['y'].size()[0]) % 3 == 0", "L['x'].size()[0]**2 < L['y'].size()[0]",
                      "+".join(["L['x'].size()[0] * L['y'].size()[0]"] * 20) + " == 7"):
            with self.subTest(guard):
                done = relayvm.run(relayvm.COMPILER, "run", self.guarded(guard), *arguments, "--target", "portable")
                self.assertEqual(done.returncode, 1)
                self.assertIn(f"`{guard}`, as exported, does not hold", done.stderr)
        holds = self.guarded("L['x'].size()[0] == 4 or L['y'].size()[0] == 1", "2 <= L['x'].size()[0] < 5")
        self.assertEqual(relayvm.run(relayvm.COMPILER, "run", holds, *arguments, "--target", "portable").returncode, 0)

    def test_guards_that_are_not_checked_are_named(self):
        guard = "L['x'].stride()[0] == 4"
        done = relayvm.run(relayvm.COMPILER, "check", self.guarded(guard, "L['nobody'].size()[0] == 2"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(f"warning: {self.place}/model.pt2: the export assumed `{guard}`, which is not checked", done.stderr)
        self.assertIn("L['nobody'].size()[0] == 2", done.stderr)

    def test_guards_on_nested_inputs_and_integers(self):
        guard = "L['args'][1].size()[0] == 3 + L['args'][0].size()[1]"
        model = self.model(with_program(self.fixture("elementwise"), lambda program: program.update(guards_code=[guard])))
        done = relayvm.run(relayvm.COMPILER, "run", model, ones(2, 5), ones(2, 5), ones(2, 5).replace("1f", "1i64"),
                           "--target", "portable")
        self.assertIn(f"`{guard}`, as exported, does not hold", done.stderr)

        def change(program):
            program["guards_code"] = ["L['count'] == 3"]
            program["graph_module"]["graph"]["nodes"] = [
                node for node in program["graph_module"]["graph"]["nodes"] if "_assert" not in node["target"]]

        x = "[" + ", ".join(["[1f, 2f, 3f]"] * 6) + "]"
        model = self.model(with_program(self.fixture("dynamic"), change))
        done = relayvm.run(relayvm.COMPILER, "run", model, x, "5i64", "--target", "portable")
        self.assertIn("`L['count'] == 3`, as exported, does not hold", done.stderr)

    def test_a_guard_that_cannot_hold_is_refused(self):
        done = relayvm.run(relayvm.COMPILER, "check", self.guarded("L['x'].size()[0] == 3"), "--shape", "x=4,4")
        self.assertIn("what the export assumed does not hold for the inputs given", done.stderr)

    def test_state_has_first_values(self):
        executable = os.path.join(self.place, "counter.rvm")
        relayvm.must(relayvm.COMPILER, "compile", self.fixture("counter"), "-o", executable, "--target", "portable")
        self.assertEqual(relayvm.execute(executable, entry="initial_state"), "([0f, 0f, 0f], 0i64)")

    def test_singular_systems_are_errors(self):
        for form in ("systems", "systems_core"):
            done = relayvm.run(relayvm.COMPILER, "run", self.fixture(form), "[[1f, 2f], [2f, 4f]]",
                               "[[1f, 1f], [1f, 1f]]", "--target", "portable")
            self.assertEqual(done.returncode, 1)
            self.assertIn("a matrix of `torch.linalg.solve` is singular", done.stderr)

    def test_tied_weights_are_one(self):
        def tie(weights):
            weights["config"]["rnn.weight_ih_l0_reverse"] = weights["config"]["rnn.weight_ih_l0"]

        output = os.path.join(self.place, "model.relay")
        said = []
        for change in (lambda weights: None, tie):
            model = self.model(with_program(self.fixture("lstm"), change, "model_weights_config.json"))
            said.append(relayvm.run(relayvm.COMPILER, "import", model, "-o", output).stderr)
            relayvm.must(relayvm.COMPILER, "compile", output, "--params", output.replace(".relay", ".safetensors"),
                         "-o", os.path.join(self.place, "model.rvm"), "--target", "portable")
        counts = [int(re.search(r"(\d+) weights", text).group(1)) for text in said]
        self.assertEqual(counts[0] - counts[1], 1)

    def test_all_that_is_not_supported_is_said(self):
        def change(program):
            for node in program["graph_module"]["graph"]["nodes"]:
                node["target"] = node["target"].replace("aten.linear", "aten.frobnicate").replace(
                    "aten.gelu", "aten.tickle")

        done = relayvm.run(relayvm.COMPILER, "check", self.model(with_program(self.fixture("mlp"), change)))
        self.assertEqual(done.returncode, 1)
        reason = "this operator is not supported; `exported.run_decompositions()` may give a program without it"
        self.assertIn(f"aten.frobnicate.default: {reason} (`linear`, `linear_1`)", done.stderr)
        self.assertIn(f"aten.tickle.default: {reason} (`gelu`)", done.stderr)

    def test_a_decomposed_program_is_not_to_be_decomposed(self):
        def change(program):
            for node in program["graph_module"]["graph"]["nodes"]:
                node["target"] = node["target"].replace("aten.gelu", "aten.tickle")

        done = relayvm.run(relayvm.COMPILER, "check", self.model(with_program(self.fixture("mlp_core"), change)))
        self.assertIn("aten.tickle.default: this operator is not supported (`gelu`)", done.stderr)

    def test_refusals_name_a_way_out(self):
        def change(program):
            for node in program["graph_module"]["graph"]["nodes"]:
                node["target"] = node["target"].replace("linalg_det", "linalg_eigvals").replace(
                    "linalg_cholesky", "linalg_ldl_factor")

        done = relayvm.run(relayvm.COMPILER, "check", self.model(with_program(self.fixture("systems"), change)))
        self.assertEqual(done.returncode, 1)
        self.assertIn("`torch.linalg.eigvalsh` takes symmetric matrices", done.stderr)
        self.assertIn("use `torch.linalg.lu_factor`", done.stderr)

    def test_names_are_defined_once(self):
        def change(program):
            nodes = program["graph_module"]["graph"]["nodes"]
            view = next(node for node in nodes if "aten.slice" in node["target"])
            view["outputs"][0]["as_tensor"]["name"] = nodes[0]["outputs"][0]["as_tensor"]["name"]

        done = relayvm.run(relayvm.COMPILER, "check", self.model(with_program(self.fixture("writes"), change)))
        self.assertEqual(done.returncode, 1)
        self.assertIn("a name that it defines is defined before it", done.stderr)

    def test_operators_that_complex_numbers_have_not(self):
        def change(program):
            for node in program["graph_module"]["graph"]["nodes"]:
                node["target"] = node["target"].replace("aten.angle", "aten.sigmoid")

        done = relayvm.run(relayvm.COMPILER, "check", self.model(with_program(self.fixture("complexes"), change)))
        self.assertEqual(done.returncode, 1)
        self.assertIn("aten.sigmoid.default: this operator on complex numbers is not supported (`angle`)", done.stderr)

    def test_random_numbers_in_branches_are_refused(self):
        def change(program):
            for node in program["graph_module"]["graph"]["nodes"]:
                for argument in node["inputs"]:
                    graph = argument["arg"].get("as_graph", {}).get("graph", {})
                    for inner in graph.get("nodes", []):
                        inner["target"] = inner["target"].replace("aten.tanh", "aten.rand_like")

        done = relayvm.run(relayvm.COMPILER, "check", self.model(with_program(self.fixture("branches"), change)))
        self.assertEqual(done.returncode, 1)
        self.assertIn("random numbers inside of a branch or a loop", done.stderr)

    def test_strides_beyond_the_input_are_refused(self):
        def change(name, arguments):
            def set_argument(program):
                nodes = program["graph_module"]["graph"]["nodes"]
                node = next(node for node in nodes if "aten.as_strided.default" in node["target"])
                for argument in node["inputs"]:
                    if argument["name"] == name:
                        argument["arg"] = arguments
            return set_argument

        for name, argument in (("storage_offset", {"as_int": 39}), ("size", {"as_ints": [9, 9]})):
            done = relayvm.run(relayvm.COMPILER, "check", self.model(
                with_program(self.fixture("views"), change(name, argument))))
            self.assertIn("strides through memory that is not exactly its input", done.stderr)

    def test_errors_name_the_node_and_its_module(self):
        def change(program):
            for node in program["graph_module"]["graph"]["nodes"]:
                if node["target"].startswith("torch.ops.aten.linear"):
                    node["inputs"] = node["inputs"][:1]

        done = relayvm.run(relayvm.COMPILER, "check", self.model(with_program(self.fixture("mlp"), change)))
        self.assertIn("aten.linear.default: its argument `weight` is missing (`linear`", done.stderr)

    def test_writes_to_shared_memory_are_refused(self):
        def change(program):
            # `mul_` of what may repeat elements of the buffer.
            nodes = program["graph_module"]["graph"]["nodes"]
            view = {"target": "torch.ops.aten.expand_as.default", "name": "part", "metadata": {},
                    "inputs": [{"name": name, "arg": {"as_tensor": {"name": "b_mean"}}, "kind": 1} for name in ("self", "other")],
                    "outputs": [{"as_tensor": {"name": "part"}}]}
            written = next(node for node in nodes if "mul_" in node["target"])
            written["inputs"][0]["arg"]["as_tensor"]["name"] = "part"
            nodes.insert(0, view)

        done = relayvm.run(relayvm.COMPILER, "check", self.model(with_program(self.fixture("counter"), change)))
        self.assertIn("a write to memory that is used under other names, too", done.stderr)

    def test_other_files_are_refused(self):
        for content, message in ((b"", "zip"), (b"PK\x05\x06" + bytes(18), "models/model.json")):
            done = relayvm.run(relayvm.COMPILER, "check", self.model(content))
            self.assertEqual(done.returncode, 1)
            self.assertIn(message, done.stderr)

    def test_any_bytes_give_a_message(self):
        dice = random.Random(4)
        with open(self.fixture("picks"), "rb") as file:
            content = file.read()
        for _ in range(60):
            damaged = bytearray(content[:dice.randrange(len(content))] if dice.random() < 0.3 else content)
            for _ in range(dice.randrange(1, 5)):
                if damaged:
                    damaged[dice.randrange(len(damaged))] = dice.randrange(256)
            done = relayvm.run(relayvm.COMPILER, "check", self.model(bytes(damaged)), timeout=60)
            self.assertIn(done.returncode, (0, 1), done.stderr[-500:])
            self.assertEqual(done.returncode == 1, bool(done.stderr.strip()))


class RandomNumbers(relayvm.TestCase):
    """The fixture `draws`, of a matrix of 2s and one of 0.75s: moments, and what the seed decides."""

    ROWS = 700

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.place = folder.name

    def results(self, form, *seeds):
        import numpy as np  # pylint: disable=import-outside-toplevel
        executable = os.path.join(self.place, "draws.rvm")
        relayvm.must(relayvm.COMPILER, "compile", os.path.join(FIXTURES, form + ".pt2"), "-o", executable)
        for name, value in (("x", 2), ("p", 0.75)):
            np.save(os.path.join(self.place, name + ".npy"), np.full((self.ROWS, 8), value, np.float32))
        inputs = [f"@{self.place}/{name}.npy" for name in ("x", "p")]
        for seed in seeds:
            value = relayvm.parse_value(relayvm.execute(executable, *inputs, f"{seed}i64"))
            yield [np.array(part, np.float64) for part in value]

    def test_a_seed_decides(self):
        import numpy as np  # pylint: disable=import-outside-toplevel
        first, again, other = self.results("draws", 1, 1, 2)
        for i, (a, b, c) in enumerate(zip(first, again, other)):
            np.testing.assert_array_equal(a, b)
            self.assertTrue((a != c).any(), i)

    def test_the_seed_is_the_last_parameter_of_those_that_draw(self):
        one = "[[" + ", ".join(["1f"] * 8) + "]]"
        done = relayvm.run(relayvm.COMPILER, "run", os.path.join(FIXTURES, "draws.pt2"), one, one, "--target", "portable")
        self.assertEqual(done.returncode, 1)
        self.assertIn("%seed: int64", done.stderr)
        types = [relayvm.must(relayvm.COMPILER, "check", os.path.join(FIXTURES, name + ".pt2"), "--types")
                 for name in ("draws", "mlp")]
        self.assertIn(", int64) -> ", types[0])
        self.assertNotIn("int64", types[1])

    def check(self, form):
        import numpy as np  # pylint: disable=import-outside-toplevel
        (values,) = self.results(form, 5)
        names = ("rand randn rand_like randn_like randint randint_like bernoulli bernoulli_p uniform normal_ normal_of "
                 "normal_std exponential geometric log_normal cauchy randperm multinomial choice dropout alpha_dropout "
                 "dropout1d rrelu").split()
        self.assertEqual(len(values), len(names))
        got = dict(zip(names, values))
        moments = {  # mean, standard deviation, least, greatest
            "rand": (0.5, 12 ** -0.5, 0, 1), "randn": (0, 1, -9, 9), "rand_like": (0.5, 12 ** -0.5, 0, 1),
            "randn_like": (0, 1, -9, 9), "randint": (0.5, 5.25 ** 0.5, -3, 4), "randint_like": (3, 2, 0, 6),
            "bernoulli": (0.75, 0.433, 0, 1), "bernoulli_p": (0.25, 0.433, 0, 1), "uniform": (1, 4 * 12 ** -0.5, -1, 3),
            "normal_": (2, 0.5, -9, 9), "normal_of": (2, 0.1, 1, 3), "normal_std": (1, 0.75, -9, 9),
            "exponential": (0.5, 0.5, 0, 99), "geometric": (4, 12 ** 0.5, 1, 999), "dropout": (2, 1.155, 0, 8 / 3),
            "log_normal": (np.exp(0.125), np.exp(0.125) * (np.exp(0.25) - 1) ** 0.5, 0, 99),
            "multinomial": (1.75, 0.433, 1, 2), "dropout1d": (2, 2, 0, 4), "rrelu": (-2 * 11 / 48, 2 * 5 / 24 * 12 ** -0.5, -2 / 3, -0.25)}
        for name, (mean, deviation, least, greatest) in moments.items():
            numbers = got[name]
            # A channel of dropout1d is dropped as a whole: only its rows are independent.
            count = numbers.shape[0] if name == "dropout1d" else numbers.size
            with self.subTest(name):
                self.assertLess(abs(numbers.mean() - mean), 5 * deviation / count ** 0.5)
                self.assertLess(abs(numbers.std() - deviation), 0.15 * deviation)
                self.assertTrue(least <= numbers.min() and numbers.max() <= greatest + 1e-6)
        self.assertLess(abs(np.median(got["cauchy"]) - 1), 0.15)
        self.assertLess(abs(np.percentile(got["cauchy"], 75) - 3), 0.4)
        np.testing.assert_array_equal(np.sort(got["randperm"]), np.arange(self.ROWS))
        self.assertEqual(len(set(got["choice"])), 3)  # without replacement
        self.assertEqual(len(np.unique(got["alpha_dropout"].round(4))), 2)
        rows = got["dropout1d"]
        self.assertTrue(((rows == 0).all(axis=1) | (rows != 0).all(axis=1)).all())

    def test_moments(self):
        self.check("draws")

    def test_moments_of_core_operators(self):
        self.check("draws_core")


class Document(relayvm.TestCase):
    """The snippets of docs/pytorch.md, where PyTorch is installed; the first lines of others say what they print."""

    def test_snippets(self):
        try:
            import torch.nn  # noqa: F401 pylint: disable=import-outside-toplevel,unused-import
        except ImportError:
            self.skipTest("the Python package torch is not installed")
        with open(os.path.join(relayvm.ROOT, "docs/pytorch.md"), encoding="utf-8") as file:
            snippets = re.findall(r"^```python\n(.*?)^```$", file.read(), re.MULTILINE | re.DOTALL)
        environment = dict(os.environ, PYTHONPATH=os.pathsep.join(
            os.path.join(relayvm.ROOT, "python", part) for part in ("runtime", "compiler")))
        with tempfile.TemporaryDirectory() as folder:
            for snippet in snippets:
                printed = relayvm.must(sys.executable, "-c", snippet, cwd=folder, env=environment)
                self.assertEqual(printed.split("\n")[:-1], re.findall(r"print\(.*\)  # (.*)", snippet))


if __name__ == "__main__":
    unittest.main()
