"""Operators of two tensors, element by element, with broadcasting."""

import numpy as np

from operator_cases.case import FLOATS, INTS, random, wide

PAIRS = [((4, 5), (4, 5)), ((3, 1, 4), (5, 1)), ((7,), ()), ((0, 3), (1, 3)), ((2, 33), (33,))]


def _truncated(f):
    def g(a, b):
        safe = np.where(b == 0, 1, b)
        return np.where(b == 0, 0, f(a, safe)).astype(a.dtype)
    return g


def _trunc_div(a, b):
    if a.dtype.kind == "u":
        return a // b
    quotient = np.abs(a.astype(object)) // np.abs(b.astype(object))
    return np.where((a < 0) != (b < 0), -quotient, quotient)


ARITHMETIC = {
    "add": np.add, "subtract": np.subtract, "multiply": np.multiply, "maximum": np.maximum, "minimum": np.minimum,
}
COMPARISON = {"equal": np.equal, "not_equal": np.not_equal, "less": np.less, "less_equal": np.less_equal,
              "greater": np.greater, "greater_equal": np.greater_equal}


def cases(case):
    for op, f in ARITHMETIC.items():
        for dtype in FLOATS + INTS:
            for left, right in PAIRS if dtype in ("float32", "int32") else PAIRS[:2]:
                a, b = random(left, dtype, op, "a"), random(right, dtype, op, "b")
                with np.errstate(over="ignore"):
                    case(op, f"{op}(%a, %b)", [a, b], f(a, b))
    for op, f in COMPARISON.items():
        for dtype in FLOATS + INTS + ["bool"]:
            left, right = PAIRS[1]
            a, b = random(left, dtype, op, "a"), random(right, dtype, op, "b")
            case(op, f"{op}(%a, %b)", [a, b], f(a, b))
    for dtype in FLOATS:
        for left, right in PAIRS:
            a, b = random(left, dtype, "a"), random(right, dtype, "b", low=0.3)
            case("divide", "%a / %b", [a, b], (wide(a) / wide(b)).astype(dtype))
            case("power", "power(%a, %b)", [np.abs(a) + np.asarray(0.1, dtype), b], (wide(np.abs(a) + np.asarray(0.1, dtype)) ** wide(b)).astype(dtype), 5e-3 if dtype == "float16" else 1e-5)
            case("floor_divide", "floor_divide(%a, %b)", [a, b], np.floor(a / b).astype(dtype))
            case("floor_mod", "floor_mod(%a, %b)", [a, b], (a - b * np.floor(a / b)).astype(dtype), 1e-2 if dtype == "float16" else 1e-5)
            case("trunc_divide", "trunc_divide(%a, %b)", [a, b], np.trunc(a / b).astype(dtype))
            case("mod", "mod(%a, %b)", [a, b], (a - b * np.trunc(a / b)).astype(dtype), 1e-2 if dtype == "float16" else 1e-5)
            case("trunc_mod", "trunc_mod(%a, %b)", [a, b], (a - b * np.trunc(a / b)).astype(dtype), 1e-2 if dtype == "float16" else 1e-5)
    for dtype in INTS:
        a, b = random((6, 7), dtype, "a"), random((7,), dtype, "b")
        case("divide", "%a / %b", [a, b], _truncated(_trunc_div)(a, b))
        case("trunc_divide", "trunc_divide(%a, %b)", [a, b], _truncated(_trunc_div)(a, b))
        case("floor_divide", "floor_divide(%a, %b)", [a, b], _truncated(lambda x, y: x // y)(a, b))
        case("floor_mod", "floor_mod(%a, %b)", [a, b], _truncated(lambda x, y: x % y)(a, b))
        case("trunc_mod", "trunc_mod(%a, %b)", [a, b], _truncated(lambda x, y: x - y * _trunc_div(x, y))(a, b))
        for op, f in {"bitwise_and": np.bitwise_and, "bitwise_or": np.bitwise_or, "bitwise_xor": np.bitwise_xor}.items():
            case(op, f"{op}(%a, %b)", [a, b], f(a, b))
        shift = random((7,), "uint8", "shift") % 7
        case("left_shift", "left_shift(%a, %b)", [a, shift.astype(dtype)], np.left_shift(a, shift.astype(dtype)))
        case("right_shift", "right_shift(%a, %b)", [a, shift.astype(dtype)], np.right_shift(a, shift.astype(dtype)))
    nan = np.array([np.nan, 1, 2], np.float32)
    case("maximum", "maximum(%a, %b)", [nan, np.float32([0, np.nan, 1])], np.maximum(nan, np.float32([0, np.nan, 1])))
    case("minimum", "minimum(%a, %b)", [nan, np.float32([0, np.nan, 1])], np.minimum(nan, np.float32([0, np.nan, 1])))
    least = np.array([-(2**31)], np.int32)
    case("divide", "%a / %b", [least, np.array([-1], np.int32)], least)
    for op, f in {"logical_and": np.logical_and, "logical_or": np.logical_or, "logical_xor": np.logical_xor}.items():
        for left, right in PAIRS:
            a, b = random(left, "bool", op, "a"), random(right, "bool", op, "b")
            case(op, f"{op}(%a, %b)", [a, b], f(a, b))
    for dtype in FLOATS + ["int32", "bool"]:
        c, x, y = random((3, 1), "bool", dtype), random((3, 4), dtype, "x"), random((4,), dtype, "y")
        case("where", "where(%a, %b, %c)", [c, x, y], np.where(c, x, y))
        if dtype != "bool":
            x, bias = random((2, 3, 5), dtype, "x"), random((3,), dtype, "bias")
            case("nn.bias_add", "nn.bias_add(%a, %b)", [x, bias], x + bias[None, :, None])
            case("nn.bias_add", "nn.bias_add(%a, %b, axis=-1)", [x, x[0, 0]], x + x[0, 0])
