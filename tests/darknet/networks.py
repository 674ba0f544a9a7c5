"""Networks of DarkNet, by their configurations, and what they compute, in numpy. Weights are drawn as the layers need
them and written in the order of DarkNet's files."""

import struct

import numpy as np

EPSILON = 1e-6


def sections(text):
    """[(kind, options)] of a configuration in one line a section: "convolutional filters=4 size=3"."""
    lines = [line.split() for line in text.strip().splitlines()]
    return [(kind, dict(option.split("=") for option in options)) for kind, *options in lines]


def config(text):
    """The text of the `.cfg` file."""
    return "\n".join(f"[{kind}]\n" + "".join(f"{name}={value}\n" for name, value in options.items())
                     for kind, options in sections(text))


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softmax(x, axis):
    powers = np.exp(x - x.max(axis, keepdims=True))
    return powers / powers.sum(axis, keepdims=True)


ACTIVATIONS = {
    "linear": lambda x: x, "logistic": sigmoid, "tanh": np.tanh, "relu": lambda x: np.maximum(x, 0),
    "leaky": lambda x: np.where(x > 0, x, .1 * x), "relu6": lambda x: np.clip(x, 0, 6),
    "ramp": lambda x: x * (x > 0) + .1 * x, "relie": lambda x: np.where(x > 0, x, .01 * x),
    "elu": lambda x: np.where(x >= 0, x, np.exp(x) - 1),
    "selu": lambda x: np.where(x >= 0, 1.0507 * x, 1.0507 * 1.6732 * (np.exp(x) - 1)),
    "gelu": lambda x: .5 * x * (1 + np.tanh(.797885 * x + .035677 * x ** 3)),
    "swish": lambda x: x * sigmoid(x), "mish": lambda x: x * np.tanh(np.log1p(np.exp(x))),
    "hard_mish": lambda x: np.where(x > 0, x, np.where(x > -2, x * x / 2 + x, 0)),
    "hardtan": lambda x: np.clip(x, -1, 1), "loggy": lambda x: 2 * sigmoid(x) - 1,
    "lhtan": lambda x: np.where(x < 0, .001 * x, np.where(x > 1, .001 * (x - 1) + 1, x)),
    "plse": lambda x: np.where(x < -4, .01 * (x + 4), np.where(x > 4, .01 * (x - 4) + 1, .125 * x + .5)),
    "stair": lambda x: np.where(np.floor(x) % 2 == 0, np.floor(x / 2), x - np.floor(x) + np.floor(x / 2)),
}


def windows(x, size, strides):
    """(batch, channels, rows, columns, size, size) of an image with its border."""
    views = np.lib.stride_tricks.sliding_window_view(x, (size, size), (2, 3))
    return views[:, :, ::strides[0], ::strides[1]]


class Network:
    """Runs a network on `x`: `outputs` are the results that no layer reads, `weights` the bytes of its `.weights`."""

    def __init__(self, text, x, seed=0, version=(0, 2, 0)):
        self.random = np.random.RandomState(seed)
        self.version, self.drawn, self.results, self.read = version, [], [], set()
        self.x = x.astype("float64")
        for kind, options in sections(text)[1:]:
            self.kind, self.options = kind, options
            self.results.append(getattr(self, kind)())
        self.outputs = [result for i, result in enumerate(self.results) if i not in self.read]
        seen = struct.pack("<q" if version[0] * 10 + version[1] >= 2 and max(version) < 1000 else "<i", 7)
        self.weights = struct.pack("<3i", *version) + seen + b"".join(array.tobytes() for array in self.drawn)

    def draw(self, *shape, least=-.5, greatest=.5):
        self.drawn.append(self.random.uniform(least, greatest, shape).astype("float32"))
        return self.drawn[-1].astype("float64")

    def number(self, name, otherwise):
        return int(self.options.get(name, otherwise))

    def input(self):
        if not self.results:
            return self.x
        self.read.add(len(self.results) - 1)
        return self.results[-1]

    def layer(self, number):
        number = number + len(self.results) if number < 0 else number
        self.read.add(number)
        return self.results[number]

    def layers(self, name):
        return [self.layer(int(number)) for number in self.options[name].split(",")]

    def activated(self, x, otherwise="logistic"):
        return ACTIVATIONS[self.options.get("activation", otherwise)](x)

    def image(self):
        x = self.input()
        return x.reshape(*x.shape, 1, 1) if x.ndim == 2 else x

    def rows(self):
        x = self.input()
        return x.reshape(len(x), -1)

    # ---- layers with weights

    def normalisation(self, count):
        """(factor, shift) behind the draws of scales, means and variances."""
        if not self.number("batch_normalize", 0):
            return 1, 0
        scale, mean, variance = (self.draw(count, least=least, greatest=1.5) for least in (.5, -.5, .5))
        factor = scale / (np.sqrt(variance) + EPSILON)
        return factor, -mean * factor

    def filters(self, shape):
        bias = self.draw(shape[0])
        factor, shift = self.normalisation(shape[0])
        weights = self.draw(*shape)
        return weights * np.reshape(np.broadcast_to(factor, shape[0]), (-1, 1, 1, 1)), bias + shift

    def matrix(self, outputs, inputs):
        bias = self.draw(outputs)
        transposed = max(self.version[:2]) > 1000
        weights = self.draw(inputs, outputs).T if transposed else self.draw(outputs, inputs)
        factor, shift = self.normalisation(outputs)
        return weights * np.reshape(np.broadcast_to(factor, outputs), (-1, 1)), bias + shift

    def convolved(self, x, weights, bias, pad, strides=(1, 1), groups=1, dilation=1):
        x = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
        reach = (weights.shape[2] - 1) * dilation + 1
        places = windows(x, reach, strides)[..., ::dilation, ::dilation]
        parts = [np.einsum("bcpquv,ocuv->bopq", a, b)
                 for a, b in zip(np.split(places, groups, 1), np.split(weights, groups, 0))]
        return np.concatenate(parts, 1) + bias.reshape(-1, 1, 1)

    def convolutional(self):
        x = self.image()
        count, size, groups = self.number("filters", 1), self.number("size", 1), self.number("groups", 1)
        stride, dilation = self.number("stride", 1), self.number("dilation", 1)
        pad = (size // 2 if self.number("pad", 0) else self.number("padding", 0)) * dilation
        weights, bias = self.filters((count, x.shape[1] // groups, size, size))
        strides = self.number("stride_y", stride), self.number("stride_x", stride)
        return self.activated(self.convolved(x, weights, bias, pad, strides, groups, dilation))

    def connected(self):
        x = self.rows()
        weights, bias = self.matrix(self.number("output", 1), x.shape[1])
        return self.activated(x @ weights.T + bias)

    def local(self):
        x, count, size, pad = self.image(), self.number("filters", 1), self.number("size", 1), self.number("pad", 0)
        stride = self.number("stride", 1)
        places = windows(np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad))), size, (stride, stride))
        rows, columns = places.shape[2:4]
        bias = self.draw(count, rows, columns)
        return self.activated(np.einsum("bcpquv,pqocuv->bopq", places, self.draw(rows, columns, count, x.shape[1], size, size)) + bias)

    # ---- recurrent layers: the first axis is time

    def steps(self, rows, state, step):
        results = []
        for row in rows:
            state = step(row[None], state)
            results.append(state[0])
        return np.concatenate(results)

    def rnn(self):
        x, count = self.rows(), self.number("output", 1)
        hidden = self.number("hidden", count)
        (wi, bi), (ws, bs), (wo, bo) = (self.matrix(a, b) for a, b in ((hidden, x.shape[1]), (hidden, hidden), (count, hidden)))
        keeps = self.number("shortcut", 0)

        def step(row, state):
            own = self.activated(state[0] @ ws.T + bs)
            return [keeps * state[0] + row + own]

        rows = self.steps(self.activated(x @ wi.T + bi), [np.zeros((1, hidden))], step)
        return self.activated(rows @ wo.T + bo)

    def gates(self, count, x, hidden):
        own = [self.matrix(hidden, hidden) for _ in range(count)]
        given = [self.matrix(hidden, x.shape[1]) for _ in range(count)]
        return lambda i, row, state: row @ given[i][0].T + given[i][1] + state @ own[i][0].T + own[i][1]

    def gru(self):
        x, hidden = self.rows(), self.number("output", 1)
        gate, last = self.gates(3, x, hidden), np.tanh if self.number("tanh", 0) else sigmoid

        def step(row, state):
            z, r = sigmoid(gate(0, row, state[0])), sigmoid(gate(1, row, state[0]))
            return [z * state[0] + (1 - z) * last(gate(2, row, state[0] * r))]

        return self.steps(x, [np.zeros((1, hidden))], step)

    def lstm(self):
        x, hidden = self.rows(), self.number("output", 1)
        gate = self.gates(4, x, hidden)

        def step(row, state):
            i, f, o = (sigmoid(gate(k, row, state[0])) for k in range(3))
            cell = f * state[1] + i * np.tanh(gate(3, row, state[0]))
            return [o * np.tanh(cell), cell]

        return self.steps(x, [np.zeros((1, hidden))] * 2, step)

    def crnn(self):
        x, count, hidden = self.image(), self.number("output_filters", 1), self.number("hidden_filters", 1)
        given, own, last = (self.filters((a, b, 3, 3)) for a, b in ((hidden, x.shape[1]), (hidden, hidden), (count, hidden)))
        run = lambda x, filters: self.activated(self.convolved(x, *filters, 1))
        rows = self.steps(run(x, given), [np.zeros((1, hidden, *x.shape[2:]))], lambda row, state: [row + run(state[0], own)])
        return run(rows, last)

    # ---- layers without filters

    def pooled(self, border):
        x, stride = self.image(), self.number("stride", 1)
        size = self.number("size", stride)
        padding = self.number("padding", size - 1)
        before, after = padding // 2, padding - padding // 2
        x = np.pad(x, ((0, 0), (0, 0), (before, after), (before, after)), constant_values=border)
        return windows(x, size, (self.number("stride_y", stride), self.number("stride_x", stride)))

    def maxpool(self):
        return self.pooled(-np.inf).max((4, 5))

    def local_avgpool(self):
        return np.nanmean(self.pooled(np.nan), (4, 5))

    def avgpool(self):
        return self.image().mean((2, 3), keepdims=True)

    def dropout(self):
        return self.input()

    cost = dropout

    def activation(self):
        return self.activated(self.input())

    def route(self):
        parts, groups, group = self.layers("layers"), self.number("groups", 1), self.number("group_id", 0)
        return np.concatenate([np.split(part, groups, 1)[group] for part in parts], 1)

    def shortcut(self):
        x, others = self.input(), self.layers("from")
        kind = self.options.get("weights_type", "none")
        factors = [1] * (len(others) + 1)
        if kind != "none":
            weights = self.draw(len(factors), x.shape[1] if kind == "per_channel" else 1)
            how = self.options.get("weights_normalization", "none")
            if how == "relu":
                weights = np.where(weights > 1e-3, weights, 1e-3)
                weights = weights / (weights.sum(0) + 1e-4)
            elif how == "softmax":
                weights = np.exp(weights - weights.max(0))
                weights = weights / (weights.sum(0) + 1e-4)
            factors = [row.reshape(-1, 1, 1) for row in weights]
        result = x * factors[0]
        for other, factor in zip(others, factors[1:]):
            count = min(x.shape[1], other.shape[1])
            fitted = np.zeros_like(x)
            fitted[:, :count] = other[:, :count]
            result = result + fitted * factor
        return self.activated(result, "linear")

    def scale_channels(self):
        return self.activated(self.layers("from")[0] * self.image(), "linear")

    sam = scale_channels

    def upsample(self):
        stride = self.number("stride", 2)
        return self.image().repeat(stride, 2).repeat(stride, 3) * float(self.options.get("scale", 1))

    def reorg(self):
        x, s = self.image(), self.number("stride", 1)
        b, c, h, w = x.shape
        few = c // (s * s)
        if self.number("reverse", 0):
            return x.reshape(b, s, s, few, h, w).transpose(0, 3, 4, 1, 5, 2).reshape(b, few, h * s, w * s)
        return x.reshape(b, few, h, s, w, s).transpose(0, 3, 5, 1, 2, 4).reshape(b, c * s * s, h // s, w // s)

    def softmax(self):
        if float(self.options.get("spatial", 0)):
            return softmax(self.image() / float(self.options.get("temperature", 1)), 1)
        x, groups = self.rows() / float(self.options.get("temperature", 1)), self.number("groups", 1)
        return softmax(x.reshape(len(x), groups, -1), 2).reshape(x.shape)

    def boxes(self, x, count, entries):
        return x.reshape(len(x), count, entries, *x.shape[2:]).copy()

    def yolo(self):
        x, classes = self.image(), self.number("classes", 20)
        y = self.boxes(x, len(self.options["mask"].split(",")), classes + 5)
        scale = float(self.options.get("scale_x_y", 1))
        if not self.number("new_coords", 0):
            y[:, :, :2], y[:, :, 4:] = sigmoid(y[:, :, :2]), sigmoid(y[:, :, 4:])
        y[:, :, :2] = scale * y[:, :, :2] - .5 * (scale - 1)
        return y.reshape(x.shape)

    def region(self):
        x, classes = self.image(), self.number("classes", 20)
        y = self.boxes(x, self.number("num", 1), classes + 5)
        y[:, :, :2], y[:, :, 4:5] = sigmoid(y[:, :, :2]), sigmoid(y[:, :, 4:5])
        y[:, :, 5:] = softmax(y[:, :, 5:], 2) if self.number("softmax", 0) else sigmoid(y[:, :, 5:])
        return y.reshape(x.shape)


CONV = "convolutional batch_normalize=1 filters={} size={} stride={} pad=1 activation={}"


def net(*lines, image=(3, 16, 16)):
    return "\n".join(["net channels={} height={} width={}".format(*image), *lines])


def recurrent(*lines, inputs=5):
    return "\n".join([f"net inputs={inputs} time_steps=1", *lines])


ANCHORS = "10,14,23,27,37,58,81,82,135,169,344,319"
# Networks that OpenCV runs, too.
OPENCV = {
    "convolution": net("convolutional filters=4 size=3 pad=1 activation=linear"),
    "strides": net("convolutional filters=5 size=3 stride=2 pad=1 activation=leaky", image=(3, 15, 13)),
    "normalised": net(CONV.format(6, 3, 1, "leaky"), CONV.format(4, 1, 1, "linear")),
    "no_border": net("convolutional filters=4 size=5 activation=relu", "convolutional filters=3 size=2 padding=1 activation=linear"),
    "groups": net(CONV.format(8, 3, 1, "leaky"), "convolutional filters=8 size=3 pad=1 groups=4 activation=linear"),
    "depthwise": net(CONV.format(8, 1, 1, "leaky"), "convolutional batch_normalize=1 filters=8 size=3 stride=2 pad=1 groups=8 activation=leaky"),
    "activations": net(CONV.format(4, 3, 1, "swish"), CONV.format(4, 3, 1, "mish"), CONV.format(4, 3, 1, "logistic"), CONV.format(4, 3, 1, "relu")),
    "maxpool": net("maxpool size=2 stride=2", "maxpool size=3 stride=1", "maxpool size=3 stride=2", image=(3, 15, 17)),
    "spatial_pyramid": net(CONV.format(4, 1, 1, "leaky"), "maxpool size=5 stride=1", "route layers=-2", "maxpool size=9 stride=1", "route layers=-1,-3,-4"),
    "classifier": net(CONV.format(6, 3, 2, "leaky"), "avgpool", "softmax"),
    "connected": net(CONV.format(4, 3, 4, "leaky"), "connected output=10 activation=leaky", "dropout probability=0.5", "connected output=7 activation=linear", "softmax"),
    "route": net(CONV.format(4, 3, 1, "leaky"), CONV.format(6, 3, 1, "leaky"), "route layers=-1,0"),
    "route_groups": net(CONV.format(8, 3, 1, "leaky"), "route layers=-1 groups=2 group_id=1", CONV.format(4, 3, 1, "leaky"), "route layers=-1,-3"),
    "shortcut": net(CONV.format(4, 3, 1, "leaky"), CONV.format(4, 3, 1, "leaky"), "shortcut from=-2 activation=linear"),
    "shortcut_activated": net(CONV.format(4, 3, 1, "leaky"), CONV.format(4, 3, 1, "linear"), "shortcut from=0 activation=leaky"),
    "upsample": net(CONV.format(4, 3, 2, "leaky"), "upsample stride=2"),
    "reorg": net(CONV.format(8, 3, 1, "leaky"), "reorg stride=2"),
    "scale_channels": net(CONV.format(4, 3, 1, "swish"), "avgpool", "convolutional filters=4 size=1 activation=logistic", "scale_channels from=-3"),
    "sam": net(CONV.format(4, 3, 1, "leaky"), "convolutional filters=4 size=1 activation=logistic", "sam from=-2"),
    "yolo": net(CONV.format(8, 3, 2, "leaky"), CONV.format(8, 3, 2, "leaky"), "convolutional filters=21 size=1 activation=linear",
                f"yolo mask=3,4,5 anchors={ANCHORS} classes=2 num=6", "route layers=-3", "upsample stride=2", "route layers=-1,0",
                "convolutional filters=21 size=1 activation=linear", f"yolo mask=0,1,2 anchors={ANCHORS} classes=2 num=6 scale_x_y=1.1", image=(3, 32, 32)),
    "region": net(CONV.format(8, 3, 2, "leaky"), "convolutional filters=16 size=1 activation=linear",
                  "region anchors=1.1,1.2,3.4,4.4 classes=3 coords=4 num=2 softmax=1"),
}
# Others.
OWN = {
    "all_activations": net(*(f"convolutional filters=3 size=1 activation={name}" for name in ACTIVATIONS)),
    "activation": net("activation activation=tanh"),
    "dilation": net("convolutional filters=3 size=3 pad=1 dilation=2 activation=leaky stride_x=2 stride_y=1"),
    "local": net("local filters=2 size=3 pad=1 stride=2 activation=leaky", "local filters=2 size=2 activation=linear", image=(3, 7, 6)),
    "local_avgpool": net("local_avgpool size=3 stride=2"),
    "reorg_reverse": net(CONV.format(8, 3, 1, "leaky"), "reorg stride=2 reverse=1"),
    "softmax": net("softmax spatial=1 temperature=2", "softmax groups=4"),
    "shortcut_channels": net(CONV.format(4, 3, 1, "leaky"), CONV.format(6, 3, 1, "leaky"), "shortcut from=0 activation=linear", CONV.format(2, 1, 1, "linear"), "shortcut from=1"),
    "shortcut_weights": net(CONV.format(4, 3, 1, "leaky"), CONV.format(4, 3, 1, "leaky"), CONV.format(4, 3, 1, "leaky"),
                            "shortcut from=0,1 weights_type=per_channel weights_normalization=softmax",
                            "shortcut from=0 weights_type=per_feature weights_normalization=relu", "shortcut from=-3 weights_type=per_feature"),
    "new_coords": net("convolutional filters=21 size=1 activation=logistic", f"yolo mask=0,1,2 anchors={ANCHORS} classes=2 num=6 scale_x_y=2 new_coords=1"),
    "region_logistic": net("convolutional filters=16 size=1 activation=linear", "region classes=3 num=2"),
    "cost": net("connected output=3 activation=logistic batch_normalize=1", "cost type=sse"),
    "images_of_rows": recurrent("connected output=6 activation=leaky", "convolutional filters=2 size=1 activation=linear"),
    "rnn": recurrent("rnn output=7 activation=leaky", "rnn output=4 hidden=6 activation=tanh batch_normalize=1 shortcut=1", "connected output=3 activation=leaky", "softmax"),
    "gru": recurrent("gru output=6", "gru output=4 tanh=1 batch_normalize=1"),
    "lstm": recurrent("lstm output=6 batch_normalize=1", "lstm output=4", "connected output=3 activation=linear"),
    "crnn": net("crnn hidden_filters=4 output_filters=5 activation=leaky batch_normalize=1", image=(2, 5, 6)),
}


def feed(text):
    """The input of a network: two images, or five steps."""
    kind, options = sections(text)[0]
    shape = [int(options[name]) for name in (("channels", "height", "width") if "height" in options else ("inputs",))]
    kinds = {kind for kind, _ in sections(text)}
    return np.random.RandomState(1).standard_normal([5 if kinds & {"rnn", "gru", "lstm", "crnn"} else 2, *shape]).astype("float32")


def opencv_rows(scores, anchors, size, threshold):
    """What OpenCV makes of scores (batch, anchors * entries, height, width): a row for each box, its place and size as
    parts of the image, objectness, and classes times that, those below the threshold as 0. `size`: of an image whose
    boxes have the anchors as extents."""
    batch, _, height, width = scores.shape
    y = scores.reshape(batch, len(anchors), -1, height, width).transpose(0, 3, 4, 1, 2).copy()
    y[..., 0] = (y[..., 0] + np.arange(width)[:, None]) / width
    y[..., 1] = (y[..., 1] + np.arange(height)[:, None, None]) / height
    y[..., 2:4] = np.exp(y[..., 2:4]) * np.array(anchors) / size
    y[..., 5:] *= y[..., 4:5]
    y[..., 5:][y[..., 5:] <= threshold] = 0
    return y.reshape(batch, -1, y.shape[-1])


def like_opencv(text, outputs, expected):
    """The results of a network in the form of what OpenCV gave. A region of OpenCV drops boxes that overlap others."""
    lines = sections(text)
    boxes = [options for kind, options in lines if kind in ("yolo", "region")]
    if not boxes:
        return outputs
    results = []
    for options, scores, given in zip(boxes, outputs, expected):
        numbers = np.array([float(number) for number in options["anchors"].split(",")]).reshape(-1, 2)
        chosen = [int(number) for number in options["mask"].split(",")] if "mask" in options else range(len(numbers))
        size, threshold = (int(lines[0][1]["height"]), .2) if "mask" in options else (scores.shape[2], .001)
        results.append(opencv_rows(scores, numbers[list(chosen)], size, threshold))
        if "mask" not in options:
            results[-1][..., 5:][given[..., 5:] == 0] = 0
    return results
