"""Operators against numpy: once with the shapes in the program, once with every extent unknown.

One program holds an entry per case; it is run by the reference evaluator and by the VM, unoptimised
and optimised.
"""

import math
import os
import tempfile
import unittest

import numpy as np

import relayvm

LEVELS = (0, 3)
RANDOM = np.random.default_rng(5)


def floats(*shape, low=-2.0, high=2.0):
    return RANDOM.uniform(low, high, shape).astype(np.float32)


def integers(*shape, low=-9, high=9, dtype=np.int32):
    return RANDOM.integers(low, high, shape).astype(dtype)


def bools(*shape):
    return RANDOM.integers(0, 2, shape).astype(bool)


X, Y, POSITIVE, UNIT = floats(5, 7), floats(5, 7), floats(5, 7, low=0.1, high=3), floats(5, 7, low=-0.9, high=0.9)
I, J, B, C = integers(4, 6), integers(4, 6, low=1, high=5), bools(3, 5), bools(3, 5)
ODD = np.array([0, -0.0, 1.5, 2.5, -1.5, -2.5, np.inf, -np.inf, np.nan], np.float32)
CUBE = floats(2, 3, 4)


def softmax(x, axis):
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def layer_norm(x, gamma, beta):
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * gamma + beta


erf = np.vectorize(math.erf)
ROW, GAMMA, BETA = floats(7), floats(7), floats(7)
M, N, W = floats(5, 8), floats(8, 6), floats(6, 8)
AT = np.array([[0, 4], [2, 9]], np.int32)  # 9 is clipped

# (name, expression over %a %b %c, the arguments, the value, also with unknown extents)
CASES = [
    *[(name, f"{name}(%a)", [X], function(X), True) for name, function in [
        ("sin", np.sin), ("cos", np.cos), ("tan", np.tan), ("sinh", np.sinh), ("cosh", np.cosh), ("tanh", np.tanh),
        ("atan", np.arctan), ("exp", np.exp), ("erf", erf), ("abs", np.abs), ("negative", np.negative),
        ("sigmoid", lambda x: 1 / (1 + np.exp(-x))), ("copy", np.copy), ("zeros_like", np.zeros_like),
        ("ones_like", np.ones_like)]],
    *[(name, f"{name}(%a)", [POSITIVE], function(POSITIVE), True) for name, function in [
        ("log", np.log), ("log2", np.log2), ("log10", np.log10), ("sqrt", np.sqrt), ("rsqrt", lambda x: 1 / np.sqrt(x))]],
    *[(name, f"{name}(%a)", [UNIT], function(UNIT), True) for name, function in [("asin", np.arcsin), ("acos", np.arccos)]],
    *[(name, f"{name}(%a)", [ODD], function(ODD), True) for name, function in [
        ("floor", np.floor), ("ceil", np.ceil), ("trunc", np.trunc), ("round", np.rint), ("sign", np.sign), ("isnan", np.isnan),
        ("isinf", np.isinf), ("isfinite", np.isfinite)]],
    *[(name, f"{name}(%a, %b)", [X, Y], function(X, Y), True) for name, function in [
        ("add", np.add), ("subtract", np.subtract), ("multiply", np.multiply), ("divide", np.divide),
        ("maximum", np.maximum), ("minimum", np.minimum)]],
    ("power", "power(%a, %b)", [POSITIVE, Y], np.power(POSITIVE, Y), True),
    *[(name + "_int", f"{name}(%a, %b)", [I, J], function(I, J), True) for name, function in [
        ("divide", lambda a, b: np.trunc(a / b).astype(np.int32)),
        ("floor_divide", np.floor_divide), ("floor_mod", np.mod),
        ("trunc_divide", lambda a, b: np.trunc(a / b).astype(np.int32)), ("trunc_mod", np.fmod),
        ("left_shift", np.left_shift), ("right_shift", np.right_shift), ("bitwise_and", np.bitwise_and),
        ("bitwise_or", np.bitwise_or), ("bitwise_xor", np.bitwise_xor)]],
    ("bitwise_not", "bitwise_not(%a)", [I], np.invert(I), True),
    *[(name, f"{name}(%a, %b)", [I, J], function(I, J), True) for name, function in [
        ("equal", np.equal), ("not_equal", np.not_equal), ("less", np.less), ("less_equal", np.less_equal),
        ("greater", np.greater), ("greater_equal", np.greater_equal)]],
    *[(name, f"{name}(%a, %b)", [B, C], function(B, C), True) for name, function in [
        ("logical_and", np.logical_and), ("logical_or", np.logical_or), ("logical_xor", np.logical_xor)]],
    ("logical_not", "logical_not(%a)", [B], np.logical_not(B), True),
    ("broadcast_row", "%a + %b", [X, ROW], X + ROW, True),
    ("broadcast_both", "%a * %b", [floats(4, 1), floats(1, 3)], None, True),
    ("broadcast_scalar", "%a - 1.5f", [X], X - np.float32(1.5), True),
    ("where", "where(%a, %b, %c)", [X > 0, X, Y], np.where(X > 0, X, Y), True),
    ("clip", "clip(%a, a_min=-1f, a_max=0.5f)", [X], np.clip(X, -1, 0.5), True),
    ("cast", 'cast(%a, dtype="int32")', [X], X.astype(np.int32), True),
    ("cast_like", "cast_like(%a, %b)", [X, I], X.astype(np.int32), True),
    ("relu", "nn.relu(%a)", [X], np.maximum(X, 0), True),
    ("leaky_relu", "nn.leaky_relu(%a, alpha=0.1)", [X], np.where(X > 0, X, np.float32(0.1) * X), True),
    ("bias_add", "nn.bias_add(%a, %b)", [X, ROW], X + ROW, True),
    *[(f"{name}_{label}", f"{name}(%a{attrs})", [CUBE], getattr(np, function)(CUBE, **options), True)
      for name, function in [("sum", "sum"), ("prod", "prod"), ("max", "max"), ("min", "min"), ("mean", "mean"),
                             ("variance", "var")]
      for label, attrs, options in [("all", "", {}), ("axis", ", axis=[1]", {"axis": 1}),
                                    ("kept", ", axis=[0, -1], keepdims=True", {"axis": (0, -1), "keepdims": True})]],
    ("sum_others", "sum(%a, axis=[1], exclude=True)", [CUBE], CUBE.sum(axis=(0, 2)), True),
    ("any", "any(%a, axis=[0])", [B], B.any(axis=0), True),
    ("all", "all(%a, axis=[1])", [B], B.all(axis=1), True),
    ("argmax", "argmax(%a, axis=[1])", [CUBE], CUBE.argmax(axis=1).astype(np.int32), True),
    ("argmin", "argmin(%a, axis=[-1])", [CUBE], CUBE.argmin(axis=-1).astype(np.int32), True),
    ("argmax_first", "argmax(%a)", [np.array([1, 3, 3], np.float32)], np.array(1, np.int32), True),
    ("argmax_last", "argmax(%a, select_last_index=True)", [np.array([1, 3, 3], np.float32)], np.array(2, np.int32), True),
    ("transpose", "transpose(%a)", [CUBE], CUBE.T, True),
    ("transpose_axes", "transpose(%a, axes=[1, 0, 2])", [CUBE], CUBE.transpose(1, 0, 2), True),
    ("reshape", "reshape(%a, newshape=[4, -1])", [CUBE], CUBE.reshape(4, 6), True),
    ("reshape_like", "reshape_like(%a, %b)", [CUBE, I], CUBE.reshape(4, 6), True),
    ("expand_dims", "expand_dims(%a, axis=1)", [X], X[:, None], True),
    ("squeeze", "squeeze(%a, axis=[1])", [floats(3, 1, 2)], None, False),
    ("batch_flatten", "nn.batch_flatten(%a)", [CUBE], CUBE.reshape(2, 12), True),
    ("broadcast_to", "broadcast_to(%a, shape=[5, 7])", [ROW], np.broadcast_to(ROW, (5, 7)), False),
    ("broadcast_to_like", "broadcast_to_like(%a, %b)", [ROW, X], np.broadcast_to(ROW, (5, 7)), True),
    ("repeat", "repeat(%a, repeats=3, axis=1)", [X], X.repeat(3, axis=1), True),
    ("tile", "tile(%a, reps=[2, 3])", [X], np.tile(X, (2, 3)), True),
    ("reverse", "reverse(%a, axis=1)", [X], X[:, ::-1], True),
    ("concatenate", "concatenate((%a, %b, %a), axis=1)", [X, Y], np.concatenate((X, Y, X), 1), True),
    ("stack", "stack((%a, %b), axis=1)", [X, Y], np.stack((X, Y), 1), True),
    ("split_parts", "split(%a, indices_or_sections=[2, 3], axis=0).1", [X], X[2:3], True),
    ("split_even", "split(%a, indices_or_sections=4, axis=1).2", [M], M[:, 4:6], True),
    ("strided_slice", "strided_slice(%a, begin=[1, 0], end=[4, 7], strides=[2, 3])", [X], X[1:4:2, 0:7:3], True),
    ("take_axis", "take(%a, %b, axis=0)", [X, AT], X[np.minimum(AT, 4)], True),
    ("take_flat", "take(%a, %b)", [X, AT], X.reshape(-1)[AT], True),
    ("take_wrap", 'take(%a, %b, axis=1, mode="wrap")', [X, AT], X[:, AT % 7], True),
    ("one_hot", 'one_hot(%a, 5f, 1f, depth=4, dtype="float32")', [np.array([0, 3, 7], np.int32)],
     np.array([[5, 1, 1, 1], [1, 1, 1, 5], [1, 1, 1, 1]], np.float32), True),
    ("full", "full(%a, shape=[2, 3])", [np.array(4, np.float32)], np.full((2, 3), 4, np.float32), False),
    ("full_like", "full_like(%a, 2f)", [X], np.full_like(X, 2), True),
    ("shape_of", "shape_of(%a)", [CUBE], np.array([2, 3, 4], np.int32), True),
    ("ndarray_size", "ndarray_size(%a)", [CUBE], np.array(24, np.int32), True),
    ("dense", "nn.dense(%a, %b)", [M, W], M @ W.T, True),
    ("dense_large", "nn.dense(%a, %b)", [floats(33, 70), floats(65, 70)], None, True),
    ("dense_chain", "nn.relu(nn.dense(%a, %b) + %c)", [M, W, floats(6)], None, True),
    ("matmul", "nn.matmul(%a, %b)", [M, N], M @ N, True),
    ("matmul_transposed", "nn.matmul(%a, %b, transpose_a=True, transpose_b=True)", [floats(8, 5), W], None, True),
    ("batch_matmul", "nn.batch_matmul(%a, %b, transpose_a=False, transpose_b=False)", [CUBE, floats(2, 4, 5)], None, True),
    ("batch_matmul_transposed", "nn.batch_matmul(%a, %b, transpose_b=True)", [CUBE, floats(2, 5, 4)], None, True),
    ("softmax", "nn.softmax(%a, axis=0)", [X], softmax(X, 0), True),
    ("log_softmax", "nn.log_softmax(%a)", [X], np.log(softmax(X, -1)), True),
    ("layer_norm", "nn.layer_norm(%a, %b, %c)", [X, GAMMA, BETA], layer_norm(X, GAMMA, BETA), True),
]
# What is easier said of the arguments.
FROM_ARGUMENTS = {
    "broadcast_both": lambda a, b: a * b,
    "squeeze": lambda a: a[:, 0],
    "dense_large": lambda a, b: a @ b.T,
    "dense_chain": lambda a, b, c: np.maximum(a @ b.T + c, 0),
    "matmul_transposed": lambda a, b: a.T @ b.T,
    "batch_matmul": lambda a, b: a @ b,
    "batch_matmul_transposed": lambda a, b: a @ b.transpose(0, 2, 1),
}


def type_text(array, known):
    if array.ndim == 0:
        return str(array.dtype)
    return f"Tensor[({', '.join(str(n) if known else '?' for n in array.shape)}), {array.dtype}]"


def program():
    lines = ['#[version = "0.0.5"]']
    for name, expression, arguments, _, erased in CASES:
        for known in (True, False) if erased else (True,):
            parameters = ", ".join(f"%{v}: {type_text(a, known)}" for v, a in zip("abc", arguments))
            lines.append(f"def @{name}{'' if known else '_erased'}({parameters}) {{ {expression} }}")
    return "\n".join(lines) + "\n"


class Operators(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.source = cls.path("operators.relay")
        with open(cls.source, "w", encoding="utf-8") as file:
            file.write(program())
        cls.models = {level: relayvm.compile_file(cls.source, cls.path(f"o{level}.rvm"), level, extra=cls.entries())
                      for level in LEVELS}

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    @classmethod
    def path(cls, name):
        return os.path.join(cls.folder.name, name)

    @staticmethod
    def entries():
        names = [name + suffix for name, _, _, _, erased in CASES for suffix in (("", "_erased") if erased else ("",))]
        return [flag for name in names for flag in ("--entry", name)]

    def compare(self, text, expected):
        value = np.array(relayvm.parse_value(text))
        self.assertEqual(value.shape, expected.shape)
        np.testing.assert_allclose(value, expected, rtol=2e-5, atol=1e-5)

    def check_case(self, case):
        name, _, arguments, expected, erased = case
        if expected is None:
            expected = FROM_ARGUMENTS[name](*arguments)
        files = []
        for v, array in zip("abc", arguments):
            file = self.path(f"{name}_{v}.npy")
            np.save(file, array)
            files.append("@" + file)
        for entry in (name, name + "_erased") if erased else (name,):
            with self.subTest(f"{entry}, reference evaluator"):
                self.compare(relayvm.evaluate(self.source, *files, entry=entry), expected)
            for level, model in self.models.items():
                with self.subTest(f"{entry}, VM -O{level}"):
                    self.compare(relayvm.execute(model, *files, entry=entry), expected)


def add_tests():
    for case in CASES:
        setattr(Operators, f"test_{case[0]}", lambda self, case=case: self.check_case(case))


add_tests()
