"""Boxes of detectors: written out as loops, the way the operators are explained."""

import numpy as np

from operator_cases.case import rng


def cases(case):
    for dtype in ["float32", "float64", "float16"]:
        for batch, count in [(2, 9), (1, 1), (3, 0), (1, 70)]:
            data = _boxes(batch, count, dtype)
            _valid(case, data, dtype)
            for options in OPTIONS:
                _suppress(case, data, **options)


OPTIONS = [dict(), dict(top_k=4), dict(most=2), dict(most=0), dict(force=True), dict(id_index=-1), dict(threshold=0.0),
           dict(threshold=0.3, top_k=6, most=3), dict(boxes=True), dict(boxes=True, bottom=True, most=3),
           dict(boxes=True, bottom=True, threshold=-1.0)]


def _boxes(batch, count, dtype):
    """Class, score and two corners, in eighths: overlaps are the same in every precision."""
    generator = rng(batch, count, dtype)
    data = np.empty((batch, count, 6))
    data[..., 0] = generator.integers(-1, 2, (batch, count))
    scores = generator.permuted(np.tile(np.arange(-2, count - 2), (batch, 1)), axis=1)
    data[..., 1] = scores / 64
    data[..., 2:] = generator.integers(0, 24, (batch, count, 4)) / 8
    return data.astype(dtype)


def _valid(case, data, dtype):
    for threshold, id_index in [(0.0, 0), (0.05, -1), (9.0, 0)]:
        boxes, places = np.full_like(data, -1), np.full(data.shape[:2], -1, "int32")
        counts = np.zeros(len(data), "int32")
        for b, i in np.ndindex(data.shape[:2]):
            if data[b, i, 1] > np.asarray(threshold, dtype) and (id_index < 0 or data[b, i, id_index] >= 0):
                boxes[b, counts[b]], places[b, counts[b]] = data[b, i], i
                counts[b] += 1
        for part, expected in enumerate((counts, boxes, places)):
            case("vision.get_valid_counts", f"vision.get_valid_counts(%a, %b, id_index={id_index}).{part}",
                 [data, np.asarray(threshold, dtype)], expected)


def _suppress(case, data, threshold=0.25, top_k=-1, most=-1, force=False, id_index=0, boxes=False, bottom=False):
    batch, count = data.shape[:2]
    valid = np.maximum(count - np.arange(batch), 0).astype("int32")
    numbers = (np.arange(count) * 3 + np.arange(batch)[:, None]).astype("int32")
    kept = np.full((batch, count), -1)
    for b in range(batch):
        kept[b, :valid[b]] = _kept(data[b, :valid[b]].astype(float), threshold, top_k, most, force, id_index)
    attrs = f"force_suppress={force}, top_k={top_k}, id_index={id_index}, return_indices={not boxes}, invalid_to_bottom={bottom}"
    call = f"vision.non_max_suppression(%a, %b, %c, %d, %e, {attrs})"
    inputs = [data, valid, numbers, np.asarray(most, "int32"), np.asarray(threshold, "float32")]
    if boxes:
        rows = [np.array([data[b, k] if k >= 0 else np.full(6, -1) for k in kept[b]]).reshape(count, 6) for b in range(batch)]
        if bottom:
            rows = [_first(row, row[:, 0] >= 0) for row in rows]
        case("vision.non_max_suppression", call, inputs, np.array(rows).reshape(data.shape).astype(data.dtype))
        return
    found = [np.array([numbers[b, k] for k in kept[b] if k >= 0], int) for b in range(batch)]
    expected = np.full((batch, count), -1, "int32")
    for b, row in enumerate(found):
        expected[b, :len(row)] = row
    case("vision.non_max_suppression", call + ".0", inputs, expected)
    case("vision.non_max_suppression", call + ".1", inputs, np.array([[len(row)] for row in found], "int32"))


def _first(rows, holds):
    result = np.full_like(rows, -1)
    result[:holds.sum()] = rows[holds]
    return result


def _kept(boxes, threshold, top_k, most, force, id_index):
    """For each place by descending score the box that is there, -1 if it went."""
    if threshold <= 0:
        return np.arange(len(boxes))
    order = np.argsort(-boxes[:, 1], kind="stable")
    result, stay = [], []
    for place, at in enumerate(order):
        gone = len(stay) == most or (0 < top_k <= place)
        if not gone and boxes[at, 1] > 0:
            gone = any(_overlap(boxes[at], boxes[other]) >= np.float32(threshold) for other in stay
                       if id_index < 0 or (boxes[other, id_index] >= 0 and (force or boxes[other, id_index] == boxes[at, id_index])))
            if not gone:
                stay.append(at)
        result.append(-1 if gone else at)
    return np.array(result, int)


def _overlap(a, b):
    low = [np.minimum(box[2:4], box[4:6]) for box in (a, b)]
    high = [np.maximum(box[2:4], box[4:6]) for box in (a, b)]
    shared = np.prod(np.maximum(np.minimum(*high) - np.maximum(*low), 0))
    covered = np.prod(high[0] - low[0]) + np.prod(high[1] - low[1]) - shared
    return shared / covered if covered > 0 else 0
