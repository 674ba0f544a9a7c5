"""Vision networks as ONNX models with random weights, scaled so that activations keep their size.

    from vision import networks
    model = networks.make("resnet18", size=224)     # an onnx.ModelProto: one input [1, channels, size, size]

The architectures follow He et al. 2015 (ResNet), Howard et al. 2017 and Sandler et al. 2018 (MobileNet), Huang et al. 2016
(DenseNet), Ronneberger et al. 2015 (U-Net, here with padded convolutions), Simonyan and Zisserman 2014 (VGG), Szegedy et
al. 2015 (Inception v3), Mnih et al. 2015 (DQN), Radford et al. 2015 (DCGAN's generator, from a vector of 100), Howard et
al. 2019 (MobileNet v3 large), Tan and Le 2019 (EfficientNet-B0), Liu et al. 2022 (ConvNeXt-T), Dosovitskiy et al. 2020
(ViT, of the small size of Touvron et al. 2020). The nodes of the last two are those that PyTorch exports.
"""

import numpy as np


class Network:
    """An ONNX graph that is being written. Values are names; `channels` and `size` of each are known."""

    def __init__(self, onnx, size, channels=3, seed=0):
        self.onnx, self.random = onnx, np.random.default_rng(seed)
        self.nodes, self.weights, self.channels = [], [], {"x": channels}
        self.size, self.shape = size, (1, channels, size, size)

    def node(self, kind, inputs, channels, **attributes):
        name = f"v{len(self.nodes)}"
        self.nodes.append(self.onnx.helper.make_node(kind, inputs, [name], **attributes))
        self.channels[name] = channels
        return name

    def weight(self, value, dtype=np.float32):
        name = f"w{len(self.weights)}"
        self.weights.append(self.onnx.numpy_helper.from_array(np.asarray(value, dtype), name))
        return name

    def filters(self, shape, fan_in, gain):
        return self.weight(self.random.normal(0, np.sqrt(gain / fan_in), shape))

    def conv(self, x, channels, kernel, stride=1, groups=1, gain=2.0, bias=False, pad=None):
        """`kernel`: (height, width), or one number for both; padded to the size of the image unless told."""
        inputs = self.channels[x] // groups
        kernel = (kernel, kernel) if isinstance(kernel, int) else kernel
        weights = [self.filters((channels, inputs, *kernel), inputs * kernel[0] * kernel[1], gain)]
        if bias:
            weights.append(self.weight(self.random.normal(0, 0.1, channels)))
        pads = [extent // 2 for extent in kernel] if pad is None else [pad, pad]
        return self.node("Conv", [x, *weights], channels, kernel_shape=kernel, strides=[stride] * 2, group=groups, pads=pads * 2)

    def conv_transposed(self, x, channels, kernel, stride, pad=0, bias=True):
        inputs = self.channels[x]
        weights = [self.filters((inputs, channels, kernel, kernel), inputs * kernel * kernel / stride**2, 1.0)]
        if bias:
            weights.append(self.weight(self.random.normal(0, 0.1, channels)))
        return self.node("ConvTranspose", [x, *weights], channels, kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=[pad] * 4)

    def norm(self, x):
        channels = self.channels[x]
        moments = [self.random.uniform(0.8, 1.2, channels), self.random.normal(0, 0.1, channels),
                   self.random.normal(0, 0.1, channels), self.random.uniform(0.8, 1.2, channels)]
        return self.node("BatchNormalization", [x, *map(self.weight, moments)], channels)

    def relu(self, x):
        return self.node("Relu", [x], self.channels[x])

    def relu6(self, x):
        return self.node("Clip", [x, self.weight(0.0), self.weight(6.0)], self.channels[x])

    def silu(self, x):
        return self.node("Mul", [x, self.node("Sigmoid", [x], self.channels[x])], self.channels[x])

    def hard_swish(self, x):
        return self.node("HardSwish", [x], self.channels[x])

    def gelu(self, x):
        channels = self.channels[x]
        error = self.node("Erf", [self.node("Div", [x, self.weight(np.sqrt(2))], channels)], channels)
        twice = self.node("Mul", [x, self.node("Add", [error, self.weight(1.0)], channels)], channels)
        return self.node("Mul", [twice, self.weight(0.5)], channels)

    def squeeze_excite(self, x, width, activation, gate):
        """Multiplies each channel by a number that the means of all give."""
        means = self.node("GlobalAveragePool", [x], self.channels[x])
        scale = self.conv(activation(self.conv(means, width, 1, bias=True)), self.channels[x], 1, gain=1.0, bias=True)
        return self.node("Mul", [x, self.node(gate, [scale], self.channels[x])], self.channels[x])

    def layer_norm(self, x):
        """Over the last axis, which holds the channels."""
        channels = self.channels[x]
        weights = [self.weight(self.random.uniform(0.8, 1.2, channels)), self.weight(self.random.normal(0, 0.1, channels))]
        return self.node("LayerNormalization", [x, *weights], channels, axis=-1, epsilon=1e-6)

    def linear(self, x, features, gain=1.0):
        """A product with the last axis, which holds the channels."""
        product = self.node("MatMul", [x, self.filters((self.channels[x], features), self.channels[x], gain)], features)
        return self.node("Add", [self.weight(self.random.normal(0, 0.1, features)), product], features)

    def reshape(self, x, *shape):
        return self.node("Reshape", [x, self.weight(shape, np.int64)], shape[-1])

    def transpose(self, x, channels, *permutation):
        return self.node("Transpose", [x], channels, perm=permutation)

    def add(self, a, b):
        return self.node("Add", [a, b], self.channels[a])

    def concat(self, *values):
        return self.node("Concat", values, sum(self.channels[v] for v in values), axis=1)

    def max_pool(self, x, kernel, stride, pad=0):
        return self.node("MaxPool", [x], self.channels[x], kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=[pad] * 4)

    def average_pool(self, x, kernel, stride, pad=0):
        return self.node("AveragePool", [x], self.channels[x], kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=[pad] * 4)

    def flatten(self, x, features):
        return self.node("Flatten", [x], features)

    def dense(self, x, features):
        scores = self.filters((features, self.channels[x]), self.channels[x], 1.0)
        return self.node("Gemm", [x, scores, self.weight(np.zeros(features))], features, transB=1)

    def classify(self, x, classes=1000):
        return self.dense(self.flatten(self.node("GlobalAveragePool", [x], self.channels[x]), self.channels[x]), classes)

    def model(self, result):
        helper = self.onnx.helper
        graph = helper.make_graph(
            self.nodes, "network",
            [helper.make_tensor_value_info("x", self.onnx.TensorProto.FLOAT, self.shape)],
            [helper.make_empty_tensor_value_info(result)], self.weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        model = self.onnx.shape_inference.infer_shapes(model, strict_mode=True)  # also the type of the result
        self.onnx.checker.check_model(model)
        return model


def resnet_block(net, x, width, stride):
    y = net.relu(net.norm(net.conv(x, width, 3, stride)))
    y = net.norm(net.conv(y, width, 3, gain=0.5))
    if stride != 1 or net.channels[x] != width:
        x = net.norm(net.conv(x, width, 1, stride, gain=1.0))
    return net.relu(net.add(y, x))


def resnet_bottleneck(net, x, width, stride):
    y = net.relu(net.norm(net.conv(x, width, 1)))
    y = net.relu(net.norm(net.conv(y, width, 3, stride)))
    y = net.norm(net.conv(y, 4 * width, 1, gain=0.5))
    if stride != 1 or net.channels[x] != 4 * width:
        x = net.norm(net.conv(x, 4 * width, 1, stride, gain=1.0))
    return net.relu(net.add(y, x))


def resnet(net, block, counts):
    x = net.max_pool(net.relu(net.norm(net.conv("x", 64, 7, 2))), 3, 2, 1)
    for stage, count in enumerate(counts):
        for i in range(count):
            x = block(net, x, 64 << stage, 2 if stage > 0 and i == 0 else 1)
    return net.classify(x)


def mobilenet_v2(net):
    x = net.relu6(net.norm(net.conv("x", 32, 3, 2)))
    for expand, channels, count, stride in ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1),
                                            (6, 160, 3, 2), (6, 320, 1, 1)):
        for i in range(count):
            wide, y = net.channels[x] * expand, x
            if expand > 1:
                y = net.relu6(net.norm(net.conv(y, wide, 1)))
            y = net.relu6(net.norm(net.conv(y, wide, 3, stride if i == 0 else 1, groups=wide)))
            y = net.norm(net.conv(y, channels, 1, gain=1.0))
            x = net.add(x, y) if i > 0 else y
    return net.classify(net.relu6(net.norm(net.conv(x, 1280, 1))))


def densenet(net, counts=(6, 12, 24, 16), growth=32):
    x = net.max_pool(net.relu(net.norm(net.conv("x", 64, 7, 2))), 3, 2, 1)
    for stage, count in enumerate(counts):
        for _ in range(count):
            y = net.conv(net.relu(net.norm(x)), 4 * growth, 1)
            y = net.conv(net.relu(net.norm(y)), growth, 3)
            x = net.concat(x, y)
        if stage < len(counts) - 1:
            x = net.average_pool(net.conv(net.relu(net.norm(x)), net.channels[x] // 2, 1), 2, 2)
    return net.classify(net.relu(net.norm(x)))


def unet(net, width=32, depth=4):
    def twice(x, channels):
        return net.relu(net.conv(net.relu(net.conv(x, channels, 3, bias=True)), channels, 3, bias=True))

    x, skips = twice("x", width), []
    for level in range(1, depth + 1):
        skips.append(x)
        x = twice(net.max_pool(x, 2, 2), width << level)
    for level in reversed(range(depth)):
        x = twice(net.concat(skips.pop(), net.conv_transposed(x, width << level, 2, 2)), width << level)
    return net.conv(x, 10, 1, bias=True)


def vgg16(net):
    x = "x"
    for width, count in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)):
        for _ in range(count):
            x = net.relu(net.conv(x, width, 3, bias=True))
        x = net.max_pool(x, 2, 2)
    return net.classify(x)


def mobilenet_v1(net):
    x = net.relu(net.norm(net.conv("x", 32, 3, 2)))
    for channels, stride in ((64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *[(512, 1)] * 5, (1024, 2), (1024, 1)):
        x = net.relu(net.norm(net.conv(x, net.channels[x], 3, stride, groups=net.channels[x])))
        x = net.relu(net.norm(net.conv(x, channels, 1)))
    return net.classify(x)


def dqn(net, actions=18):
    x = net.relu(net.conv("x", 32, 8, 4, bias=True, pad=0))
    x = net.relu(net.conv(x, 64, 4, 2, bias=True, pad=0))
    x = net.relu(net.conv(x, 64, 3, bias=True, pad=0))
    extent = ((net.size - 4) // 4 - 2) // 2 - 2
    return net.dense(net.relu(net.dense(net.flatten(x, 64 * extent**2), 512)), actions)


def dcgan(net):
    x = net.relu(net.norm(net.conv_transposed("x", 512, 4, 1, bias=False)))
    for channels in (256, 128, 64):
        x = net.relu(net.norm(net.conv_transposed(x, channels, 4, 2, 1, bias=False)))
    return net.node("Tanh", [net.conv_transposed(x, 3, 4, 2, 1, bias=False)], 3)


def inception_v3(net):
    def conv(x, channels, kernel, stride=1, pad=None):
        return net.relu(net.norm(net.conv(x, channels, kernel, stride, pad=pad)))

    def chain(x, *layers):
        for channels, kernel in layers:
            x = conv(x, channels, kernel)
        return x

    def pooled(x, channels):
        return conv(net.average_pool(x, 3, 1, 1), channels, 1)

    def narrow(x, *layers):
        """Halves the image: max pooling beside chains whose last convolution has stride 2."""
        ends = [conv(chain(x, *before), last, 3, 2, 0) for *before, last in layers]
        return net.concat(*ends, net.max_pool(x, 3, 2))

    x = conv(conv(conv("x", 32, 3, 2, 0), 32, 3, 1, 0), 64, 3)
    x = net.max_pool(conv(conv(net.max_pool(x, 3, 2), 80, 1), 192, 3, 1, 0), 3, 2)
    for channels in (32, 64, 64):
        x = net.concat(conv(x, 64, 1), chain(x, (48, 1), (64, 5)), chain(x, (64, 1), (96, 3), (96, 3)), pooled(x, channels))
    x = narrow(x, (384,), ((64, 1), (96, 3), 96))
    for width in (128, 160, 160, 192):
        x = net.concat(conv(x, 192, 1), chain(x, (width, 1), (width, (1, 7)), (192, (7, 1))),
                       chain(x, (width, 1), (width, (7, 1)), (width, (1, 7)), (width, (7, 1)), (192, (1, 7))), pooled(x, 192))
    x = narrow(x, ((192, 1), 320), ((192, 1), (192, (1, 7)), (192, (7, 1)), 192))
    for _ in range(2):
        middle, deep = conv(x, 384, 1), chain(x, (448, 1), (384, 3))
        x = net.concat(conv(x, 320, 1), conv(middle, 384, (1, 3)), conv(middle, 384, (3, 1)), conv(deep, 384, (1, 3)),
                       conv(deep, 384, (3, 1)), pooled(x, 192))
    return net.classify(x)


def inverted_residual(net, x, layer, activation, squeeze):
    """`layer`: extent of the kernel, channels between, channels behind, stride. `squeeze`: writes the scaling; None: none."""
    kernel, wide, channels, stride = layer
    y = activation(net.norm(net.conv(x, wide, 1))) if wide != net.channels[x] else x
    y = activation(net.norm(net.conv(y, wide, kernel, stride, groups=wide)))
    if squeeze is not None:
        y = squeeze(y)
    y = net.norm(net.conv(y, channels, 1, gain=1.0))
    return net.add(x, y) if stride == 1 and channels == net.channels[x] else y


def mobilenet_v3(net):
    layers = ((3, 16, 16, 1), (3, 64, 24, 2), (3, 72, 24, 1), (5, 72, 40, 2), (5, 120, 40, 1), (5, 120, 40, 1), (3, 240, 80, 2),
              (3, 200, 80, 1), (3, 184, 80, 1), (3, 184, 80, 1), (3, 480, 112, 1), (3, 672, 112, 1), (5, 672, 160, 2),
              (5, 960, 160, 1), (5, 960, 160, 1))
    x = net.hard_swish(net.norm(net.conv("x", 16, 3, 2)))
    for i, layer in enumerate(layers):
        width = (layer[1] // 4 + 4) // 8 * 8
        squeeze = (lambda y, width=width: net.squeeze_excite(y, width, net.relu, "HardSigmoid")) if 3 <= i < 6 or i >= 10 else None
        x = inverted_residual(net, x, layer, net.hard_swish if i >= 6 else net.relu, squeeze)
    x = net.node("GlobalAveragePool", [net.hard_swish(net.norm(net.conv(x, 960, 1)))], 960)
    return net.dense(net.hard_swish(net.dense(net.flatten(x, 960), 1280)), 1000)


def efficientnet_b0(net):
    x = net.silu(net.norm(net.conv("x", 32, 3, 2)))
    for expand, channels, count, stride, kernel in ((1, 16, 1, 1, 3), (6, 24, 2, 2, 3), (6, 40, 2, 2, 5), (6, 80, 3, 2, 3),
                                                    (6, 112, 3, 1, 5), (6, 192, 4, 2, 5), (6, 320, 1, 1, 3)):
        for i in range(count):
            before = net.channels[x]
            x = inverted_residual(net, x, (kernel, before * expand, channels, stride if i == 0 else 1), net.silu,
                                  lambda y, width=before // 4: net.squeeze_excite(y, width, net.silu, "Sigmoid"))
    return net.classify(net.silu(net.norm(net.conv(x, 1280, 1))))


def convnext(net, counts=(3, 3, 9, 3), width=96):
    def to_last(x):
        return net.transpose(x, net.channels[x], 0, 2, 3, 1)

    def to_first(x):
        return net.transpose(x, net.channels[x], 0, 3, 1, 2)

    x = to_first(net.layer_norm(to_last(net.conv("x", width, 4, 4, gain=1.0, bias=True, pad=0))))
    for stage, count in enumerate(counts):
        if stage > 0:
            x = net.conv(to_first(net.layer_norm(to_last(x))), width << stage, 2, 2, gain=1.0, bias=True, pad=0)
        for _ in range(count):
            channels = net.channels[x]
            y = net.layer_norm(to_last(net.conv(x, channels, 7, groups=channels, gain=1.0, bias=True)))
            y = net.linear(net.gelu(net.linear(y, 4 * channels)), channels)
            y = net.node("Mul", [net.weight(net.random.uniform(0.1, 0.2, channels)), y], channels)
            x = net.add(x, to_first(y))
    return net.dense(net.flatten(to_first(net.layer_norm(to_last(net.node("GlobalAveragePool", [x], net.channels[x])))),
                                 net.channels[x]), 1000)


def vit(net, width=384, heads=6, layers=12, patch=16):
    tokens = (net.size // patch)**2 + 1

    def split(x, *permutation):
        return net.transpose(net.reshape(x, 1, tokens, heads, width // heads), width // heads, *permutation)

    x = net.reshape(net.conv("x", width, patch, patch, gain=1.0, bias=True, pad=0), 1, width, tokens - 1)
    x = net.node("Concat", [net.weight(net.random.normal(0, 1, (1, 1, width))), net.transpose(x, width, 0, 2, 1)], width, axis=1)
    x = net.node("Add", [x, net.weight(net.random.normal(0, 0.1, (1, tokens, width)))], width)
    for _ in range(layers):
        y = net.layer_norm(x)
        query, key, value = (split(net.linear(y, width), *order) for order in ((0, 2, 1, 3), (0, 2, 3, 1), (0, 2, 1, 3)))
        scores = net.node("Div", [net.node("MatMul", [query, key], tokens), net.weight(np.sqrt(width // heads))], tokens)
        y = net.node("MatMul", [net.node("Softmax", [scores], tokens, axis=-1), value], width // heads)
        y = net.reshape(net.transpose(y, width // heads, 0, 2, 1, 3), 1, tokens, width)
        x = net.add(x, net.linear(y, width))
        x = net.add(x, net.linear(net.gelu(net.linear(net.layer_norm(x), 4 * width)), width))
    return net.dense(net.node("Gather", [net.layer_norm(x), net.weight(0, np.int64)], width, axis=1), 1000)


# By name: what makes it, the extent of its images in benchmarks, and their channels.
NETWORKS = {
    "resnet18": (lambda net: resnet(net, resnet_block, (2, 2, 2, 2)), 224, 3),
    "resnet50": (lambda net: resnet(net, resnet_bottleneck, (3, 4, 6, 3)), 224, 3),
    "mobilenet_v1": (mobilenet_v1, 224, 3),
    "mobilenet_v2": (mobilenet_v2, 224, 3),
    "densenet121": (densenet, 224, 3),
    "unet": (unet, 160, 3),
    "vgg16": (vgg16, 224, 3),
    "inception_v3": (inception_v3, 299, 3),
    "dqn": (dqn, 84, 4),
    "dcgan": (dcgan, 1, 100),
    "mobilenet_v3": (mobilenet_v3, 224, 3),
    "efficientnet_b0": (efficientnet_b0, 224, 3),
    "convnext_tiny": (convnext, 224, 3),
    "vit_small": (vit, 224, 3),
}


def make(name, size=None):
    """The network `name`. `size`: of the image, a multiple of 32 for most; the usual one if None. Needs the package onnx."""
    import onnx

    build, usual, channels = NETWORKS[name]
    net = Network(onnx, size or usual, channels)
    return net.model(build(net))


def image(name, size=None):
    """An input of the network `name`."""
    _, usual, channels = NETWORKS[name]
    size = size or usual
    return np.random.default_rng(7).normal(size=(1, channels, size, size)).astype(np.float32)
