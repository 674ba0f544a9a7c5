"""Writes networks.npz and operators.npz: graphs, and what MXNet computes for them. Needs Python 3.11 or older:
`pip install mxnet==1.9.1 numpy==1.23.5`."""

import json
import os
import zlib

import mxnet as mx
import numpy as np
from mxnet.gluon import nn, rnn
from mxnet.gluon.model_zoo import vision

import weights

HERE = os.path.dirname(os.path.abspath(__file__))
sym = mx.sym


class Slim:
    """Makes the layers of Gluon with a part of their channels."""

    def __init__(self, part):
        self.part = part

    def __enter__(self):
        self.conv, self.dense = nn.Conv2D.__init__, nn.Dense.__init__
        slim = lambda count: max(1, count // self.part) if count > 3 else count

        def conv(layer, channels, *args, groups=1, in_channels=0, **given):
            # Depthwise convolutions keep a filter for each channel.
            count = slim(channels)
            self.conv(layer, count, *args, groups=count if groups == channels else groups, in_channels=slim(in_channels), **given)

        def dense(layer, units, *args, in_units=0, **given):
            self.dense(layer, min(units, 32), *args, **given)

        nn.Conv2D.__init__, nn.Dense.__init__ = conv, dense

    def __exit__(self, *_):
        nn.Conv2D.__init__, nn.Dense.__init__ = self.conv, self.dense


def small(graph):
    """The JSON of a graph without what training and drawing alone read."""
    graph = json.loads(graph)
    for node in graph["nodes"]:
        attrs = {name: value for name, value in node.get("attrs", {}).items() if not name.startswith("__")}
        node.pop("attrs", None)
        if attrs:
            node["attrs"] = attrs
    return json.dumps({name: graph[name] for name in ("nodes", "arg_nodes", "heads")}, separators=(",", ":"))


def evaluate(symbol, inputs):
    """(graph, shapes of weights, results) for the values of inputs."""
    shapes, _, of_state = symbol.infer_shape(**{name: value.shape for name, value in inputs.items()})
    known = dict(zip(symbol.list_arguments(), shapes)) | dict(zip(symbol.list_auxiliary_states(), of_state))
    arrays = {name: inputs[name] if name in inputs else weights.draw(name, shape) for name, shape in known.items()}
    arrays = {name: mx.nd.array(value, dtype=value.dtype) for name, value in arrays.items()}
    states = {name: arrays.pop(name) for name in symbol.list_auxiliary_states()}
    results = symbol.bind(mx.cpu(), arrays, aux_states=states, grad_req="null").forward(is_train=False)
    return small(symbol.tojson()), {name: shape for name, shape in known.items() if name not in inputs}, [result.asnumpy() for result in results]


def save(path, models):
    """models: {name: (symbol, inputs)}."""
    arrays = {}
    for name, (symbol, inputs) in models.items():
        graph, shapes, results = evaluate(symbol, inputs)
        text = json.dumps({"graph": graph, "shapes": shapes})
        arrays[f"{name}.model"] = np.frombuffer(zlib.compress(text.encode(), 9), "uint8")
        # Images are drawn where they are needed.
        arrays.update({f"{name}.in.{key}": np.array(value.shape[2]) if key == "image" else value for key, value in inputs.items()})
        arrays.update({f"{name}.out.{i}": value for i, value in enumerate(results)})
        print(name, len(text), [value.shape for value in results])
    np.savez_compressed(os.path.join(HERE, path), **arrays)


def networks():
    models = {}
    with Slim(8):
        for name, extent in (("resnet18_v1", 64), ("resnet18_v2", 64), ("resnet50_v1", 64), ("mobilenet1.0", 64), ("mobilenetv2_1.0", 64),
                             ("vgg11_bn", 64), ("densenet121", 224), ("squeezenet1.0", 224), ("alexnet", 224), ("inceptionv3", 299)):
            net = vision.get_model(name, prefix="net_")
            models[name] = net(sym.var("image")), {"image": weights.image(extent)}
    return models


# ---- graphs of operators

RANDOM = np.random.RandomState(3)


def floats(*shape):
    return RANDOM.standard_normal(shape).astype("float32")


def elementwise():
    x, y = sym.var("x"), sym.var("y")
    positive = sym.abs(x) + .1
    within = sym.tanh(x) * .9
    unary = [f(x) for f in (sym.abs, sym.ceil, sym.floor, sym.rint, sym.round, sym.fix, sym.trunc, sym.exp, sym.expm1, sym.square, sym.sign, sym.sin, sym.cos,
                            sym.tan, sym.sinh, sym.cosh, sym.tanh, sym.arctan, sym.arcsinh, sym.sigmoid, sym.relu, sym.softsign, sym.erf, sym.negative,
                            sym.degrees, sym.radians, sym.logical_not, sym.hard_sigmoid, sym.identity, sym.BlockGrad, sym.make_loss, sym.ones_like, sym.zeros_like)]
    unary += [f(positive) for f in (sym.log, sym.log10, sym.log2, sym.log1p, sym.sqrt, sym.rsqrt, sym.cbrt, sym.rcbrt, sym.reciprocal)]
    unary += [sym.arcsin(within), sym.arccos(within), sym.arctanh(within), sym.arccosh(positive + 1)]
    unary += [sym.clip(x, -1, .5), sym.smooth_l1(x, scalar=2), sym.hard_sigmoid(x, alpha=.3, beta=.4), sym.Cast(x * 3, dtype="int32"), sym.contrib.div_sqrt_dim(x)]
    unary += [sym.Activation(x, act_type=kind) for kind in ("relu", "sigmoid", "tanh", "softrelu", "softsign")]
    unary += [sym.LeakyReLU(x, act_type=kind, slope=.3) for kind in ("leaky", "elu", "selu", "gelu")] + [sym.LeakyReLU(x, act_type="prelu", name="prelu")]
    binary = [f(x, y) for f in (sym.broadcast_add, sym.broadcast_sub, sym.broadcast_mul, sym.broadcast_div, sym.broadcast_mod, sym.broadcast_maximum, sym.broadcast_minimum,
                                sym.broadcast_hypot, sym.broadcast_equal, sym.broadcast_not_equal, sym.broadcast_greater, sym.broadcast_greater_equal, sym.broadcast_lesser,
                                sym.broadcast_lesser_equal, sym.broadcast_logical_and, sym.broadcast_logical_or, sym.broadcast_logical_xor)]
    binary += [sym.broadcast_power(positive, y), x + x, x - x * 2, x * x, x / positive, sym.add_n(x, x, x), sym.maximum(x, x * .5), sym.minimum(x, x * .5), sym.hypot(x, x)]
    scalar = [x + 2, x - 2, 2 - x, x * 2, x / 2, 2 / positive, x % 2, 2 % positive, positive ** 2, 2 ** x, x == 1, x != 1, x > 1, x >= 1, x < 1, x <= 1,
              sym.maximum(x, .2), sym.minimum(x, .2), sym.hypot(x, 2)]
    choice = [sym.where(x > 0, x, -x), sym.where(sym.slice_axis(sym.reshape(x, shape=(2, -1)), axis=1, begin=0, end=1).reshape(shape=(-1,)) > 0, x, -x)]
    feed = {"x": floats(2, 3, 4), "y": floats(3, 1)}
    return {"unary": (sym.Group(unary), {"x": feed["x"]}), "binary": (sym.Group(binary), feed), "scalar": (sym.Group(scalar + choice), {"x": feed["x"]})}


def layers():
    x = sym.var("x")
    convolutions = [sym.Convolution(x, kernel=(3, 3), num_filter=4, name="c0"), sym.Convolution(x, kernel=(3, 2), num_filter=4, pad=(1, 0), stride=(2, 1), no_bias=True, name="c1"),
                    sym.Convolution(x, kernel=(3, 3), num_filter=8, num_group=2, dilate=(2, 2), name="c2"), sym.Convolution(x, kernel=(3, 3), num_filter=8, num_group=4, pad=(1, 1), name="c3"),
                    sym.Deconvolution(x, kernel=(3, 3), num_filter=4, stride=(2, 2), pad=(1, 1), adj=(1, 1), name="d0"), sym.Deconvolution(x, kernel=(4, 4), num_filter=4, num_group=2, stride=(2, 2), no_bias=False, name="d1")]
    pools = [sym.Pooling(x, kernel=(2, 2), stride=(2, 2), pool_type=kind) for kind in ("max", "avg", "sum")]
    pools += [sym.Pooling(x, kernel=(3, 3), stride=(2, 2), pad=(1, 1), pool_type=kind, pooling_convention=how) for kind in ("max", "avg") for how in ("valid", "full")]
    pools += [sym.Pooling(x, kernel=(3, 3), stride=(2, 2), pad=(1, 1), pool_type="avg", count_include_pad=False)]
    pools += [sym.Pooling(x, global_pool=True, kernel=(1, 1), pool_type=kind) for kind in ("max", "avg", "sum")]
    norms = [sym.BatchNorm(x, name="b0"), sym.BatchNorm(x, fix_gamma=False, eps=1e-4, name="b1"), sym.InstanceNorm(x, name="i0"), sym.LayerNorm(x, name="l0"), sym.LayerNorm(x, axis=1, name="l1"),
             sym.GroupNorm(x, num_groups=2, name="g0"), sym.LRN(x, nsize=3, alpha=.1, beta=.6), *(sym.L2Normalization(x, mode=mode) for mode in ("instance", "channel", "spatial"))]
    scores = [sym.softmax(x), sym.softmax(x, axis=1, temperature=2), sym.log_softmax(x), sym.softmin(x), sym.SoftmaxActivation(x), sym.SoftmaxActivation(x, mode="channel"),
              sym.SoftmaxOutput(x, sym.var("label0"), name="s0", multi_output=True), sym.Dropout(x)]
    resized = [sym.UpSampling(x, scale=2, sample_type="nearest"), sym.UpSampling(x, scale=2, num_filter=4, sample_type="bilinear", name="u0"),
               sym.contrib.BilinearResize2D(x, height=5, width=9), sym.contrib.AdaptiveAvgPooling2D(x, output_size=(3, 2))]
    dense = [sym.FullyConnected(x, num_hidden=5, name="f0"), sym.FullyConnected(x, num_hidden=5, flatten=False, no_bias=True, name="f1"), sym.Flatten(x),
             sym.LinearRegressionOutput(x, sym.var("label1")), sym.LogisticRegressionOutput(x, sym.var("label2"))]
    feed = {"x": floats(2, 4, 6, 7)}
    one = {"x": floats(2, 4, 9)}
    three = {"x": floats(1, 2, 5, 4, 5)}
    line = sym.Group([sym.Convolution(x, kernel=(3,), num_filter=4, pad=(1,), name="c0"), sym.Pooling(x, kernel=(2,), stride=(2,), pool_type="avg"), sym.Deconvolution(x, kernel=(3,), num_filter=2, stride=(2,), name="d0")])
    volume = sym.Group([sym.Convolution(x, kernel=(3, 2, 3), num_filter=3, name="c0"), sym.Pooling(x, kernel=(2, 2, 2), stride=(2, 2, 2), pool_type="max")])
    a, b, m = sym.var("a"), sym.var("b"), sym.var("m")
    products = [sym.dot(m, m, transpose_b=True), sym.dot(m, m, transpose_a=True), sym.dot(a, m, transpose_b=True), sym.batch_dot(a, b), sym.batch_dot(a, a, transpose_b=True), sym.linalg_gemm2(a, b, alpha=.5),
                sym.dot(sym.reshape(m, shape=(-1,)), sym.reshape(m, shape=(-1,)))]
    return {"convolutions": (sym.Group(convolutions), feed), "pools": (sym.Group(pools), feed), "norms": (sym.Group(norms), feed), "scores": (sym.Group(scores), feed),
            "resized": (sym.Group(resized), feed), "dense": (sym.Group(dense), feed), "line": (line, one), "volume": (volume, three),
            "products": (sym.Group(products), {"a": floats(2, 3, 4), "b": floats(2, 4, 5), "m": floats(5, 4)})}


def moves():
    x, y = sym.var("x"), sym.var("y")
    shapes = [sym.reshape(x, shape=shape) for shape in ((-1,), (0, -1), (2, 0, -2), (-3, -2), (0, -4, 3, 2, -2), (-4, 1, 2, -2), (0, 0, -1), (-2, 1))]
    shapes += [sym.reshape(x, shape=(0, -3, 0), reverse=True), sym.reshape_like(x, sym.transpose(x)), sym.transpose(x), sym.transpose(x, axes=(1, 0, 3, 2)), sym.swapaxes(x, dim1=1, dim2=3),
               sym.expand_dims(x, axis=2), sym.squeeze(sym.expand_dims(x, axis=0)), sym.Flatten(x)]
    joined = [sym.concat(x, x * 2, dim=1), sym.stack(x, x, axis=1), *sym.split(x, num_outputs=2, axis=2), *sym.split(x, num_outputs=2, axis=0, squeeze_axis=True), *sym.split_v2(x, (1, 3), axis=1), *sym.split_v2(x, 3, axis=1)]
    slices = [sym.slice(x, begin=(0, 1), end=(2, 4)), sym.slice(x, begin=(None, 4, None), end=(None, 1, None), step=(1, -2, 1)), sym.slice_axis(x, axis=1, begin=1, end=-1), sym.slice_axis(x, axis=3, begin=-3, end=None),
              sym.slice_like(x, y), sym.slice_like(x, y, axes=(1,)), sym.reverse(x, axis=(1, 3)), sym.flip(x, axis=0)]
    copies = [sym.tile(x, reps=(1, 2, 1, 1)), sym.repeat(x, repeats=2, axis=1), sym.repeat(x, repeats=2), sym.broadcast_axis(sym.slice_axis(x, axis=1, begin=0, end=1), axis=1, size=3),
              sym.broadcast_to(sym.slice_axis(x, axis=1, begin=0, end=1), shape=(0, 5, 0, 0)), sym.broadcast_like(sym.slice_axis(x, axis=1, begin=0, end=1), x),
              *(sym.pad(x, mode=mode, pad_width=(0, 0, 0, 0, 1, 2, 2, 1), constant_value=3) for mode in ("constant", "edge", "reflect")), sym.depth_to_space(sym.concat(x, x, dim=1), block_size=2), sym.space_to_depth(x, block_size=2)]
    made = [sym.zeros((2, 3)), sym.ones((3,)), sym.full((2, 2), 7), sym.arange(2, 9, 3), sym.arange(4, repeat=2), sym.contrib.arange_like(x, axis=1), sym.shape_array(x), sym.size_array(x)]
    feed = {"x": floats(2, 6, 4, 4)}
    return {"shapes": (sym.Group(shapes), feed), "joined": (sym.Group(joined), feed), "slices": (sym.Group(slices), {**feed, "y": floats(1, 3, 2, 4)}), "copies": (sym.Group(copies), feed), "made": (sym.Group([sym.identity(x), *made]), feed)}


def choices():
    x, i, lengths, m = sym.var("x"), sym.var("i"), sym.var("lengths"), sym.var("m")
    reduced = [f(x, **given) for f in (sym.sum, sym.mean, sym.max, sym.min, sym.prod, sym.nansum) for given in ({}, {"axis": 1}, {"axis": (0, 2), "keepdims": True}, {"axis": 1, "exclude": True})]
    reduced += [sym.norm(x), sym.norm(x, ord=1, axis=1), sym.argmax(x, axis=1), sym.argmax(x), sym.argmin(x, axis=2, keepdims=True), sym.argmax_channel(m)]
    ordered = [sym.sort(x), sym.sort(x, axis=1, is_ascend=False), sym.argsort(x, axis=0), sym.topk(x, k=2), sym.topk(x, k=3, axis=1, ret_typ="value"), *sym.topk(x, k=2, ret_typ="both", is_ascend=True)]
    picked = [sym.take(x, i), sym.take(x, i, axis=1, mode="wrap"), sym.pick(m, sym.slice_axis(i, axis=0, begin=0, end=3).sum(axis=1)), sym.pick(m, sym.slice_axis(i, axis=0, begin=0, end=3).sum(axis=1), keepdims=True, mode="wrap"),
              sym.one_hot(i, depth=4, on_value=2, off_value=-1), sym.Embedding(i, input_dim=9, output_dim=3, name="e"), sym.gather_nd(x, sym.slice_axis(i, axis=0, begin=0, end=2)), sym.batch_take(m, sym.Cast(sym.argmax_channel(m), dtype="int32"))]
    with_lengths = {"sequence_length": lengths, "use_sequence_length": True}
    sequences = [sym.SequenceMask(x, value=-1, **with_lengths), sym.SequenceMask(sym.swapaxes(x, dim1=0, dim2=1), axis=1, **with_lengths), sym.SequenceMask(x), sym.SequenceReverse(x), sym.SequenceReverse(x, **with_lengths),
                 sym.SequenceLast(x), sym.SequenceLast(x, **with_lengths), sym.SequenceLast(sym.swapaxes(x, dim1=0, dim2=1), axis=1, **with_lengths)]
    feed = {"x": floats(4, 3, 5)}
    indices = np.array([[0, 3, 1, 1], [2, 0, 1, 2], [1, 2, 0, 4]], "float32")
    return {"reduced": (sym.Group(reduced), {**feed, "m": floats(3, 4)}), "ordered": (sym.Group(ordered), feed), "picked": (sym.Group(picked), {**feed, "i": indices, "m": floats(3, 4)}),
            "sequences": (sym.Group(sequences), {**feed, "lengths": np.array([1, 4, 2], "float32")})}


def recurrent():
    x = sym.var("data")
    models = {}
    for name, block in (("lstm", rnn.LSTM), ("gru", rnn.GRU)):
        models[name] = block(5, num_layers=2, bidirectional=True, prefix="net_")(x), {"data": floats(6, 2, 3)}
    models["rnn"] = sym.Group([rnn.RNN(4, activation=kind, prefix=f"{kind}_")(x) for kind in ("relu", "tanh")]), {"data": floats(5, 3, 2)}
    state, cell = sym.var("state"), sym.var("cell")
    fused = sym.RNN(x, sym.var("weights"), state, cell, state_size=4, num_layers=1, mode="lstm", state_outputs=True, name="fused")
    models["states"] = sym.Group([fused[0], fused[1], fused[2]]), {"data": floats(4, 2, 3), "state": floats(1, 2, 4), "cell": floats(1, 2, 4)}
    cells = rnn.HybridSequentialRNNCell(prefix="net_")
    with cells.name_scope():
        cells.add(rnn.LSTMCell(4))
        cells.add(rnn.GRUCell(3))
    outputs, _ = cells.unroll(3, x, layout="TNC", merge_outputs=True, begin_state=cells.begin_state(batch_size=2, func=sym.zeros))
    models["cells"] = outputs, {"data": floats(3, 2, 5)}
    net = nn.HybridSequential(prefix="net_")
    with net.name_scope():
        net.add(nn.Embedding(20, 6), rnn.LSTM(5, layout="NTC"), nn.Dense(3, flatten=False))
    models["language"] = net(x), {"data": np.array([[1, 5, 7, 19], [2, 2, 0, 11]], "float32")}
    hidden = sym.Activation(sym.FullyConnected(x, num_hidden=8, name="fc1"), act_type="relu")
    models["mlp"] = sym.SoftmaxOutput(sym.FullyConnected(hidden, num_hidden=4, name="fc2"), sym.var("softmax_label"), name="softmax"), {"data": floats(3, 7)}
    return models


if __name__ == "__main__":
    save("operators.npz", {**elementwise(), **layers(), **moves(), **choices(), **recurrent()})
    save("networks.npz", networks())
