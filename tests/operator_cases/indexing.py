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
        beyond = rng(dtype, "beyond").integers(-8, 8, (4, 9, 3)).astype("int32")
        inside = np.clip(np.where(beyond < 0, beyond + 5, beyond), 0, 4)
        case("gather", "gather(%a, %b, axis=-2)", [x, beyond], np.take_along_axis(x, inside, axis=1))
        for part in (at[:2], at[:, :, 1:], at[:1, :1, :2], at[:0]):  # smaller than data beside the axis
            expected = np.take_along_axis(x[:part.shape[0], :, :part.shape[2]], part, axis=1)
            case("gather", "gather(%a, %b, axis=1)", [x, part], expected)
        pairs = np.array([[3, 0, 1], [4, 2, 0]], "int32")
        case("gather_nd", "gather_nd(%a, %b)", [x, pairs], x[pairs[0], pairs[1]])
        pairs = np.array([[3, -1, 7, -9, 3], [-7, 2, 8, 0, -5]], "int64")  # out of range and repeated
        case("gather_nd", "gather_nd(%a, %b)", [x, pairs], x[[3, 3, 3, 0, 3], [0, 2, 4, 0, 0]])
        batched = np.array([[1, 0, 4, 2]], "int32")
        case("gather_nd", "gather_nd(%a, %b, batch_dims=1)", [x, batched], x[np.arange(4), batched[0]])
        indices = np.array([[0, 2, 2], [4, 0, 2]], "int32")
        data, updates = random((5, 3), dtype, "data"), random((2, 3), dtype, "updates")
        if dtype.startswith("float"):
            total, count = data.copy(), np.ones_like(data)
            for i, j in itertools.product(range(2), range(3)):
                total[indices[i, j], j] += updates[i, j]
                count[indices[i, j], j] += 1
            case("scatter_elements", 'scatter_elements(%a, %b, %c, axis=-2, reduction="mean")', [data, indices, updates], total / count)
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
        for shape in [(3, 1), (4, 1, 5), (5,), (), (4, 3, 5)]:
            axes = tuple(k for k in range(3) if k < 3 - len(shape) or shape[k - 3 + len(shape)] == 1)
            total = summed.sum(axis=axes, dtype=dtype).reshape(shape)
            extents = np.array(shape, "int32")
            case("collapse_sum_to", "collapse_sum_to(%a, %b)", [summed, extents], total, 1e-5, fixed="b")
            case("collapse_sum_to", f"collapse_sum_to(%a, %b, shape={list(shape)})", [summed, extents], total, 1e-5, fixed="b")
            case("collapse_sum_to", f"collapse_sum_to(%a, Constant({list(shape)}, ({len(shape)}), int64))", [summed], total, 1e-5)
        case("collapse_sum_to", "collapse_sum_to(%a, %b)", [summed[:, :0], np.array([4, 1, 5], "int64")],
             np.zeros((4, 1, 5), dtype), fixed="b")
        _scatters(case, dtype)
        _sparse(case, dtype)
        _sorts(case, dtype)
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
    case("argsort", "argsort(%a, is_ascend=False)", [nan], np.array([1, 3, 0, 2], "int32"))
    zeros = np.array([0.0, -0.0, -1, 0.0, -0.0, -np.inf, -np.nan], np.float64)
    case("argsort", "argsort(%a)", [zeros], np.array([5, 2, 0, 1, 3, 4, 6], "int32"))
    for dtype in ["int8", "int64", "uint64", "uint16", "float16"]:
        x = random((4, 40), dtype, "order")
        if dtype in ("int64", "uint64"):
            x[0, :3] = np.iinfo(dtype).max, np.iinfo(dtype).min, np.iinfo(dtype).max - 1
        case("argsort", "argsort(%a)", [x], np.argsort(x, axis=-1, kind="stable").astype("int32"))
        case("sort", "sort(%a, is_ascend=False)", [x], np.sort(x, axis=-1)[:, ::-1])


def _fold(array, at, value, mode):
    if mode == "update":
        array[at] = value
    elif mode == "add":
        with np.errstate(over="ignore"):
            array[at] += value
    elif mode == "mul":
        with np.errstate(over="ignore"):
            array[at] *= value
    else:
        array[at] = (min if mode == "min" else max)(array[at], value)


def _scatters(case, dtype):
    """Other axes, indices that are shorter than data beside the axis, from the end or out of range, none, one."""
    data = random((4, 6, 3), dtype, "scattered")
    for shape, axis in [((4, 9, 3), 1), ((2, 5, 2), -2), ((7, 1, 3), 0), ((4, 6, 1), 2), ((4, 0, 3), 1), ((0, 2, 1), 1), ((4, 6, 60), -1)]:
        rows = data.shape[axis]
        indices = rng(shape, "at").integers(-rows - 1, rows + 1, shape).astype("int32")
        updates = random(shape, dtype, "to")
        for mode in ["update", "add", "max"]:
            expected = data.copy()
            for at in np.ndindex(shape):
                row = indices[at] + (rows if indices[at] < 0 else 0)
                if 0 <= row < rows:
                    place = list(at)
                    place[axis] = row
                    _fold(expected, tuple(place), updates[at], mode)
            case("scatter_elements", f'scatter_elements(%a, %b, %c, axis={axis}, reduction="{mode}")', [data, indices, updates], expected, 1e-5)
    # Fewer indices than updates: the others are not read.
    for axis, shape, longer in [(0, (2, 2), (3, 2)), (0, (2, 2), (2, 3)), (1, (1, 3), (4, 5)), (-1, (3, 2), (3, 4)), (0, (0, 2), (3, 2))]:
        whole = random((3, 4), dtype, "fewer")
        indices = rng(axis, shape).integers(0, whole.shape[axis], shape).astype("int32")
        updates = random(longer, dtype, "longer")
        for mode in ["update", "add", "mul", "min", "max"]:
            expected = whole.copy()
            for at in np.ndindex(shape):
                place = list(at)
                place[axis] = indices[at]
                _fold(expected, tuple(place), updates[at], mode)
            case("scatter_elements", f'scatter_elements(%a, %b, %c, axis={axis}, reduction="{mode}")', [whole, indices, updates], expected, 1e-5)
    for m, places in [(1, (5,)), (2, (3, 2)), (3, (40,)), (1, ()), (2, (0,)), (1, (2, 0))]:
        extents = np.array(data.shape[:m]).reshape((m,) + (1,) * len(places))
        indices = rng(m, places).integers(-extents, extents + 1, (m,) + places).astype("int64")
        updates = random(places + data.shape[m:], dtype, "nd")
        for mode in ["update", "mul", "add"]:
            expected = data.copy()
            for at in np.ndindex(places):
                row = [int(i + (n if i < 0 else 0)) for i, n in zip(indices[(slice(None),) + at], data.shape)]
                if all(i < n for i, n in zip(row, data.shape)):
                    for rest in np.ndindex(data.shape[m:]):
                        _fold(expected, tuple(row) + rest, updates[at + rest], mode)
            case("scatter_nd", f'scatter_nd(%a, %b, %c, mode="{mode}")', [data, indices, updates], expected, 1e-5)
    empty = np.zeros((0, 3), dtype)
    case("scatter_nd", "scatter_nd(%a, %b, %c)", [empty, np.zeros((1, 2), "int32"), random((2, 3), dtype, "e")], empty)
    case("scatter_elements", "scatter_elements(%a, %b, %c)", [empty, np.zeros((2, 3), "int32"), random((2, 3), dtype, "e")], empty)


def _sparse(case, dtype):
    """The last of several values of one place stays."""
    for places in ([2, 0, 5, 2], [3], []):
        at = np.array(places, "int32")
        values, fill = random((len(at),), dtype, "sparse", len(at)), np.asarray(1, dtype)
        expected = np.full(7, 1, dtype)
        expected[at] = values
        shape = np.array([7], "int64")
        case("sparse_to_dense", "sparse_to_dense(%a, %b, %c, output_shape=[7])", [at, values, fill], expected)
        case("dyn.sparse_to_dense", "dyn.sparse_to_dense(%a, %b, %c, %d)", [at, values, fill, shape], expected, fixed="d")
    at, values = np.array([2, 0], "int32"), random((2,), dtype, "other default")
    expected = np.full(4, 1, dtype)
    expected[at] = values
    for fill in [np.asarray(1, "int8"), np.asarray([1], "int64")]:
        case("sparse_to_dense", "sparse_to_dense(%a, %b, %c, output_shape=[4])", [at, values, fill], expected)
    if dtype.startswith("float"):
        fill = np.asarray([1], "float64" if dtype == "float32" else "float32")
        case("sparse_to_dense", "sparse_to_dense(%a, %b, %c, output_shape=[4])", [at, values, fill], expected)
    pairs = np.array([[1, 2], [0, 0], [1, 2]], "int64")
    values, fill = random((3,), dtype, "pairs"), np.asarray(0, dtype)
    expected = np.zeros((2, 4), dtype)
    expected[0, 0], expected[1, 2] = values[1:]
    case("sparse_to_dense", "sparse_to_dense(%a, %b, %c, output_shape=[2, 4])", [pairs, values, fill], expected, fixed="a")
    case("dyn.sparse_to_dense", "dyn.sparse_to_dense(%a, %b, %c, %d)", [pairs, values, fill, np.array([2, 4], "int32")], expected, fixed="ad")
    one = np.zeros(5, dtype)
    one[3] = values[0]
    case("sparse_to_dense", "sparse_to_dense(%a, %b, %c, output_shape=[5])", [np.asarray(3), values[0], fill], one)


def _sorts(case, dtype):
    """Ties, rows of every length that sorting treats in its own way, other axes, nothing at all."""
    for shape, axis in [((2, 33, 2), 1), ((5, 1000), -1), ((300, 2), 0), ((3, 0), 1), ((0, 3), -1), ((1,), 0), ((4, 1), -1)]:
        x = random(shape, dtype, "ties", axis)
        if dtype.startswith("float"):
            x = np.round(x * 4) / 4 * np.asarray(1, dtype)
        up = np.argsort(x, axis=axis, kind="stable")
        down = np.argsort(-x.astype("float64"), axis=axis, kind="stable")
        case("argsort", f"argsort(%a, axis={axis})", [x], up.astype("int32"))
        case("argsort", f'argsort(%a, axis={axis}, is_ascend=False, dtype="int64")', [x], down)
        case("sort", f"sort(%a, axis={axis})", [x], np.take_along_axis(x, up, axis))
        first = np.take(down, np.arange(min(3, shape[axis])), axis=axis)
        case("topk", f'topk(%a, k=3, axis={axis}, ret_type="indices")', [x], first.astype("int32"))
        case("cumsum", f"cumsum(%a, axis={axis}, exclusive=True)", [x], np.cumsum(x, axis=axis, dtype=dtype) - x)
    whole = random((70, 50), dtype, "whole")
    case("sort", "sort(reshape(%a, newshape=[-1]))", [whole], np.sort(whole, axis=None))
