"""Operators of one tensor, element by element."""

import itertools
import math

import numpy as np

from operator_cases.case import FLOATS, random, round_away, wide

SHAPES = [(5,), (2, 3), (3, 1, 17), (0, 4), ()]

_erf = np.vectorize(math.erf, otypes=[np.float64])
FLOAT_UNARY = {
    "exp": (np.exp, -3, 3), "log": (np.log, 0.05, 9), "log2": (np.log2, 0.05, 9), "log10": (np.log10, 0.05, 9),
    "sqrt": (np.sqrt, 0, 9), "rsqrt": (lambda x: 1 / np.sqrt(x), 0.1, 9),
    "sigmoid": (lambda x: 1 / (1 + np.exp(-x)), -8, 8), "tanh": (np.tanh, -5, 5), "erf": (_erf, -3, 3),
    "sin": (np.sin, -4, 4), "cos": (np.cos, -4, 4), "tan": (np.tan, -1.2, 1.2), "asin": (np.arcsin, -0.95, 0.95),
    "acos": (np.arccos, -0.95, 0.95), "atan": (np.arctan, -4, 4), "sinh": (np.sinh, -3, 3), "cosh": (np.cosh, -3, 3),
    "asinh": (np.arcsinh, -3, 3), "acosh": (np.arccosh, 1.1, 5), "atanh": (np.arctanh, -0.9, 0.9),
}
FLOAT_UNARY.update({"fast_exp": FLOAT_UNARY["exp"], "fast_tanh": FLOAT_UNARY["tanh"], "fast_erf": FLOAT_UNARY["erf"]})
ANY_UNARY = {"floor": np.floor, "ceil": np.ceil, "round": round_away, "round_half_even": np.round, "trunc": np.trunc, "sign": np.sign, "abs": np.abs,
             "negative": np.negative, "copy": lambda x: x, "zeros_like": np.zeros_like, "ones_like": np.ones_like,
             "nn.relu": lambda x: np.maximum(x, 0)}


def cases(case):
    for op, (f, low, high) in FLOAT_UNARY.items():
        for dtype in FLOATS:
            for shape in ([(2, 37), ()] if dtype != "float32" else SHAPES):
                x = random(shape, dtype, op, low=low, high=high)
                tolerance = {"float16": 6e-3, "float32": 2e-6, "float64": 1e-7}[dtype]
                case(op, f"{op}(%a)", [x], f(wide(x)).astype(dtype), tolerance)
    # Relative errors, on both sides of where the formula changes.
    for dtype, tolerance in {"float16": 6e-3, "float32": 5e-7, "float64": 1e-14}.items():
        x = np.concatenate([random((40,), dtype, "expm1", low=-3, high=3), random((40,), dtype, "near", low=-0.6, high=0.6),
                            np.array([1e-3, -1e-3, 0.5, -0.5, -30, 9], dtype)])
        x[x == 0] = 1
        case("expm1", "expm1(%a) / %a", [x], (np.expm1(wide(x)) / wide(x)).astype(dtype), tolerance)
        case("expm1", "cast(1f, dtype=\"%s\") / expm1(%%a)" % dtype, [np.array([-0.0, 0.0, np.inf], dtype)], np.array([-np.inf, np.inf, 0], dtype))
    for op, f in ANY_UNARY.items():
        for dtype in FLOATS + ["int8", "int32", "int64", "uint8"]:
            if dtype == "uint8" and op == "negative":
                continue
            x = random((3, 11), dtype, op, low=-5, high=5)
            case(op, f"{op}(%a)", [x], f(x).astype(dtype))
    ties = np.array([-2.5, -1.5, -0.5, -0.0, 0.5, 1.5, 2.5, 3.5, np.inf, np.nan])
    for dtype in FLOATS:
        case("round", "round(%a)", [ties.astype(dtype)], np.array([-3, -2, -1, -0.0, 1, 2, 3, 4, np.inf, np.nan], dtype))
        case("round_half_even", "round_half_even(%a)", [ties.astype(dtype)], np.array([-2, -2, -0.0, -0.0, 0, 2, 2, 4, np.inf, np.nan], dtype))
    case("round", "round(%a)", [np.array([0.49999997, 8388609, -0.49999997], "float32")], np.array([0, 8388609, -0.0], "float32"))
    special = np.array([0.0, -0.0, 1.5, np.inf, -np.inf, np.nan])
    for dtype in FLOATS:
        for op, f in {"isnan": np.isnan, "isinf": np.isinf, "isfinite": np.isfinite, "abs": np.abs, "sign": np.sign,
                      "tanh": np.tanh, "sigmoid": lambda x: 1 / (1 + np.exp(-x)), "exp": np.exp}.items():
            with np.errstate(all="ignore"):
                expected = f(special.astype(dtype))
            case(op, f"{op}(%a)", [special.astype(dtype)], expected, 1e-3)
        x = random((2, 9), dtype, "clip")
        case("clip", "clip(%a, a_min=-0.5f, a_max=1f)", [x], np.clip(x, np.float32(-0.5), np.float32(1)).astype(dtype))
        case("nn.leaky_relu", "nn.leaky_relu(%a, alpha=0.1f)", [x], np.where(x > 0, x, wide(x) * 0.1).astype(dtype))
    for dtype in ["int8", "int32", "uint8", "int64"]:
        x = random((7,), dtype, "bits")
        case("bitwise_not", "bitwise_not(%a)", [x], ~x)
    flags = random((2, 5), "bool", "not")
    case("logical_not", "logical_not(%a)", [flags], ~flags)
    for source, target in itertools.product(["bool", "int8", "uint8", "int32", "int64", "float16", "float32", "float64"], repeat=2):
        x = random((9,), source, "cast", low=-100 if target != "uint8" else 0, high=100)
        if target.startswith("u"):
            x = abs(x) if source != "bool" else x
        case("cast", f'cast(%a, dtype="{target}")', [x], x.astype(target))
        case("cast_like", "cast_like(%a, %b)", [x, np.zeros((1,), target)], x.astype(target))
    edge = np.array([1e30, -1e30, np.nan, np.inf, 300.7, -3.9], np.float32)
    for sizes in (["int8", "uint8"], ["int16", "uint16", "float16"], ["int32", "uint32", "float32"], ["int64", "uint64", "float64"]):
        for source, target in itertools.product(sizes, sizes):
            x = random((3, 5), source, "bits")
            case("reinterpret", f'reinterpret(%a, dtype="{target}")', [x], x.view(target))
            if target != "float16" or source == "float16":  # whose NaNs need not keep their bits
                case("reinterpret", f'reinterpret(reinterpret(%a + %a, dtype="{target}"), dtype="{source}")', [x], x + x)
            case("reinterpret", f'reinterpret(%a, dtype="{target}")', [x[:0]], x[:0].view(target))
    bits = np.array([0x3F80, 0xC000, 0x8000], "uint16")
    case("reinterpret", 'cast(reinterpret(%a, dtype="bfloat16"), dtype="float32")', [bits], np.array([1, -2, -0.0], "float32"))
    case("cast", 'cast(%a, dtype="int32")', [edge], np.array([2**31 - 1, -(2**31), 0, 2**31 - 1, 300, -3], np.int32))
    case("cast", 'cast(%a, dtype="uint8")', [edge], np.array([255, 0, 0, 255, 255, 0], np.uint8))
