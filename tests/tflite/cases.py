"""Models of one or a few operators, drawn at random: `draw(family, seed)` gives the bytes of a model and its inputs."""

import numpy as np

from models import Model, options

FLOAT, BYTES = "float32", ("int8", "uint8", "int16")
FAMILIES = {}


def family(dtypes):
    """A function of (Draw) that adds a node; `dtypes` are those of its activations."""
    def register(function):
        for dtype in dtypes:
            FAMILIES[f"{function.__name__}_{dtype}"] = (function, dtype)
        return function
    return register


class Draw:
    """A model while it is drawn: activations of one dtype, with random scales where it is an integer."""

    def __init__(self, seed, dtype):
        self.random = np.random.default_rng(seed)
        self.model, self.dtype, self.feeds = Model(), dtype, []
        self.graph = self.model.main

    def pick(self, *choices):
        return choices[self.random.integers(len(choices))]

    def extent(self, most=6):
        return int(self.random.integers(1, most + 1))

    def shape(self, rank):
        return [self.extent() for _ in range(rank)]

    def form(self, scale=None):
        """A random scale and zero point of the activations' dtype."""
        if self.dtype == FLOAT:
            return {}
        scale = scale or float(np.exp(self.random.uniform(np.log(0.01), np.log(0.2))))
        if self.dtype == "int16":
            return {"scale": scale / 64, "zero": 0}
        return {"scale": scale, "zero": int(self.random.integers(-20, 20)) + (128 if self.dtype == "uint8" else 0)}

    def values(self, shape, dtype=None):
        dtype = dtype or self.dtype
        if dtype == FLOAT:
            return self.random.normal(size=shape, scale=2).astype(dtype)
        if dtype == "bool":
            return self.random.integers(0, 2, shape).astype(bool)
        info = np.iinfo(dtype)
        if dtype in ("int32", "int64"):
            return self.random.integers(-50, 50, shape).astype(dtype)
        return self.random.integers(info.min, info.max + 1, shape).astype(dtype)

    def input(self, shape, form=None, dtype=None):
        self.feeds.append(self.values(shape, dtype))
        form = (self.form() if form is None else form) if dtype in (None, self.dtype) else {}
        return self.graph.input(list(shape), dtype or self.dtype, **form)

    def output(self, shape, form=None, dtype=None):
        form = (self.form() if form is None else form) if dtype in (None, self.dtype) else {}
        return self.graph.output(list(shape), dtype or self.dtype, **form)

    def ints(self, *values, dtype="int32"):
        return self.graph.constant(np.asarray(values, dtype))

    def scale_of(self, tensor):
        q = self.graph.table.tensors[tensor].quantization
        return q.scale[0] if q is not None else 1.0

    def weights(self, shape, x, axis=0, by_channel=None):
        """Constant weights, and the scales of their products with x."""
        if self.dtype == FLOAT:
            return self.graph.constant(self.values(shape)), None
        by_channel = self.dtype != "uint8" and (self.random.integers(2) if by_channel is None else by_channel)
        scales = np.exp(self.random.uniform(np.log(0.002), np.log(0.02), shape[axis] if by_channel else 1)).astype("float32")
        if self.dtype == "uint8":
            data, zero = self.random.integers(0, 256, shape).astype("uint8"), int(self.random.integers(100, 150))
        else:
            data, zero = self.random.integers(-127, 128, shape).astype("int8"), 0
        return self.graph.constant(data, scale=scales, zero=zero, axis=axis), np.float32(self.scale_of(x)) * scales

    def bias(self, count, scales, may_lack=True):
        if may_lack and self.random.integers(4) == 0:
            return -1
        if self.dtype == FLOAT:
            return self.graph.constant(self.values([count]))
        kind = "int64" if self.dtype == "int16" else "int32"
        return self.graph.constant(self.random.integers(-2000, 2000, count).astype(kind), scale=scales, zero=0)

    def wide_form(self, x, depth):
        """A form of sums of so many products with weights, that most of them fit."""
        if self.dtype == FLOAT:
            return {}
        form = self.form()
        form["scale"] = float(self.scale_of(x) * (0.7 if self.dtype == "int16" else 0.5) * np.sqrt(depth)) * (1 if self.dtype != "int16" else 0.5)
        return form

    def activation(self):
        return int(self.pick(0, 0, 1, 2, 3))


def draw(name, seed):
    function, dtype = FAMILIES[name]
    state = Draw(seed, dtype)
    function(state)
    return state.model.bytes(), state.feeds


# ---- layers

def window_options(d, kind, **fields):
    return options(kind, padding=d.pick(0, 1), strideH=d.pick(1, 2, 3), strideW=d.pick(1, 2), **fields)


def windowed(extent, size, stride, dilation, padding):
    reach = (size - 1) * dilation + 1
    return -(-extent // stride) if padding == 0 else (extent - reach) // stride + 1


@family((FLOAT, *BYTES))
def conv_2d(d):
    n, h, w, channels, out = d.extent(2), 9, 8, d.extent(5), d.extent(6)
    kh, kw = d.extent(3), d.extent(3)
    dilation = d.pick(1, 1, 2)
    o = window_options(d, "Conv2D", dilationHFactor=dilation, dilationWFactor=dilation, fusedActivationFunction=d.activation())
    if dilation > 1:
        o.strideH = o.strideW = 1
    x = d.input([n, h, w, channels])
    filters, scales = d.weights([out, kh, kw, channels], x)
    y = d.output([n, windowed(h, kh, o.strideH, dilation, o.padding), windowed(w, kw, o.strideW, dilation, o.padding), out], d.wide_form(x, kh * kw * channels))
    d.graph.node("CONV_2D", [x, filters, d.bias(out, scales, may_lack=False)], [y], o)


@family((FLOAT, *BYTES))
def depthwise_conv_2d(d):
    n, h, w, channels, multiplier = d.extent(2), 9, 8, d.extent(5), d.extent(2)
    kh, kw = d.extent(3), d.extent(3)
    o = window_options(d, "DepthwiseConv2D", depthMultiplier=multiplier, dilationHFactor=1, dilationWFactor=1, fusedActivationFunction=d.activation())
    x = d.input([n, h, w, channels])
    filters, scales = d.weights([1, kh, kw, channels * multiplier], x, axis=3)
    y = d.output([n, windowed(h, kh, o.strideH, 1, o.padding), windowed(w, kw, o.strideW, 1, o.padding), channels * multiplier], d.wide_form(x, kh * kw))
    bias = d.bias(channels * multiplier, scales)
    if bias < 0:
        d.graph.node("DEPTHWISE_CONV_2D", [x, filters], [y], o)
    else:
        d.graph.node("DEPTHWISE_CONV_2D", [x, filters, bias], [y], o)


@family((FLOAT, *BYTES))
def transpose_conv(d):
    n, h, w, channels, out = 1, d.extent(5), d.extent(5), d.extent(4), d.extent(4)
    kh, kw, sh, sw, padding = d.pick(2, 3), d.pick(2, 3), d.pick(1, 2), d.pick(1, 2), d.pick(0, 1)
    size = [n, h * sh if padding == 0 else (h - 1) * sh + kh, w * sw if padding == 0 else (w - 1) * sw + kw, out]
    x = d.input([n, h, w, channels])
    filters, scales = d.weights([out, kh, kw, channels], x)
    y = d.output(size, d.wide_form(x, kh * kw * channels / sh / sw))
    bias = d.bias(out, scales)
    d.graph.node("TRANSPOSE_CONV", [d.ints(*size), filters, x] + ([bias] if bias >= 0 else []), [y], options("TransposeConv", padding=padding, strideH=sh, strideW=sw))


@family((FLOAT, *BYTES))
def fully_connected(d):
    rows, depth, out = d.extent(4), d.extent(40), d.extent(8)
    x = d.input([rows, depth])
    weights, scales = d.weights([out, depth], x)
    y = d.output([rows, out], d.wide_form(x, depth))
    d.graph.node("FULLY_CONNECTED", [x, weights, d.bias(out, scales)], [y], options("FullyConnected", fusedActivationFunction=d.activation()))


@family((FLOAT, "int8", "int16"))
def batch_matmul(d):
    batch, m, k, n = d.extent(3), d.extent(5), d.extent(9), d.extent(5)
    turns = d.pick(True, False), d.pick(True, False)
    x, y = d.input([batch, *((k, m) if turns[0] else (m, k))]), d.input([batch, *((n, k) if turns[1] else (k, n))])
    form = {} if d.dtype == FLOAT else {"scale": d.scale_of(x) * d.scale_of(y) * 60 * np.sqrt(k), "zero": 3} if d.dtype == "int8" else {"scale": d.scale_of(x) * d.scale_of(y) * 15000 * np.sqrt(k), "zero": 0}
    d.graph.node("BATCH_MATMUL", [x, y], [d.output([batch, m, n], form)], options("BatchMatMul", adjX=turns[0], adjY=turns[1]))


def pool(d, op):
    n, h, w, channels, kh, kw = d.extent(2), 9, 8, d.extent(5), d.extent(4), d.extent(4)
    o = window_options(d, "Pool2D", filterHeight=kh, filterWidth=kw, fusedActivationFunction=d.activation())
    form = d.form()
    x = d.input([n, h, w, channels], form)
    d.graph.node(op, [x], [d.output([n, windowed(h, kh, o.strideH, 1, o.padding), windowed(w, kw, o.strideW, 1, o.padding), channels], form)], o)


@family((FLOAT, *BYTES))
def average_pool_2d(d):
    pool(d, "AVERAGE_POOL_2D")


@family((FLOAT, *BYTES))
def max_pool_2d(d):
    pool(d, "MAX_POOL_2D")


@family((FLOAT,))
def l2_pool_2d(d):
    pool(d, "L2_POOL_2D")


@family((FLOAT, "int8", "int16"))
def resize_bilinear(d):
    shape, size, form = [d.extent(2), d.extent(7), d.extent(7), d.extent(3)], [d.extent(9), d.extent(9)], d.form()
    aligns, half = d.pick((False, False), (True, False), (False, True))
    y = d.output([shape[0], *size, shape[3]], form)
    d.graph.node("RESIZE_BILINEAR", [d.input(shape, form), d.ints(*size)], [y], options("ResizeBilinear", alignCorners=aligns, halfPixelCenters=half))


@family((FLOAT, *BYTES))
def resize_nearest_neighbor(d):
    shape, size, form = [d.extent(2), d.extent(7), d.extent(7), d.extent(3)], [d.extent(9), d.extent(9)], d.form()
    aligns, half = d.pick((False, False), (True, False), (False, True))
    y = d.output([shape[0], *size, shape[3]], form)
    d.graph.node("RESIZE_NEAREST_NEIGHBOR", [d.input(shape, form), d.ints(*size)], [y], options("ResizeNearestNeighbor", alignCorners=aligns, halfPixelCenters=half))


@family((FLOAT,))
def conv_3d(d):
    n, channels, out, kernel = 1, d.extent(3), d.extent(3), [d.extent(2), d.extent(2), d.extent(3)]
    o = options("Conv3D", padding=d.pick(0, 1), strideD=1, strideH=d.pick(1, 2), strideW=d.pick(1, 2), dilationDFactor=1, dilationHFactor=1, dilationWFactor=1)
    x = d.input([n, 4, 5, 6, channels])
    size = [windowed(e, k, s, 1, o.padding) for e, k, s in zip((4, 5, 6), kernel, (o.strideD, o.strideH, o.strideW))]
    filters = d.graph.constant(d.values([*kernel, channels, out]))
    d.graph.node("CONV_3D", [x, filters, d.graph.constant(d.values([out]))], [d.output([n, *size, out])], o)


@family((FLOAT,))
def local_response_normalization(d):
    shape = [1, 3, 3, 7]
    d.graph.node("LOCAL_RESPONSE_NORMALIZATION", [d.input(shape)], [d.output(shape)], options("LocalResponseNormalization", radius=d.extent(3), bias=1.5, alpha=0.3, beta=0.6))


@family((FLOAT, "int8", "uint8"))
def l2_normalization(d):
    shape = [d.extent(4), d.extent(9)]
    form = {} if d.dtype == FLOAT else {"scale": 1 / 128, "zero": 0 if d.dtype == "int8" else 128}
    d.graph.node("L2_NORMALIZATION", [d.input(shape)], [d.output(shape, form)], options("L2Norm"))


# ---- elements

def binary(d, op, kind=None, form=None, **fields):
    shape = d.shape(d.pick(1, 2, 3, 4))
    other = [d.pick(extent, extent, 1) for extent in shape]
    x, y = (d.input(shape), d.input(other)) if d.random.integers(2) else (d.input(other), d.input(shape))
    result = np.broadcast_shapes(shape, other)
    d.graph.node(op, [x, y], [d.output(result, form)], options(kind, **fields) if kind else None)


@family((FLOAT, *BYTES))
def add(d):
    binary(d, "ADD", "Add", fusedActivationFunction=d.activation(), potScaleInt16=False)


@family((FLOAT, *BYTES))
def sub(d):
    binary(d, "SUB", "Sub", fusedActivationFunction=d.activation(), potScaleInt16=False)


@family((FLOAT, *BYTES))
def mul(d):
    binary(d, "MUL", "Mul", None if d.dtype == FLOAT else {**d.form(), "scale": float(np.exp(d.random.uniform(-3, 1))) / (400 if d.dtype == "int16" else 1)}, fusedActivationFunction=d.activation())


@family((FLOAT,))
def div(d):
    binary(d, "DIV", "Div", fusedActivationFunction=d.activation())


@family((FLOAT, "int8"))
def squared_difference(d):
    binary(d, "SQUARED_DIFFERENCE", "SquaredDifference")


def same_form(d, op, kind=None):
    form, shape = d.form(), d.shape(d.pick(1, 2, 3))
    other = [d.pick(extent, 1) for extent in shape]
    d.graph.node(op, [d.input(shape, form), d.input(other, form)], [d.output(shape, form)], options(kind) if kind else None)


@family((FLOAT, *BYTES))
def maximum(d):
    same_form(d, "MAXIMUM", "MaximumMinimum")


@family((FLOAT, *BYTES))
def minimum(d):
    same_form(d, "MINIMUM", "MaximumMinimum")


for _op in ("LESS", "GREATER", "LESS_EQUAL", "GREATER_EQUAL", "EQUAL", "NOT_EQUAL"):
    def _compare(d, op=_op):
        form, shape = d.form(), d.shape(d.pick(1, 2, 3))
        d.graph.node(op, [d.input(shape, form), d.input(shape, form)], [d.output(shape, dtype="bool")])
    _compare.__name__ = _op.lower()
    family((FLOAT, "int8", "uint8"))(_compare)


def unary(d, op, form=None, opts=None, shape=None):
    shape = shape or ([256] if d.dtype in ("int8", "uint8") else d.shape(d.pick(1, 2, 3)))
    x, y = d.input(shape), d.output(shape, form)
    if d.dtype in ("int8", "uint8") and shape == [256]:
        d.feeds[-1] = np.arange(256).astype("uint8").view(d.dtype)
    d.graph.node(op, [x], [y], opts)


def unit_form(d, centred):
    if d.dtype == FLOAT:
        return {}
    if d.dtype == "int16":
        return {"scale": 1 / 32768, "zero": 0}
    return {"scale": 1 / 128 if centred else 1 / 256, "zero": (0 if centred else -128) + (128 if d.dtype == "uint8" else 0)}


@family((FLOAT, *BYTES))
def logistic(d):
    unary(d, "LOGISTIC", unit_form(d, False))


@family((FLOAT, *BYTES))
def tanh(d):
    unary(d, "TANH", unit_form(d, True))


@family((FLOAT, "int8", "uint8"))
def hard_swish(d):
    unary(d, "HARD_SWISH", None, options("HardSwish"))


@family((FLOAT, *BYTES))
def leaky_relu(d):
    unary(d, "LEAKY_RELU", None, options("LeakyRelu", alpha=float(d.random.uniform(0.05, 0.9))))


@family((FLOAT, *BYTES))
def relu(d):
    unary(d, "RELU")


@family((FLOAT, "int8", "uint8"))
def relu6(d):
    unary(d, "RELU6")


@family((FLOAT, "int8", "uint8"))
def relu_n1_to_1(d):
    unary(d, "RELU_N1_TO_1")


@family((FLOAT,))
def elu(d):
    unary(d, "ELU")


@family((FLOAT, "int8"))
def gelu(d):
    unary(d, "GELU", None, options("Gelu", approximate=d.pick(True, False)))


@family((FLOAT, "int8"))
def exp(d):
    unary(d, "EXP", None, options("Exp"))


@family((FLOAT, "int8", "int16"))
def abs_(d):
    unary(d, "ABS", None, options("Abs"))


for _op in ("SIN", "COS", "FLOOR", "CEIL", "ROUND", "NEG", "SQUARE", "SIGN", "RELU_0_TO_1"):
    def _unary(d, op=_op):
        unary(d, op)
    _unary.__name__ = _op.lower()
    family((FLOAT,))(_unary)

for _op in ("LOG", "SQRT", "RSQRT"):
    def _positive(d, op=_op):
        unary(d, op)
        d.feeds[0] = np.abs(d.feeds[0]) + np.float32(0.1)
    _positive.__name__ = _op.lower()
    family((FLOAT,))(_positive)


@family((FLOAT, "int8", "uint8"))
def prelu(d):
    shape = d.shape(4)
    d.graph.node("PRELU", [d.input(shape), d.graph.constant(d.values([1, 1, shape[3]]), **d.form())], [d.output(shape)])


@family((FLOAT, *BYTES))
def softmax(d):
    shape = [d.extent(4), d.pick(1, 3, 10, 64)]
    unary(d, "SOFTMAX", unit_form(d, False), options("Softmax", beta=float(d.pick(1.0, 1.0, 0.5))), shape)


@family((FLOAT, "int8", "uint8"))
def log_softmax(d):
    form = {} if d.dtype == FLOAT else {"scale": 16 / 256, "zero": 127 if d.dtype == "int8" else 255}
    unary(d, "LOG_SOFTMAX", form, options("LogSoftmax"), [d.extent(4), d.pick(3, 10)])


@family(BYTES)
def requantize(d):
    unary(d, "QUANTIZE", None, options("Quantize"))


@family(BYTES)
def quantize(d):
    shape = d.shape(2)
    x = d.input(shape, dtype=FLOAT)
    d.graph.node("QUANTIZE", [x], [d.output(shape)], options("Quantize"))


@family(BYTES)
def dequantize(d):
    shape = d.shape(2)
    d.graph.node("DEQUANTIZE", [d.input(shape)], [d.output(shape, dtype=FLOAT)], options("Dequantize"))


# ---- reductions

def reduction(d, op, form=None, dtype=None):
    shape = d.shape(d.pick(2, 3, 4))
    axes = sorted(d.random.choice(len(shape), d.extent(len(shape)), replace=False).tolist())
    keeps = bool(d.random.integers(2))
    result = [1 if i in axes else e for i, e in enumerate(shape) if keeps or i not in axes]
    x = d.input(shape, form, dtype)
    d.graph.node(op, [x, d.ints(*axes)], [d.output(result, form, dtype)], options("Reducer", keepDims=keeps))


@family((FLOAT, *BYTES))
def mean(d):
    reduction(d, "MEAN")


@family((FLOAT, "uint8"))  # LiteRT's kernel for int8 gives -1
def sum_(d):
    reduction(d, "SUM")


@family((FLOAT, "int8", "uint8"))
def reduce_max(d):
    reduction(d, "REDUCE_MAX", d.form())


@family((FLOAT, "int8", "uint8"))
def reduce_min(d):
    reduction(d, "REDUCE_MIN", d.form())


@family((FLOAT,))
def reduce_prod(d):
    reduction(d, "REDUCE_PROD")


@family(("bool",))
def reduce_any(d):
    reduction(d, "REDUCE_ANY", {})


@family(("bool",))
def reduce_all(d):
    reduction(d, "REDUCE_ALL", {})


@family((FLOAT, "int8", "uint8"))
def arg_max(d):
    shape = d.shape(d.pick(1, 2, 3))
    axis = int(d.random.integers(len(shape)))
    d.graph.node("ARG_MAX", [d.input(shape), d.ints(axis)], [d.output([e for i, e in enumerate(shape) if i != axis], dtype="int32")], options("ArgMax", outputType=2))


@family((FLOAT,))
def cumsum(d):
    shape = d.shape(3)
    d.graph.node("CUMSUM", [d.input(shape), d.ints(d.pick(0, 1, 2, -1))], [d.output(shape)], options("Cumsum", exclusive=d.pick(True, False), reverse=d.pick(True, False)))


# ---- moves

def moved(d, op, shape, result, constants=(), opts=None, dtype=None):
    form = d.form()
    x = d.input(shape, form, dtype)
    d.graph.node(op, [x, *constants], [d.output(result, form, dtype)], opts)


@family((FLOAT, *BYTES))
def reshape(d):
    shape = d.shape(3)
    moved(d, "RESHAPE", shape, [shape[0], shape[1] * shape[2]], [d.ints(shape[0], -1)], options("Reshape", newShape=[shape[0], -1]))


@family((FLOAT, *BYTES))
def transpose(d):
    shape, order = d.shape(4), d.random.permutation(4)
    moved(d, "TRANSPOSE", shape, [shape[i] for i in order], [d.ints(*order)], options("Transpose"))


@family((FLOAT, *BYTES))
def concatenation(d):
    form, shape, axis = d.form(), d.shape(3), int(d.random.integers(3))
    parts = [[d.extent() if i == axis else e for i, e in enumerate(shape)] for _ in range(d.extent(3))]
    inputs = [d.input(part, form) for part in parts]
    d.graph.node("CONCATENATION", inputs, [d.output([sum(p[i] for p in parts) if i == axis else e for i, e in enumerate(shape)], form)], options("Concatenation", axis=axis))


@family(("uint8",))
def concatenation_of_scales(d):
    shape = d.shape(2)
    d.graph.node("CONCATENATION", [d.input(shape), d.input(shape)], [d.output([shape[0], 2 * shape[1]])], options("Concatenation", axis=1))


@family((FLOAT, *BYTES))
def pad(d):
    shape = d.shape(4)
    widths = d.random.integers(0, 3, (4, 2))
    moved(d, "PAD", shape, [e + int(w.sum()) for e, w in zip(shape, widths)], [d.graph.constant(widths.astype("int32"))], options("Pad"))


@family((FLOAT, "int8"))
def mirror_pad(d):
    shape = [e + 2 for e in d.shape(3)]
    widths = d.random.integers(0, 3, (3, 2))
    moved(d, "MIRROR_PAD", shape, [e + int(w.sum()) for e, w in zip(shape, widths)], [d.graph.constant(widths.astype("int32"))], options("MirrorPad", mode=d.pick(0, 1)))


@family((FLOAT, *BYTES))
def slice_(d):
    shape = [e + 2 for e in d.shape(3)]
    begin = [int(d.random.integers(0, e)) for e in shape]
    size = [int(d.random.integers(1, e - b + 1)) for b, e in zip(begin, shape)]
    moved(d, "SLICE", shape, size, [d.ints(*begin), d.ints(*size)], options("Slice"))


@family((FLOAT, *BYTES))
def strided_slice(d):
    shape = [5, 6, 7]
    moved(d, "STRIDED_SLICE", shape, [2, 3, 7], [d.ints(1, -1, 0), d.ints(5, 0, 0), d.ints(2, -2, 1)], options("StridedSlice", endMask=4))


@family((FLOAT,))
def strided_slice_masks(d):
    """An ellipsis, a new axis and one place."""
    moved(d, "STRIDED_SLICE", [5, 6, 7], [5, 6, 1], [d.ints(0, 0, 3), d.ints(0, 0, 4), d.ints(1, 1, 1)], options("StridedSlice", ellipsisMask=1, newAxisMask=2, shrinkAxisMask=4))


@family((FLOAT, *BYTES))
def split(d):
    form, count = d.form(), d.extent(3)
    shape = [d.extent(), 2 * count, d.extent()]
    x = d.input(shape, form)
    d.graph.node("SPLIT", [d.graph.constant(np.int32(1)), x], [d.output([shape[0], 2, shape[2]], form) for _ in range(count)], options("Split", numSplits=count))


@family((FLOAT, "int8"))
def split_v(d):
    form, sizes = d.form(), [d.extent(3) for _ in range(d.extent(3))]
    x = d.input([sum(sizes), 3], form)
    d.graph.node("SPLIT_V", [x, d.ints(*sizes), d.graph.constant(np.int32(0))], [d.output([s, 3], form) for s in sizes], options("SplitV", numSplits=len(sizes)))


@family((FLOAT, "int8", "int16"))
def gather(d):
    shape, axis, n = d.shape(3), int(d.random.integers(3)), d.extent()
    places = d.graph.constant(d.random.integers(0, shape[axis], n).astype("int32"))
    moved(d, "GATHER", shape, shape[:axis] + [n] + shape[axis + 1:], [places], options("Gather", axis=axis))


@family((FLOAT, "int8"))
def gather_nd(d):
    shape, n = d.shape(3), d.extent()
    places = d.graph.constant(np.stack([d.random.integers(0, e, n) for e in shape[:2]], 1).astype("int32"))
    moved(d, "GATHER_ND", shape, [n, shape[2]], [places], options("GatherNd"))


@family((FLOAT, *BYTES))
def pack(d):
    form, shape, count = d.form(), d.shape(2), d.extent(3)
    d.graph.node("PACK", [d.input(shape, form) for _ in range(count)], [d.output([shape[0], count, shape[1]], form)], options("Pack", valuesCount=count, axis=1))


@family((FLOAT, "int8"))
def unpack(d):
    form, shape = d.form(), d.shape(3)
    x = d.input(shape, form)
    d.graph.node("UNPACK", [x], [d.output([shape[0], shape[2]], form) for _ in range(shape[1])], options("Unpack", num=shape[1], axis=1))


@family((FLOAT, "int8", "uint8"))
def space_to_depth(d):
    n, h, w, c = d.shape(4)
    moved(d, "SPACE_TO_DEPTH", [n, 2 * h, 2 * w, c], [n, h, w, 4 * c], (), options("SpaceToDepth", blockSize=2))


@family((FLOAT, "int8", "uint8"))
def depth_to_space(d):
    n, h, w, c = d.shape(4)
    moved(d, "DEPTH_TO_SPACE", [n, h, w, 4 * c], [n, 2 * h, 2 * w, c], (), options("DepthToSpace", blockSize=2))


@family((FLOAT, "int8", "uint8"))
def space_to_batch_nd(d):
    n, h, w, c = d.shape(4)
    moved(d, "SPACE_TO_BATCH_ND", [n, 2 * h, 3 * w - 1, c], [6 * n, h, w, c], [d.ints(2, 3), d.graph.constant(np.int32([[0, 0], [1, 0]]))], options("SpaceToBatchND"))


@family((FLOAT, "int8", "uint8"))
def batch_to_space_nd(d):
    n, h, w, c = d.shape(4)
    moved(d, "BATCH_TO_SPACE_ND", [6 * n, h, w, c], [n, 2 * h, 3 * w - 1, c], [d.ints(2, 3), d.graph.constant(np.int32([[0, 0], [1, 0]]))], options("BatchToSpaceND"))


@family((FLOAT, "int8"))
def tile(d):
    shape, counts = d.shape(3), [d.extent(3) for _ in range(3)]
    moved(d, "TILE", shape, [e * c for e, c in zip(shape, counts)], [d.ints(*counts)], options("Tile"))


@family((FLOAT, "int8", "int16"))
def reverse_v2(d):
    shape = d.shape(3)
    moved(d, "REVERSE_V2", shape, shape, [d.ints(d.pick(0, 1, 2))], options("ReverseV2"))


@family((FLOAT, "int8"))
def broadcast_to(d):
    shape = d.shape(2)
    moved(d, "BROADCAST_TO", [1, shape[1]], [3, *shape], [d.ints(3, *shape)], options("BroadcastTo"))


@family((FLOAT, "int8"))
def expand_dims(d):
    shape = d.shape(2)
    moved(d, "EXPAND_DIMS", shape, [shape[0], 1, shape[1]], [d.ints(1)], options("ExpandDims"))


@family((FLOAT, "int8"))
def squeeze(d):
    shape = d.shape(2)
    moved(d, "SQUEEZE", [shape[0], 1, shape[1]], shape, (), options("Squeeze", squeezeDims=[1]))


@family((FLOAT, "int8"))
def topk_v2(d):
    shape, form = [d.extent(3), d.extent(8) + 2], d.form()
    k = int(d.random.integers(1, shape[1] + 1))
    x = d.input(shape, form)
    d.graph.node("TOPK_V2", [x, d.graph.constant(np.int32(k))], [d.output([shape[0], k], form), d.output([shape[0], k], dtype="int32")], options("TopKV2"))


@family((FLOAT, "int8"))
def select_v2(d):
    shape, form = d.shape(3), d.form()
    condition = d.input(shape, dtype="bool")
    d.graph.node("SELECT_V2", [condition, d.input(shape, form), d.input([1, 1, shape[2]], form)], [d.output(shape, form)], options("SelectV2"))


@family((FLOAT, "int8"))
def one_hot(d):
    shape = d.shape(2)
    x = d.input(shape, dtype="int32")
    d.feeds[0] = d.random.integers(0, 5, shape).astype("int32")
    form = d.form()
    value = lambda v: d.graph.constant(np.asarray(v, d.dtype), **form)
    d.graph.node("ONE_HOT", [x, d.graph.constant(np.int32(5)), value(3), value(1)], [d.output([*shape, 5], form)], options("OneHot", axis=-1))


@family((FLOAT,))
def scatter_nd(d):
    n, shape = d.extent(), [5, d.extent()]
    places = d.graph.constant(d.random.integers(0, 5, (n, 1)).astype("int32"))
    x = d.input([n, shape[1]])
    d.graph.node("SCATTER_ND", [places, x, d.ints(*shape)], [d.output(shape)], options("ScatterNd"))


@family((FLOAT,))
def sparse_to_dense(d):
    x = d.input([3])
    d.graph.node("SPARSE_TO_DENSE", [d.graph.constant(np.int32([[0, 1], [1, 1], [2, 0]])), d.ints(3, 4), x, d.graph.constant(np.float32(7))], [d.output([3, 4])], options("SparseToDense"))


@family((FLOAT,))
def segment_sum(d):
    x = d.input([5, d.extent()])
    width = d.feeds[0].shape[1]
    d.graph.node("SEGMENT_SUM", [x, d.ints(0, 0, 1, 2, 2)], [d.output([3, width])], options("SegmentSum"))


for _op in ("SUM", "PROD", "MAX", "MIN"):
    def _segments(d, op=_op):
        x = d.input([5, 3])
        d.graph.node(f"UNSORTED_SEGMENT_{op}", [x, d.ints(*d.random.integers(-1, 4, 5)), d.graph.constant(np.int32(4))], [d.output([4, 3])], options(f"UnsortedSegment{op.title()}"))
    _segments.__name__ = f"unsorted_segment_{_op.lower()}"
    family((FLOAT,))(_segments)


@family((FLOAT,))
def reverse_sequence(d):
    x = d.input([3, 5, 2])
    d.graph.node("REVERSE_SEQUENCE", [x, d.ints(*d.random.integers(1, 6, 3))], [d.output([3, 5, 2])], options("ReverseSequence", seqDim=1, batchDim=0))


@family((FLOAT,))
def matrix_diag(d):
    shape = d.shape(2)
    d.graph.node("MATRIX_DIAG", [d.input(shape)], [d.output([*shape, shape[1]])], options("MatrixDiag"))


@family((FLOAT,))
def matrix_set_diag(d):
    n, rows, columns = d.shape(3)
    d.graph.node("MATRIX_SET_DIAG", [d.input([n, rows, columns]), d.input([n, min(rows, columns)])], [d.output([n, rows, columns])], options("MatrixSetDiag"))


@family((FLOAT,))
def dynamic_update_slice(d):
    x = d.input([4, 5])
    begin = d.input([2], dtype="int32")
    d.feeds[1] = d.random.integers(-1, 5, 2).astype("int32")
    d.graph.node("DYNAMIC_UPDATE_SLICE", [x, d.graph.constant(d.values([2, 3])), begin], [d.output([4, 5])], options("DynamicUpdateSlice"))


@family((FLOAT,))
def bucketize(d):
    shape = d.shape(2)
    d.graph.node("BUCKETIZE", [d.input(shape)], [d.output(shape, dtype="int32")], options("Bucketize", boundaries=[-1.0, 0.0, 0.5, 2.0]))


@family((FLOAT,))
def embedding_lookup(d):
    places = d.ints(*d.random.integers(0, 4, 3))
    d.graph.node("EMBEDDING_LOOKUP", [places, d.input([4, 5])], [d.output([3, 5])])


@family(("int32",))
def integer_arithmetic(d):
    shape = d.shape(2)
    op, kind = d.pick(("ADD", "Add"), ("SUB", "Sub"), ("MUL", "Mul"), ("MAXIMUM", "MaximumMinimum"), ("FLOOR_DIV", "FloorDiv"), ("FLOOR_MOD", "FloorMod"))
    x, y = d.input(shape, {}), d.input(shape, {})
    d.feeds[1] = np.where(d.feeds[1] == 0, 3, d.feeds[1]).astype(d.dtype)
    d.graph.node(op, [x, y], [d.output(shape, {})], options(kind))


@family((FLOAT,))
def logical(d):
    shape = d.shape(2)
    op, kind = d.pick(("LOGICAL_AND", "LogicalAnd"), ("LOGICAL_OR", "LogicalOr"))
    d.graph.node(op, [d.input(shape, dtype="bool"), d.input(shape, dtype="bool")], [d.output(shape, dtype="bool")], options(kind))


@family((FLOAT,))
def add_n(d):
    shape = d.shape(2)
    d.graph.node("ADD_N", [d.input(shape) for _ in range(3)], [d.output(shape)], options("AddN"))


@family((FLOAT,))
def atan2(d):
    shape = d.shape(2)
    d.graph.node("ATAN2", [d.input(shape), d.input(shape)], [d.output(shape)], options("ATan2"))


@family((FLOAT,))
def pow_(d):
    shape = d.shape(2)
    d.graph.node("POW", [d.input(shape), d.input(shape)], [d.output(shape)], options("Pow"))
    d.feeds[0] = np.abs(d.feeds[0])


@family((FLOAT,))
def cast(d):
    shape = d.shape(2)
    d.graph.node("CAST", [d.input(shape)], [d.output(shape, dtype="int32")], options("Cast", inDataType=0, outDataType=2))


@family((FLOAT,))
def fake_quant(d):
    shape = d.shape(2)
    d.graph.node("FAKE_QUANT", [d.input(shape)], [d.output(shape)], options("FakeQuant", min=-2.5, max=3.0, numBits=d.pick(4, 8)))


@family((FLOAT,))
def non_max_suppression(d):
    corners = d.random.uniform(0, 4, (8, 2))
    d.feeds += [np.concatenate([corners, corners + d.random.uniform(0.5, 3, (8, 2))], 1).astype("float32"), d.random.uniform(0, 1, 8).astype("float32")]
    boxes, scores = d.graph.input([8, 4]), d.graph.input([8])
    number = lambda v: d.graph.constant(np.float32(v))
    inputs = [boxes, scores, d.graph.constant(np.int32(5)), number(0.4), number(0.3)]
    if d.random.integers(2):
        d.graph.node("NON_MAX_SUPPRESSION_V4", inputs, [d.output([5], dtype="int32"), d.output([], dtype="int32")], options("NonMaxSuppressionV4"))
    else:
        d.graph.node("NON_MAX_SUPPRESSION_V5", [*inputs, number(0)], [d.output([5], dtype="int32"), d.output([5]), d.output([], dtype="int32")], options("NonMaxSuppressionV5"))
