"""Extents of ONNX models: names that are expressions, shapes computed from extents, and claims about intermediate values."""

import os
import re
import tempfile
import unittest

import numpy as np

import onnx_test
import relayvm


def node(op, inputs, output, **attributes):
    import onnx  # pylint: disable=import-outside-toplevel
    return onnx.helper.make_node(op, inputs, [output], **attributes)


@unittest.skipIf(onnx_test.suite() is None, "the Python package onnx is not installed")
class Extents(relayvm.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.place = folder.name

    def model(self, nodes, inputs, outputs, constants=(), claims=()):
        """The path of a model. `inputs`, `outputs` and `claims` have (name, dtype, shape), `constants` (name, values)."""
        import onnx  # pylint: disable=import-outside-toplevel
        helper = onnx.helper

        def infos(values):
            return [helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), shape)
                    for name, dtype, shape in values]

        weights = [onnx.numpy_helper.from_array(np.array(values), name) for name, values in constants]
        graph = helper.make_graph(nodes, "graph", infos(inputs), infos(outputs), weights, value_info=infos(claims))
        path = os.path.join(self.place, "model.onnx")
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
        return path

    def type_of(self, model, *options):
        """The parameters and the result of the model's program as text."""
        text = relayvm.must(relayvm.COMPILER, "check", "--types", model, *options)
        return re.search(r"^@main: fn (?:\[[^\]]*\])?\((.*)\) -> (.*)$", text, re.MULTILINE).groups()

    def call(self, model, *arrays, options=()):
        executable, args = os.path.join(self.place, "model.rvm"), []
        relayvm.must(relayvm.COMPILER, "compile", model, "-o", executable, *options)
        for i, array in enumerate(arrays):
            args.append(f"@{os.path.join(self.place, str(i))}.npy")
            np.save(args[-1][1:], array)
        return relayvm.run(relayvm.RUNTIME, executable, *args)

    def operators_after(self, model, name="eliminate_dead_code"):
        done = relayvm.run(relayvm.COMPILER, "compile", model, "-o", os.path.join(self.place, "model.rvm"),
                           "--print-after", name)
        self.assertEqual(done.returncode, 0, done.stderr)
        text = done.stdout + done.stderr
        return text[text.rindex("def @main"):]  # the last time, if it runs more than once

    # ---- names

    def masked(self, mask="past + t"):
        nodes = [node("Concat", ["past_k", "k"], "all", axis=1), node("Add", ["all", "mask"], "y")]
        return self.model(nodes, [("past_k", "float32", ["batch", "past", 4]), ("k", "float32", ["batch", "t", 4]),
                                  ("mask", "float32", ["batch", mask, 4])], [("y", "float32", None)])

    def test_names_that_are_sums_are_sums(self):
        for text in ("past + t", "t+past", "past + t*1", "(past + t)"):
            with self.subTest(text):
                self.assertEqual(self.type_of(self.masked(text))[1], "Tensor[(batch, past + t, 4), float32]")

    def test_shapes_given_on_the_command_line_may_be_sums(self):
        parameters, result = self.type_of(self.masked("total"), "--shape", "mask=batch,past+t,4")
        self.assertIn("Tensor[(batch, past + t, 4), float32]", parameters)
        self.assertEqual(result, "Tensor[(batch, past + t, 4), float32]")

    def test_products_and_quotients(self):
        for text, extent in (("2*n", "n * 2"), ("n // 2", "n / 2"), ("n + 1", "n + 1")):
            with self.subTest(text):
                model = self.model([node("Neg", ["x"], "y"), node("Neg", ["z"], "w")],
                                   [("z", "float32", ["n"]), ("x", "float32", [text])], [("y", "float32", None), ("w", "float32", None)])
                self.assertIn(f"Tensor[({extent}), float32]", self.type_of(model)[0])

    def test_other_names_stay_names(self):
        for text in ("past/t", "past-t", "past + other", "max(past, t)", "past + "):
            with self.subTest(text):
                self.assertRegex(self.type_of(self.masked(text))[0], r"Tensor\[\(batch, [a-z_]+, 4\), float32\]$")

    def test_a_sum_is_checked(self):
        past, k = np.ones((2, 3, 4), "float32"), np.ones((2, 2, 4), "float32")
        done = self.call(self.masked(), past, k, np.ones((2, 5, 4), "float32"))
        self.assertEqual(done.returncode, 0, done.stderr)
        done = self.call(self.masked(), past, k, np.ones((2, 6, 4), "float32"))
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, "6.*5|5.*6")

    # ---- values

    def test_the_shape_that_older_exporters_expand_to(self):
        nodes = [node("Shape", ["k"], "s"), node("Gather", ["s", "i2"], "n", axis=0),
                 node("Concat", ["a", "n", "b"], "sh", axis=0), node("Shape", ["sh"], "r"),
                 node("ConstantOfShape", ["r"], "zeros"), node("Cast", ["zeros"], "zero", to=7),
                 node("Add", ["zero", "one"], "ones"), node("Mul", ["ones", "m1"], "neg"),
                 node("Equal", ["sh", "neg"], "eq"), node("Where", ["eq", "ones", "sh"], "sh2"),
                 node("Unsqueeze", ["k", "ax2"], "k5"), node("Expand", ["k5", "sh2"], "e"), node("Reshape", ["e", "rs"], "y")]
        constants = [("i2", [2]), ("a", [1, 4, 3]), ("b", [64]), ("m1", -1), ("one", 1), ("ax2", [2]), ("rs", [1, 12, -1, 64])]
        model = self.model(nodes, [("k", "float32", [1, 4, "n", 64])], [("y", "float32", None)], constants)
        self.assertEqual(self.type_of(model)[1], "Tensor[(1, 12, n, 64), float32]")
        self.assertNotIn("dyn.", self.operators_after(model))
        k = np.random.default_rng(1).random((1, 4, 5, 64), "float32")
        done = self.call(model, k)
        self.assertEqual(done.returncode, 0, done.stderr)
        np.testing.assert_allclose(relayvm.parse_value(done.stdout), np.repeat(k, 3, axis=1), rtol=1e-6)

    def test_a_reshape_back_to_two_extents(self):
        nodes = [node("Shape", ["x"], "s"), node("Slice", ["s", "zero", "two"], "lead"),
                 node("Reshape", ["x", "flat"], "rows"), node("Relu", ["rows"], "relu"),
                 node("Concat", ["lead", "split"], "to", axis=0), node("Reshape", ["relu", "to"], "y")]
        constants = [("zero", [0]), ("two", [2]), ("flat", [-1, 8]), ("split", [2, 4])]
        model = self.model(nodes, [("x", "float32", ["b", "t", 8])], [("y", "float32", None)], constants)
        self.assertEqual(self.type_of(model)[1], "Tensor[(b, t, 2, 4), float32]")
        self.assertNotIn("dyn.", self.operators_after(model))
        x = np.random.default_rng(1).standard_normal((2, 3, 8)).astype("float32")
        for level in ("-O0", "-O1", "-O3"):
            done = self.call(model, x, options=(level,))
            np.testing.assert_allclose(relayvm.parse_value(done.stdout), np.maximum(x, 0).reshape(2, 3, 2, 4), rtol=1e-6)

    # ---- claims

    def chosen(self, claim):
        """The rows of x that are not 0: only the running model knows how many; `claim` is what the model says."""
        nodes = [node("NonZero", ["m"], "i"), node("Squeeze", ["i", "ax"], "rows"), node("Gather", ["x", "rows"], "y")]
        return self.model(nodes, [("m", "float32", ["k"]), ("x", "float32", ["n", 4])], [("y", "float32", None)],
                          [("ax", [0])], [("i", "int64", [1, claim])])

    def test_claims_give_types(self):
        self.assertEqual(self.type_of(self.chosen(3))[1], "Tensor[(3, 4), float32]")
        self.assertEqual(self.type_of(self.chosen("n"))[1], "Tensor[(n, 4), float32]")
        self.assertEqual(self.type_of(self.chosen("n + k"))[1], "Tensor[(n + k, 4), float32]")
        self.assertEqual(self.type_of(self.chosen("unk__7"))[1], "Tensor[(?, 4), float32]")
        # They are about the extents that the model has, not those that the user gives.
        self.assertEqual(self.type_of(self.chosen(3), "--shape", "x=5,4")[1], "Tensor[(?, 4), float32]")

    def test_claims_are_checked(self):
        m, x = np.array([1, 0, 2, 3], "float32"), np.arange(16, dtype="float32").reshape(4, 4)
        for level in ("-O0", "-O2"):
            done = self.call(self.chosen(3), m, x, options=(level,))
            self.assertEqual(done.returncode, 0, done.stderr)
            np.testing.assert_array_equal(relayvm.parse_value(done.stdout), x[[0, 2, 3]])
            for claim, wanted in ((2, 2), ("n", 4), ("n + k", 8)):
                done = self.call(self.chosen(claim), m, x, options=(level,))
                self.assertEqual(done.returncode, 1)
                self.assertIn(f"axis 1 of `i`, which the model says is {claim}: the extent 3 differs from {wanted}", done.stderr)

    def test_what_the_importer_knows_better_is_not_a_claim(self):
        model = self.model([node("Neg", ["x"], "z"), node("Neg", ["z"], "y")], [("x", "float32", ["n", 4])],
                           [("y", "float32", None)], claims=[("z", "float32", [7, 4])])
        self.assertEqual(self.type_of(model)[1], "Tensor[(n, 4), float32]")
        self.assertEqual(self.call(model, np.ones((2, 4), "float32")).returncode, 0)


if __name__ == "__main__":
    unittest.main()
