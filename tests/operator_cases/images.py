"""Operators that trade space for channels or batches, mirrored borders, patches, and other sizes of images."""

import itertools
import math

import numpy as np

from operator_cases.case import random, wide

MOVED = ["float16", "float32", "float64", "int32", "uint8"]


def cases(case):
    for dtype in MOVED:
        images = random((2, 8, 4, 6), dtype, "blocks")
        n, c, h, w = images.shape
        for mode in ("DCR", "CDR", ""):
            blocks = images.reshape(n, 2, 2, 2, h, w) if mode == "CDR" else images.reshape(n, 2, 2, 2, h, w).transpose(0, 3, 1, 2, 4, 5)
            spread = blocks.transpose(0, 1, 4, 2, 5, 3).reshape(n, 2, 2 * h, 2 * w)  # (n, c, h, y, w, x)
            for layout, order in (("NCHW", (0, 1, 2, 3)), ("NHWC", (0, 2, 3, 1))):
                attrs = f', block_size=2, mode="{mode}", layout="{layout}"'
                case("nn.depth_to_space", f"nn.depth_to_space(%a{attrs})", [images.transpose(order).copy()], spread.transpose(order))
                case("nn.space_to_depth", f"nn.space_to_depth(%a{attrs})", [spread.transpose(order).copy()], images.transpose(order))
        case("nn.depth_to_space", "nn.depth_to_space(%a, block_size=2)", [images[:, :, :0]], np.zeros((2, 2, 0, 12), dtype))
        _batches(case, dtype)
        matrix = random((3, 5), dtype, "mirror")
        case("nn.mirror_pad", "nn.mirror_pad(%a, pad_width=[[2, 1], [0, 3]])", [matrix], np.pad(matrix, ((2, 1), (0, 3)), mode="symmetric"))
        case("nn.mirror_pad", 'nn.mirror_pad(%a, pad_width=[[2, 1], [0, 3]], mode="REFLECT")', [matrix],
             np.pad(matrix, ((2, 1), (0, 3)), mode="reflect"))
    for dtype in ["float32", "float64", "uint8"]:
        _resize(case, dtype)
        _crops(case, dtype)


def _batches(case, dtype):
    x = random((2, 4, 6, 3), dtype, "batches")
    for block, pads in [((2, 3), ((0, 0), (0, 0))), ((2, 2), ((1, 1), (2, 0))), ((3,), ((1, 1),))]:
        fill = 1 if dtype == "uint8" else -1.5 if dtype.startswith("float") else -1
        padded = np.pad(x, ((0, 0),) + pads + ((0, 0),) * (3 - len(pads)), constant_values=fill)
        parts = []
        for offsets in itertools.product(*map(range, block)):
            steps = tuple(slice(o, None, b) for o, b in zip(offsets, block))
            parts.append(padded[(slice(None),) + steps])
        folded = np.concatenate(parts)
        margins = [list(p) for p in pads]
        case("nn.space_to_batch_nd", f"nn.space_to_batch_nd(%a, block_shape={list(block)}, paddings={margins}, pad_value={float(fill)}f)", [x], folded)
        case("nn.batch_to_space_nd", f"nn.batch_to_space_nd(%a, block_shape={list(block)}, crops={margins})", [folded], x)


# ---- other sizes ------------------------------------------------------------

def _coordinate(mode, i, n, m, roi=(0, 0)):
    if mode == "align_corners":
        return 0 if m == 1 else i * (n - 1) / (m - 1)
    if mode == "asymmetric":
        return i * n / m
    if mode == "tf_half_pixel_for_nn":
        return (2 * i + 1) * n / (2 * m)
    if mode == "pytorch_half_pixel" and m == 1:
        return 0
    if mode == "tf_crop_and_resize":
        begin, end = roi
        return 0.5 * (begin + end) * (n - 1) if m == 1 else begin * (n - 1) + i * (end - begin) * (n - 1) / (m - 1)
    return ((2 * i + 1) * n - m) / (2 * m)




def _round(x):
    """Ties go away from zero."""
    return int(math.copysign(math.floor(abs(x) + 0.5), x))


ROUNDINGS = {"round": _round, "floor": math.floor, "ceil": math.ceil, "round_prefer_floor": lambda x: math.ceil(x - 0.5),
             "round_prefer_ceil": lambda x: math.floor(x + 0.5)}


def _cubic(a, s):
    s = abs(s)
    if s <= 1:
        return (a + 2) * s ** 3 - (a + 3) * s ** 2 + 1
    return a * s ** 3 - 5 * a * s ** 2 + 8 * a * s - 4 * a if s < 2 else 0


def _matrix(n, m, method, mode, rounding, alpha=-0.5, exclude=False, roi=(0, 0)):
    """How much of each of n places each of m reads."""
    out = np.zeros((m, n))
    for i in range(m):
        x = _coordinate(mode, i, n, m, roi)
        if method == "nearest_neighbor":
            taps = {ROUNDINGS[rounding](x): 1.0}
        elif method == "linear":
            taps = {math.floor(x): 1 - (x - math.floor(x)), math.floor(x) + 1: x - math.floor(x)}
        else:
            taps = {math.floor(x) + k: _cubic(alpha, x - math.floor(x) - k) for k in (-1, 0, 1, 2)}
        if method == "cubic" and exclude:
            taps = {p: t for p, t in taps.items() if 0 <= p < n}
            taps = {p: t / sum(taps.values()) for p, t in taps.items()}
        for place, weight in taps.items():
            out[i, min(max(place, 0), n - 1)] += weight
    return out


def _resize(case, dtype):
    tolerance = {"float32": 2e-5, "float64": 1e-9, "uint8": 0}[dtype]
    images = random((1, 2, 4, 5), dtype, "resize")
    modes = ["half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel"]
    exact = dtype == "uint8"

    def resized(size, *how):
        down, across = _matrix(4, size[0], *how), _matrix(5, size[1], *how)
        return np.einsum("yh,xw,nchw->ncyx", down, across, wide(images).astype(float))

    def one(size, method, mode, rounding="round"):
        attrs = f'size=[{size[0]}, {size[1]}], method="{method}", coordinate_transformation_mode="{mode}", rounding_method="{rounding}"'
        case("image.resize2d", f"image.resize2d(%a, {attrs})", [images], resized(size, method, mode, rounding).astype(dtype), tolerance)

    for size in ([8, 10], [3, 7], [1, 1], [4, 5]) if dtype != "float64" else ([3, 7],):
        for mode in modes:
            one(size, "nearest_neighbor", mode)
            if not exact:
                one(size, "linear", mode)
                one(size, "cubic", mode)
        one(size, "nearest_neighbor", "tf_half_pixel_for_nn", "floor")
    for rounding in ROUNDINGS:
        one([9, 3], "nearest_neighbor", "asymmetric", rounding)
        one([2, 10], "nearest_neighbor", "half_pixel", rounding)
    if exact:
        one([16, 20], "linear", "half_pixel")  # weights are eighths: exact, then truncated
        case("image.resize2d", 'image.resize2d(%a, size=[8, 10], out_dtype="float32")', [images],
             resized([8, 10], "linear", "half_pixel", "round").astype("float32"), 1e-5)
        return
    case("image.resize2d", 'image.resize2d(%a, size=[7, 3], method="cubic", cubic_alpha=-0.75f, cubic_exclude=1)', [images],
         resized([7, 3], "cubic", "half_pixel", "round", -0.75, True).astype(dtype), tolerance)
    case("image.resize2d", 'image.resize2d(%a, size=[7, 3], layout="NHWC")', [images.transpose(0, 2, 3, 1).copy()],
         resized([7, 3], "linear", "half_pixel", "round").transpose(0, 2, 3, 1).astype(dtype), tolerance)
    roi = [0.0, 0.0, -0.25, 0.25, 1.0, 1.0, 0.75, 1.25]
    expected = np.einsum("yh,xw,nchw->ncyx", _matrix(4, 3, "linear", "tf_crop_and_resize", "", roi=(-0.25, 0.75)),
                         _matrix(5, 6, "linear", "tf_crop_and_resize", "", roi=(0.25, 1.25)), wide(images))
    outside_y = [not 0 <= _coordinate("tf_crop_and_resize", i, 4, 3, (-0.25, 0.75)) <= 3 for i in range(3)]
    outside_x = [not 0 <= _coordinate("tf_crop_and_resize", i, 5, 6, (0.25, 1.25)) <= 4 for i in range(6)]
    expected[:, :, np.logical_or.outer(outside_y, outside_x)] = 9
    numbers = ", ".join(f"{v}f" for v in roi)
    # Of the axes of space alone.
    case("image.resize2d", 'image.resize2d(%a, size=[3, 6], roi=[-0.25f, 0.25f, 0.75f, 1.25f], coordinate_transformation_mode="tf_crop_and_resize", '
         'rounding_method="", extrapolation_value=9f)', [images], expected.astype(dtype), tolerance)
    case("image.resize2d", f'image.resize2d(%a, size=[3, 6], roi=[{numbers}], coordinate_transformation_mode="tf_crop_and_resize", '
         "extrapolation_value=9f)", [images], expected.astype(dtype), tolerance)
    case("image.resize2d", "image.resize2d(%a, size=[3, 2])", [images[:0]], np.zeros((0, 2, 3, 2), dtype))
    line, volume = random((2, 3, 5), dtype, "line"), random((1, 2, 3, 4, 2), dtype, "volume")
    case("image.resize1d", "image.resize1d(%a, size=[9])", [line], np.einsum("xw,ncw->ncx", _matrix(5, 9, "linear", "half_pixel", ""), wide(line)).astype(dtype), tolerance)
    axes = [_matrix(n, m, "linear", "half_pixel", "") for n, m in ((3, 5), (4, 2), (2, 3))]
    case("image.resize3d", "image.resize3d(%a, size=[5, 2, 3])", [volume], np.einsum("zd,yh,xw,ncdhw->nczyx", *axes, wide(volume)).astype(dtype), tolerance)
    _dynamic(case, images, resized, roi, expected, tolerance)
    case("nn.upsampling", "nn.upsampling(%a, scale_h=2f, scale_w=3f)", [images], images.repeat(2, axis=2).repeat(3, axis=3))
    case("nn.upsampling", 'nn.upsampling(%a, scale_h=2f, scale_w=2f, method="bilinear")', [images],
         resized([8, 10], "linear", "asymmetric", "").astype(dtype), tolerance)
    case("nn.upsampling", 'nn.upsampling(%a, scale_h=2f, scale_w=3f, method="bilinear", align_corners=True)', [images],
         resized([8, 15], "linear", "align_corners", "").astype(dtype), tolerance)
    case("nn.upsampling", 'nn.upsampling(%a, scale_h=1.5f, scale_w=2f, method="bicubic")', [images],
         resized([6, 10], "cubic", "asymmetric", "").astype(dtype), tolerance)
    for height, scale in itertools.product((1, 3, 5, 7), (0.5, 1.5, 2.5, 1.25)):  # halves are rounded to even
        column = random((1, 1, height, 1), dtype, "column")
        up = _matrix(height, round(height * scale), "nearest_neighbor", "asymmetric", "floor")
        case("nn.upsampling", f"nn.upsampling(%a, scale_h={scale}f, scale_w=1f)", [column],
             np.einsum("yh,nchw->ncyw", up, column).astype(dtype))


def _dynamic(case, images, resized, roi, cropped, tolerance):
    dtype, no_roi = str(images.dtype), np.zeros(0, "float32")
    for size, method, mode in [((8, 10), "linear", "half_pixel"), ((3, 7), "cubic", "align_corners"), ((1, 4), "nearest_neighbor", "asymmetric")]:
        attrs = f'method="{method}", coordinate_transformation_mode="{mode}"'
        case("dyn.image.resize2d", f"dyn.image.resize2d(%a, %b, %c, {attrs})", [images, np.array(size, "int64"), no_roi],
             resized(size, method, mode, "round").astype(dtype), tolerance, fixed="bc")
    case("dyn.image.resize2d", 'dyn.image.resize2d(%a, %b, %c, layout="NHWC")', [images.transpose(0, 2, 3, 1).copy(), np.array([0, 3], "int32"), no_roi],
         np.zeros((1, 0, 3, 2), dtype), tolerance, fixed="bc")
    case("dyn.image.resize2d", 'dyn.image.resize2d(%a, %b, %c, coordinate_transformation_mode="tf_crop_and_resize", extrapolation_value=9f)',
         [images, np.array([3, 6], "int32"), np.array(roi, "float32")], cropped.astype(dtype), tolerance, fixed="bc")
    case("dyn.image.resize2d", 'dyn.image.resize2d(%a, %b, %c, coordinate_transformation_mode="tf_crop_and_resize", extrapolation_value=9f)',
         [images, np.array([3, 6], "int32"), np.array(roi[2:4] + roi[6:], "float32")], cropped.astype(dtype), tolerance, fixed="bc")
    for scales, size, method, mode, attrs in [((2, 3), (8, 15), "nearest_neighbor", "asymmetric", ""),
                                              ((1.5, 0.5), (6, 3), "linear", "asymmetric", ', method="bilinear"'),
                                              ((2, 3), (8, 15), "linear", "align_corners", ', method="bilinear", align_corners=True'),
                                              ((1.5, 2), (6, 10), "cubic", "asymmetric", ', method="bicubic"')]:
        up = resized(size, method, mode, "floor").astype(dtype)
        down_up = [images] + [np.asarray(scale, "float32") for scale in scales]
        case("dyn.nn.upsampling", f"dyn.nn.upsampling(%a, %b, %c{attrs})", down_up, up, tolerance)
        case("dyn.nn.upsampling_fill", f"dyn.nn.upsampling_fill(%a, %b, %c, %d{attrs})", down_up + [np.array(size, "int64")], up, tolerance, fixed="d")
        case("dyn.nn.upsampling_size", f"dyn.nn.upsampling_size(%a, %b, %c{attrs})", down_up, np.array(size, "int64"))


    volume = random((1, 2, 3, 2, 4), dtype, "scaled volume")
    for method, mode, attrs in [("nearest_neighbor", "half_pixel", ""), ("linear", "align_corners", ', method="trilinear"'),
                                ("linear", "asymmetric", ', method="trilinear"')]:
        attrs += f', coordinate_transformation_mode="{mode}"'
        scales = [np.asarray(scale, "float32" if mode == "asymmetric" else "float64") for scale in (2, 1.5, 0.5)]
        rounding = "round" if mode == "align_corners" else "floor"
        axes = [_matrix(n, m, method, mode, rounding) for n, m in ((3, 6), (2, 3), (4, 2))]
        up = np.einsum("zd,yh,xw,ncdhw->nczyx", *axes, wide(volume)).astype(dtype)
        case("dyn.nn.upsampling3d", f"dyn.nn.upsampling3d(%a, %b, %c, %d{attrs})", [volume, *scales], up, tolerance)
        case("dyn.nn.upsampling3d_fill", f"dyn.nn.upsampling3d_fill(%a, %b, %c, %d, %e{attrs})", [volume, *scales, np.array([6, 3, 2])],
             up, tolerance, fixed="e")
        case("dyn.nn.upsampling3d_size", f"dyn.nn.upsampling3d_size(%a, %b, %c, %d{attrs})", [volume, *scales], np.array([6, 3, 2]))


def _crops(case, dtype):
    images, where = random((2, 3, 5, 4), dtype, "crops"), np.array([1, 0, 1, 7, 0], "int32")
    boxes = np.array([[0, 0, 1, 1], [0.25, 0, 0.75, 1], [1, 1, 0, 0], [-0.5, 0, 1, 1.5], [0.5, 0.5, 0.5, np.nan]], "float32")
    for method in ("bilinear", "nearest_neighbor"):
        if dtype == "uint8" and method == "bilinear":
            continue
        expected = np.full((5, 3, 3, 7), 2.0)
        for b, i, j in itertools.product(range(5), range(3), range(7)):
            box = boxes[b].astype(float)
            y, x = (box[k] * (images.shape[2 + k] - 1) + at * (box[k + 2] - box[k]) * (images.shape[2 + k] - 1) / (count - 1)
                    for k, at, count in ((0, i, 3), (1, j, 7)))
            if not (0 <= y <= 4 and 0 <= x <= 3):
                continue
            image = images[min(where[b], 1)].astype(float)
            if method == "nearest_neighbor":
                expected[b, :, i, j] = image[:, _round(y), _round(x)]
                continue
            t, u, y, x = y - math.floor(y), x - math.floor(x), math.floor(y), math.floor(x)
            below, right = min(y + 1, 4), min(x + 1, 3)
            expected[b, :, i, j] = (1 - t) * ((1 - u) * image[:, y, x] + u * image[:, y, right]) + t * ((1 - u) * image[:, below, x] + u * image[:, below, right])
        case("image.crop_and_resize", f'image.crop_and_resize(%a, %b, %c, crop_size=[3, 7], method="{method}", extrapolation_value=2f)',
             [images, boxes, where], expected.astype(dtype), {"float32": 3e-5, "float64": 1e-5, "uint8": 0}[dtype])
