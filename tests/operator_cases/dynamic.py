"""Cases of operators whose result's shape depends on values.

`fixed` names the parameters whose extents must be known: their lengths are the result's rank.
"""

import numpy as np


def _shape(*extents, dtype="int64"):
    return np.asarray(extents, dtype)


def _random(shape, dtype, seed):
    generator = np.random.default_rng(seed)
    return (generator.integers(-4, 5, shape) / (2 if dtype.startswith("float") else 1)).astype(dtype)


def cases(case):
    for seed, dtype in enumerate(["float32", "float16", "int32", "uint8", "bool"]):
        x = _random((2, 3, 4), dtype, seed)
        _shapes(case, x)
        _slices(case, x)
    for index in ("int8", "int32", "uint64"):
        case("dyn.zeros", "dyn.zeros(%a)", [_shape(2, 0, 3, dtype=index)], np.zeros((2, 0, 3), "float32"), fixed="a")
        case("dyn.ones", 'dyn.ones(%a, dtype="int16")', [_shape(3, 1, dtype=index)], np.ones((3, 1), "int16"), fixed="a")
    case("dyn.zeros", "dyn.zeros(%a)", [np.zeros(0, "int32")], np.zeros((), "float32"), fixed="a")
    case("dyn.zeros", "sum(dyn.ones(%a) + 1f)", [_shape(300, 5)], np.asarray(3000, "float32"), fixed="a")
    for dtype in ("float32", "float64", "int32", "bool"):
        value = np.asarray(1, dtype)
        case("dyn.full", "dyn.full(%a, %b)", [value, _shape(2, 2)], np.ones((2, 2), dtype), fixed="b")
        case("dyn.full", 'dyn.full(%a, %b, shape=[], dtype="int8")', [value, _shape(4)], np.ones(4, "int8"), fixed="b")
    case("dyn.full", "dyn.full(%a, shape_of(%b))", [np.asarray(7, "int32"), np.zeros((2, 3))], np.full((2, 3), 7, "int32"))
    case("dyn.full", "dyn.full(%a, Constant([2, 3], (2), int64))", [np.asarray(7, "int32")], np.full((2, 3), 7, "int32"))
    _ranges(case)
    _selections(case)
    _uniques(case)


def _extents(shape, codes):
    """What the codes of a new shape mean: 0 and -2 copy an extent, -3 joins two."""
    extents, axis = [], 0
    for code in codes:
        taken = shape[axis:axis + 2]
        extents.append(taken[0] * taken[1] if code == -3 else taken[0] if code in (0, -2) else code)
        axis += 2 if code == -3 else 1
    return extents


def _shapes(case, x):
    for to in [(4, 3, 2), (24,), (2, 12), (1, 2, 3, 4), (-1,), (0, -1), (6, -1, 2), (0, 0, 0), (0, 0, -1, 2), (2, 0, -1)]:
        expected = x.reshape([x.shape[i] if n == 0 else n for i, n in enumerate(to)])
        case("dyn.reshape", "dyn.reshape(%a, %b)", [x, _shape(*to)], expected, fixed="b")
        case("dyn.reshape", "dyn.reshape(%a + %a, %b, newshape=[])", [x, _shape(*to, dtype="int32")],
             expected + expected, fixed="b")
    for shape, codes in [((2, 3, 4), (-3, 4)), ((2, 3, 4), (0, -3)), ((2, 3, 4), (-3, -1)), ((2, 3, 4), (-1, -3)), ((2, 3, 4), (-3, -2)),
                         ((2, 3, 4), (0, 0, -2)), ((2, 3, 4, 5), (-3, -3)), ((2, 3, 4, 5), (0, -3, 5)), ((2, 3, 4, 5), (-3, 0, -1)),
                         ((2, 1, 3, 1, 4), (-3, -3, -2)), ((2, 3, 4, 5), (-1, 0, -3)), ((2, 3), (-3,)), ((0, 3, 4), (-3, 0))]:
        joined = _random(shape, str(x.dtype), len(codes))
        case("dyn.reshape", "dyn.reshape(%a, %b)", [joined, _shape(*codes)], joined.reshape(_extents(shape, codes)), fixed="b")
        text = f"dyn.reshape(%a, Constant({list(codes)}, ({len(codes)}), int64))"
        case("dyn.reshape", text, [joined], joined.reshape(_extents(shape, codes)))
    case("dyn.reshape", "dyn.reshape(%a, %b, allowzero=1)", [x[:0], _shape(3, 0)], x[:0].reshape(3, 0), fixed="b")
    case("dyn.reshape", "dyn.reshape(%a, Constant([4, -1], (2), int32))", [x], x.reshape(4, 6))
    case("dyn.reshape", "dyn.reshape(%a, shape_of(%b)) + %b", [x, x.reshape(4, 6)], x.reshape(4, 6) + x.reshape(4, 6))
    flat = x.reshape(1, 6, 1, 4, 1)
    for axes in [(0,), (2, 0), (-1, 2), (4, 0, 2), (-5, -1), ()]:
        case("dyn.squeeze", "dyn.squeeze(%a, %b)", [flat, _shape(*axes)], np.squeeze(flat, axes), fixed="b")
    for axis in (0, 1, 3, -1, -4):
        case("dyn.expand_dims", "dyn.expand_dims(%a, %b)", [x, np.asarray(axis, "int32")], np.expand_dims(x, axis))
        place = axis if axis >= 0 else axis + 4
        case("dyn.expand_dims", "dyn.expand_dims(%a, %b, num_newaxis=2)", [x, np.asarray(axis, "int32")],
             x.reshape(x.shape[:place] + (1, 1) + x.shape[place:]))
    for reps in [(2,), (1, 3, 1), (2, 1, 1, 2), (0, 2), ()]:
        case("dyn.tile", "dyn.tile(%a, %b)", [x, _shape(*reps)], np.tile(x, reps), fixed="b")
    for to in [(2, 3, 4), (5, 2, 3, 4), (0, 2, 3, 4)]:
        case("dyn.broadcast_to", "dyn.broadcast_to(%a, %b)", [x, _shape(*to)], np.broadcast_to(x, to), fixed="b")
        case("dyn.broadcast_to", "dyn.broadcast_to(%a, %b)", [x[:, :1], _shape(*to)],
             np.broadcast_to(x[:, :1], to), fixed="b")
    for widths in [((0, 0), (1, 2), (3, 0)), ((2, 1), (0, 0), (0, 1))]:
        fill = np.asarray(1, x.dtype)
        case("dyn.nn.pad", "dyn.nn.pad(%a, %b, %c)", [x, np.asarray(widths, "int64"), fill],
             np.pad(x, widths, constant_values=1), fixed="b")
        case("dyn.nn.pad", 'dyn.nn.pad(%a, %b, %c, pad_mode="edge")', [x, np.asarray(widths, "int32"), fill],
             np.pad(x, widths, mode="edge"), fixed="b")


def _slices(case, x):
    for begin, end, strides in [((0, 0, 1), (2, 3, 3), (1, 1, 1)), ((1,), (2,), (1,)), ((0, -2), (9, 9), (1, 2)),
                                ((0, 2, -100), (-1, 1, -1), (1, 1, 3)), ((1, 1, 1), (1, 9223372036854775807, 2), (5, 1, 1)),
                                ((-9223372036854775808,), (-9223372036854775808,), (1,))]:
        expected = x[tuple(slice(*where) for where in zip(begin, end, strides))]
        inputs = [x, _shape(*begin), _shape(*end), _shape(*strides)]
        case("dyn.strided_slice", "dyn.strided_slice(%a, %b, %c, %d)", inputs, expected, fixed="bcd")
    case("dyn.strided_slice", "dyn.strided_slice(%a, %b, %c, %d, axes=[2, 0])", [x, _shape(1, 1), _shape(3, 2), _shape(1, 1)],
         x[1:2, :, 1:3], fixed="bcd")
    case("dyn.strided_slice", 'dyn.strided_slice(%a, %b, %c, %d, slice_mode="size")',
         [x, _shape(0, 1, 1), _shape(1, -1, 9), _shape(1, 1, 1)], x[:1, 1:, 1:], fixed="bcd")
    case("dyn.strided_slice", "dyn.strided_slice(%a, Constant([1], (1), int64), %b, Constant([1], (1), int64))", [x, _shape(2)], x[1:2], fixed="b")


def _ranges(case):
    three = [np.asarray(n, "int32") for n in (2, 10, 3)]
    case("arange_count", "arange_count(%a, %b, %c)", three, np.asarray(3, "int64"))
    case("arange_fill", "arange_fill(%a, %b, %c, %d)", three + [np.asarray(5, "int64")], np.arange(2, 17, 3, "int32"))
    for dtype in ("int32", "int64", "float32", "float64"):
        for start, stop, step in [(0, 5, 1), (2, 10, 3), (5, 0, -2), (5, 5, 1), (3, 0, 1)]:
            inputs = [np.asarray(n, dtype) for n in (start, stop, step)]
            case("arange", "arange(%a, %b, %c)", inputs, np.arange(start, stop, step, dtype=dtype))
            case("arange", 'arange(%a, %b, %c, dtype="float32")', inputs, np.arange(start, stop, step).astype("float32"))
    case("arange", "arange(0f, %a, 0.25f)", [np.asarray(1.1, "float32")], np.arange(0, 1.1, 0.25, "float32"))
    case("arange", "arange(0, ndarray_size(%a), 1) * 2", [np.zeros((3, 2))], np.arange(0, 12, 2, "int32"))
    hot = np.array([[0, 2], [3, 9]], "int32")
    for depth in (4, 0, 11):
        expected = (hot[..., None] == np.arange(depth)).astype("float32")
        inputs = [hot, np.asarray(1, "float32"), np.asarray(0, "float32"), np.asarray(depth, "int32")]
        case("dyn.one_hot", 'dyn.one_hot(%a, %b, %c, %d, dtype="float32")', inputs, expected)
        case("dyn.one_hot", 'dyn.one_hot(%a, %b, %c, %d, axis=0, dtype="int32")', inputs,
             np.moveaxis(expected, -1, 0).astype("int32"))
    x = _random((3, 17), "float32", 3)
    order = np.argsort(-x, axis=-1, kind="stable")
    for k in (5, 1, 17, 40, 0, -1):
        taken = order[:, :k] if k > 0 else order
        case("dyn.topk", 'dyn.topk(%a, %b, ret_type="values")', [x, np.asarray(k, "int32")], np.take_along_axis(x, taken, -1))
        case("dyn.topk", "dyn.topk(%a, %b).1", [x, np.asarray(k, "int64")], taken.astype("int32"))


def _selections(case):
    for dtype in ("float32", "int8", "bool"):
        for shape in [(7,), (3, 5), (2, 3, 4), (0, 3), (1500,), (40, 33)]:
            x = _random(shape, dtype, 5)
            case("argwhere", "argwhere(%a)", [x], np.argwhere(x).astype("int32"))
            case("argwhere", "argwhere(%a)", [x * x.dtype.type(0)], np.zeros((0, len(shape)), "int32"))
    x = np.array([[0, 3, 0], [2, 0, 1]], "int32")
    case("argwhere_count", "argwhere_count(%a)", [x], np.asarray(3, "int64"))
    # A count that is not right gives some rows, of indices in range.
    for count in (0, 2, 3):
        case("argwhere_fill", "argwhere_fill(%a, %b)", [x, np.asarray(count, "int64")],
             np.argwhere(x)[:count].astype("int32"))
    case("argwhere_fill", "argwhere_fill(%a, %b)", [x, np.asarray(4, "int64")],
         np.array([[0, 1], [1, 0], [1, 2], [0, 0]], "int32"))
    x, mask = _random((9, 2), "float32", 6), np.arange(9) % 3 == 1
    case("argwhere", "take(%a, squeeze(argwhere(%b), axis=[1]), axis=0)", [x, mask], x[mask])


def _uniques(case):
    for dtype in ("int32", "uint8", "float32", "float16"):
        for size in (1, 8, 60, 0):
            x = _random((size,), dtype, size)
            values, first, places, counts = np.unique(x, return_index=True, return_inverse=True, return_counts=True)
            case("unique", "unique(%a).0", [x], values)
            case("unique", "unique(%a).1", [x], first.astype("int32"))
            case("unique", "unique(%a).2", [x], places.astype("int32"))
            case("unique", "unique(%a).3", [x], np.array([len(values)], "int32"))
            case("unique", "unique(%a, return_counts=True).4", [x], counts.astype("int32"))
            arrival = np.argsort(first)
            case("unique", "unique(%a, sorted=False).0", [x], values[arrival])
            case("unique", "unique(%a, sorted=False, return_counts=True).4", [x], counts[arrival].astype("int32"))
            case("unique", "take(unique(%a, sorted=False).0, unique(%a, sorted=False).2)", [x], x)
    x = np.array([3, 1, 3, 2, 1], "int32")
    case("unique_count", "unique_count(%a)", [x], np.asarray(3, "int64"))
    for count in (0, 2, 3):
        case("unique_fill", "unique_fill(%a, %b).0", [x, np.asarray(count, "int64")], np.unique(x)[:count])
    case("unique_fill", "unique_fill(%a, %b).0", [x, np.asarray(4, "int64")], np.array([1, 2, 3, 3], "int32"))
    case("unique_fill", "unique_fill(%a, %b).0", [x[:0], np.asarray(2, "int64")], np.zeros(2, "int32"))
    for shape, axis in (((7, 2), 0), ((2, 3, 6), -1), ((3, 5, 2), 1), ((4, 0), 0), ((0, 3), 0), ((6,), 0)):
        for dtype in ("int8", "float32"):
            x = np.sign(_random(shape, dtype, sum(shape)))
            values, first, places, counts = np.unique(x, return_index=True, return_inverse=True, return_counts=True, axis=axis)
            case("unique", f"unique(%a, axis={axis}).0", [x], values)
            case("unique", f"unique(%a, axis={axis}).1", [x], first.astype("int32"))
            case("unique", f"unique(%a, axis={axis}).2", [x], places.ravel().astype("int32"))
            arrival = np.argsort(first)
            case("unique", f"unique(%a, axis={axis}, sorted=False, return_counts=True).4", [x], counts[arrival].astype("int32"))
            case("unique", f"unique(%a, axis={axis}, sorted=False).0", [x], values.take(arrival, axis))
    x = np.sign(_random((2, 3, 4), "int32", 5))
    case("unique", "unique(%a).0", [x], np.unique(x))
    case("unique", "take(unique(%a).0, unique(%a).2)", [x], x.ravel())
    case("unique_count", "unique_count(%a, axis=1)", [x], np.asarray(np.unique(x, axis=1).shape[1], "int64"))
    nan = np.array([2, np.nan, 1, np.nan, np.inf], np.float32)
    case("unique", "unique(%a).0", [nan], np.unique(nan))
