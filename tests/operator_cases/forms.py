"""Less usual forms of arguments and attributes: conditions of integers, negative steps, blocked layouts."""

import numpy as np

from operator_cases.case import random
from operator_cases.neural import conv2d


def cases(case):
    _where(case)
    _slices(case)
    _layouts(case)
    _convolutions(case)
    _quantised(case)
    _variance(case)
    ring = random((2, 5), "float32", "wrap")
    case("nn.pad", 'nn.pad(%a, %b, pad_width=[[1, 3], [7, 2]], pad_mode="wrap")', [ring, np.float32(0)], np.pad(ring, [[1, 3], [7, 2]], mode="wrap"))
    data = random((3, 7), "float32", "topk")
    case("dyn.topk", 'dyn.topk(%a, %b, ret_type="values")', [data, np.array([2], "int64")], -np.sort(-data)[:, :2], fixed="b")
    deep = random((2, 12, 2, 3), "float32", "deep")
    spread = deep.reshape(2, 3, 2, 2, 2, 3).transpose(0, 1, 4, 2, 5, 3).reshape(2, 3, 4, 6)
    for mode in ("CDR", "CRD"):
        case("nn.depth_to_space", f'nn.depth_to_space(%a, block_size=2, mode="{mode}")', [deep], spread)
        case("nn.space_to_depth", f'nn.space_to_depth(%a, block_size=2, mode="{mode}")', [spread], deep)


def _where(case):
    for dtype in ["int8", "int32", "uint8", "int64"]:
        condition = np.array([[0], [1], [-3 if dtype != "uint8" else 200]], dtype)
        x, y = random((3, 4), "float32", "x"), random((4,), "float32", "y")
        case("where", "where(%a, %b, %c)", [condition, x, y], np.where(condition != 0, x, y))


def _slices(case):
    for dtype in ["float32", "int64"]:
        x = random((5, 6), dtype, "slices")
        for rows, columns in [((4, None, -1), (0, 6, 1)), ((3, 0, -2), (5, None, -3)), ((9, -9, -1), (-1, -4, -1)),
                              ((1, 4, -1), (2, 5, 2)), ((-1, -6, -4), (1, 1, -1))]:
            begin, end, strides = ([s[k] for s in (rows, columns)] for k in range(3))
            end = [-(n + 1) if stop is None else stop for stop, n in zip(end, x.shape)]
            expected = x[rows[0]:rows[1]:rows[2], columns[0]:columns[1]:columns[2]]
            case("strided_slice", f"strided_slice(%a, begin={begin}, end={end}, strides={strides})", [x], expected)
            case("dyn.strided_slice", "dyn.strided_slice(%a, %b, %c, %d)", [x] + [np.array(v, "int64") for v in (begin, end, strides)], expected, fixed="bcd")
        for widths in ([[-1, 2], [0, -3]], [[-2, -3], [1, 1]]):
            expected = np.pad(x, [[max(w, 0) for w in axis] for axis in widths], constant_values=7)
            expected = expected[tuple(slice(max(-before, 0), len_ - max(-after, 0)) for (before, after), len_ in zip(widths, expected.shape))]
            fill = np.asarray(7, dtype)
            case("nn.pad", f"nn.pad(%a, %b, pad_width={widths})", [x, fill], expected)
            case("dyn.nn.pad", "dyn.nn.pad(%a, %b, %c)", [x, np.array(widths, "int64"), fill], expected, fixed="b")


def _layouts(case):
    x = random((2, 8, 3, 5), "float32", "layout")
    blocked = x.reshape(2, 2, 4, 3, 5).transpose(0, 1, 3, 4, 2).copy()

    def check(data, source, target, expected):
        case("layout_transform", f'layout_transform(%a, src_layout="{source}", dst_layout="{target}")', [data], expected)
    check(x, "NCHW", "NCHW4c", blocked)
    check(blocked, "NCHW4c", "NCHW", x)
    check(blocked, "NCHW4c", "NHWC", x.transpose(0, 2, 3, 1))
    ones = x[..., None].copy()
    check(x, "NCHW", "NCHW1c", ones)
    check(ones, "NCHW1c", "NCHW", x)
    check(ones, "NCHW1c", "NCHW4c", blocked)
    check(blocked, "NCHW4c", "NCHW2c", x.reshape(2, 4, 2, 3, 5).transpose(0, 1, 3, 4, 2))
    check(blocked, "NCHW4c", "NHWC4c", blocked.transpose(0, 2, 3, 1, 4))
    filters = random((4, 8, 3, 3), "int8", "layout")
    check(filters, "OIHW", "OIHW4i2o", filters.reshape(2, 2, 2, 4, 3, 3).transpose(0, 2, 4, 5, 3, 1))


def _convolutions(case):
    images = random((1, 4, 6, 5), "uint8", "mixed")
    filters = random((3, 4, 3, 3), "int8", "mixed")
    expected = conv2d(images.astype(float), filters.astype(float), pad=(1, 1, 1, 1)).astype("int32")
    case("nn.conv2d", 'nn.conv2d(%a, %b, padding=[1, 1], out_dtype="int32")', [images, filters], expected)
    a, b = random((3, 9), "uint8", "mixed"), random((4, 9), "int8", "mixed")
    product = a.astype("int32") @ b.astype("int32").T
    case("nn.dense", 'nn.dense(%a, %b, out_dtype="int32")', [a, b], product)
    case("nn.matmul", 'nn.matmul(%a, %b, transpose_b=True, out_dtype="int32")', [a, b], product)
    case("nn.batch_matmul", 'nn.batch_matmul(%a, %b, transpose_b=True, out_dtype="int32")', [a[None], b[None]], product[None])
    x, depthwise = random((2, 4, 5, 6), "float32", "depthwise"), random((4, 3, 2, 2), "float32", "depthwise")
    expected = conv2d(x.astype(float), depthwise.reshape(12, 1, 2, 2).astype(float), groups=4).astype("float32")
    case("nn.conv2d", "nn.conv2d(%a, %b, groups=4, channels=12)", [x, depthwise], expected, 2e-5, fixed="a")
    case("nn.conv2d", 'nn.conv2d(%a, %b, groups=4, data_layout="NHWC", kernel_layout="HWOI")',
         [x.transpose(0, 2, 3, 1).copy(), depthwise.transpose(2, 3, 0, 1).copy()], expected.transpose(0, 2, 3, 1), 2e-5, fixed="a")


def _quantised(case):
    x = random((4, 3), "int8", "one")
    scale, zero = np.array([0.5], "float32"), np.array([3], "int32")
    scales, zeros = np.array([0.5, 0.25, 2], "float32"), np.array([1, 0, -3], "int32")
    real = (x.astype("float32") - 3) * np.float32(0.5)
    case("qnn.dequantize", 'qnn.dequantize(%a, %b, %c, out_dtype="float32")', [x, scale, zero], real, fixed="bc")
    case("qnn.dequantize", 'qnn.dequantize(%a, %b, %c, out_dtype="float32")', [x, scales, zero], (x.astype("float32") - 3) * scales, fixed="c")
    case("qnn.quantize", 'qnn.quantize(%a, %b, %c, out_dtype="int8")', [real, scale, zero], x, fixed="bc")
    case("qnn.requantize", "qnn.requantize(%a, %b, %c, %d, %e)", [x, scale, zero, scale, zero], x, fixed="bcde")
    case("qnn.requantize", "qnn.requantize(%a, %b, %c, %d, %e)", [x, scales, zeros, scales, zeros], x, fixed="bcde")
    case("qnn.add", "qnn.add(%a, %b, %c, %d, %c, %d, %c, %d)", [x, np.full_like(x, 3), scale, zero], x, fixed="cd")
    case("qnn.mul", "qnn.mul(%a, %b, %c, %d, %c, %d, %c, %d)", [x, np.full_like(x, 5), scale, zero], x, fixed="cd")
    case("qnn.abs", "qnn.abs(%a, %b, %c, %b, %c)", [x, scale, zero], abs(x - 3) + np.int8(3), fixed="bc")


def _variance(case):
    x = random((3, 8), "float32", "variance")
    mean = x.mean(axis=1, keepdims=True)
    case("variance", "variance(%a, %b, axis=[1])", [x, mean], x.var(axis=1), 1e-6)
    case("variance", "variance(%a, %b, axis=[1], keepdims=True)", [x, mean + 1], x.var(axis=1, keepdims=True) + 1, 1e-5)
    case("variance", "variance(%a, mean(%a, axis=[0, 1], keepdims=True))", [x], x.var(), 1e-6)
