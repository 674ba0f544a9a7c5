"""Operators on sparse matrices in compressed rows, and products of integers of a few bits."""

import itertools

import numpy as np

from operator_cases.case import random, rng
from operator_cases.convolutions import convolution


def cases(case):
    for dtype in ("float32", "float64", "float16", "int32"):
        for lines, rows, columns, count in [(3, 4, 5, 6), (1, 7, 3, 2), (4, 3, 6, 0), (2, 9, 4, 20)]:
            _rows(case, dtype, lines, rows, columns, count)
        for lines, shape, count in [(3, (2, 3, 2, 4), 3), (2, (4, 2, 1, 3), 5), (1, (3, 3, 4, 1), 0)]:
            _blocks(case, dtype, lines, shape, count)
        _transposed(case, dtype)
    _packs(case)
    _bits(case)


def _places(rows, columns, count):
    """Columns in rows of which some are empty."""
    at = np.sort(rng(rows, columns, count).choice(rows * columns, min(count, rows * columns // 2), replace=False))
    begins = np.searchsorted(at // columns, np.arange(rows + 1))
    return at // columns, (at % columns).astype("int32"), begins.astype("int32")


def _rows(case, dtype, lines, rows, columns, count):
    row, column, begins = _places(rows, columns, count)
    elements, dense = random((len(row),), dtype, "elements"), random((lines, columns), dtype, "dense")
    matrix = np.zeros((rows, columns), "float64")
    matrix[row, column] = elements
    product = (dense.astype("float64") @ matrix.T).astype(dtype)
    tolerance = 2e-2 if dtype == "float16" else 1e-5
    for index in ("int32", "int64"):
        sparse = [elements, column.astype(index), begins.astype(index)]
        case("nn.sparse_dense", "nn.sparse_dense(%a, %b, %c, %d)", [dense, *sparse], product, tolerance)
        case("nn.sparse_dense", "nn.sparse_dense(%a, %b, %c, %d, sparse_lhs=True)", [dense, *sparse], product.T, tolerance)
        addend = random((rows, columns), dtype, "addend")
        case("nn.sparse_add", "nn.sparse_add(%a, %b, %c, %d)", [addend, *sparse], (addend + matrix).astype(dtype), tolerance)


def _blocks(case, dtype, lines, shape, count):
    rows, columns, height, width = shape
    row, column, begins = _places(rows, columns, count)
    elements, dense = random((len(row), height, width), dtype, "blocks"), random((lines, columns * width), dtype, "dense")
    matrix = np.zeros((rows, height, columns, width), "float64")
    for at, block in enumerate(elements):
        matrix[row[at], :, column[at]] = block
    product = (dense.astype("float64") @ matrix.reshape(rows * height, -1).T).astype(dtype)
    tolerance = 2e-2 if dtype == "float16" else 1e-5
    inputs = [dense, elements, column, begins]
    case("nn.sparse_dense", "nn.sparse_dense(%a, %b, %c, %d)", inputs, product, tolerance)
    case("nn.sparse_dense", "nn.sparse_dense(%a, %b, %c, %d, sparse_lhs=True)", inputs, product.T, tolerance)


def _transposed(case, dtype):
    row, column, begins = _places(6, 6, 11)
    elements = random((len(row),), dtype, "transposed")
    order = np.argsort(column, kind="stable")
    expected = [elements[order], row[order].astype("int32"), np.searchsorted(column[order], np.arange(7)).astype("int32")]
    for field, values in enumerate(expected):
        case("nn.sparse_transpose", f"nn.sparse_transpose(%a, %b, %c).{field}", [elements, column, begins], values)


def _packs(case):
    for dtype, pack, bits, shape, axis, place in [("uint8", "uint8", 3, (2, 16, 3), 1, 2), ("int32", "uint32", 1, (2, 64), 1, 0),
                                                  ("int16", "uint16", 2, (32, 3), 0, -1), ("uint8", "uint64", 1, (3, 64), -1, 1)]:
        x = random(shape, dtype, "pack")
        width = np.dtype(pack).itemsize * 8
        parts = np.moveaxis(x, axis, -1).reshape(*np.moveaxis(x, axis, -1).shape[:-1], -1, width).astype("uint64")
        weights = np.uint64(1) << np.arange(width - 1, -1, -1).astype("uint64")
        packs = [np.moveaxis((((parts >> np.uint64(bit)) & np.uint64(1)) * weights).sum(-1), -1, axis) for bit in range(bits)]
        attrs = f'bits={bits}, pack_axis={axis}, bit_axis={place}, pack_type="{pack}"'
        case("nn.bitpack", f"nn.bitpack(%a, {attrs})", [x], np.stack(packs, place).astype(pack))
    data = np.arange(0, 252, 7, dtype="uint8").reshape(2, 3, 6)
    for bits in (1, 2, 4):
        codes = (data[..., None] >> np.arange(0, 8, bits)) & (2**bits - 1)
        codes = codes.reshape(2, 3, -1)
        case("unpack_bits", f"unpack_bits(%a, bits={bits})", [data], codes.astype("uint8"))
        negative = np.where(codes >= 2 ** (bits - 1), codes.astype("int64") - 2**bits, codes)
        case("unpack_bits", f"unpack_bits(%a, bits={bits}, signed=True)", [data], negative.astype("int8"))


def _values(weights, bits, unipolar):
    weights = weights.astype("int64") & (2**bits - 1)
    return 2 * weights - (2**bits - 1) if unipolar else weights


def _bits(case):
    for (data_bits, weight_bits), unipolar, dtype in itertools.product([(1, 1), (3, 2)], [True, False], ["uint8", "int32"]):
        attrs = f'weight_bits={weight_bits}, unipolar={unipolar}, out_dtype="int32"'
        data, weights = random((2, 3, 16), dtype, "bits"), random((5, 16), "uint8", "weights")
        low = data.astype("int64") & (2**data_bits - 1)
        expected = (low @ _values(weights, weight_bits, unipolar).T).astype("int32")
        case("nn.bitserial_dense", f"nn.bitserial_dense(%a, %b, units=5, data_bits={data_bits}, {attrs})", [data, weights], expected)
        bits = [(weights >> bit) & 1 for bit in range(weight_bits)]
        packs = np.stack([np.packbits(bit, axis=1) for bit in bits], 1)
        case("nn.bitserial_dense", f"nn.bitserial_dense(%a, %b, data_bits={data_bits}, {attrs})", [data, packs], expected, fixed="b")
        image, filters = random((1, 4, 5, 6), dtype, "image"), random((3, 4, 3, 2), "uint8", "filters")
        low = image.astype("int64") & (2**data_bits - 1)
        sums = convolution(low, _values(filters, weight_bits, unipolar), (2, 1), (1, 1), (1, 1), 1).astype("int32")
        windows = f"strides=[2, 1], padding=[1, 1], activation_bits={data_bits}, {attrs}"
        case("nn.bitserial_conv2d", f"nn.bitserial_conv2d(%a, %b, {windows})", [image, filters], sums, fixed="b")
        windows += ', data_layout="NHWC", kernel_layout="HWIO"'
        case("nn.bitserial_conv2d", f"nn.bitserial_conv2d(%a, %b, {windows})",
             [image.transpose(0, 2, 3, 1).copy(), filters.transpose(2, 3, 1, 0).copy()], sums.transpose(0, 2, 3, 1), fixed="b")
