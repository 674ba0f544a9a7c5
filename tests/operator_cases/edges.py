"""Where operators meet what is no ordinary number: NaN, rows that are masked, windows and borders beyond the data, nothing."""

import itertools

import numpy as np

from operator_cases.case import random, wide

NAN, INF = np.nan, np.inf


def cases(case):
    _masked_rows(case)
    for dtype in ("float16", "float32", "float64"):
        _order(case, dtype)
    _exact_counts(case)
    _hanging_windows(case)
    _borders(case)
    _small_regions(case)
    _given_scales(case)
    _few_elements(case)


def _masked_rows(case):
    rows = np.array([[-INF, -INF, -INF], [0, -INF, 0], [-INF, NAN, -INF], [-3e38, -3e38, -INF], [INF, 0, -INF]])
    expected = np.array([[0, 0, 0], [0.5, 0, 0.5], [NAN] * 3, [0.5, 0.5, 0], [NAN] * 3])
    for dtype in ("float32", "float64"):
        case("nn.softmax", "nn.softmax(%a, masked=True)", [rows.astype(dtype)], expected.astype(dtype), 1e-6)
    half = np.array([[-INF] * 40, [1.0] * 40], "float16")
    case("nn.softmax", "nn.softmax(%a, axis=0, masked=True)", [half], np.array([[0.0] * 40, [1.0] * 40], "float16"))
    wide_rows = np.full((2, 3, 70), -INF, "float32")
    wide_rows[1, 2, 65] = 4
    expected = np.zeros_like(wide_rows)
    expected[1, 2, 65] = 1
    case("nn.softmax", "nn.softmax(%a, masked=True)", [wide_rows], expected)


def _order(case, dtype):
    rows = np.array([[2, NAN, -INF, INF, NAN, -0.0, 0], [NAN] * 7, [3, 1, 2, 1, NAN, -1, INF]], dtype)
    ranks = np.array([sorted(range(7), key=lambda i, row=row: (np.isnan(row[i]), 0 if np.isnan(row[i]) else row[i], i)) for row in rows])
    falling = np.array([sorted(range(7), key=lambda i, row=row: (not np.isnan(row[i]), 0 if np.isnan(row[i]) else -row[i], i)) for row in rows])
    for ascend, order in ((True, ranks), (False, falling)):
        values = np.take_along_axis(rows, order, 1)
        case("sort", f"sort(%a, is_ascend={ascend})", [rows], values)
        case("sort", f"sort(%a, axis=0, is_ascend={ascend})", [rows.T.copy()], values.T)
        case("argsort", f"argsort(%a, is_ascend={ascend})", [rows], order.astype("int32"))
        for k in (1, 3):
            case("topk", f"topk(%a, k={k}, is_ascend={ascend}).0", [rows], values[:, :k])
            case("dyn.topk", f"dyn.topk(%a, %b, is_ascend={ascend}).1", [rows, np.int64(k)], order[:, :k].astype("int32"))


def _exact_counts(case):
    x = np.array([[3, 1, 2], [4, 6, 5]], "float32")
    for k in (0, 1, 3):
        order = np.argsort(-x, axis=1)[:, :k]
        case("topk", f"topk(%a, k={k}, exact=True).0", [x], np.take_along_axis(x, order, 1))
        case("dyn.topk", "dyn.topk(%a, %b, exact=True).0", [x, np.int32(k)], np.take_along_axis(x, order, 1))
        case("dyn.topk", "dyn.topk(%a, %b, exact=True).1", [x, np.int64(k)], order.astype("int32"))
    case("dyn.topk", "dyn.topk(%a, %b, exact=True).0", [x[:, :0], np.int64(0)], x[:, :0])


def _mean_of_windows(x, size, stride, dilation, before, after):
    """Means that count padding, but nothing beyond it; the last windows may extend beyond it."""
    axes = len(size)
    begins, counted = [], []
    for n, k, s, d, p, q in zip(x.shape[2:], size, stride, dilation, before, after):
        count = -(-(n + p + q - (k - 1) * d - 1) // s) + 1
        count = min(count, (n + p - 1) // s + 1)
        begins.append([i * s - p for i in range(count)])
        counted.append(n + q)
    out = np.zeros(x.shape[:2] + tuple(len(b) for b in begins))
    for at in np.ndindex(*out.shape[2:]):
        total, taps = 0, 0
        for tap in np.ndindex(*size):
            place = [begins[i][at[i]] + tap[i] * dilation[i] for i in range(axes)]
            if any(place[i] >= counted[i] for i in range(axes)):
                continue
            taps += 1
            if all(0 <= place[i] < x.shape[2 + i] for i in range(axes)):
                total = total + wide(x[(slice(None), slice(None), *place)])
        out[(slice(None), slice(None), *at)] = total / taps
    return out


def _hanging_windows(case):
    forms = [((7,), (2,), (2,), (1,), (0,), (0,)), ((6,), (3,), (2,), (1,), (1,), (1,)), ((9,), (3,), (3,), (2,), (0,), (2,)),
             ((5, 8), (2, 3), (3, 2), (1, 2), (1, 0), (0, 1)), ((6, 6), (3, 3), (2, 2), (1, 1), (1, 1), (1, 1)),
             ((4, 5, 6), (2, 3, 2), (3, 2, 3), (2, 1, 1), (0, 1, 0), (1, 0, 1))]
    for number, (extents, size, stride, dilation, before, after) in enumerate(forms):
        x = random((2, 3) + extents, "float32", "hanging", number)
        op = f"nn.avg_pool{len(extents)}d"
        attrs = f"pool_size={list(size)}, strides={list(stride)}, dilation={list(dilation)}, padding={list(before + after)}"
        expected = _mean_of_windows(x, size, stride, dilation, before, after)
        case(op, f"{op}(%a, {attrs}, ceil_mode=True, count_include_pad=True)", [x], expected.astype("float32"), 1e-5)
    x = random((1, 2, 5, 6), "float32", "hanging gradient")
    size, stride, pad = (2, 3), (3, 2), (1, 0)
    grad = random(_mean_of_windows(x, size, stride, (1, 1), pad, pad).shape, "float32", "hanging share")
    expected = np.zeros_like(x)
    for place in np.ndindex(*x.shape):
        unit = np.zeros_like(x)
        unit[place] = 1
        expected[place] = (_mean_of_windows(unit, size, stride, (1, 1), pad, pad) * grad).sum()
    case("nn.avg_pool2d_grad", "nn.avg_pool2d_grad(%a, %b, pool_size=[2, 3], strides=[3, 2], padding=[1, 0], ceil_mode=True, "
         "count_include_pad=True)", [grad, x], expected, 1e-5)


def _borders(case):
    x, fill = np.arange(1, 13).reshape(3, 4).astype("int32"), np.int32(0)
    for rows, columns in itertools.product(((-1, 2), (3, -2), (-1, 0), (0, 0)), ((-3, 4), (5, -1), (-1, -1), (6, 6))):
        kept = x[max(-rows[0], 0):3 - max(-rows[1], 0), max(-columns[0], 0):4 - max(-columns[1], 0)]
        expected = np.pad(kept, [[max(w, 0) for w in pair] for pair in (rows, columns)], mode="wrap")
        widths = [list(rows), list(columns)]
        case("nn.pad", f'nn.pad(%a, %b, pad_width={widths}, pad_mode="wrap")', [x, fill], expected)
        case("dyn.nn.pad", 'dyn.nn.pad(%a, %c, %b, pad_mode="wrap")', [x, fill, np.array(widths, "int64")], expected, fixed="c")
    for mode, name in (("reflect", "REFLECT"), ("symmetric", "SYMMETRIC")):
        widths = [[2, 2], [3, 1]] if mode == "reflect" else [[3, 3], [4, 0]]
        case("nn.mirror_pad", f'nn.mirror_pad(%a, pad_width={widths}, mode="{name}")', [x], np.pad(x, widths, mode=mode))
    case("nn.pad", 'nn.pad(%a, %b, pad_width=[[2, 2], [3, 3]], pad_mode="reflect")', [x, fill], np.pad(x, [[2, 2], [3, 3]], mode="reflect"))
    none = x[:0]
    for mode in ("edge", "reflect", "wrap"):
        case("dyn.nn.pad", f'dyn.nn.pad(%a, %c, %b, pad_mode="{mode}")', [none, fill, np.array([[0, 0], [1, 2]])],
             np.zeros((0, 7), "int32"), fixed="c")


def _small_regions(case):
    """Regions below an element of data, and without any extent, are not enlarged."""
    image = np.arange(20, dtype="float32").reshape(1, 1, 4, 5) * 3 + 1
    rois = np.array([[0, 0.5, 1, 0.75, 1.5], [0, 2, 2, 2, 3], [0, 1, 0, 4, 0.25], [0, 3, 3, 1, 1]], "float32")

    def at(y, x):  # the image is linear
        return (np.clip(y, 0, 3) * 5 + np.clip(x, 0, 4)) * 3 + 1

    expected = np.zeros((4, 1, 2, 2))
    adaptive = np.zeros((4, 1, 2, 2))
    for n, (_, left, top, right, bottom) in enumerate(wide(rois)):
        height, width = (bottom - top) / 2, (right - left) / 2
        for i, j in np.ndindex(2, 2):
            expected[n, 0, i, j] = np.mean([at(top + (i + (a + 0.5) / 2) * height, left + (j + (b + 0.5) / 2) * width)
                                            for a, b in np.ndindex(2, 2)])
            counts = max(int(np.ceil(height)), 0), max(int(np.ceil(width)), 0)
            samples = [at(top + (i + (a + 0.5) / counts[0]) * height, left + (j + (b + 0.5) / counts[1]) * width)
                       for a, b in np.ndindex(*counts)]
            adaptive[n, 0, i, j] = np.mean(samples) if samples else 0
    for mode in ("avg", "max"):
        call = f'vision.roi_align(%a, %b, pooled_size=[2, 2], spatial_scale=1f, least_length=-inff, mode="{mode}"'
        if mode == "avg":
            case("vision.roi_align", call + ", sample_ratio=2)", [image, rois], expected.astype("float32"), 1e-5)
            case("vision.roi_align", call + ")", [image, rois], adaptive.astype("float32"), 1e-5)
        else:  # one sample where there is any
            case("vision.roi_align", call + ")", [image, rois[:2]], adaptive[:2].astype("float32"), 1e-5)


def _given_scales(case):
    image = random((1, 2, 5, 7), "float32", "scaled")
    for down, across in ((1.7, 1.3), (0.6, 2.5), (1.0, 0.45)):
        rows, columns = int(5 * down), int(7 * across)
        near = image[:, :, np.minimum(np.floor(np.arange(rows) / down), 4).astype(int)]
        near = near[:, :, :, np.minimum(np.floor(np.arange(columns) / across), 6).astype(int)]
        attrs = f"size=[{rows}, {columns}], scales=[{down}f, {across}f]"
        case("image.resize2d", f'image.resize2d(%a, {attrs}, method="nearest_neighbor", coordinate_transformation_mode="asymmetric", '
             'rounding_method="floor")', [image], near)

        def line(n, m, scale):
            matrix = np.zeros((m, n))
            for i in range(m):
                x = np.clip((i + 0.5) / scale - 0.5, 0, n - 1)
                low = min(int(x), n - 2)
                matrix[i, low:low + 2] += [1 - (x - low), x - low]
            return matrix

        between = np.einsum("yh,xw,nchw->ncyx", line(5, rows, down), line(7, columns, across), wide(image)).astype("float32")
        case("image.resize2d", f'image.resize2d(%a, {attrs}, coordinate_transformation_mode="pytorch_half_pixel")', [image], between, 2e-5)
        empty = np.zeros((0,), "float32")
        case("dyn.image.resize2d", f'dyn.image.resize2d(%a, %b, %c, scales=[{down}f, {across}f])',
             [image, np.array([rows, columns]), empty], between, 2e-5, fixed="b")


def _few_elements(case):
    with np.errstate(all="ignore"):
        for shape in ((3, 1), (3, 0), (3, 2)):
            x = random(shape, "float64", "few")
            count = max(shape[1] - 1, 0)
            mean = x.sum(axis=1, keepdims=True) / max(shape[1], 1)
            expected = wide(((x - mean) ** 2).sum(axis=1)) / np.float64(count)
            case("variance", "variance(%a, axis=[1], unbiased=True)", [x], expected, 1e-9)
    for dtype in ("int32", "int8"):
        data, indices = np.array([-3, 5, 7], dtype), np.array([0, 0, 2])
        updates = np.array([-2, -2, 4], dtype)
        case("scatter_elements", 'scatter_elements(%a, %b, %c, axis=0, reduction="mean")', [data, indices, updates],
             np.array([-3, 5, 5], dtype))
    case("argmax", "argmax(%a, axis=[1])", [np.zeros((0, 3), "float32")], np.zeros((0,), "int32"))
    empty = np.zeros((0, 4), "float32")
    for to, expected in (((0, -1), (0, 4)), ((0, 2, -1), None), ((-1, 4), (0, 4)), ((0, 0, -1), (0, 4, 1)), ((3, -1), (3, 0))):
        if expected:
            case("dyn.reshape", "dyn.reshape(%a, %b)", [empty, np.array(to)], empty.reshape(expected), fixed="b")
    volume = np.zeros((0, 4, 6), "float32")
    for to, expected in (("0, -1", (0, 24)), ("0, 8, -1", (0, 8, 3)), ("-1, 24", (0, 24)), ("-3, -1", (0, 6)), ("-1, 3, 0", (0, 3, 6)),
                         ("-4, -1, 2, -2", (0, 2, 4, 6)), ("0, -1, 0", (0, 4, 6))):
        case("reshape", f"reshape(%a, newshape=[{to}])", [volume], volume.reshape(expected))
    case("dyn.reshape", "dyn.reshape(%a, %b)", [np.zeros((0, 4, 6), "float32"), np.array((0, 8, -1))], np.zeros((0, 8, 3), "float32"), fixed="b")
