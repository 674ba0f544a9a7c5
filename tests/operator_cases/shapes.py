"""Operators that move elements or make tensors."""

import numpy as np

from operator_cases.case import random

MOVED = ["float16", "float32", "float64", "int8", "int32", "int64", "uint8", "bool"]


def cases(case):
    for dtype in MOVED:
        x = random((2, 3, 4), dtype, "shapes")
        y = random((2, 1, 4), dtype, "more")
        case("reshape", "reshape(%a, newshape=[4, -1])", [x], x.reshape(4, -1))
        case("reshape", "reshape(%a, newshape=[0, -1])", [x], x.reshape(2, -1))
        case("reshape", "reshape(%a, newshape=[-3, 0])", [x], x.reshape(6, 4))
        case("reshape", "reshape(%a, newshape=[-4, 1, 2, -2])", [x], x.reshape(1, 2, 3, 4))
        case("reshape", "reshape(%a, newshape=[1, 2, 2, 6])", [x], x.reshape(1, 2, 2, 6))
        case("reshape", "copy(reshape(copy(%a), newshape=[24]))", [x], x.reshape(24))
        case("reshape_like", "reshape_like(%a, %b)", [x, random((6, 4), dtype)], x.reshape(6, 4))
        case("reshape_like", "reshape_like(%a, %b, lhs_begin=1, rhs_begin=2)", [x, random((5, 7, 6, 2), dtype)], x.reshape(2, 6, 2))
        case("reshape_like", "reshape_like(%a, %b, lhs_begin=0, lhs_end=-1, rhs_begin=-1)", [x, random((5, 6), dtype)], x.reshape(6, 4))
        case("reshape_like", "reshape_like(%a, %b, lhs_end=0, rhs_begin=1, rhs_end=2)", [x, random((5, 1), dtype)], x[None])
        case("transpose", "transpose(%a)", [x], x.T)
        case("transpose", "transpose(%a, axes=[1, 0, 2])", [x], x.transpose(1, 0, 2))
        case("transpose", "transpose(%a, axes=[0, -1, 1])", [x], x.transpose(0, 2, 1))
        case("expand_dims", "expand_dims(%a, axis=1)", [x], x[:, None])
        case("expand_dims", "expand_dims(%a, axis=-1, num_newaxis=2)", [x], x[..., None, None])
        case("squeeze", "squeeze(%a, axis=[1])", [y], y[:, 0])
        case("nn.batch_flatten", "nn.batch_flatten(%a)", [x], x.reshape(2, 12))
        case("broadcast_to", "broadcast_to(%a, shape=[2, 3, 4])", [y], np.broadcast_to(y, (2, 3, 4)))
        case("broadcast_to_like", "broadcast_to_like(%a, %b)", [y, x], np.broadcast_to(y, (2, 3, 4)))
        case("repeat", "repeat(%a, repeats=2, axis=1)", [x], np.repeat(x, 2, axis=1))
        case("repeat", "repeat(%a, repeats=3)", [x], np.repeat(x, 3))
        case("tile", "tile(%a, reps=[2, 1, 3])", [x], np.tile(x, (2, 1, 3)))
        case("tile", "tile(%a, reps=[2])", [x], np.tile(x, (2,)))
        case("reverse", "reverse(%a, axis=1)", [x], x[:, ::-1])
        case("concatenate", "concatenate((%a, %b, %a), axis=1)", [x, y], np.concatenate([x, y, x], axis=1))
        case("concatenate", "concatenate((%a, %a), axis=-1)", [x], np.concatenate([x, x], axis=-1))
        case("stack", "stack((%a, %a), axis=1)", [x], np.stack([x, x], axis=1))
        case("split", "split(%a, indices_or_sections=2, axis=2).1", [x], np.split(x, 2, axis=2)[1])
        case("split", "split(%a, indices_or_sections=[1, 3], axis=2).1", [x], x[:, :, 1:3])
        case("split", "{ let %s = split(%a, indices_or_sections=3, axis=1); concatenate((%s.2, %s.0), axis=1) }", [x],
             np.concatenate([x[:, 2:], x[:, :1]], axis=1))
        case("strided_slice", "strided_slice(%a, begin=[0, 1], end=[2, 3])", [x], x[0:2, 1:3])
        case("strided_slice", "strided_slice(%a, begin=[0, 0, 0], end=[2, 3, 4], strides=[1, 2, 3])", [x], x[::1, ::2, ::3])
        case("strided_slice", "strided_slice(%a, begin=[-2], end=[-1], axes=[2])", [x], x[:, :, -2:-1])
        case("strided_slice", 'strided_slice(%a, begin=[0, 1], end=[1, -1], slice_mode="size")', [x], x[0:1, 1:])
        if dtype != "bool":
            like = random((2, 2, 9), dtype)
            case("slice_like", "slice_like(%a, %b, axes=[0, 1])", [x, like], x[:, :2])
            case("slice_like", "slice_like(%a, %b)", [x, like[:1, :2, 0]], x[:1, :2])
            case("slice_like", "slice_like(%a, %b, axes=None)", [x, like[:2, 0, 0]], x[:2])
            case("full", f'full(%a, shape=[2, 3], dtype="{dtype}")', [np.asarray(x[0, 0, 0])], np.full((2, 3), x[0, 0, 0]))
        case("full_like", "full_like(%a, %b)", [x, np.asarray(x[0, 0, 0])], np.full_like(x, x[0, 0, 0]))
        case("zeros", f'zeros(shape=[2, 0, 3], dtype="{dtype}")', [], np.zeros((2, 0, 3), dtype))
        case("ones", f'ones(shape=[5], dtype="{dtype}")', [], np.ones((5,), dtype))
        case("layout_transform", 'layout_transform(%a, src_layout="NCW", dst_layout="WNC")', [x], x.transpose(2, 0, 1))
        case("shape_of", 'shape_of(%a, dtype="int64")', [x], np.array([2, 3, 4]))
        case("extent", "extent(%a, axis=1)", [x], np.int64(3))
        case("extent", "extent(%a, axis=-1)", [x], np.int64(4))
        case("check_extent", 'check_extent(%a, extent(%b, axis=0), axis=-1, what="the last")', [x, np.zeros(4)], x)
        case("check_extent", "check_extent(%a, 2i64, axis=0)", [x], x)
        case("ndarray_size", 'ndarray_size(%a, dtype="int32")', [x], np.int32(24))
    wide_x = random((20, 3), "float32", "concat")
    many = ", ".join(["%a"] * 9)
    case("concatenate", f"concatenate(({many}), axis=0)", [wide_x], np.concatenate([wide_x] * 9))
