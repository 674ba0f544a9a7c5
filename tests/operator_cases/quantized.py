"""Operators on quantised tensors, and products in fixed point, in Python's exact integers."""

import math

import numpy as np

from operator_cases.case import random, rng, round_away
from operator_cases.elementwise import FLOAT_UNARY
from operator_cases.neural import conv2d, pool2d, softmax

INTS = ["int8", "uint8", "int32"]


def saturate(values, dtype):
    limits = np.iinfo(dtype)
    return np.clip(np.asarray(values, "int64"), limits.min, limits.max).astype(dtype)


def _shifted(x, significand, shift, away=False):
    """x * significand / 2^shift; halves up, or away from zero."""
    product = int(x) * int(significand)
    if away and product < 0:
        return -((-product + (1 << (shift - 1))) >> shift)
    return (product + (1 << (shift - 1))) >> shift


def rescaled(x, factor, away=False):
    fraction, exponent = math.frexp(factor)
    return _shifted(x, round(fraction * 2 ** 31), 31 - exponent, away)


def each(f, *arrays):
    return np.vectorize(f, otypes=[np.int64])(*arrays) if arrays[0].size else np.zeros(arrays[0].shape, "int64")


def scalar(value, dtype="float32"):
    return np.asarray(value, dtype)


def zero(value):
    return np.asarray(value, "int32")


def cases(case):
    _fixed_point(case)
    _conversions(case)
    _requantize(case)
    _unary(case)
    _binary(case)
    _contractions(case)
    _windows(case)
    _simulated(case)


def _fixed_point(case):
    edges = np.array([0, 1, -1, 2, -2, 3, 5, -5, 127, -128, 2**31 - 1, -2**31, 123456789], "int32")
    for multiplier, shift in [(1 << 30, 0), (1 << 30, 1), (1518500250, -3), (2**31 - 1, 0), (1 << 30, -20), (-(1 << 30), 0)]:
        expected = each(lambda x: _shifted(x, multiplier, 31 - shift), edges)
        if (abs(expected) < 2**31).all():
            case("fixed_point_multiply", f"fixed_point_multiply(%a, multiplier={multiplier}, shift={shift})", [edges], expected.astype("int32"))
    data = random((2, 3, 4), "int32", "per axis") * 1000
    factors, left, right = (np.array(v, "int32") for v in ([1 << 30, 1500000000, 2**31 - 1], [0, 3, 1], [2, 0, 5]))
    op = "fixed_point_multiply_per_axis"
    for use_left, use_right in ((False, False), (True, False), (False, True), (True, True)):
        expected = each(lambda x, m, l, r: _shifted(int(x) << int(l) * use_left, m, 31 + int(r) * use_right),
                        data, *(v[:, None] + np.zeros_like(data) for v in (factors, left, right)))
        attrs = f"is_lshift_required={use_left}, is_rshift_required={use_right}"
        case(op, f"{op}(%a, %b, %c, %d, {attrs}, axes=[1])", [data, factors, left, right], expected.astype("int32"))
        case(op, f"{op}(%a, %b, %c, %d, {attrs}, axes=[-1])", [data.transpose(0, 2, 1).copy(), factors, left, right],
             expected.transpose(0, 2, 1).astype("int32"))


def _conversions(case):
    for dtype in INTS + ["int16"]:
        real = np.array([0, 0.25, -0.25, 0.75, 1.25, -3, 63.75, -64, 1e9, -1e9, np.inf, -np.inf], "float32")
        with np.errstate(over="ignore"):
            steps = np.clip(round_away(real.astype("float64") / 0.5), -2**31, 2**31 - 1)
        case("qnn.quantize", f'qnn.quantize(%a, %b, %c, out_dtype="{dtype}")', [real, scalar(0.5), zero(3)], saturate(steps + 3, dtype))
        scales, zeros = np.array([0.5, 0.25, 2], "float32"), np.array([1, 0, -3], "int32")
        rows = (rng(dtype, "rows").integers(-40, 40, (4, 3)) / 4).astype("float32")
        expected = saturate(round_away(rows / scales) + zeros, dtype)
        case("qnn.quantize", f'qnn.quantize(%a, %b, %c, out_dtype="{dtype}")', [rows, scales, zeros], expected)
        case("qnn.quantize", f'qnn.quantize(%a, %b, %c, out_dtype="{dtype}", axis=0)', [rows.T.copy(), scales, zeros], expected.T)
        case("qnn.quantize", f'qnn.quantize(%a, %b, %c, out_dtype="{dtype}")', [rows, scales, zero(1)], saturate(round_away(rows / scales) + 1, dtype))
        stored = random((4, 3), dtype, "stored")
        case("qnn.dequantize", 'qnn.dequantize(%a, %b, %c, out_dtype="float32")', [stored, scales, zeros], ((stored.astype("int64") - zeros) * scales).astype("float32"))
        case("qnn.dequantize", 'qnn.dequantize(%a, %b, %c, out_dtype="float16")', [stored, scalar(0.5), zero(2)], ((stored.astype("int64") - 2) * 0.5).astype("float16"))
    case("qnn.quantize", 'qnn.quantize(%a, %b, %c, out_dtype="int8")', [np.float32(1.3), scalar(0.1), zero(0)], np.int8(13))
    case("qnn.quantize", 'qnn.quantize(%a, %b, %c, out_dtype="int8")', [np.zeros((0, 3), "float32"), scales, zeros], np.zeros((0, 3), "int8"))


def _requantize(case):
    for dtype in INTS:
        x = random((5, 3), dtype, "requantize")
        if dtype == "int32":
            x = x * 7919
        for out in ("int8", "uint8", "int32"):
            for into, outof in [(0.5, 0.25), (0.37, 0.11), (0.02, 1.7), (1, 1), (1e-4, 3)]:
                ratio = float(np.float32(into)) / float(np.float32(outof))
                for rounding in ("UPWARD", "TONEAREST"):
                    values = each(lambda v: rescaled(int(v) - 2, ratio, rounding == "TONEAREST"), x)
                    case("qnn.requantize", f'qnn.requantize(%a, %b, %c, %d, %e, rounding="{rounding}", out_dtype="{out}")',
                         [x, scalar(into), zero(2), scalar(outof), zero(-1)], saturate(values - 1, out))
        scales, zeros = np.array([0.5, 0.031, 2.5], "float32"), np.array([0, 3, -2], "int32")
        values = np.stack([each(lambda v: rescaled(int(v) - int(zeros[c]), float(scales[c]) / 0.5), x[:, c]) for c in range(3)], 1)
        case("qnn.requantize", "qnn.requantize(%a, %b, %c, %d, %e)", [x, scales, zeros, scalar(0.5), zero(0)], saturate(values, "int8"))
        case("qnn.requantize", "qnn.requantize(%a, %b, %c, %d, %e, axis=0)", [x.T.copy(), scales, zeros, scalar(0.5), zero(0)], saturate(values.T, "int8"))
    x = np.arange(-9, 10, dtype="int32")
    for rounding, halves in (("UPWARD", np.floor(x * 0.5 + 0.5)), ("TONEAREST", np.sign(x) * np.floor(abs(x) * 0.5 + 0.5))):
        for compute in ("float32", "float64", "int64"):
            case("qnn.requantize", f'qnn.requantize(%a, %b, %c, %d, %e, rounding="{rounding}", compute_dtype="{compute}")',
                 [x, scalar(0.5), zero(0), scalar(1), zero(0)], saturate(halves, "int8"))


def _steps(values, scale, zero_point, dtype):
    """Rounded to steps, and where that is clear whatever the last bits of `values` are."""
    steps = np.asarray(values, "float64") / scale
    return saturate(round_away(np.clip(steps, -2**31, 2**31 - 1)) + zero_point, dtype), abs(abs(steps - np.floor(steps)) - 0.5) > 1e-3


def _unary(case):
    functions = {name: FLOAT_UNARY[name][0] for name in ("erf", "exp", "log", "rsqrt", "sigmoid", "sqrt", "tanh")}
    functions.update({"abs": np.abs, "hardswish": lambda x: x * np.clip(x + 3, 0, 6) / 6})
    for name, f in functions.items():
        for dtype in ("int8", "uint8"):
            stored = np.arange(np.iinfo(dtype).min, np.iinfo(dtype).max + 1).astype(dtype)
            into, outof, zero_in, zero_out = 0.04, 0.02, 7, -3
            if name in ("log", "rsqrt", "sqrt"):
                stored = stored[stored > zero_in]
            real = (stored.astype("int64") - zero_in) * float(np.float32(into))
            expected, clear = _steps(f(real), float(np.float32(outof)), zero_out, dtype)
            case(f"qnn.{name}", f"qnn.{name}(%a, %b, %c, %d, %e)", [stored[clear], scalar(into), zero(zero_in), scalar(outof), zero(zero_out)], expected[clear])
    x = np.arange(-128, 128).astype("int8")
    into, outof = (float(np.float32(v)) for v in (0.03, 0.05))
    values = each(lambda v: rescaled(v - 5, into / outof * (1 if v >= 5 else 0.25)), x.astype(int))
    case("qnn.leaky_relu", "qnn.leaky_relu(%a, %b, %c, %d, %e)", [x, scalar(0.03), zero(5), scalar(0.05), zero(1)], saturate(values + 1, "int8"))
    rows = random((4, 6), "int8", "softmax")
    for axis in (-1, 0):
        expected, _ = _steps(softmax((rows.astype(int) - 1) * 0.125, axis), 1 / 256, -128, "int8")
        case("qnn.softmax", f"qnn.softmax(%a, %b, %c, %d, %e, axis={axis})", [rows, scalar(0.125), zero(1), scalar(1 / 256), zero(-128)], expected)


def _binary(case):
    for dtype in INTS:
        a, b = random((4, 3), dtype, "lhs"), random((1, 3), dtype, "rhs")
        scales, zeros = (0.3, 0.07, 0.11), (2, -1, 3)
        into = [scalar(scales[0]), zero(zeros[0]), scalar(scales[1]), zero(zeros[1]), scalar(scales[2]), zero(zeros[2])]
        real = [float(np.float32(s)) for s in scales]
        left = each(lambda v: rescaled(int(v) - 2, real[0] / real[2]), a)
        right = each(lambda v: rescaled(int(v) + 1, real[1] / real[2]), b)
        letters = "%a, %b, %c, %d, %e, %f, %g, %h"
        case("qnn.add", f"qnn.add({letters})", [a, b] + into, saturate(left + right + 3, dtype))
        case("qnn.subtract", f"qnn.subtract({letters})", [a, b] + into, saturate(left - right + 3, dtype))
        products = each(lambda v, w: rescaled((int(v) - 2) * (int(w) + 1), real[0] * real[1] / real[2]), a, b)
        case("qnn.mul", f"qnn.mul({letters})", [a, b] + into, saturate(products + 3, dtype))
        per_channel = np.array([0.3, 0.6, 0.9], "float32")
        left = np.stack([each(lambda v: rescaled(int(v) - 2, float(per_channel[c]) / real[2]), a[:, c]) for c in range(3)], 1)
        case("qnn.add", f"qnn.add({letters}, lhs_axis=1)", [a, b, per_channel] + into[1:], saturate(left + right + 3, dtype))
        joined = [each(lambda v: rescaled(int(v) - 1, real[0] / real[2]), a), each(lambda v: rescaled(int(v), real[1] / real[2]), b)]
        case("qnn.concatenate", "qnn.concatenate((%a, %b), (%c, %e), (%d, %f), %g, %h, axis=0)",
             [a, b, into[0], zero(1), into[2], zero(0), into[4], into[5]], saturate(np.concatenate(joined) + 3, dtype))


def _contractions(case):
    for dtype in ("int8", "uint8"):
        for m, n, k in [(1, 1, 1), (3, 17, 33), (4, 5, 0), (16, 64, 64)]:
            x, w = random((m, k), dtype, "x"), random((n, k), dtype, "w")
            expected = ((x.astype("int32") - 3) @ (w.astype("int32") + 2).T).astype("int32")
            parameters = [zero(3), zero(-2), scalar(0.5), scalar(0.25)]
            case("qnn.dense", "qnn.dense(%a, %b, %c, %d, %e, %f)", [x, w] + parameters, expected)
            parameters = [zero(3), np.full(n, -2, "int32"), scalar(0.5), np.full(n, 0.25, "float32")]
            case("qnn.dense", f'qnn.dense(%a, %b, %c, %d, %e, %f, units={n}, out_dtype="int32")', [x, w] + parameters, expected)
        p, q = random((2, 3, 5), dtype, "p"), random((2, 5, 4), dtype, "q")
        expected = (p.astype("int32") - 1) @ (q.astype("int32") + 4)
        parameters = [zero(1), zero(-4), scalar(0.5), scalar(0.25)]
        case("qnn.batch_matmul", "qnn.batch_matmul(%a, %b, %c, %d, %e, %f)", [p, q] + parameters, expected)
        case("qnn.batch_matmul", "qnn.batch_matmul(%a, %b, %c, %d, %e, %f, transpose_b=True)", [p, q.transpose(0, 2, 1).copy()] + parameters, expected)
        images, filters = random((2, 4, 6, 5), dtype, "images"), random((6, 4, 3, 2), dtype, "filters")
        centred, taps = images.astype(float) - 3, filters.astype(float) + 2
        parameters = [zero(3), zero(-2), scalar(0.5), scalar(0.25)]
        op = "qnn.conv2d"
        for attrs, options in [("", {}), (", padding=[1, 1], strides=[2, 1]", {"pad": (1, 1, 1, 1), "stride": (2, 1)}), (", dilation=[2, 2]", {"dilation": (2, 2)})]:
            case(op, f'{op}(%a, %b, %c, %d, %e, %f, kernel_size=[3, 2]{attrs})', [images, filters] + parameters, conv2d(centred, taps, **options).astype("int32"))
        case(op, f"{op}(%a, %b, %c, %d, %e, %f, groups=2)", [images, filters[:, :2].copy()] + parameters, conv2d(centred, taps[:, :2], groups=2).astype("int32"))
        zeros = np.array([0, 1, -1, 2, -2, 5], "int32")
        expected = conv2d(centred, filters.astype(float) - zeros[:, None, None, None]).transpose(0, 2, 3, 1).astype("int32")
        case(op, f'{op}(%a, %b, %c, %d, %e, %f, data_layout="NHWC", kernel_layout="HWIO")',
             [images.transpose(0, 2, 3, 1).copy(), filters.transpose(2, 3, 1, 0).copy(), zero(3), zeros, scalar(0.5), np.full(6, 0.25, "float32")], expected)


def _windows(case):
    images = random((2, 3, 6, 5), "int8", "pooled")
    parameters = [scalar(0.25), zero(2), scalar(0.5), zero(-1)]
    # Windows of powers of two, so that means are exact and halves are halves.
    for attrs, size, stride in [("", (2, 2), (1, 1)), (", strides=[2, 1]", (4, 2), (2, 1))]:
        expected, _ = _steps(pool2d((images.astype(float) - 2) * 0.25, size, stride, (0, 0, 0, 0), True), 0.5, -1, "int8")
        case("qnn.avg_pool2d", f"qnn.avg_pool2d(%a, %b, %c, %d, %e, pool_size=[{size[0]}, {size[1]}]{attrs})", [images] + parameters, expected)


def _simulated(case):
    x, scales, zeros = random((4, 3), "float32", "simulated") * 300, np.array([0.5, 1, 2], "float32"), np.array([1, 0, -3], "int32")
    limits = {0: None, 1: (-128, 127), 2: (0, 255), 3: (-2**31, 2**31 - 1), 9: None}
    for code, bounds in limits.items():
        steps = x if bounds is None else np.clip(round_away(x / scales) + zeros, *bounds).astype("float32")
        case("qnn.simulated_quantize", "qnn.simulated_quantize(%a, %b, %c, %d)", [x, np.int32(code), scales, zeros], steps)
        back = x if bounds is None else ((x - zeros) * scales).astype("float32")
        case("qnn.simulated_dequantize", 'qnn.simulated_dequantize(%a, %b, %c, %d, out_dtype="float32")', [x, np.int32(code), scales, zeros], back, 1e-6)
