"""Programs made with relayvm.Builder: what they compute, the types of their values, the places in messages."""

import re
import unittest

import numpy

import python_test
import relayvm as tools


def line_of(text):
    """The number of the line of this file that ends with `text`, a comment."""
    with open(__file__, encoding="utf-8") as file:
        return next(i for i, line in enumerate(file, 1) if line.endswith(text + "\n"))


class Builder(python_test.WithPackages, tools.TestCase):
    def setUp(self):
        self.b = self.vm.Builder()

    def run_main(self, *args):
        module = self.b.finish()
        self.assertEqual(module.check(), [])
        return self.vm.compile(module, target="portable")(*args)

    def compute(self, body, **args):
        """What `body` gives for arrays."""
        arrays = {name: numpy.asarray(value) for name, value in args.items()}
        self.b = self.vm.Builder()
        params = {name: self.vm.tensor(*array.shape, dtype=array.dtype) for name, array in arrays.items()}
        self.b.define("main", params, body)
        return self.run_main(*arrays.values())

    def test_operators_of_python(self):
        x, y = numpy.array([5.5, -3.25], "float32"), numpy.array([2, 2], "float32")
        i, j = numpy.array([7, -7, 6], "int32"), numpy.array([3, 3, -4], "int32")
        for body in (lambda x, y: x + y * 2 - 1, lambda x, y: 1 - x / y, lambda x, y: x // y, lambda x, y: x % y,
                     lambda x, y: y ** 2, lambda x, y: -abs(x), lambda x, y: 2 ** y, lambda x, y: numpy.float32(3) * x,
                     lambda x, y: numpy.array([1, 2], "float32") + y):
            numpy.testing.assert_array_equal(self.compute(body, x=x, y=y), body(x, y))
        for body in (lambda x, y: x // y, lambda x, y: x % y, lambda x, y: x & y, lambda x, y: 6 | x,
                     lambda x, y: x ^ y, lambda x, y: ~x, lambda x, y: x * -2, lambda x, y: (x < y) & (x != 6),
                     lambda x, y: ~(x >= 3) | (y == -4), lambda x, y: x > y, lambda x, y: x <= y):
            numpy.testing.assert_array_equal(self.compute(body, x=i, y=j), body(i, j))
        a, c = numpy.arange(6, dtype="float64").reshape(2, 3), numpy.ones((2, 3))
        numpy.testing.assert_array_equal(self.compute(lambda a, c: a @ c.T + 0.5, a=a, c=c), a @ c.T + 0.5)
        self.assertEqual(self.compute(lambda x, y: x.astype("int8"), x=x, y=y).dtype, numpy.int8)

    def test_indices(self):
        x = numpy.arange(24, dtype="float32").reshape(2, 3, 4)
        for body in (lambda x: x[0], lambda x: x[-1], lambda x: x[1, -1], lambda x: x[:, 1], lambda x: x[..., 2],
                     lambda x: x[:, ::-1], lambda x: x[..., -2:], lambda x: x[None, 0], lambda x: x[0, None, ..., None],
                     lambda x: x[:, None, 1:, ::2], lambda x: x[1, ..., 3:0:-2], lambda x: x[...], lambda x: x[:, 1:-1]):
            numpy.testing.assert_array_equal(self.compute(body, x=x), body(x))
        n = numpy.array([2, 0], "int32")
        numpy.testing.assert_array_equal(self.compute(lambda x, n: x[:, n], x=x, n=n), x[:, n])
        numpy.testing.assert_array_equal(self.compute(lambda x, n: x[1:, n, ::2], x=x, n=n), x[1:, n, ::2])
        with self.assertRaisesRegex(IndexError, "saw 4 indices"):
            self.compute(lambda x: x[0, 0, 0, 0], x=x)

    def test_constants(self):
        large = numpy.arange(100, dtype="int64")
        self.b.define("main", {}, lambda: (
            1, -2.5, True, 2**40, float("inf"), -float("inf"), numpy.float64(0.1), numpy.uint8(200), 1e-7,
            numpy.array([[1.5, -2]], "float16"), large, [1, 2], (), (3,)))
        module = self.b.finish()
        results = self.vm.compile(module)()
        dtypes = ["int32", "float32", "bool", "int64", "float32", "float32", "float64", "uint8", "float32", "float16",
                  "int64"]
        self.assertEqual([result.dtype.name for result in results[:11]], dtypes)
        self.assertEqual([float(result) for result in results[:9]],
                         [1, -2.5, 1, 2**40, float("inf"), -float("inf"), 0.1, 200, float(numpy.float32(1e-7))])
        numpy.testing.assert_array_equal(results[10], large)
        self.assertEqual([len(module.params), list(results[11]), results[12:]], [1, [1, 2], ((), (3,))])

    def test_functions_and_data(self):
        b, tensor = self.b, self.vm.tensor
        Tree = b.new_type("Tree", "A", Leaf=["A"], Node=["Tree[A]", "Tree[A]"])

        @b.function
        def even(n: "int32") -> bool:
            return b.if_(n == 0, True, lambda: odd(n - 1))

        @b.function
        def odd(n: "int32") -> bool:
            return b.if_(n == 0, False, lambda: even(n - 1))

        @b.function(type_params=["A"])
        def first(tree: Tree["A"]) -> "A":
            return b.match(tree, {"Leaf(x)": lambda x: x, "Node(left, _)": lambda left: first(left)})

        @b.function(name="main")
        def entry(n: "int32", x: tensor("k"), xs: "List[float32]"):
            total = b.op.sum(x)
            box = b.ref(total)
            scaled = b.prelude.map(b.fn(lambda v: v * total, "float32"), xs)
            box.write(box.read() + 1)
            low, high = b.op.split(x, indices_or_sections=[1])
            one = b.match(n, {"0": lambda: 10, "-1": 20, "_": lambda: n}) + b.match(
                b.prelude.Some(n), {"Some(v)": lambda v: v}, complete=False)
            return even(n), scaled, box.read(), low, high, first(Tree.Node(Tree.Leaf(n), Tree.Leaf(2))), one

        results = self.run_main(7, [1, 2, 3], [0.5, 1])
        self.assertEqual([bool(results[0]), list(results[1]), results[2]], [False, [3, 6], 7])
        self.assertEqual([list(results[3]), list(results[4]), *results[5:]], [[1], [2, 3], 7, 14])

    def test_types(self):
        b, tensor = self.b, self.vm.tensor
        w = b.weight("w", tensor(3, 4, dtype=numpy.float64))
        seen = {}

        @b.function
        def later(x: tensor("n")) -> tensor("2 * n"):
            seen["later"] = step(x).type
            return b.op.concatenate((x, x), axis=0)

        @b.function
        def step(x: tensor("n")):
            return x, b.op.sum(x)

        @b.function
        def main(x: tensor("n", 4, dtype="float64"), c: "Option[Tensor[(?, 2), int32]]"):
            y = b.op.nn.dense(x, w)
            seen["y"] = (y.shape, y.dtype)
            seen["clause"] = b.match(c, {"Some(t)": lambda t: t[0] * 2, "None": lambda: numpy.zeros(2, "int32")}).shape
            b.fn(lambda u: seen.update(inner=(u + y[0]).type) or u, self.vm.Type("Tensor[(3), float64]"))
            seen["later_type"] = later.type
            b.if_(True, lambda: seen.update(branch=y.T.shape) or 1, 2)
            return y

        b.finish()
        self.assertEqual(seen["y"], (("n", 3), "float64"))
        self.assertEqual([seen["clause"], seen["branch"]], [(2,), (3, "n")])
        self.assertEqual(str(seen["inner"]), "Tensor[(3), float64]")
        self.assertEqual(str(seen["later"]), "(Tensor[(n), float32], float32)")
        self.assertEqual(str(seen["later_type"].result), "Tensor[(?), float32]")

    def test_gradients(self):
        b = self.b
        loss = b.define("loss", {"x": self.vm.tensor(3)}, lambda x: b.op.sum(x * x * x))
        b.define("main", {"x": self.vm.tensor(3)}, lambda x: b.op.grad(loss)(x))
        numpy.testing.assert_allclose(self.run_main([1, 2, 3])[1][0], [3, 12, 27])

    def test_places(self):
        """A message and a backtrace name the line of Python."""
        b, tensor = self.b, self.vm.tensor
        b.define("main", {"x": tensor("n", 4)}, lambda x: b.op.nn.dense(
            x * 2,
            x[:, :3]))
        with self.assertRaises(self.vm.CompileError) as caught:
            self.vm.compile(b.finish())
        self.assertIn("builder_test.py", caught.exception.message.split(": error:")[0])

        b = self.vm.Builder()

        @b.function
        def add(x: tensor("n"), y: tensor("m")):
            z = x * 2
            return z + y  # sum of two lengths

        @b.function
        def main(x: tensor("n"), y: tensor("m")):
            return add(x, y), 1

        with self.assertRaises(self.vm.ProgramFailed) as caught:
            self.vm.compile(b.finish())([1, 2], [1, 2, 3])
        self.assertRegex(str(caught.exception), rf"builder_test\.py:{line_of('# sum of two lengths')}")
        b = self.vm.Builder()
        b.define("main", {"x": "int32"}, lambda x: x + 0.5)  # a dtype too many
        found = b.finish().check()[0]
        self.assertTrue(found.file.endswith("builder_test.py"))
        self.assertEqual(found.line, line_of("# a dtype too many"))

    def test_models_are_functions(self):
        """PyTorch models of fixtures, beside the same module compiled alone."""
        path = f"{tools.ROOT}/tests/torch/cnn_core.pt2"
        alone = self.vm.import_torch(path)
        type = self.vm.Type(alone.types()["main"])
        b = self.b
        first, second = b.import_torch(path), b.import_module(alone, "again")
        params = {f"x{i}": param for i, param in enumerate(type._params())}
        seen = []

        def main(*xs):
            seen.append(str(second(*xs).type))  # known while the program is built
            return first(*xs), second(*xs)

        b.define("main", params, main)
        self.assertEqual(b.finish().check(), [])
        self.assertEqual(seen, [str(type.result)])
        shapes = [tuple(3 if isinstance(n, str) else n for n in param.shape) for param in type._params()]
        inputs = [numpy.linspace(-1, 1, int(numpy.prod(shape)), dtype="float32").reshape(shape) for shape in shapes]
        expected = self.vm.compile(alone)(*inputs)
        for given in self.vm.compile(b.finish())(*inputs):
            self.assertEqual(len(given), len(expected))
            for array, right in zip(given, expected):
                numpy.testing.assert_array_equal(array, right)

    def test_misuse_of_imports(self):
        module = self.vm.Module("def @main(%x: int32) { %x }")
        self.b.import_module(module, "f")
        with self.assertRaisesRegex(ValueError, "function `f` is defined twice"):
            self.b.import_module(module, "f")
        with self.assertRaisesRegex(ValueError, "function `f` is defined twice"):
            self.b.define("f", {}, lambda: 1)
        with self.assertRaisesRegex(ValueError, "saw the name 'a b'"):
            self.b.import_module(module, "a b")

    def test_misuse(self):
        b = self.b
        escaped = []

        def leak(x):
            b.if_(x > 0, lambda: escaped.append(x + 1) or 1, 2)
            return escaped[0] * 2

        cases = {
            "has no truth": lambda x: 1 if x > 0 else 2,
            "in a branch or a function that has ended": leak,
            "another Builder": lambda x: x + self.vm.Builder().weight("w", numpy.ones(3)),
            "saw None; expected a Value": lambda x: None,
            "cannot be iterated": lambda x: list(x),
            "saw a Value as an attribute": lambda x: b.op.take(x, x, axis=x),
            "bounds of a slice are numbers": lambda x: b.op.stack((x, x), axis=0)[:x],
            "annotate that result": lambda x: recursive(x)[0],
        }
        for message, body in cases.items():
            self.b = b = self.vm.Builder()
            recursive = b.define("main", {"x": "int32"}, body)
            with self.subTest(message), self.assertRaisesRegex((TypeError, ValueError), re.escape(message)):
                b.finish()
        b = self.vm.Builder()
        with self.assertRaisesRegex(TypeError, "parameter `x` of `f` has no type"):
            b.function(lambda x: x, name="f")
        b.weight("w", numpy.ones(2))
        with self.assertRaisesRegex(ValueError, "weight `w` is defined twice"):
            b.weight("w", numpy.ones(2))
        with self.assertRaisesRegex(ValueError, "saw the name 'a b'"):
            b.weight("a b", numpy.ones(2))
        with self.assertRaisesRegex(TypeError, "made in the body of a function"):
            b.op.zeros(shape=[2], dtype="float32")
        with self.assertRaisesRegex(AttributeError, "type `T` has no constructor `B`"):
            b.new_type("T", A=[]).B
        with self.assertRaises(self.vm.CompileError) as caught:
            b.define("main", {"x": "int32"}, lambda x: b.op.exx(x))
            self.vm.compile(b.finish())
        self.assertIn("no operator is named `exx`", caught.exception.message)


if __name__ == "__main__":
    unittest.main()
