"""Operators that read or write at computed places, scans and sorting."""

import itertools

import numpy as np

from operator_cases.case import random, rng


def cases(case):
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
        case("sort", "sort(%a, axis=0, is_ascend=False)", [x], (-np.sort(-x.astype("float64"), axis=0)).astype(dtype))
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
