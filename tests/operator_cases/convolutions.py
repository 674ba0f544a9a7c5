"""Convolutions and transposed convolutions over the combinations of windows, strides, paddings and groups; also with
filters that are constants, which the compiler packs, and with extents of the images that are not known."""

import itertools

import numpy as np

from operator_cases.case import random


def convolution(x, w, stride, pad, dilation, groups):
    axes = x.ndim - 2
    x = np.pad(x, [(0, 0), (0, 0)] + [(p, p) for p in pad])
    taps = w.shape[2:]
    extents = [(x.shape[2 + k] - (taps[k] - 1) * dilation[k] - 1) // stride[k] + 1 for k in range(axes)]
    out = np.zeros((x.shape[0], w.shape[0], *extents))
    inputs, outputs = x.shape[1] // groups, w.shape[0] // groups
    for g, tap in itertools.product(range(groups), itertools.product(*map(range, taps))):
        where = tuple(slice(tap[k] * dilation[k], tap[k] * dilation[k] + (extents[k] - 1) * stride[k] + 1, stride[k]) for k in range(axes))
        part = x[(slice(None), slice(g * inputs, (g + 1) * inputs)) + where]
        out[:, g * outputs:(g + 1) * outputs] += np.einsum(
            "nc...,oc->no...", part, w[(slice(g * outputs, (g + 1) * outputs), slice(None)) + tap])
    return out


def transposed(x, w, stride, pad, extra, dilation, groups):
    axes = x.ndim - 2
    full = [(x.shape[2 + k] - 1) * stride[k] + (w.shape[2 + k] - 1) * dilation[k] + 1 + extra[k] for k in range(axes)]
    inputs, outputs = w.shape[0] // groups, w.shape[1]
    out = np.zeros((x.shape[0], outputs * groups, *full))
    for g, tap in itertools.product(range(groups), itertools.product(*map(range, w.shape[2:]))):
        where = tuple(slice(tap[k] * dilation[k], tap[k] * dilation[k] + (x.shape[2 + k] - 1) * stride[k] + 1, stride[k]) for k in range(axes))
        out[(slice(None), slice(g * outputs, (g + 1) * outputs)) + where] += np.einsum(
            "nc...,co->no...", x[:, g * inputs:(g + 1) * inputs], w[(slice(g * inputs, (g + 1) * inputs), slice(None)) + tap])
    before, after = pad[:axes], pad[-axes:]
    out = np.pad(out, [(0, 0), (0, 0)] + [(max(-b, 0), max(-a, 0)) for b, a in zip(before, after)])
    cut = [(max(b, 0), max(a, 0)) for b, a in zip(before, after)]
    return out[(slice(None), slice(None)) + tuple(slice(b, out.shape[2 + k] - a) for k, (b, a) in enumerate(cut))]


def _with_constant(shape):
    """Filters as an expression that is folded to a constant, and their values."""
    count = int(np.prod(shape))
    values = (np.arange(count) % 11 - 5.0).reshape(shape)
    text = f'reshape(cast(floor_mod(arange(0i32, {count}i32, 1i32), 11i32), dtype="float32") - 5f, newshape={list(shape)})'
    return text, values


def _pair(case, op, image, filters, attrs, reference):
    x, w = random(image, "float32", op), random(filters, "float32", op, "w")
    wide = lambda a: a.astype(np.float64)
    case(op, f"{op}(%a, %b, {attrs})", [x, w], reference(wide(x), wide(w)).astype("float32"), 4e-5, fixed="b")
    text, values = _with_constant(filters)
    case(op, f"{op}(%a, {text}, {attrs})", [x], reference(wide(x), values).astype("float32"), 2e-4)


# image, filters, stride, pad, dilation, groups
CONVOLUTIONS = [
    ((1, 6, 9, 13), (20, 6, 3, 3), (1, 1), (1, 1), (1, 1), 1),
    ((1, 6, 5, 20), (18, 6, 1, 3), (1, 1), (2, 1), (1, 1), 1),
    ((1, 6, 5, 20), (18, 6, 3, 1), (1, 2), (1, 3), (1, 1), 1),
    ((2, 5, 12, 31), (18, 5, 3, 3), (2, 2), (1, 1), (1, 1), 1),
    ((1, 12, 11, 20), (12, 1, 3, 3), (1, 1), (1, 1), (1, 1), 12),
    ((2, 9, 15, 29), (9, 1, 5, 5), (2, 2), (2, 2), (1, 1), 9),
    ((1, 7, 14, 33), (7, 1, 3, 3), (3, 3), (1, 1), (2, 2), 7),
    ((1, 5, 10, 18), (10, 1, 3, 3), (2, 1), (1, 2), (1, 1), 5),
    ((1, 8, 7, 7), (24, 4, 3, 3), (2, 2), (1, 1), (1, 1), 2),
    ((1, 6, 40), (17, 6, 5), (2,), (2,), (2,), 1),
    ((1, 6, 40), (6, 1, 4), (3,), (1,), (1,), 6),
    ((1, 3, 5, 6, 18), (16, 3, 2, 3, 3), (1, 2, 1), (0, 1, 1), (1, 1, 1), 1),
    ((1, 4, 5, 6, 18), (4, 1, 3, 3, 3), (1, 2, 2), (1, 1, 1), (1, 1, 1), 4),
]
# image, filters, stride, pad, extra, dilation, groups
TRANSPOSED = [
    ((1, 5, 6, 9), (5, 18, 4, 4), (2, 2), (1, 1), (0, 0), (1, 1), 1),
    ((2, 5, 6, 9), (5, 18, 3, 3), (2, 2), (1, 1), (1, 1), (1, 1), 1),
    ((1, 5, 6, 9), (5, 16, 2, 2), (2, 2), (0, 0), (0, 0), (1, 1), 1),
    ((1, 3, 5, 7), (3, 7, 3, 5), (3, 4), (1, 5), (2, 3), (1, 1), 1),
    ((1, 3, 5, 7), (3, 17, 1, 2), (3, 3), (0, 0), (0, 1), (1, 1), 1),
    ((1, 3, 5, 7), (3, 17, 2, 3), (2, 2), (0, 1), (0, 0), (2, 3), 1),
    ((1, 6, 5, 8), (6, 9, 5, 5), (1, 2), (2, 2), (0, 1), (2, 1), 1),
    ((2, 6, 5, 8), (6, 1, 4, 4), (2, 2), (1, 1), (0, 0), (1, 1), 6),
    ((1, 6, 5, 8), (6, 8, 3, 3), (2, 2), (1, 1), (1, 1), (1, 1), 2),
    ((1, 20, 1, 1), (20, 17, 4, 4), (1, 1), (0, 0), (0, 0), (1, 1), 1),
    ((1, 20, 1, 3), (20, 17, 4, 3), (2, 2), (1, 1), (1, 0), (1, 1), 1),
    ((1, 7, 21), (7, 18, 16), (8,), (4,), (0,), (1,), 1),
    ((1, 2, 3, 4), (2, 3, 3, 3), (3, 2), (0, 0, -1, -1), (0, 0), (1, 1), 1),
    ((1, 2, 3, 4), (2, 3, 3, 3), (2, 3), (-2, 1, 1, -4), (0, 1), (1, 1), 1),
    ((1, 4, 3, 4), (4, 2, 2, 3), (1, 2), (-1, -3, -2, 0), (0, 0), (1, 2), 2),
    ((1, 2, 5), (2, 3, 4), (2,), (-3, -2), (0,), (1,), 1),
    ((1, 2, 5), (2, 3, 3), (1,), (-1,), (0,), (1,), 1),
    ((1, 2, 3, 2, 4), (2, 3, 2, 2, 3), (2, 1, 2), (-1, 0, 1, 0, -2, -1), (0, 0, 0), (1, 1, 1), 1),
    ((1, 4, 3, 4, 6), (4, 16, 2, 2, 3), (2, 2, 2), (0, 0, 1), (0, 0, 1), (1, 1, 1), 1),
]


def cases(case):
    for image, filters, stride, pad, dilation, groups in CONVOLUTIONS:
        op = f"nn.conv{len(stride)}d"
        attrs = f"strides={list(stride)}, padding={list(pad)}, dilation={list(dilation)}, groups={groups}"
        _pair(case, op, image, filters, attrs, lambda x, w: convolution(x, w, stride, pad, dilation, groups))
    for image, filters, stride, pad, extra, dilation, groups in TRANSPOSED:
        op = f"nn.conv{len(stride)}d_transpose"
        attrs = (f"strides={list(stride)}, padding={list(pad)}, output_padding={list(extra)}, dilation={list(dilation)}, groups={groups}")
        _pair(case, op, image, filters, attrs, lambda x, w: transposed(x, w, stride, pad, extra, dilation, groups))
