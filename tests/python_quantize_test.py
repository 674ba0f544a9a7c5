"""relayvm.quantize: the verb from Python, with data and metrics that are Python's."""

import importlib.util
import os
import sys
import tempfile
import unittest
import unittest.mock

import numpy as np

import python_test
import relayvm as tools
import torch_test

DEPTH = 160
PROGRAM = f"""
type List[A] {{ Cons(A, List[A]), Nil, }}
free_var %cell: Tensor[({DEPTH}, {DEPTH}), float32];
free_var %out: Tensor[(200, {DEPTH}), float32];
def @fold(%l: List[Tensor[(1, {DEPTH}), float32]], %h: Tensor[(1, {DEPTH}), float32]) -> Tensor[(1, {DEPTH}), float32] {{
  match (%l) {{ Cons(%x, %rest) => @fold(%rest, tanh(nn.dense(%h, %cell) + %x)), Nil => %h }}
}}
def @main(%l: List[Tensor[(1, {DEPTH}), float32]]) -> Tensor[(1, 200), float32] {{
  nn.dense(@fold(%l, zeros(shape=[1, {DEPTH}], dtype="float32")), %out)
}}
"""


@unittest.skipUnless(os.path.exists(tools.COMPILER), "the compiler is missing")
class Quantize(python_test.WithPackages, unittest.TestCase):
    def setUp(self):
        rng = np.random.default_rng(0)
        self.weights = {"cell": rng.normal(size=(DEPTH, DEPTH), scale=0.08).astype(np.float32),
                        "out": rng.normal(size=(200, DEPTH), scale=0.08).astype(np.float32)}
        self.data = [[rng.normal(size=(1, DEPTH)).astype(np.float32) for _ in range(1 + i % 4)] for i in range(6)]

    def expected(self, steps):
        h = np.zeros((1, DEPTH), np.float32)
        for x in steps:
            h = np.tanh(h @ self.weights["cell"].T + x)
        return h @ self.weights["out"].T

    def error(self, program):
        pairs = [(program(steps), self.expected(steps)) for steps in self.data]
        return np.linalg.norm([a - b for a, b in pairs]) / np.linalg.norm([b for _, b in pairs])

    def test_schemes(self):
        """With and without data; the module is the same program; the report's error is that of the results."""
        for scheme, bound in (("float16", 1e-3), ("w8", 0.02), ("w4", 0.25), ("w4a8-dynamic", 0.25), ("w8a8-dynamic", 0.03), ("w8a8", 0.03)):
            for data in ([None] if scheme != "w8a8" else []) + [self.data]:
                with self.subTest(scheme=scheme, data=data is not None):
                    q = self.vm.quantize(PROGRAM, scheme=scheme, params=self.weights, data=data, force=True)
                    self.assertEqual([site["scheme"] for site in q.report["sites"]], [scheme] * 2)
                    error = self.error(q.executable)
                    self.assertLess(error, bound)
                    if data:
                        self.assertAlmostEqual(q.report["error"], error, delta=0.02 * error + 1e-6)
                        calls = {site["name"]: site["calls"] for site in q.report["sites"]}
                        self.assertEqual(calls, {"cell": sum(map(len, self.data)), "out": len(self.data)})
                    again = self.vm.compile(q.module)
                    for steps in self.data:
                        np.testing.assert_allclose(again(steps), q.executable(steps), rtol=1e-3, atol=1e-4)

    def test_metric_decides_the_search(self):
        """A metric that is content with one weight only in floats."""
        seen = []

        def metric(floats, results):
            seen.append(len(results))
            return max(float(np.abs(a - b).max()) for a, b in zip(floats, results))

        q = self.vm.quantize(PROGRAM, scheme="w4", params=self.weights, data=self.data, force=True, metric=metric)
        whole = q.report["error"]
        q = self.vm.quantize(PROGRAM, scheme="w4", params=self.weights, data=self.data, force=True, metric=metric, error=whole / 4)
        self.assertLessEqual(q.report["error"], whole / 4)
        self.assertIn("for the sake of the error", [site["reason"] for site in q.report["sites"]])
        self.assertEqual(set(seen), {len(self.data)})

    def test_errors(self):
        with self.assertRaisesRegex(self.vm.CompileError, "there is no scheme `w9`"):
            self.vm.quantize(PROGRAM, scheme="w9", params=self.weights)
        with self.assertRaisesRegex(self.vm.CompileError, "`w8a8` takes the scales of activations from data"):
            self.vm.quantize(PROGRAM, scheme="w8a8", params=self.weights)
        with self.assertRaisesRegex(self.vm.CompileError, "named `cel`; did you mean `cell`"):
            self.vm.quantize(PROGRAM, params=self.weights, keep=["cel"])
        for keep in ("cell", b"cell"):
            with self.assertRaisesRegex(TypeError, "keep is a list; saw b?'cell'"):
                self.vm.quantize(PROGRAM, params=self.weights, keep=keep)
        for error in (0, 0.0, -1, float("nan")):
            with self.assertRaisesRegex(ValueError, f"error is {error}; expected a number above 0"):
                self.vm.quantize(PROGRAM, params=self.weights, data=self.data, error=error)
        with self.assertRaisesRegex(self.vm.CompileError, "the data have no call"):
            self.vm.quantize(PROGRAM, params=self.weights, data=[])
        with self.assertRaisesRegex(self.vm.CompileError, "the data are for `other`, which is no entry"):
            self.vm.quantize(PROGRAM, params=self.weights, data=self.data, entry="other")
        with self.assertRaisesRegex(self.vm.Error, "expected Tensor"):
            self.vm.quantize(PROGRAM, params=self.weights, data=[[np.zeros((1, 3), np.float32)]])
        with self.assertRaisesRegex(ZeroDivisionError, "division"):
            self.vm.quantize(PROGRAM, params=self.weights, data=self.data, force=True, metric=lambda a, b: 1 / 0)

    def test_operators_that_cannot_be_measured(self):
        """They stay unmeasured, and are not the error of what fails later."""
        own = sys.modules[self.vm.quantize.__module__]
        q = self.vm.quantize(PROGRAM, params=self.weights, force=True)
        self.assertTrue(all("ns_before" in site for site in q.report["sites"]))
        with unittest.mock.patch.object(own, "_array", side_effect=OSError("no operand")) as array:
            q = self.vm.quantize(PROGRAM, params=self.weights)
            self.assertEqual([site["scheme"] for site in q.report["sites"]], ["w8"] * 2)
            self.assertFalse(any("ns_before" in site for site in q.report["sites"]))
            with self.assertRaises(ZeroDivisionError):
                self.vm.quantize(PROGRAM, params=self.weights, data=self.data, metric=lambda a, b: 1 / 0)
            self.assertGreater(array.call_count, 2)

    def test_warnings_of_imports_stay_beside_errors(self):
        content = torch_test.with_program(os.path.join(tools.ROOT, "tests/torch/shapes.pt2"),
                                          lambda program: program.update(guards_code=["L['x'].stride()[0] == 4"]))
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "m.pt2"), "wb") as file:
                file.write(content)
            module = self.vm.Module('import "m.pt2" as @m;\ndef @main() { %x }', folder=folder)
            with self.assertRaises(self.vm.CompileError) as caught:
                self.vm.quantize(module)
            for diagnostics in (module.check(), caught.exception.diagnostics):
                self.assertEqual({diagnostic.severity for diagnostic in diagnostics}, {"error", "warning"})

    def test_example(self):
        """examples/quantize: a network that learns here keeps its accuracy in each form, and shrinks."""
        path = os.path.join(tools.ROOT, "examples/quantize/digits.py")
        spec = importlib.util.spec_from_file_location("quantize_digits", path)
        example = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(example)
        rows = {form: (accuracy, size) for form, accuracy, size in example.compare()}
        self.assertEqual(list(rows), ["floats", *example.SCHEMES])
        accuracy, size = rows["floats"]
        self.assertGreater(accuracy, 0.9)
        for form, part in (("float16", 0.7), ("w8", 0.5), ("w4", 0.5), ("w8a8-dynamic", 0.4), ("w8a8", 0.4)):
            with self.subTest(form=form):
                self.assertGreater(rows[form][0], accuracy - 0.01)
                self.assertLess(rows[form][1], part * size)


if __name__ == "__main__":
    unittest.main()
