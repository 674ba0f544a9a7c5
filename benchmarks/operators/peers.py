"""What numpy and ONNX Runtime call the operators of RelayVM, for tensors of any size.

Operators of one or two tensors, comparisons and reductions come from the tables that `tests/operators_test.py` uses
(`tests/operator_cases`); a peer that takes attributes is stated here. `measured(scale)` yields the rows: `scale` is
"large" (about 16 MB: beyond the caches) or "small" (about 4 KB).
"""

import numpy as np

from operator_cases import binary, elementwise
from operator_cases.case import random

UNARY_ONNX = {"abs": "Abs", "acos": "Acos", "acosh": "Acosh", "asin": "Asin", "asinh": "Asinh", "atan": "Atan", "atanh": "Atanh",
              "ceil": "Ceil", "cos": "Cos", "cosh": "Cosh", "erf": "Erf", "exp": "Exp", "floor": "Floor", "log": "Log",
              "negative": "Neg", "round_half_even": "Round", "sigmoid": "Sigmoid", "sign": "Sign", "sin": "Sin", "sinh": "Sinh",
              "sqrt": "Sqrt", "tan": "Tan", "tanh": "Tanh", "copy": "Identity", "nn.relu": "Relu", "fast_exp": "Exp",
              "fast_tanh": "Tanh", "fast_erf": "Erf"}
BINARY_ONNX = {"add": "Add", "subtract": "Sub", "multiply": "Mul", "maximum": "Max", "minimum": "Min", "equal": "Equal",
               "less": "Less", "less_equal": "LessOrEqual", "greater": "Greater", "greater_equal": "GreaterOrEqual"}
NO_NUMPY = {"erf", "fast_erf"}  # the tables compute these element by element in Python
REDUCTIONS = {"sum": (np.sum, "ReduceSum"), "mean": (np.mean, "ReduceMean"), "max": (np.max, "ReduceMax"),
              "min": (np.min, "ReduceMin"), "prod": (np.prod, "ReduceProd")}


class Row:
    """An operator on tensors: `relay` over %a, %b, ...; `numpy` a function of the inputs or None; `onnx` a function of
    the graph under construction and the names of the inputs, or None."""

    def __init__(self, op, what, relay, inputs, numpy=None, onnx=None, tolerance=1e-4):
        self.op, self.what, self.relay, self.numpy, self.onnx, self.tolerance = op, what, relay, numpy, onnx, tolerance
        self.inputs = [np.ascontiguousarray(a) for a in inputs]


def node(kind, *constants, outputs=1, keep=0, **attributes):
    """A graph of one ONNX node: its inputs, then constants; the result number `keep`."""
    def build(graph, names):
        return graph.node(kind, [*names, *(graph.constant(c) for c in constants)], outputs, **attributes)[keep]
    return build


def _elementwise(count):
    for op, (f, low, high) in elementwise.FLOAT_UNARY.items():
        kind = UNARY_ONNX.get(op)
        x = random((count,), "float32", op, low=low, high=high)
        yield Row(op, f"{count}", f"{op}(%a)", [x], None if op in NO_NUMPY else f, kind and node(kind))
    for op, f in elementwise.ANY_UNARY.items():
        kind = UNARY_ONNX.get(op)
        yield Row(op, f"{count}", f"{op}(%a)", [random((count,), "float32", op, low=-5, high=5)],
                  f if op != "copy" else np.copy, kind and node(kind))
    x, y = random((count,), "float32", "x"), random((count,), "float32", "y", low=0.3)
    for op, f in {**binary.ARITHMETIC, **binary.COMPARISON}.items():
        kind = BINARY_ONNX.get(op)
        yield Row(op, f"{count}", f"{op}(%a, %b)", [x, y], f, kind and node(kind))
    yield Row("divide", f"{count}", "%a / %b", [x, y], np.divide, node("Div"))
    yield Row("power", f"{count}", "power(%a, %b)", [np.abs(x) + np.float32(0.1), y], np.power, node("Pow"))
    yield Row("floor_divide", f"{count}", "floor_divide(%a, %b)", [x, y], np.floor_divide)
    yield Row("floor_mod", f"{count}", "floor_mod(%a, %b)", [x, y], np.mod, None, 1e-3)
    yield Row("trunc_mod", f"{count}", "trunc_mod(%a, %b)", [x, y], np.fmod, node("Mod", fmod=1))
    yield Row("atan2", f"{count}", "atan2(%a, %b)", [x, y], np.arctan2)
    yield Row("log1p", f"{count}", "log1p(%a)", [np.abs(x)], np.log1p)
    yield Row("expm1", f"{count}", "expm1(%a)", [x], np.expm1)
    yield Row("clip", f"{count}", "clip(%a, a_min=-0.5f, a_max=1f)", [x], lambda x: np.clip(x, np.float32(-0.5), np.float32(1)),
              node("Clip", np.float32(-0.5), np.float32(1)))
    yield Row("nn.leaky_relu", f"{count}", "nn.leaky_relu(%a, alpha=0.1f)", [x], lambda x: np.where(x > 0, x, x * np.float32(0.1)),
              node("LeakyRelu", alpha=0.1))
    yield Row("nn.elu", f"{count}", "nn.elu(%a)", [x], None, node("Elu"))
    yield Row("nn.gelu", f"{count}", "nn.gelu(%a)", [x], None, node("Gelu"))
    yield Row("nn.softplus", f"{count}", "nn.softplus(%a)", [x], lambda x: np.logaddexp(x, np.float32(0)), node("Softplus"))
    yield Row("nn.silu", f"{count}", "nn.silu(%a)", [x], lambda x: x / (1 + np.exp(-x)))
    for op, f, kind in (("isnan", np.isnan, "IsNaN"), ("isinf", np.isinf, "IsInf"), ("isfinite", np.isfinite, None)):
        yield Row(op, f"{count}", f"{op}(%a)", [x], f, kind and node(kind))
    i, j = random((count,), "int32", "i"), np.abs(random((count,), "int32", "j")) % 7 + 1
    for op, f, kind in (("bitwise_and", np.bitwise_and, "BitwiseAnd"), ("bitwise_or", np.bitwise_or, "BitwiseOr"),
                        ("bitwise_xor", np.bitwise_xor, "BitwiseXor"), ("left_shift", np.left_shift, None),
                        ("right_shift", np.right_shift, None)):
        yield Row(op, f"{count} int32", f"{op}(%a, %b)", [i, j], f, kind and node(kind))
    yield Row("divide", f"{count} int32", "%a / %b", [i, j], None, node("Div"))
    yield Row("bitwise_not", f"{count} int32", "bitwise_not(%a)", [i], np.bitwise_not, node("BitwiseNot"))
    p, q = x > 0, y > 1
    for op, f, kind in (("logical_and", np.logical_and, "And"), ("logical_or", np.logical_or, "Or"), ("logical_xor", np.logical_xor, "Xor")):
        yield Row(op, f"{count}", f"{op}(%a, %b)", [p, q], f, node(kind))
    yield Row("logical_not", f"{count}", "logical_not(%a)", [p], np.logical_not, node("Not"))
    yield Row("where", f"{count}", "where(%a, %b, %c)", [p, x, y], np.where, node("Where"))
    yield Row("cast", f"{count} to int32", 'cast(%a, dtype="int32")', [x], lambda x: x.astype("int32"), node("Cast", to=6))
    yield Row("cast", f"{count} to float16", 'cast(%a, dtype="float16")', [x], lambda x: x.astype("float16"), node("Cast", to=10))
    yield Row("tanh", f"{count}, tanh(2x + 1) * sigmoid(x)", "tanh(%a * 2f + 1f) * sigmoid(%a)", [x],
              lambda x: np.tanh(x * np.float32(2) + np.float32(1)) / (1 + np.exp(-x)))


def _reductions(n):
    x = random((n, n), "float32", "reduced", low=-1.01, high=1.01)
    for axis, axes in (("0", (0,)), ("1", (1,)), ("None", (0, 1))):
        for op, (f, kind) in REDUCTIONS.items():
            near = np.exp(x / 100) if op == "prod" else x  # products that neither vanish nor overflow
            axes_input = np.array(axes, np.int64)
            yield Row(op, f"{n}x{n}, axis {axis}", f"{op}(%a, axis={axis})", [near], lambda x, f=f, axes=axes: f(x, axis=axes),
                      node(kind, axes_input, keepdims=0), 2e-3)
        yield Row("variance", f"{n}x{n}, axis {axis}", f"variance(%a, axis={axis})", [x], lambda x, axes=axes: np.var(x, axis=axes))
        yield Row("any", f"{n}x{n}, axis {axis}", f"any(%a, axis={axis})", [x > 2], lambda x, axes=axes: np.any(x, axis=axes))
        yield Row("all", f"{n}x{n}, axis {axis}", f"all(%a, axis={axis})", [x < 2], lambda x, axes=axes: np.all(x, axis=axes))
    for axis in (0, 1):
        for op, f, kind in (("argmax", np.argmax, "ArgMax"), ("argmin", np.argmin, "ArgMin")):
            yield Row(op, f"{n}x{n}, axis {axis}", f"{op}(%a, axis={axis})", [x], lambda x, f=f, axis=axis: f(x, axis=axis).astype("int32"),
                      node(kind, axis=axis, keepdims=0))
        yield Row("cumsum", f"{n}x{n}, axis {axis}", f"cumsum(%a, axis={axis})", [x], lambda x, axis=axis: np.cumsum(x, axis=axis),
                  node("CumSum", np.int64(axis)), 1e-3)
        yield Row("nn.softmax", f"{n}x{n}, axis {axis}", f"nn.softmax(%a, axis={axis})", [x], None, node("Softmax", axis=axis))
        yield Row("nn.log_softmax", f"{n}x{n}, axis {axis}", f"nn.log_softmax(%a, axis={axis})", [x], None, node("LogSoftmax", axis=axis))
        yield Row("logsumexp", f"{n}x{n}, axis {axis}", f"logsumexp(%a, axis={axis})", [x], None,
                  node("ReduceLogSumExp", np.array([axis], np.int64), keepdims=0))
    gamma, beta = random((n,), "float32", "gamma"), random((n,), "float32", "beta")
    yield Row("nn.layer_norm", f"{n}x{n}", "nn.layer_norm(%a, %b, %c)", [x, gamma, beta], None, node("LayerNormalization", axis=-1, epsilon=1e-5))
    yield Row("nn.l2_normalize", f"{n}x{n}", "nn.l2_normalize(%a, eps=0.000001f, axis=[1])", [x], None, node("LpNormalization", axis=1, p=2))
    yield Row("nn.bias_add", f"{n}x{n}", "nn.bias_add(%a, %b, axis=-1)", [x, beta], np.add, node("Add"))


def _moves(n):
    x = random((n, n), "float32", "moved")
    yield Row("transpose", f"{n}x{n}", "transpose(%a)", [x], lambda x: np.ascontiguousarray(x.T), node("Transpose", perm=[1, 0]))
    yield Row("transpose", f"{n}x{n} uint8", "transpose(%a)", [x.astype("int8").view("uint8")], lambda x: np.ascontiguousarray(x.T), node("Transpose", perm=[1, 0]))
    heads = random((max(n // 10, 3), 12, n // 8), "float32", "heads")
    yield Row("transpose", "x".join(map(str, heads.shape)) + ", axes 1 0 2", "transpose(%a, axes=[1, 0, 2])", [heads],
              lambda x: np.ascontiguousarray(x.transpose(1, 0, 2)), node("Transpose", perm=[1, 0, 2]))
    yield Row("transpose", "x".join(map(str, heads.shape)) + ", axes 2 1 0", "transpose(%a, axes=[2, 1, 0])", [heads],
              lambda x: np.ascontiguousarray(x.transpose(2, 1, 0)), node("Transpose", perm=[2, 1, 0]))
    for axis in (0, 1):
        yield Row("concatenate", f"3 x {n}x{n}, axis {axis}", f"concatenate((%a, %b, %a), axis={axis})", [x, x + 1],
                  lambda a, b, axis=axis: np.concatenate([a, b, a], axis), lambda g, t, axis=axis: g.node("Concat", [t[0], t[1], t[0]], 1, axis=axis)[0])
        yield Row("split", f"{n}x{n} in 4, axis {axis}, the third", f"split(%a, indices_or_sections=4, axis={axis}).2", [x],
                  lambda x, axis=axis: np.split(x, 4, axis)[2].copy(), node("Split", outputs=4, keep=2, axis=axis, num_outputs=4))
        yield Row("take", f"{n}x{n}, {n} indices, axis {axis}", f"take(%a, %b, axis={axis})", [x, random((n,), "int32", "at") % n],
                  lambda x, i, axis=axis: np.take(x, i, axis), node("Gather", axis=axis))
        yield Row("repeat", f"{n}x{n}, twice, axis {axis}", f"repeat(%a, repeats=2, axis={axis})", [x], lambda x, axis=axis: np.repeat(x, 2, axis))
        yield Row("reverse", f"{n}x{n}, axis {axis}", f"reverse(%a, axis={axis})", [x], lambda x, axis=axis: np.ascontiguousarray(np.flip(x, axis)))
        yield Row("stack", f"2 x {n}x{n}, axis {axis}", f"stack((%a, %b), axis={axis})", [x, x + 1], lambda a, b, axis=axis: np.stack([a, b], axis))
        g = np.abs(random((n, n), "int64", "gather")) % n
        yield Row("gather", f"{n}x{n}, axis {axis}", f"gather(%a, %b, axis={axis})", [x, g], lambda x, i, axis=axis: np.take_along_axis(x, i, axis),
                  node("GatherElements", axis=axis))
    yield Row("stack", f"2 x {n}x{n}, axis 2", "stack((%a, %b), axis=2)", [x, x + 1], lambda a, b: np.stack([a, b], 2))
    yield Row("tile", f"{n}x{n}, 2x2", "tile(%a, reps=[2, 2])", [x], lambda x: np.tile(x, (2, 2)), node("Tile", np.array([2, 2])))
    yield Row("strided_slice", f"{n}x{n}, inner", f"strided_slice(%a, begin=[1, 1], end=[{n - 1}, {n - 1}])", [x], lambda x: x[1:-1, 1:-1].copy(),
              node("Slice", np.array([1, 1]), np.array([n - 1, n - 1]), np.array([0, 1])))
    yield Row("strided_slice", f"{n}x{n}, strides 1 2", f"strided_slice(%a, begin=[0, 0], end=[{n}, {n}], strides=[1, 2])", [x], lambda x: x[:, ::2].copy(),
              node("Slice", np.array([0, 0]), np.array([n, n]), np.array([0, 1]), np.array([1, 2])))
    yield Row("nn.pad", f"{n}x{n}, 3 each side", "nn.pad(%a, 0f, pad_width=[[3, 3], [3, 3]])", [x], lambda x: np.pad(x, 3),
              node("Pad", np.array([3, 3, 3, 3]), np.float32(0)))
    yield Row("nn.mirror_pad", f"{n}x{n}, 3 each side", 'nn.mirror_pad(%a, mode="REFLECT", pad_width=[[3, 3], [3, 3]])', [x], lambda x: np.pad(x, 3, "reflect"),
              node("Pad", np.array([3, 3, 3, 3]), mode="reflect"))
    yield Row("broadcast_to", f"1x{n} to {n}x{n}", f"broadcast_to(%a, shape=[{n}, {n}])", [x[:1]], lambda x: np.broadcast_to(x, (n, n)).copy(),
              node("Expand", np.array([n, n])))
    yield Row("broadcast_to", f"{n}x1 to {n}x{n}", f"broadcast_to(%a, shape=[{n}, {n}])", [x[:, :1]], lambda x: np.broadcast_to(x, (n, n)).copy(),
              node("Expand", np.array([n, n])))
    ids = np.abs(random((n,), "int32", "ids")) % n
    yield Row("one_hot", f"{n} of {n}", f"one_hot(%a, 1f, 0f, depth={n})", [ids], lambda i: np.eye(n, dtype="float32")[i],
              node("OneHot", np.array([n]), np.array([0, 1], np.float32)))
    yield Row("trilu", f"{n}x{n}", "trilu(%a, 0)", [x], np.triu, node("Trilu"))
    yield Row("full_like", f"{n}x{n}", "full_like(%a, 3f)", [x], lambda x: np.full_like(x, 3))
    rows = random((n // 2, n), "float32", "rows")
    at = np.random.default_rng(3).permutation(n)[: n // 2].astype("int64")
    yield Row("scatter_nd", f"{n // 2} rows of {n}", "scatter_nd(%a, %b, %c)", [x, at[None], rows], None,
              lambda g, t: g.node("ScatterND", [t[0], g.node("Transpose", [t[1]], 1, perm=[1, 0])[0], t[2]], 1)[0])
    yield Row("scatter_elements", f"{n}x{n}, axis 1", "scatter_elements(%a, %b, %c, axis=1)", [x, np.argsort(x, 1), x + 1], None, node("ScatterElements", axis=1))
    yield Row("gather_nd", f"{n} rows of {n}", "gather_nd(%a, %b)", [x, ids.astype("int64")[None]], lambda x, i: x[i[0]])
    tall = random((n, max(n // 64, 8), 8), "float32", "sequence")
    lengths = np.abs(random((tall.shape[1],), "int32", "lengths")) * n // 20
    yield Row("sequence_mask", "x".join(map(str, tall.shape)), "sequence_mask(%a, %b)", [tall, lengths],
              lambda x, l: np.where(np.arange(x.shape[0])[:, None, None] < l[None, :, None], x, np.float32(0)))
    for op, expression, f, kind in (("sort", "sort(%a)", lambda x: np.sort(x, 1), None),
                                    ("argsort", "argsort(%a)", lambda x: np.argsort(x, 1, kind="stable").astype("int32"), None),
                                    ("topk", 'topk(%a, k=10, ret_type="values")', lambda x: -np.sort(np.partition(-x, 10, 1)[:, :10], 1),
                                     node("TopK", np.array([10]), outputs=2))):
        yield Row(op, f"{n // 2}x{n}", expression, [rows], f, kind)


def _images(n):
    """n: the extent of an image of 64 channels."""
    c = 64
    x = random((1, c, n, n), "float32", "image")
    shape = f"{c}x{n}x{n}"
    for window, stride, pad in ((3, 2, 1), (2, 2, 0), (3, 1, 1)):
        attrs = f"pool_size=[{window}, {window}], strides=[{stride}, {stride}], padding=[{pad}, {pad}]"
        options = dict(kernel_shape=[window] * 2, strides=[stride] * 2, pads=[pad] * 4)
        yield Row("nn.max_pool2d", f"{shape}, {window}x{window} by {stride}", f"nn.max_pool2d(%a, {attrs})", [x], None, node("MaxPool", **options))
        yield Row("nn.avg_pool2d", f"{shape}, {window}x{window} by {stride}", f"nn.avg_pool2d(%a, {attrs})", [x], None, node("AveragePool", **options))
    yield Row("nn.global_avg_pool2d", shape, "nn.global_avg_pool2d(%a)", [x], lambda x: x.mean((2, 3), keepdims=True), node("GlobalAveragePool"))
    yield Row("nn.global_max_pool2d", shape, "nn.global_max_pool2d(%a)", [x], lambda x: x.max((2, 3), keepdims=True), node("GlobalMaxPool"))
    per_channel = [random((c,), "float32", name, low=0.2, high=1) for name in "gbmv"]
    yield Row("nn.batch_norm", shape, "nn.batch_norm(%a, %b, %c, %d, %e).0", [x, *per_channel], None, node("BatchNormalization", epsilon=1e-5))
    yield Row("nn.instance_norm", shape, "nn.instance_norm(%a, %b, %c)", [x, *per_channel[:2]], None, node("InstanceNormalization", epsilon=1e-5))
    yield Row("nn.group_norm", f"{shape} in 8", "nn.group_norm(%a, %b, %c, num_groups=8)", [x, *per_channel[:2]], None,
              node("GroupNormalization", num_groups=8, epsilon=1e-5))
    yield Row("nn.lrn", shape, "nn.lrn(%a, size=5, bias=1f, alpha=0.0001f, beta=0.75f)", [x], None, node("LRN", size=5, bias=1.0, alpha=0.0001, beta=0.75))
    yield Row("nn.prelu", shape, "nn.prelu(%a, %b)", [x, per_channel[0]], None,
              lambda g, t: g.node("PRelu", [t[0], g.node("Reshape", [t[1], g.constant(np.array([c, 1, 1]))], 1)[0]], 1)[0])
    small = np.ascontiguousarray(x[:, : c // 4])
    for method, mode in (("nearest_neighbor", "nearest"), ("linear", "linear"), ("cubic", "cubic")):
        asymmetric = method == "nearest_neighbor"
        yield Row("image.resize2d", f"{c // 4}x{n}x{n} to {2 * n}x{2 * n}, {method}",
                  f'image.resize2d(%a, size=[{2 * n}, {2 * n}], method="{method}", cubic_alpha=-0.75f, rounding_method="floor", '
                  f'coordinate_transformation_mode="{"asymmetric" if asymmetric else "half_pixel"}")', [small], None,
                  lambda g, t, mode=mode, asymmetric=asymmetric: g.node(
                      "Resize", [t[0], "", "", g.constant(np.array([1, c // 4, 2 * n, 2 * n]))], 1, mode=mode, nearest_mode="floor",
                      coordinate_transformation_mode="asymmetric" if asymmetric else "half_pixel")[0])
    yield Row("nn.upsampling", f"{c // 4}x{n}x{n} by 2", "nn.upsampling(%a, scale_h=2, scale_w=2)", [small],
              lambda x: x.repeat(2, 2).repeat(2, 3))
    yield Row("nn.space_to_depth", f"{shape} by 2", "nn.space_to_depth(%a, block_size=2)", [x], None, node("SpaceToDepth", blocksize=2))
    yield Row("nn.depth_to_space", f"{shape} by 2", "nn.depth_to_space(%a, block_size=2)", [x], None, node("DepthToSpace", blocksize=2))
    yield Row("layout_transform", f"{shape}, NCHW to NHWC", 'layout_transform(%a, src_layout="NCHW", dst_layout="NHWC")', [x],
              lambda x: np.ascontiguousarray(x.transpose(0, 2, 3, 1)), node("Transpose", perm=[0, 2, 3, 1]))
    yield Row("layout_transform", f"{shape}, NCHW to NCHW16c", 'layout_transform(%a, src_layout="NCHW", dst_layout="NCHW16c")', [x],
              lambda x: np.ascontiguousarray(x.reshape(1, c // 16, 16, n, n).transpose(0, 1, 3, 4, 2)))


def measured(scale):
    large = scale == "large"
    yield from _elementwise(4_000_000 if large else 1000)
    yield from _reductions(2048 if large else 32)
    yield from _moves(2048 if large else 32)
    yield from _images(224 if large else 4)
