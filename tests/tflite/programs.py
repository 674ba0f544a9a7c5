"""Models with control flow, variables, recurrent layers and several operators: each gives its bytes and the inputs of its runs."""

import numpy as np
from flatbuffers import flexbuffers

from models import Model, options, schema

PROGRAMS = {}


def program(function):
    PROGRAMS[function.__name__] = function
    return function


def floats(random, *shape):
    return random.normal(size=shape).astype("float32")


# ---- control flow

@program
def loop(random):
    """A product of a matrix until its greatest element is above 50, or 20 steps are done; the matrix itself does not change."""
    model = Model()
    g = model.main
    x, w = g.input([2, 3]), g.constant(floats(random, 3, 3))
    zero = g.constant(np.int32(0))
    count, last = g.output([], "int32"), g.output([2, 3])
    kept = g.tensor([3, 3])
    g.node("WHILE", [zero, x, w], [count, last, kept], options("While", condSubgraphIndex=1, bodySubgraphIndex=2))
    condition = model.graph("condition")
    i, state, _ = condition.input([], "int32"), condition.input([2, 3]), condition.input([3, 3])
    greatest, is_small, is_early, both = condition.tensor([]), condition.tensor([], "bool"), condition.tensor([], "bool"), condition.output([], "bool")
    condition.node("REDUCE_MAX", [state, condition.constant(np.int32([0, 1]))], [greatest], options("Reducer"))
    condition.node("LESS", [greatest, condition.constant(np.float32(50))], [is_small], options("Less"))
    condition.node("LESS", [i, condition.constant(np.int32(20))], [is_early], options("Less"))
    condition.node("LOGICAL_AND", [is_small, is_early], [both], options("LogicalAnd"))
    body = model.graph("body")
    i, state, w = body.input([], "int32"), body.input([2, 3]), body.input([3, 3])
    body.node("ADD", [i, body.constant(np.int32(1))], [body.output([], "int32")], options("Add"))
    body.node("FULLY_CONNECTED", [state, w, -1], [body.output([2, 3])], options("FullyConnected"))
    body.table.outputs.append(w)
    return model.bytes(), [[floats(random, 2, 3)], [floats(random, 2, 3) * 60]]


@program
def branches(random):
    """One of two branches."""
    model = Model()
    g = model.main
    condition, x = g.input([], "bool"), g.input([4])
    g.node("IF", [condition, x], [g.output([4])], options("If", thenSubgraphIndex=1, elseSubgraphIndex=2))
    for name, op in (("then", "SIN"), ("else", "COS")):
        graph = model.graph(name)
        graph.node(op, [graph.input([4])], [graph.output([4])])
    x = floats(random, 4)
    return model.bytes(), [[np.array(True), x], [np.array(False), x]]


def handle(graph, name):
    tensor = graph.tensor([], "resource")
    graph.node("VAR_HANDLE", [], [tensor], options("VarHandle", container="", sharedName=name))
    return tensor


@program
def counter(random):
    """A variable that each run adds its input to, and one that none writes to."""
    model = Model()
    g = model.main
    g.node("CALL_ONCE", [], [], options("CallOnce", initSubgraphIndex=1))
    x = g.input([3])
    before, weight, after, result = g.tensor([3]), g.tensor([3]), g.tensor([3]), g.output([3])
    total = handle(g, "total")
    g.node("READ_VARIABLE", [total], [before], options("ReadVariable"))
    g.node("ADD", [before, x], [after], options("Add"))
    g.node("ASSIGN_VARIABLE", [total, after], [], options("AssignVariable"))
    g.node("READ_VARIABLE", [handle(g, "weight")], [weight], options("ReadVariable"))
    g.node("MUL", [after, weight], [result], options("Mul"))
    start = model.graph("start")
    start.node("ASSIGN_VARIABLE", [handle(start, "total"), start.constant(np.float32([1, 2, 3]))], [], options("AssignVariable"))
    start.node("ASSIGN_VARIABLE", [handle(start, "weight"), start.constant(np.float32([2, 0.5, -1]))], [], options("AssignVariable"))
    return model.bytes(), [[floats(random, 3)] for _ in range(3)]


@program
def counted_loop(random):
    """A loop whose body adds to a variable."""
    model = Model()
    g = model.main
    g.node("CALL_ONCE", [], [], options("CallOnce", initSubgraphIndex=3))
    n, zero = g.input([], "int32"), g.constant(np.int32(0))
    g.node("WHILE", [zero, n], [g.output([], "int32"), g.tensor([], "int32")], options("While", condSubgraphIndex=1, bodySubgraphIndex=2))
    g.node("READ_VARIABLE", [handle(g, "sum")], [g.output([2])], options("ReadVariable"))
    condition = model.graph("condition")
    i, n = condition.input([], "int32"), condition.input([], "int32")
    condition.node("LESS", [i, n], [condition.output([], "bool")], options("Less"))
    body = model.graph("body")
    i, n = body.input([], "int32"), body.input([], "int32")
    body.node("ADD", [i, body.constant(np.int32(1))], [body.output([], "int32")], options("Add"))
    body.table.outputs.append(n)
    total, before, after = handle(body, "sum"), body.tensor([2]), body.tensor([2])
    body.node("READ_VARIABLE", [total], [before], options("ReadVariable"))
    body.node("ADD", [before, body.constant(np.float32([1, 0.5]))], [after], options("Add"))
    body.node("ASSIGN_VARIABLE", [total, after], [], options("AssignVariable"))
    start = model.graph("start")
    start.node("ASSIGN_VARIABLE", [handle(start, "sum"), start.constant(np.float32([10, 20]))], [], options("AssignVariable"))
    return model.bytes(), [[np.int32(3)], [np.int32(0)], [np.int32(2)]]


# ---- recurrent layers

def lstm_inputs(g, random, inputs, cells, outputs, peepholes=False, projection=False, norm=False, coupled=False, states=True, batch=2):
    w = lambda *shape: g.constant(floats(random, *shape) * np.float32(0.5))
    numbers = [-1 if coupled and i == 0 else w(cells, inputs) for i in range(4)]
    numbers += [-1 if coupled and i == 0 else w(cells, outputs) for i in range(4)]
    numbers += [-1 if not peepholes or (coupled and i == 0) else w(cells) for i in range(3)]
    numbers += [-1 if coupled and i == 0 else w(cells) for i in range(4)]
    numbers += [w(outputs, cells), w(outputs)] if projection else [-1, -1]
    if states:
        numbers += [g.tensor([batch, outputs], variable=True), g.tensor([batch, cells], variable=True)]
        if norm:
            numbers += [-1 if coupled and i == 0 else w(cells) for i in range(4)]
    return numbers


def lstm(random, time_major=False, cell_clip=0.0, projection_clip=0.0, **kinds):
    model = Model()
    g = model.main
    cells, outputs = 4, 3 if kinds.get("projection") else 4
    shape, result = ([5, 2, 3], [5, 2, outputs]) if time_major else ([2, 5, 3], [2, 5, outputs])
    x = g.input(shape)
    numbers = [x, *lstm_inputs(g, random, 3, cells, outputs, **kinds)]
    g.node("UNIDIRECTIONAL_SEQUENCE_LSTM", numbers + [-1] * (24 - len(numbers)), [g.output(result)],
           options("UnidirectionalSequenceLSTM", fusedActivationFunction=4, timeMajor=time_major, cellClip=cell_clip, projClip=projection_clip))
    return model.bytes(), [[floats(random, *shape)] for _ in range(2)]


for _name, _given in {"lstm_plain": {}, "lstm_time_major": {"time_major": True, "cell_clip": 0.6}, "lstm_peepholes": {"peepholes": True},
                      "lstm_projection": {"projection": True, "projection_clip": 0.4}, "lstm_norm": {"norm": True}, "lstm_coupled": {"coupled": True, "peepholes": True, "norm": True}}.items():
    PROGRAMS[_name] = lambda random, given=_given: lstm(random, **given)


@program
def lstm_both_ways(random):
    """Of one sequence: LiteRT's results for the second one of a batch differ from run to run."""
    model = Model()
    g = model.main
    x = g.input([1, 5, 3])
    numbers = [x, *lstm_inputs(g, random, 3, 4, 4, states=False), *lstm_inputs(g, random, 3, 4, 4, states=False)]
    numbers += [g.tensor([1, 4], variable=True) for _ in range(4)] + [-1] * 9
    g.node("BIDIRECTIONAL_SEQUENCE_LSTM", numbers, [g.output([1, 5, 8])], options("BidirectionalSequenceLSTM", fusedActivationFunction=4, timeMajor=False, mergeOutputs=True))
    return model.bytes(), [[floats(random, 1, 5, 3)] for _ in range(2)]


@program
def rnn(random):
    model = Model()
    g = model.main
    w = lambda *shape: g.constant(floats(random, *shape) * np.float32(0.5))
    x, middle = g.input([2, 5, 3]), g.tensor([2, 5, 4])
    g.node("UNIDIRECTIONAL_SEQUENCE_RNN", [x, w(4, 3), w(4, 4), w(4), g.tensor([2, 4], variable=True)], [middle], options("SequenceRNN", fusedActivationFunction=4, timeMajor=False))
    g.node("BIDIRECTIONAL_SEQUENCE_RNN", [middle, w(2, 4), w(2, 2), w(2), g.tensor([2, 2], variable=True), w(2, 4), w(2, 2), w(2), g.tensor([2, 2], variable=True), -1, -1, -1],
           [g.output([2, 5, 2]), g.output([2, 5, 2])], options("BidirectionalSequenceRNN", fusedActivationFunction=1, timeMajor=False, mergeOutputs=False))
    return model.bytes(), [[floats(random, 2, 5, 3)] for _ in range(2)]


@program
def steps(random):
    """One step of an RNN and of SVDF a run."""
    model = Model()
    g = model.main
    w = lambda *shape: g.constant(floats(random, *shape) * np.float32(0.5))
    x = g.input([2, 3])
    g.node("RNN", [x, w(4, 3), w(4, 4), w(4), g.tensor([2, 4], variable=True)], [g.output([2, 4])], options("RNN", fusedActivationFunction=4))
    g.node("SVDF", [x, w(4, 3), w(4, 5), w(2), g.tensor([2, 20], variable=True)], [g.output([2, 2])], options("SVDF", rank=2, fusedActivationFunction=1))
    return model.bytes(), [[floats(random, 2, 3)] for _ in range(3)]


# ---- networks

def quantised_weights(g, random, shape, axis, x_scale, size=1.0):
    count = shape[axis]
    scales = (size * np.exp(random.uniform(np.log(0.004), np.log(0.01), count))).astype("float32")
    data = random.integers(-127, 128, shape).astype("int8")
    return g.constant(data, scale=scales, axis=axis), g.constant(random.integers(-500, 500, count).astype("int32"), scale=np.float32(x_scale) * scales)


def mobile_network(random, size=16, widths=((1, 8, 1), (4, 12, 2), (4, 12, 1), (4, 16, 2)), classes=10, stem=8, head=32):
    """A network like MobileNetV2 in int8: blocks of (expansion, channels, stride)."""
    model = Model()
    g = model.main
    x = g.input([1, size, size, 3], "int8", scale=0.02, zero=-1)
    scale = {x: 0.02}

    def conv(x, channels, kernel, stride, act, extent, depthwise=False, inner=0):
        shape = [1, kernel, kernel, channels] if depthwise else [channels, kernel, kernel, inner]
        w, b = quantised_weights(g, random, shape, 3 if depthwise else 0, scale[x])
        out = 0.0235 if act else 0.05
        y = g.tensor([1, extent, extent, channels], "int8", scale=out, zero=-128 if act else 3)
        scale[y] = out
        fields = {"padding": 0, "strideH": stride, "strideW": stride, "dilationHFactor": 1, "dilationWFactor": 1, "fusedActivationFunction": 3 if act else 0}
        if depthwise:
            g.node("DEPTHWISE_CONV_2D", [x, w, b], [y], options("DepthwiseConv2D", depthMultiplier=1, **fields))
        else:
            g.node("CONV_2D", [x, w, b], [y], options("Conv2D", **fields))
        return y

    extent = -(-size // 2)
    y, channels = conv(x, stem, 3, 2, True, extent, inner=3), stem
    for expansion, out, stride in widths:
        before, wide = y, channels * expansion
        if expansion > 1:
            y = conv(y, wide, 1, 1, True, extent, inner=channels)
        shrunk = -(-extent // stride)
        y = conv(y, wide, 3, stride, True, shrunk, depthwise=True)
        y = conv(y, out, 1, 1, False, shrunk, inner=wide)
        if stride == 1 and channels == out:
            total = g.tensor([1, shrunk, shrunk, out], "int8", scale=0.06, zero=-2)
            g.node("ADD", [before, y], [total], options("Add"))
            y, scale[total] = total, 0.06
        extent, channels = shrunk, out
    y = conv(y, head, 1, 1, True, extent, inner=channels)
    pooled = g.tensor([1, head], "int8", scale=0.0235, zero=-128)
    g.node("MEAN", [y, g.constant(np.int32([1, 2]))], [pooled], options("Reducer"))
    w, b = quantised_weights(g, random, [classes, head], 0, 0.0235, size=0.1)
    scores, chances = g.tensor([1, classes], "int8", scale=0.05, zero=5), g.output([1, classes], "int8", scale=1 / 256, zero=-128)
    g.node("FULLY_CONNECTED", [pooled, w, b], [scores], options("FullyConnected"))
    g.node("SOFTMAX", [scores], [chances], options("Softmax", beta=1.0))
    return model.bytes(), [[random.integers(-128, 128, (1, size, size, 3)).astype("int8")] for _ in range(2)]


@program
def mobile(random):
    return mobile_network(random)


@program
def stored_weights(random):
    """Weights of 4 and 8 bits, and of float16, by activations in floats."""
    model = Model()
    g = model.main
    x = g.input([3, 6])
    half, wide = g.tensor([4, 6]), g.tensor([4, 6])
    g.node("DEQUANTIZE", [g.constant(floats(random, 4, 6).astype("float16"))], [half], options("Dequantize"))
    g.node("FULLY_CONNECTED", [x, half, -1], [g.output([3, 4])], options("FullyConnected"))
    g.node("DEQUANTIZE", [g.constant(random.integers(-127, 128, (4, 6)).astype("int8"), scale=0.01, zero=3)], [wide], options("Dequantize"))
    g.node("FULLY_CONNECTED", [x, wide, -1], [g.output([3, 4])], options("FullyConnected"))
    return model.bytes(), [[floats(random, 3, 6)]]


@program
def weights_of_4_bits(random):
    model = Model()
    g = model.main
    x = g.input([3, 6], "int8", scale=0.05, zero=4)
    codes = random.integers(-7, 8, (5, 6)).astype("int8")
    flat = codes.reshape(-1)
    packed = ((flat[0::2] & 15) | ((flat[1::2] & 15) << 4)).astype("uint8")
    w = g.tensor([5, 6], "int4", packed.tobytes(), scale=0.05)
    g.node("FULLY_CONNECTED", [x, w, g.constant(random.integers(-99, 99, 5).astype("int32"), scale=0.0025)], [g.output([3, 5], "int8", scale=0.1, zero=-3)], options("FullyConnected"))
    return model.bytes(), [[random.integers(-128, 128, (3, 6)).astype("int8")]]


@program
def signature(random):
    """Names of a signature."""
    model = Model()
    g = model.main
    x, y = g.input([2], name="serving_default_x:0"), g.output([2], name="StatefulPartitionedCall:0")
    g.node("RELU", [x], [y])
    table = schema.SignatureDefT()
    table.signatureKey, table.subgraphIndex = "serving_default", 0
    pairs = []
    for name, tensor in (("x", x), ("y", y)):
        pairs.append(schema.TensorMapT())
        pairs[-1].name, pairs[-1].tensorIndex = name, tensor
    table.inputs, table.outputs = pairs[:1], pairs[1:]
    model.table.signatureDefs = [table]
    return model.bytes(), [[floats(random, 2)]]


def detection(random, regular):
    model = Model()
    g = model.main
    boxes, scores = g.input([1, 8, 4]), g.input([1, 8, 4])
    corners = random.uniform(0, 1, (8, 2))
    anchors = g.constant(np.concatenate([corners, random.uniform(0.2, 0.6, (8, 2))], 1).astype("float32"))
    given = {"max_detections": 5, "max_classes_per_detection": 1, "detections_per_class": 3, "use_regular_nms": regular, "nms_score_threshold": 0.3, "nms_iou_threshold": 0.4,
             "num_classes": 3, "y_scale": 10.0, "x_scale": 10.0, "h_scale": 5.0, "w_scale": 5.0}
    outputs = [g.output(shape) for shape in ([1, 5, 4], [1, 5], [1, 5], [1])]
    g.node("CUSTOM.TFLite_Detection_PostProcess", [boxes, scores, anchors], outputs, custom=flexbuffers.Dumps(given))
    return model.bytes(), [[floats(random, 1, 8, 4), random.uniform(0, 1, (1, 8, 4)).astype("float32")] for _ in range(2)]


@program
def detection_fast(random):
    return detection(random, False)


@program
def detection_by_class(random):
    return detection(random, True)




@program
def spectrogram(random):
    """Frames of a signal, whose spectrum is squeezed and turned before its lengths and parts are taken."""
    model = Model()
    g = model.main
    frames, n = 5, 16
    x = g.input([frames, 1, 10])
    lengths = g.constant(np.int32([1, n]))
    spectrum, rows, turned = g.tensor([frames, 1, n // 2 + 1], "complex64"), g.tensor([frames, n // 2 + 1], "complex64"), g.tensor([n // 2 + 1, frames], "complex64")
    g.node("RFFT2D", [x, lengths], [spectrum], options("Rfft2d"))
    g.node("RESHAPE", [spectrum, g.constant(np.int32([frames, n // 2 + 1]))], [rows], options("Reshape", newShape=[frames, n // 2 + 1]))
    g.node("TRANSPOSE", [rows, g.constant(np.int32([1, 0]))], [turned], options("Transpose"))
    g.node("COMPLEX_ABS", [turned], [g.output([n // 2 + 1, frames])])
    g.node("REAL", [rows], [g.output([frames, n // 2 + 1])])
    g.node("IMAG", [rows], [g.output([frames, n // 2 + 1])])
    image = g.input([2, 8, 16])
    plane = g.tensor([2, 8, 9], "complex64")
    g.node("RFFT2D", [image, g.constant(np.int32([8, 16]))], [plane], options("Rfft2d"))
    g.node("COMPLEX_ABS", [plane], [g.output([2, 8, 9])])
    return model.bytes(), [[floats(random, frames, 1, 10), floats(random, 2, 8, 16)]]
