"""What each operator must compute, as numpy says it: one case per operator, form and dtype.

A case is (operator, Relay expression over %a, %b, ..., inputs, expected array, tolerance).
"""

import itertools
import math

import numpy as np

FLOATS = ["float16", "float32", "float64"]
INTS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
TOLERANCE = {"float16": 4e-3, "float32": 3e-6, "float64": 1e-9}

_cases = []


class Case:
    def __init__(self, op, expression, inputs, expected, tolerance=None):
        self.op, self.expression = op, expression
        self.inputs = [np.asarray(a) for a in inputs]
        self.expected = np.asarray(expected)
        name = str(self.expected.dtype)
        self.tolerance = tolerance if tolerance is not None else TOLERANCE.get(name, 0)


def case(op, expression, inputs, expected, tolerance=None):
    _cases.append(Case(op, expression, inputs, expected, tolerance))


def rng(*key):
    return np.random.default_rng(abs(hash_text("/".join(map(str, key)))))


def hash_text(text):
    value = 7
    for c in text:
        value = (value * 31 + ord(c)) % (1 << 61)
    return value


def random(shape, dtype, *key, low=-2.0, high=2.0):
    generator = rng(shape, dtype, *key)
    if dtype == "bool":
        return generator.integers(0, 2, shape).astype(bool)
    if dtype.startswith("float"):
        return generator.uniform(low, high, shape).astype(dtype)
    limits = np.iinfo(dtype)
    return generator.integers(max(limits.min, -20), min(limits.max, 20), shape, endpoint=True).astype(dtype)


def wide(array):
    """float16 is computed in float32 and rounded once, everything else in float64 or as it is."""
    return array.astype(np.float64) if array.dtype.kind == "f" else array


SHAPES = [(5,), (2, 3), (3, 1, 17), (0, 4), ()]


# ---- elementwise ---------------------------------------------------------------

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
ANY_UNARY = {"floor": np.floor, "ceil": np.ceil, "round": np.round, "trunc": np.trunc, "sign": np.sign, "abs": np.abs,
             "negative": np.negative, "copy": lambda x: x, "zeros_like": np.zeros_like, "ones_like": np.ones_like,
             "nn.relu": lambda x: np.maximum(x, 0)}


def elementwise():
    for op, (f, low, high) in FLOAT_UNARY.items():
        for dtype in FLOATS:
            for shape in ([(2, 37), ()] if dtype != "float32" else SHAPES):
                x = random(shape, dtype, op, low=low, high=high)
                tolerance = {"float16": 6e-3, "float32": 2e-6, "float64": 1e-7}[dtype]
                case(op, f"{op}(%a)", [x], f(wide(x)).astype(dtype), tolerance)
    for op, f in ANY_UNARY.items():
        for dtype in FLOATS + ["int8", "int32", "int64", "uint8"]:
            if dtype == "uint8" and op == "negative":
                continue
            x = random((3, 11), dtype, op, low=-5, high=5)
            case(op, f"{op}(%a)", [x], f(x).astype(dtype))
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
    case("cast", 'cast(%a, dtype="int32")', [edge], np.array([2**31 - 1, -(2**31), 0, 2**31 - 1, 300, -3], np.int32))
    case("cast", 'cast(%a, dtype="uint8")', [edge], np.array([255, 0, 0, 255, 255, 0], np.uint8))


# ---- binary ------------------------------------------------------------------------

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


def binary():
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


# ---- reductions ------------------------------------------------------------------------

AXES = [("", None), ("axis=1", (1,)), ("axis=[0, 2], keepdims=True", (0, 2)), ("axis=-1", (2,)), ("axis=[1], exclude=True", (0, 2)),
        ("axis=[]", ())]


def reductions():
    functions = {"sum": np.sum, "prod": np.prod, "max": np.max, "min": np.min, "mean": np.mean, "variance": np.var}
    for op, f in functions.items():
        for dtype in FLOATS + (["int32", "int64", "uint8"] if op in ("sum", "max", "min", "prod") else []):
            for attrs, axes in AXES:
                x = random((3, 4, 5), dtype, op, low=-1.5, high=1.5)
                keepdims = "keepdims" in attrs
                with np.errstate(over="ignore"):
                    expected = f(wide(x), axis=axes, keepdims=keepdims)
                tolerance = {"float16": 8e-3, "float32": 1e-5, "float64": 1e-9}.get(dtype, 0)
                case(op, f"{op}(%a{', ' + attrs if attrs else ''})", [x], np.asarray(expected).astype(dtype), tolerance)
    for op, f in {"all": np.all, "any": np.any}.items():
        for attrs, axes in AXES:
            x = random((2, 3, 4), "bool", op)
            case(op, f"{op}(%a{', ' + attrs if attrs else ''})", [x], f(x, axis=axes, keepdims="keepdims" in attrs))
    for op, f in {"argmax": np.argmax, "argmin": np.argmin}.items():
        for dtype in FLOATS + ["int32", "uint8"]:
            x = random((3, 40), dtype, op)
            case(op, f"{op}(%a, axis=1)", [x], f(x, axis=1).astype(np.int32))
            case(op, f"{op}(%a, axis=[-2])", [x], f(x, axis=0).astype(np.int32))
            case(op, f"{op}(%a, axis=1, keepdims=True)", [x], f(x, axis=1)[:, None].astype(np.int32))
            last = x.shape[1] - 1 - f(x[:, ::-1], axis=1)
            case(op, f"{op}(%a, axis=1, select_last_index=True)", [x], last.astype(np.int32))
    x = random((4, 6), "float32", "unbiased")
    case("variance", "variance(%a, axis=1, unbiased=True)", [x], np.var(wide(x), axis=1, ddof=1).astype("float32"), 1e-5)
    long = random((2, 1000), "float32", "long")
    case("sum", "sum(%a, axis=1)", [long], long.sum(axis=1, dtype=np.float64).astype("float32"), 1e-4)


# ---- shapes ---------------------------------------------------------------------------

MOVED = ["float16", "float32", "float64", "int8", "int32", "int64", "uint8", "bool"]


def shapes():
    for dtype in MOVED:
        x = random((2, 3, 4), dtype, "shapes")
        y = random((2, 1, 4), dtype, "more")
        case("reshape", "reshape(%a, newshape=[4, -1])", [x], x.reshape(4, -1))
        case("reshape", "reshape(%a, newshape=[0, -1])", [x], x.reshape(2, -1))
        case("reshape", "reshape(%a, newshape=[-3, 0])", [x], x.reshape(6, 4))
        case("reshape", "reshape(%a, newshape=[-4, 1, 2, -2])", [x], x.reshape(1, 2, 3, 4))
        case("reshape", "copy(reshape(copy(%a), newshape=[24]))", [x], x.reshape(24))
        case("reshape_like", "reshape_like(%a, %b)", [x, random((6, 4), dtype)], x.reshape(6, 4))
        case("transpose", "transpose(%a)", [x], x.T)
        case("transpose", "transpose(%a, axes=[1, 0, 2])", [x], x.transpose(1, 0, 2))
        case("transpose", "transpose(%a, axes=[0, -1, 1])", [x], x.transpose(0, 2, 1))
        case("expand_dims", "expand_dims(%a, axis=1)", [x], x[:, None])
        case("expand_dims", "expand_dims(%a, axis=-1, num_newaxis=2)", [x], x[..., None, None])
        case("squeeze", "squeeze(%a, axis=[1])", [y], y[:, 0])
        case("nn.batch_flatten", "nn.batch_flatten(%a)", [x], x.reshape(2, 12))
        case("broadcast_to", "broadcast_to(%a, shape=[2, 3, 4])", [y], np.broadcast_to(y, (2, 3, 4)))
        case("broadcast_to_like", "broadcast_to_like(%a, %b)", [y, x], np.broadcast_to(y, (2, 3, 4)))
        case("repeat", "repeat(%a, repeats=2, axis=1)", [x], np.repeat(x, 2, axis=1))
        case("repeat", "repeat(%a, repeats=3)", [x], np.repeat(x, 3))
        case("tile", "tile(%a, reps=[2, 1, 3])", [x], np.tile(x, (2, 1, 3)))
        case("tile", "tile(%a, reps=[2])", [x], np.tile(x, (2,)))
        case("reverse", "reverse(%a, axis=1)", [x], x[:, ::-1])
        case("concatenate", "concatenate((%a, %b, %a), axis=1)", [x, y], np.concatenate([x, y, x], axis=1))
        case("concatenate", "concatenate((%a, %a), axis=-1)", [x], np.concatenate([x, x], axis=-1))
        case("stack", "stack((%a, %a), axis=1)", [x], np.stack([x, x], axis=1))
        case("split", "split(%a, indices_or_sections=2, axis=2).1", [x], np.split(x, 2, axis=2)[1])
        case("split", "split(%a, indices_or_sections=[1, 3], axis=2).1", [x], x[:, :, 1:3])
        case("split", "{ let %s = split(%a, indices_or_sections=3, axis=1); concatenate((%s.2, %s.0), axis=1) }", [x],
             np.concatenate([x[:, 2:], x[:, :1]], axis=1))
        case("strided_slice", "strided_slice(%a, begin=[0, 1], end=[2, 3])", [x], x[0:2, 1:3])
        case("strided_slice", "strided_slice(%a, begin=[0, 0, 0], end=[2, 3, 4], strides=[1, 2, 3])", [x], x[::1, ::2, ::3])
        case("strided_slice", "strided_slice(%a, begin=[-2], end=[-1], axes=[2])", [x], x[:, :, -2:-1])
        case("strided_slice", 'strided_slice(%a, begin=[0, 1], end=[1, -1], slice_mode="size")', [x], x[0:1, 1:])
        if dtype != "bool":
            like = random((2, 2, 9), dtype)
            case("slice_like", "slice_like(%a, %b, axes=[0, 1])", [x, like], x[:, :2])
            case("full", f'full(%a, shape=[2, 3], dtype="{dtype}")', [np.asarray(x[0, 0, 0])], np.full((2, 3), x[0, 0, 0]))
        case("full_like", "full_like(%a, %b)", [x, np.asarray(x[0, 0, 0])], np.full_like(x, x[0, 0, 0]))
        case("zeros", f'zeros(shape=[2, 0, 3], dtype="{dtype}")', [], np.zeros((2, 0, 3), dtype))
        case("ones", f'ones(shape=[5], dtype="{dtype}")', [], np.ones((5,), dtype))
        case("layout_transform", 'layout_transform(%a, src_layout="NCW", dst_layout="WNC")', [x], x.transpose(2, 0, 1))
        case("shape_of", 'shape_of(%a, dtype="int64")', [x], np.array([2, 3, 4]))
        case("ndarray_size", 'ndarray_size(%a, dtype="int32")', [x], np.int32(24))
    wide_x = random((20, 3), "float32", "concat")
    many = ", ".join(["%a"] * 9)
    case("concatenate", f"concatenate(({many}), axis=0)", [wide_x], np.concatenate([wide_x] * 9))


# ---- places -------------------------------------------------------------------------------

def places():
    for dtype in ["float32", "float64", "int32", "uint8"]:
        x = random((4, 5, 3), dtype, "places")
        for index in ["int32", "int64", "uint8"]:
            rows = np.array([3, 0, 0, 2], index)
            case("take", "take(%a, %b, axis=0)", [x, rows], x[rows])
            case("take", "take(%a, %b, axis=1)", [x, rows], np.take(x, rows, axis=1))
            case("take", "take(%a, %b)", [x, rows], np.take(x, rows))
            case("take", "take(%a, %b, axis=-1)", [x, (rows % 3).reshape(2, 2)], np.take(x, (rows % 3).reshape(2, 2), axis=-1))
            one = np.asarray(rows[0])
            case("take", "take(%a, %b, axis=0)", [x, one], x[3])
        out = np.array([-1, 9, 2], "int32")
        case("take", 'take(%a, %b, axis=0, mode="clip")', [x, out], x[[0, 3, 2]])
        case("take", 'take(%a, %b, axis=0, mode="wrap")', [x, out], x[[3, 1, 2]])
        at = rng(dtype, "gather").integers(0, 5, (4, 2, 3)).astype("int64")
        case("gather", "gather(%a, %b, axis=1)", [x, at], np.take_along_axis(x, at, axis=1))
        pairs = np.array([[3, 0, 1], [4, 2, 0]], "int32")
        case("gather_nd", "gather_nd(%a, %b)", [x, pairs], x[pairs[0], pairs[1]])
        batched = np.array([[1, 0, 4, 2]], "int32")
        case("gather_nd", "gather_nd(%a, %b, batch_dims=1)", [x, batched], x[np.arange(4), batched[0]])
        indices = np.array([[0, 2, 2], [4, 0, 2]], "int32")
        data, updates = random((5, 3), dtype, "data"), random((2, 3), dtype, "updates")
        for mode in ["update", "add", "mul", "min", "max"]:
            expected = data.copy()
            for i, j in itertools.product(range(2), range(3)):
                _fold(expected, (indices[i, j], j), updates[i, j], mode)
            case("scatter_elements", f'scatter_elements(%a, %b, %c, axis=0, reduction="{mode}")', [data, indices, updates], expected)
            expected = data.copy()
            where = np.array([[0, 4, 0], [1, 2, 1]], "int64")
            for i in range(3):
                _fold(expected, (where[0, i], where[1, i]), updates[0, i], mode)
            case("scatter_nd", f'scatter_nd(%a, %b, %c, mode="{mode}")', [data, where, updates[0]], expected)
        hot = np.array([[0, 2], [3, 9]], "int32")
        on, off = np.asarray(1, dtype), np.asarray(0, dtype)
        expected = (hot[..., None] == np.arange(4)).astype(dtype)
        case("one_hot", f'one_hot(%a, %b, %c, depth=4, dtype="{dtype}")', [hot, on, off], expected)
        case("one_hot", f'one_hot(%a, %b, %c, depth=4, axis=0, dtype="{dtype}")', [hot, on, off], np.moveaxis(expected, -1, 0))
        sequence, lengths = random((5, 3, 2), dtype, "sequence"), np.array([2, 5, 0], "int32")
        inside = np.arange(5)[:, None] < lengths
        case("sequence_mask", "sequence_mask(%a, %b, mask_value=7f)", [sequence, lengths],
             np.where(inside[..., None], sequence, np.asarray(7, dtype)))
        flipped = sequence.copy()
        for b, n in enumerate(lengths):
            flipped[:n, b] = sequence[:n, b][::-1]
        case("reverse_sequence", "reverse_sequence(%a, %b, seq_axis=0, batch_axis=1)", [sequence, lengths], flipped)
        matrix = random((2, 4, 5), dtype, "trilu")
        case("trilu", "trilu(%a, %b)", [matrix, np.asarray(1, "int32")], np.triu(matrix, 1))
        case("trilu", "trilu(%a, %b, upper=False)", [matrix, np.asarray(-1, "int64")], np.tril(matrix, -1))
        row = random((3, 6), dtype, "scan", low=0.5, high=1.5)
        tolerance = 1e-5 if dtype == "float32" else None
        case("cumsum", "cumsum(%a, axis=1)", [row], np.cumsum(row, axis=1, dtype=dtype), tolerance)
        case("cumsum", "cumsum(%a)", [row], np.cumsum(row, dtype=dtype), tolerance)
        case("cumsum", "cumsum(%a, axis=0, exclusive=True)", [row], (np.cumsum(row, axis=0, dtype=dtype) - row).astype(dtype), tolerance)
        case("cumprod", "cumprod(%a, axis=1)", [row], np.cumprod(row, axis=1, dtype=dtype), tolerance)
        summed = random((4, 3, 5), dtype, "collapse")
        case("collapse_sum_like", "collapse_sum_like(%a, %b)", [summed, random((3, 1), dtype)],
             summed.sum(axis=(0, 2), keepdims=True, dtype=dtype)[0], 1e-5)
    case("arange", "arange(1, 10, 3, dtype=\"int32\")", [], np.arange(1, 10, 3, dtype="int32"))
    case("arange", "arange(0f, 1f, 0.25f, dtype=\"float32\")", [], np.arange(0, 1, 0.25, dtype="float32"))
    case("arange", "arange(5, 0, -2)", [], np.arange(5, 0, -2, dtype="int32"))
    for dtype in ["float32", "float64", "int32", "uint8"]:
        x = random((3, 17), dtype, "sort")
        case("sort", "sort(%a)", [x], np.sort(x, axis=-1))
        case("sort", "sort(%a, axis=0, is_ascend=False)", [x], -np.sort(-x.astype("float64"), axis=0) if dtype != "x" else None)
        _cases[-1].expected = _cases[-1].expected.astype(dtype)
        case("argsort", "argsort(%a)", [x], np.argsort(x, axis=-1, kind="stable").astype("int32"))
        order = np.argsort(-x.astype("float64"), axis=-1, kind="stable")[:, :5]
        case("topk", 'topk(%a, k=5, ret_type="values")', [x], np.take_along_axis(x, order, axis=-1))
        case("topk", 'topk(%a, k=5, ret_type="indices", dtype="int64")', [x], order)
        case("topk", "topk(%a, k=5).1", [x], order.astype("int32"))
    nan = np.array([2, np.nan, 1, np.inf], np.float32)
    case("sort", "sort(%a)", [nan], np.sort(nan))


def _fold(array, at, value, mode):
    if mode == "update":
        array[at] = value
    elif mode == "add":
        array[at] += value
    elif mode == "mul":
        array[at] *= value
    else:
        array[at] = (min if mode == "min" else max)(array[at], value)


# ---- neural networks ----------------------------------------------------------------------

def _softmax(x, axis):
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def neural():
    for dtype in FLOATS:
        tolerance = {"float16": 2e-2, "float32": 2e-5, "float64": 1e-9}[dtype]
        for m, n, k in [(1, 1, 1), (1, 8, 5), (3, 17, 33), (16, 64, 64), (5, 100, 7), (1, 256, 256), (2, 3, 0)]:
            a, w = random((m, k), dtype, "a"), random((n, k), dtype, "w")
            case("nn.dense", "nn.dense(%a, %b)", [a, w], (wide(a) @ wide(w).T).astype(dtype), tolerance * max(1, k / 8))
            case("nn.matmul", "nn.matmul(%a, %b)", [a, w.T.copy()], (wide(a) @ wide(w).T).astype(dtype), tolerance * max(1, k / 8))
        a, w = random((4, 6), dtype, "a"), random((4, 5), dtype, "w")
        case("nn.matmul", "nn.matmul(%a, %b, transpose_a=True)", [a, w], (wide(a).T @ wide(w)).astype(dtype), tolerance)
        x, w = random((2, 3, 6), dtype, "x"), random((5, 6), dtype, "w")
        case("nn.dense", "nn.dense(%a, %b, units=5)", [x, w], (wide(x) @ wide(w).T).astype(dtype), tolerance)
        case("nn.dense", "nn.relu(nn.bias_add(nn.dense(%a, %b), %c, axis=-1))", [x, w, w[:, 0].copy()],
             np.maximum((wide(x) @ wide(w).T) + wide(w[:, 0]), 0).astype(dtype), tolerance)
        p, q = random((3, 4, 5), dtype, "p"), random((3, 5, 6), dtype, "q")
        case("nn.batch_matmul", "nn.batch_matmul(%a, %b)", [p, q], (wide(p) @ wide(q)).astype(dtype), tolerance)
        case("nn.batch_matmul", "nn.batch_matmul(%a, %b, transpose_b=True)", [p, q.transpose(0, 2, 1).copy()],
             (wide(p) @ wide(q)).astype(dtype), tolerance)
        case("nn.batch_matmul", "nn.batch_matmul(%a, %b, transpose_a=True)", [p.transpose(0, 2, 1).copy(), q[:1].copy()],
             (wide(p) @ wide(q[:1])).astype(dtype), tolerance)
        y = random((3, 10, 2), dtype, "softmax", low=-4, high=4)
        for axis in (-1, 1, 0):
            case("nn.softmax", f"nn.softmax(%a, axis={axis})", [y], _softmax(wide(y), axis).astype(dtype), tolerance)
            case("nn.log_softmax", f"nn.log_softmax(%a, axis={axis})", [y], np.log(_softmax(wide(y), axis)).astype(dtype), tolerance)
        gamma, beta = random((10,), dtype, "gamma"), random((10,), dtype, "beta")
        mean, var = wide(y).mean(1, keepdims=True), wide(y).var(1, keepdims=True)
        normal = (wide(y) - mean) / np.sqrt(var + 1e-5)
        case("nn.layer_norm", "nn.layer_norm(%a, %b, %c, axis=1)", [y, gamma, beta],
             (normal * wide(gamma)[:, None] + wide(beta)[:, None]).astype(dtype), tolerance * 2)
        moving = random((10,), dtype, "moving", low=0.2, high=1)
        expected = (wide(y) - wide(beta)[:, None]) / np.sqrt(wide(moving)[:, None] + 1e-5) * wide(gamma)[:, None] + wide(beta)[:, None]
        case("nn.batch_norm", "nn.batch_norm(%a, %b, %c, %d, %e).0", [y, gamma, beta, beta, moving], expected.astype(dtype), tolerance * 4)
        case("nn.batch_norm", "nn.batch_norm(%a, %b, %c, %d, %e).2", [y, gamma, beta, beta, moving], moving)
        case("nn.dropout", "nn.dropout(%a).0", [y], y)
        case("nn.dropout", "nn.dropout(%a, rate=0.1f).1", [y], np.ones_like(y))
        images = random((2, 4, 7, 6), dtype, "images")
        filters = random((6, 4, 3, 2), dtype, "filters")
        for attrs, options in [("", {}), (", padding=[1, 1]", {"pad": (1, 1, 1, 1)}), (", strides=[2, 1], padding=[0, 1, 2, 0]",
                               {"stride": (2, 1), "pad": (0, 1, 2, 0)}), (", dilation=[2, 2]", {"dilation": (2, 2)})]:
            case("nn.conv2d", f"nn.conv2d(%a, %b{attrs})", [images, filters], _conv2d(wide(images), wide(filters), **options).astype(dtype), tolerance * 4)
        case("nn.conv2d", "nn.conv2d(%a, %b, groups=2)", [images, filters[:, :2].copy()],
             _conv2d(wide(images), wide(filters[:, :2]), groups=2).astype(dtype), tolerance * 4)
        case("nn.conv2d", 'nn.conv2d(%a, %b, data_layout="NHWC", kernel_layout="HWIO")',
             [images.transpose(0, 2, 3, 1).copy(), filters.transpose(2, 3, 1, 0).copy()],
             _conv2d(wide(images), wide(filters)).transpose(0, 2, 3, 1).astype(dtype), tolerance * 4)
        lines, taps = random((2, 3, 9), dtype, "lines"), random((4, 3, 3), dtype, "taps")
        case("nn.conv1d", "nn.conv1d(%a, %b, padding=[1], strides=[2])", [lines, taps],
             _conv2d(wide(lines)[:, :, None], wide(taps)[:, :, None], stride=(1, 2), pad=(0, 1, 0, 1))[:, :, 0].astype(dtype), tolerance * 4)
        volume, cube = random((1, 2, 3, 4, 3), dtype, "volume"), random((2, 2, 2, 2, 2), dtype, "cube")
        case("nn.conv3d", "nn.conv3d(%a, %b)", [volume, cube], _conv3d(wide(volume), wide(cube)).astype(dtype), tolerance * 4)
        up = random((4, 3, 3, 2), dtype, "up")
        case("nn.conv2d_transpose", "nn.conv2d_transpose(%a, %b, strides=[2, 2], padding=[1, 0], output_padding=[1, 0])", [images, up],
             _conv2d_transpose(wide(images), wide(up), (2, 2), (1, 0), (1, 0)).astype(dtype), tolerance * 4)
        case("nn.conv1d_transpose", "nn.conv1d_transpose(%a, %b, strides=[2])", [lines, random((3, 2, 3), dtype, "up1")],
             _conv2d_transpose(wide(lines)[:, :, None], wide(random((3, 2, 3), dtype, "up1"))[:, :, None], (1, 2), (0, 0), (0, 0))[:, :, 0].astype(dtype), tolerance * 4)
        for average in (False, True):
            op = "nn.avg_pool2d" if average else "nn.max_pool2d"
            case(op, f"{op}(%a, pool_size=[2, 3], strides=[2, 2], padding=[1, 1])", [images],
                 _pool2d(wide(images), (2, 3), (2, 2), (1, 1, 1, 1), average).astype(dtype), tolerance)
            case(op, f"{op}(%a, pool_size=[3, 3], strides=[2, 2], ceil_mode=True)", [images],
                 _pool2d(wide(images), (3, 3), (2, 2), (0, 0, 0, 0), average, ceil=True).astype(dtype), tolerance)
            one = "nn.avg_pool1d" if average else "nn.max_pool1d"
            case(one, f"{one}(%a, pool_size=[3], strides=[2])", [lines],
                 _pool2d(wide(lines)[:, :, None], (1, 3), (1, 2), (0, 0, 0, 0), average)[:, :, 0].astype(dtype), tolerance)
            three = "nn.avg_pool3d" if average else "nn.max_pool3d"
            fold = np.mean if average else np.max
            case(three, f"{three}(%a, pool_size=[3, 4, 3])", [volume], fold(wide(volume), axis=(2, 3, 4), keepdims=True).astype(dtype), tolerance)
            everything = "nn.global_avg_pool2d" if average else "nn.global_max_pool2d"
            case(everything, f"{everything}(%a)", [images], fold(wide(images), axis=(2, 3), keepdims=True).astype(dtype), tolerance)
            adaptive = "nn.adaptive_avg_pool2d" if average else "nn.adaptive_max_pool2d"
            expected = np.empty((2, 4, 3, 4))
            for i, j in itertools.product(range(3), range(4)):
                bin_ = wide(images)[:, :, i * 7 // 3:-(-(i + 1) * 7 // 3), j * 6 // 4:-(-(j + 1) * 6 // 4)]
                expected[:, :, i, j] = fold(bin_, axis=(2, 3))
            case(adaptive, f"{adaptive}(%a, output_size=[3, 4])", [images], expected.astype(dtype), tolerance)
        case("nn.avg_pool2d", "nn.avg_pool2d(%a, pool_size=[2, 2], padding=[1], count_include_pad=True)", [images],
             _pool2d(np.pad(wide(images), ((0, 0), (0, 0), (1, 1), (1, 1))), (2, 2), (1, 1), (0, 0, 0, 0), True).astype(dtype), tolerance)
        fill = np.asarray(2.5, dtype)
        case("nn.pad", "nn.pad(%a, %b, pad_width=[[0, 0], [0, 0], [1, 2], [0, 3]])", [images, fill],
             np.pad(images, ((0, 0), (0, 0), (1, 2), (0, 3)), constant_values=2.5))
        for mode in ("edge", "reflect"):
            case("nn.pad", f'nn.pad(%a, %b, pad_width=[[0, 0], [0, 0], [1, 2], [2, 0]], pad_mode="{mode}")', [images, fill],
                 np.pad(images, ((0, 0), (0, 0), (1, 2), (2, 0)), mode=mode))
        dilated = np.full((2, 4, 13, 16), 9, dtype)
        dilated[:, :, ::2, ::3] = images
        case("nn.dilate", "nn.dilate(%a, strides=[1, 1, 2, 3], dilation_value=9f)", [images], dilated)
        chances, targets = _softmax(wide(random((5, 4), dtype, "chances")), 1).astype(dtype), _softmax(wide(random((5, 4), dtype, "targets")), 1).astype(dtype)
        case("nn.cross_entropy", "nn.cross_entropy(%a, %b)", [chances, targets], (-(wide(targets) * np.log(wide(chances))).sum() / 5).astype(dtype), tolerance)
        case("nn.cross_entropy_with_logits", "nn.cross_entropy_with_logits(%a, %b)", [chances, targets],
             (-(wide(targets) * wide(chances)).sum() / 5).astype(dtype), tolerance)
        classes, weights = np.array([0, 3, -100, 1, 3], "int32"), random((4,), dtype, "weights", low=0.2)
        counted = np.where(classes >= 0, wide(weights)[classes.clip(0)], 0)
        losses = -wide(chances)[np.arange(5), classes.clip(0)] * counted
        for reduction, value in {"none": losses, "sum": losses.sum(), "mean": losses.sum() / counted.sum()}.items():
            case("nn.nll_loss", f'nn.nll_loss(%a, %b, %c, reduction="{reduction}")', [chances, classes, weights], np.asarray(value).astype(dtype), tolerance)
    a, w = random((3, 8), "int8", "a"), random((4, 8), "int8", "w")
    case("nn.dense", 'nn.dense(%a, %b, out_dtype="int32")', [a, w], a.astype("int32") @ w.astype("int32").T)


def _conv2d(x, w, stride=(1, 1), pad=(0, 0, 0, 0), dilation=(1, 1), groups=1):
    x = np.pad(x, ((0, 0), (0, 0), (pad[0], pad[2]), (pad[1], pad[3])))
    n, _, height, width = x.shape
    o, per_group, kh, kw = w.shape
    oh = (height - (kh - 1) * dilation[0] - 1) // stride[0] + 1
    ow = (width - (kw - 1) * dilation[1] - 1) // stride[1] + 1
    out = np.zeros((n, o, oh, ow))
    for c, i, j in itertools.product(range(o), range(oh), range(ow)):
        g = c // (o // groups)
        part = x[:, g * per_group:(g + 1) * per_group, i * stride[0]:, j * stride[1]:]
        part = part[:, :, :(kh - 1) * dilation[0] + 1:dilation[0], :(kw - 1) * dilation[1] + 1:dilation[1]]
        out[:, c, i, j] = (part * w[c]).sum(axis=(1, 2, 3))
    return out


def _conv3d(x, w):
    out = np.zeros((x.shape[0], w.shape[0]) + tuple(x.shape[i] - w.shape[i] + 1 for i in (2, 3, 4)))
    for d, i, j in itertools.product(*map(range, out.shape[2:])):
        part = x[:, :, d:d + w.shape[2], i:i + w.shape[3], j:j + w.shape[4]]
        out[:, :, d, i, j] = np.einsum("ncdhw,ocdhw->no", part, w)
    return out


def _conv2d_transpose(x, w, stride, pad, extra):
    n, c, height, width = x.shape
    _, o, kh, kw = w.shape
    full = np.zeros((n, o, (height - 1) * stride[0] + kh + extra[0], (width - 1) * stride[1] + kw + extra[1]))
    for i, j in itertools.product(range(height), range(width)):
        full[:, :, i * stride[0]:i * stride[0] + kh, j * stride[1]:j * stride[1] + kw] += np.einsum("nc,cohw->nohw", x[:, :, i, j], w)
    return full[:, :, pad[0]:full.shape[2] - pad[0], pad[1]:full.shape[3] - pad[1]]


def _pool2d(x, size, stride, pad, average, ceil=False):
    x = np.pad(x, ((0, 0), (0, 0), (pad[0], pad[2]), (pad[1], pad[3])), constant_values=np.nan)
    rounding = math.ceil if ceil else math.floor
    oh, ow = (rounding((x.shape[2 + k] - size[k]) / stride[k]) + 1 for k in (0, 1))
    out = np.empty(x.shape[:2] + (oh, ow))
    for i, j in itertools.product(range(oh), range(ow)):
        part = x[:, :, i * stride[0]:i * stride[0] + size[0], j * stride[1]:j * stride[1] + size[1]]
        out[:, :, i, j] = (np.nanmean if average else np.nanmax)(part, axis=(2, 3))
    return out


def all_cases():
    if not _cases:
        for family in (elementwise, binary, reductions, shapes, places, neural):
            family()
    return _cases
