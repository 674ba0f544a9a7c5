"""Normalisation by statistics, activations with parameters, gradients of pooling and convolution, markers."""

import itertools

import numpy as np

from operator_cases.case import FLOATS, random, round_away, wide


def cases(case):
    for dtype in FLOATS:
        tolerance = {"float16": 2e-2, "float32": 3e-5, "float64": 1e-9}[dtype]
        images = random((2, 6, 4, 3), dtype, "norm images")
        scale, shift = random((6,), dtype, "norm scale"), random((6,), dtype, "norm shift")

        def close(op, attrs, inputs, expected):
            letters = ", ".join(f"%{c}" for c, _ in zip("abcde", inputs))
            case(op, f"{op}({letters}{attrs})", inputs, expected.astype(dtype), tolerance)

        def grouped(x, groups):
            parts = wide(x).reshape(x.shape[0], groups, -1)
            normal = (parts - parts.mean(-1, keepdims=True)) / np.sqrt(parts.var(-1, keepdims=True) + 1e-5)
            return normal.reshape(x.shape)

        along = (slice(None), None, None)
        for groups in (1, 2, 6):
            close("nn.group_norm", f", num_groups={groups}", [images, scale, shift], grouped(images, groups) * wide(scale)[along] + wide(shift)[along])
        close("nn.group_norm", ", num_groups=3, scale=False", [images, scale, shift], grouped(images, 3) + wide(shift)[along])
        close("nn.instance_norm", "", [images, scale, shift], grouped(images, 6) * wide(scale)[along] + wide(shift)[along])
        close("nn.instance_norm", ", center=False", [images, scale, shift], grouped(images, 6) * wide(scale)[along])
        last = np.moveaxis(images, 1, -1).copy()
        close("nn.instance_norm", ", axis=-1", [last, scale, shift], np.moveaxis(grouped(images, 6) * wide(scale)[along] + wide(shift)[along], 1, -1))
        close("nn.group_norm", ", num_groups=2, axis=3", [last, scale, shift], np.moveaxis(grouped(images, 2) * wide(scale)[along] + wide(shift)[along], 1, -1))
        for groups in (1, 6):
            close("nn.group_norm", f", num_groups={groups}, axis=-1", [last, scale, shift], np.moveaxis(grouped(images, groups) * wide(scale)[along] + wide(shift)[along], 1, -1))
        rows = last[:, :, 0].copy()
        columns = np.moveaxis(rows, -1, 1)
        close("nn.group_norm", ", num_groups=3, axis=2", [rows, scale, shift], np.moveaxis(grouped(columns, 3), 1, -1) * wide(scale) + wide(shift))
        close("nn.instance_norm", "", [images[:0], scale, shift], np.zeros((0, 6, 4, 3)))
        for axes in ([1], [1, 2], [-1], [0, 1, 2, 3]):
            squares = (wide(images) ** 2).sum(axis=tuple(axes), keepdims=True)
            close("nn.l2_normalize", f", eps=0.5f, axis={axes}", [images], wide(images) / np.sqrt(np.maximum(squares, 0.5)))
        for size, axis in [(5, 1), (3, -1), (7, 2), (1, 0)]:
            close("nn.lrn", f", size={size}, axis={axis}, alpha=0.5f, bias=1.5f", [images], _lrn(wide(images), size, axis, 1.5, 0.5, 0.75))
        close("nn.lrn", "", [images], _lrn(wide(images), 5, 1, 2, 1e-4, 0.75))
        close("nn.prelu", "", [images, scale], np.where(images > 0, images, wide(images) * wide(scale)[along]))
        close("nn.prelu", ", axis=-1", [last, scale], np.where(last > 0, last, wide(last) * wide(scale)))
        for axis in (-1, 1):
            e = np.exp(wide(images) - wide(images).max(axis=axis, keepdims=True))
            close("nn.fast_softmax", f", axis={axis}", [images], e / e.sum(axis=axis, keepdims=True))
        _gradients(case, dtype, tolerance * 4)
        for op, attrs in [("checkpoint", ""), ("stop_fusion", ""), ("cast_hint", ', dtype="float16"'),
                          ("compiler_begin", ', compiler="x"'), ("compiler_end", ', compiler="x"')]:
            case(f"annotation.{op}", f"annotation.{op}(%a{attrs})", [images], images)
        case("on_device", 'on_device(%a, virtual_device="cuda:1")', [images], images)
        case("device_copy", 'device_copy(%a, src_virtual_device="cpu", dst_virtual_device="gpu")', [images], images)
        case("debug", "debug(%a) + %a", [images], images + images)
        step, low, high = (np.asarray(v, dtype) for v in (0.25, -3, 5))
        op = "relay.op.annotation.simulated_quantize"
        case(op, f"{op}(%a, %b, %c, %d, kind=1)", [images, step, low, high],
             (round_away(np.clip(wide(images) / 0.25, -3, 5)) * 0.25).astype(dtype))
        case(op, f"{op}(%a, %b, %c, %d, kind=0)", [images, step, low, high], images)


def _lrn(x, size, axis, bias, alpha, beta):
    moved = np.moveaxis(x, axis, 0)
    out = np.empty_like(moved)
    for i in range(moved.shape[0]):
        near = moved[max(0, i - size // 2):i + size // 2 + 1]
        out[i] = moved[i] / (bias + alpha / size * (near ** 2).sum(0)) ** beta
    return np.moveaxis(out, 0, axis)


def _taps(extent, size, stride, before, dilation, out):
    """For each window and tap the place read, or None in the padding."""
    places = [[o * stride + k * dilation - before for k in range(size)] for o in range(out)]
    return [[p if 0 <= p < extent else None for p in window] for window in places]


def _windows(x, size, stride, pad, dilation, ceil=False):
    """The taps of both axes; pad is (top, left, bottom, right)."""
    axes = []
    for k in (0, 1):
        room = x.shape[2 + k] + pad[k] + pad[k + 2] - (size[k] - 1) * dilation[k] - 1
        out = (-(-room // stride[k]) if ceil else room // stride[k]) + 1
        axes.append(_taps(x.shape[2 + k], size[k], stride[k], pad[k], dilation[k], out))
    return axes


def _gradients(case, dtype, tolerance):
    images = random((2, 4, 6, 7), dtype, "gradient images")
    forms = [("", (2, 3), (1, 1), (0, 0, 0, 0), (1, 1), False),
             (", strides=[2, 1], padding=[1, 1]", (2, 3), (2, 1), (1, 1, 1, 1), (1, 1), False),
             (", strides=[2, 3], padding=[0, 1, 1, 0], dilation=[2, 1]", (2, 2), (2, 3), (0, 1, 1, 0), (2, 1), False)]
    ceil = (", strides=[2, 2], ceil_mode=True", (3, 3), (2, 2), (0, 0, 0, 0), (1, 1), True)
    large = (", strides=[2, 1], padding=[10, 5], dilation=[2, 1]", (11, 10), (2, 1), (10, 5, 10, 5), (2, 1), False)
    for attrs, size, stride, pad, dilation, ceiled in forms + [ceil, large]:
        rows, columns = _windows(images, size, stride, pad, dilation, ceiled)
        grad = random((2, 4, len(rows), len(columns)), dtype, "pooled", attrs)
        for op in ("nn.max_pool2d_grad", "nn.avg_pool2d_grad"):
            out = np.zeros(images.shape)
            for n, c, i, j in itertools.product(range(2), range(4), range(len(rows)), range(len(columns))):
                places = [(y, x) for y in rows[i] for x in columns[j] if y is not None and x is not None]
                if op == "nn.max_pool2d_grad":
                    places = [max(places, key=lambda p: images[n, c, p[0], p[1]])]
                for y, x in places:
                    out[n, c, y, x] += float(grad[n, c, i, j]) / len(places)
            case(op, f"{op}(%a, %b, pool_size=[{size[0]}, {size[1]}]{attrs})", [grad, images], out.astype(dtype), tolerance)
            case(op, f'{op}(%a, %b, pool_size=[{size[0]}, {size[1]}]{attrs}, layout="NHWC")',
                 [grad.transpose(0, 2, 3, 1).copy(), images.transpose(0, 2, 3, 1).copy()], out.transpose(0, 2, 3, 1).astype(dtype), tolerance)
    rows, columns = _windows(images, (2, 2), (2, 2), (1, 1, 1, 1), (1, 1))
    grad, out = random((2, 4, len(rows), len(columns)), dtype, "counted"), np.zeros(images.shape)
    for i, j in itertools.product(range(len(rows)), range(len(columns))):
        for y, x in itertools.product(rows[i], columns[j]):
            if y is not None and x is not None:
                out[:, :, y, x] += wide(grad)[:, :, i, j] / 4
    case("nn.avg_pool2d_grad", "nn.avg_pool2d_grad(%a, %b, pool_size=[2, 2], strides=[2, 2], padding=[1, 1], count_include_pad=True)",
         [grad, images], out.astype(dtype), tolerance)
    flat = np.ones((1, 1, 4, 4), dtype)
    case("nn.max_pool2d_grad", "nn.max_pool2d_grad(%a, %b, pool_size=[2, 2], strides=[2, 2])", [np.full((1, 1, 2, 2), 3, dtype), flat],
         np.array([[[[3, 0, 3, 0], [0, 0, 0, 0]] * 2]], dtype).reshape(1, 1, 4, 4))
    for attrs, size, stride, pad, dilation, _ in forms:
        rows, columns = _windows(images, size, stride, pad, dilation)
        grad = random((2, 6, len(rows), len(columns)), dtype, "convolved", attrs)
        for groups in (1, 2):
            expected = np.zeros((6, 4 // groups) + size)
            for o in range(6):
                read = images[:, (o // (6 // groups)) * (4 // groups):][:, :4 // groups]
                for i, j, a, b in itertools.product(range(len(rows)), range(len(columns)), range(size[0]), range(size[1])):
                    if rows[i][a] is not None and columns[j][b] is not None:
                        expected[o, :, a, b] += np.einsum("n,nc->c", wide(grad)[:, o, i, j], wide(read)[:, :, rows[i][a], columns[j][b]])
            op = "nn.conv2d_backward_weight"
            case(op, f"{op}(%a, %b, kernel_size=[{size[0]}, {size[1]}], groups={groups}{attrs})", [grad, images],
                 expected.astype(dtype), tolerance * 8)
            if groups == 1:
                case(op, f'{op}(%a, %b, kernel_size=[{size[0]}, {size[1]}]{attrs}, data_layout="NHWC", kernel_layout="HWIO")',
                     [grad.transpose(0, 2, 3, 1).copy(), images.transpose(0, 2, 3, 1).copy()], expected.transpose(2, 3, 1, 0).astype(dtype), tolerance * 8)
