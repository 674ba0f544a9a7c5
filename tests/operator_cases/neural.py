"""Operators of neural networks."""

import itertools
import math

import numpy as np

from operator_cases.case import FLOATS, random, wide


def softmax(x, axis):
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def cases(case):
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
            case("nn.softmax", f"nn.softmax(%a, axis={axis})", [y], softmax(wide(y), axis).astype(dtype), tolerance)
            case("nn.log_softmax", f"nn.log_softmax(%a, axis={axis})", [y], np.log(softmax(wide(y), axis)).astype(dtype), tolerance)
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
            case("nn.conv2d", f"nn.conv2d(%a, %b{attrs})", [images, filters], conv2d(wide(images), wide(filters), **options).astype(dtype), tolerance * 4)
        case("nn.conv2d", "nn.conv2d(%a, %b, groups=2)", [images, filters[:, :2].copy()],
             conv2d(wide(images), wide(filters[:, :2]), groups=2).astype(dtype), tolerance * 4)
        case("nn.conv2d", 'nn.conv2d(%a, %b, data_layout="NHWC", kernel_layout="HWIO")',
             [images.transpose(0, 2, 3, 1).copy(), filters.transpose(2, 3, 1, 0).copy()],
             conv2d(wide(images), wide(filters)).transpose(0, 2, 3, 1).astype(dtype), tolerance * 4)
        if dtype in ("float32", "float64"):
            _winograd_cases(case, dtype, tolerance)
        lines, taps = random((2, 3, 9), dtype, "lines"), random((4, 3, 3), dtype, "taps")
        case("nn.conv1d", "nn.conv1d(%a, %b, padding=[1], strides=[2])", [lines, taps],
             conv2d(wide(lines)[:, :, None], wide(taps)[:, :, None], stride=(1, 2), pad=(0, 1, 0, 1))[:, :, 0].astype(dtype), tolerance * 4)
        volume, cube = random((1, 2, 3, 4, 3), dtype, "volume"), random((2, 2, 2, 2, 2), dtype, "cube")
        case("nn.conv3d", "nn.conv3d(%a, %b)", [volume, cube], _conv3d(wide(volume), wide(cube)).astype(dtype), tolerance * 4)
        up = random((4, 3, 3, 2), dtype, "up")
        case("nn.conv2d_transpose", "nn.conv2d_transpose(%a, %b, strides=[2, 2], padding=[1, 0], output_padding=[1, 0])", [images, up],
             _conv2d_transpose(wide(images), wide(up), (2, 2), (1, 0), (1, 0)).astype(dtype), tolerance * 4)
        thick = random((2, 3, 2, 1, 2), dtype, "thick")
        case("nn.conv3d_transpose", "nn.conv3d_transpose(%a, %b)", [volume, thick],
             _conv3d_transpose(wide(volume), wide(thick), (1, 1, 1)).astype(dtype), tolerance * 4)
        case("nn.conv3d_transpose", "nn.conv3d_transpose(%a, %b, strides=[2, 1, 3], padding=[1, 0, 1], output_padding=[1, 0, 0])", [volume, thick],
             np.pad(_conv3d_transpose(wide(volume), wide(thick), (2, 1, 3)), ((0, 0), (0, 0), (0, 1), (0, 0), (0, 0)))[:, :, 1:-1, :, 1:-1].astype(dtype), tolerance * 4)
        for attrs, options in [("", {}), ("strides=[2, 1], padding=[1, 0, 2, 1], ", dict(stride=(2, 1), pad=(1, 0, 2, 1))), ("dilation=[2, 1], ", dict(dilation=(2, 1)))]:
            for i, o in [(4, 3), (2, 6), (1, 1)]:
                layouts = f'data_layout="NCHW{i}c", kernel_layout="OIHW{i}i{o}o", out_layout="NCHW{o}c"'
                case("nn.contrib_conv2d_NCHWc", f"nn.contrib_conv2d_NCHWc(%a, %b, {attrs}{layouts})", [_blocks(images, i), _filter_blocks(filters, i, o)],
                     _blocks(conv2d(wide(images), wide(filters), **options), o).astype(dtype), tolerance * 4)
        layouts = 'data_layout="NCHW2c", kernel_layout="OIHW2i3o"'
        case("nn.contrib_conv2d_NCHWc", f"nn.contrib_conv2d_NCHWc(%a, %b, groups=2, channels=6, kernel_size=[3, 2], {layouts})",
             [_blocks(images, 2), _filter_blocks(filters[:, :2], 2, 3)],
             _blocks(conv2d(wide(images), wide(filters[:, :2]), groups=2), 3).astype(dtype), tolerance * 4)
        case("nn.conv1d_transpose", "nn.conv1d_transpose(%a, %b, strides=[2])", [lines, random((3, 2, 3), dtype, "up1")],
             _conv2d_transpose(wide(lines)[:, :, None], wide(random((3, 2, 3), dtype, "up1"))[:, :, None], (1, 2), (0, 0), (0, 0))[:, :, 0].astype(dtype), tolerance * 4)
        for average in (False, True):
            op = "nn.avg_pool2d" if average else "nn.max_pool2d"
            case(op, f"{op}(%a, pool_size=[2, 3], strides=[2, 2], padding=[1, 1])", [images],
                 pool2d(wide(images), (2, 3), (2, 2), (1, 1, 1, 1), average).astype(dtype), tolerance)
            case(op, f"{op}(%a, pool_size=[3, 3], strides=[2, 2], ceil_mode=True)", [images],
                 pool2d(wide(images), (3, 3), (2, 2), (0, 0, 0, 0), average, ceil=True).astype(dtype), tolerance)
            one = "nn.avg_pool1d" if average else "nn.max_pool1d"
            case(one, f"{one}(%a, pool_size=[3], strides=[2])", [lines],
                 pool2d(wide(lines)[:, :, None], (1, 3), (1, 2), (0, 0, 0, 0), average)[:, :, 0].astype(dtype), tolerance)
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
             pool2d(np.pad(wide(images), ((0, 0), (0, 0), (1, 1), (1, 1))), (2, 2), (1, 1), (0, 0, 0, 0), True).astype(dtype), tolerance)
        fill = np.asarray(2.5, dtype)
        case("nn.pad", "nn.pad(%a, %b, pad_width=[[0, 0], [0, 0], [1, 2], [0, 3]])", [images, fill],
             np.pad(images, ((0, 0), (0, 0), (1, 2), (0, 3)), constant_values=2.5))
        for mode in ("edge", "reflect"):
            case("nn.pad", f'nn.pad(%a, %b, pad_width=[[0, 0], [0, 0], [1, 2], [2, 0]], pad_mode="{mode}")', [images, fill],
                 np.pad(images, ((0, 0), (0, 0), (1, 2), (2, 0)), mode=mode))
        dilated = np.full((2, 4, 13, 16), 9, dtype)
        dilated[:, :, ::2, ::3] = images
        case("nn.dilate", "nn.dilate(%a, strides=[1, 1, 2, 3], dilation_value=9f)", [images], dilated)
        chances, targets = softmax(wide(random((5, 4), dtype, "chances")), 1).astype(dtype), softmax(wide(random((5, 4), dtype, "targets")), 1).astype(dtype)
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


FILTER_TRANSFORMS = {2: [[1, 0, 0], [1 / 2, 1 / 2, 1 / 2], [1 / 2, -1 / 2, 1 / 2], [0, 0, 1]],
                     4: [[1 / 4, 0, 0], [-1 / 6, -1 / 6, -1 / 6], [-1 / 6, 1 / 6, -1 / 6], [1 / 24, 1 / 12, 1 / 6], [1 / 24, -1 / 12, 1 / 6], [0, 0, 1]]}


def _winograd_cases(case, dtype, tolerance):
    plain, tiled = "nn.contrib_conv2d_winograd_weight_transform", "nn.contrib_conv2d_winograd_without_weight_transform"
    filters = random((5, 3, 3, 3), dtype, "filters3x3")
    for tile, matrix in FILTER_TRANSFORMS.items():
        transformed = np.einsum("ay,bx,oiyx->aboi", matrix, matrix, wide(filters))
        case(plain, f"{plain}(%a, tile_size={tile})", [filters], transformed.astype(dtype), tolerance * 4)
        for shape, pad in [((2, 3, 7, 10), (0, 0, 0, 0)), ((1, 3, 8, 5), (1, 1, 1, 1)), ((3, 3, 1, 2), (2, 1, 0, 1)), ((1, 3, 2, 2), (0, 0, 0, 0)),
                           ((0, 3, 6, 6), (1, 1, 1, 1))]:
            images = random(shape, dtype, "images3x3")
            case(tiled, f"{tiled}(%a, %b, tile_size={tile}, padding={list(pad)})", [images, transformed.astype(dtype)],
                 conv2d(wide(images), wide(filters), pad=pad).astype(dtype), tolerance * 20)


def conv2d(x, w, stride=(1, 1), pad=(0, 0, 0, 0), dilation=(1, 1), groups=1):
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


def _blocks(images, size):
    n, c, height, width = images.shape
    return images.reshape(n, c // size, size, height, width).transpose(0, 1, 3, 4, 2).copy()


def _filter_blocks(w, i, o):
    outputs, inputs, height, width = w.shape
    return w.reshape(outputs // o, o, inputs // i, i, height, width).transpose(0, 2, 4, 5, 3, 1).copy()


def _conv3d_transpose(x, w, stride):
    out = np.zeros((x.shape[0], w.shape[1]) + tuple((x.shape[2 + k] - 1) * stride[k] + w.shape[2 + k] for k in range(3)))
    for at in itertools.product(*map(range, x.shape[2:])):
        where = tuple(slice(at[k] * stride[k], at[k] * stride[k] + w.shape[2 + k]) for k in range(3))
        out[(slice(None), slice(None)) + where] += np.einsum("nc,codhw->nodhw", x[(slice(None), slice(None)) + at], w)
    return out


def _conv2d_transpose(x, w, stride, pad, extra):
    n, c, height, width = x.shape
    _, o, kh, kw = w.shape
    full = np.zeros((n, o, (height - 1) * stride[0] + kh + extra[0], (width - 1) * stride[1] + kw + extra[1]))
    for i, j in itertools.product(range(height), range(width)):
        full[:, :, i * stride[0]:i * stride[0] + kh, j * stride[1]:j * stride[1] + kw] += np.einsum("nc,cohw->nohw", x[:, :, i, j], w)
    return full[:, :, pad[0]:full.shape[2] - pad[0], pad[1]:full.shape[3] - pad[1]]


def pool2d(x, size, stride, pad, average, ceil=False):
    x = np.pad(x, ((0, 0), (0, 0), (pad[0], pad[2]), (pad[1], pad[3])), constant_values=np.nan)
    rounding = math.ceil if ceil else math.floor
    oh, ow = (rounding((x.shape[2 + k] - size[k]) / stride[k]) + 1 for k in (0, 1))
    out = np.empty(x.shape[:2] + (oh, ow))
    for i, j in itertools.product(range(oh), range(ow)):
        part = x[:, :, i * stride[0]:i * stride[0] + size[0], j * stride[1]:j * stride[1] + size[1]]
        out[:, :, i, j] = (np.nanmean if average else np.nanmax)(part, axis=(2, 3))
    return out
