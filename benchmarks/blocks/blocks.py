"""Blocks of networks that people deploy, as exporters write them, with random weights. Each stands for what none of the whole
networks has: other activations, windows, norms, orders of axes.

    from blocks import blocks
    model, x = blocks.make("yolo_c2f")     # an onnx.ModelProto of one input, and that input
"""

import numpy as np

from vision.networks import Network


class Block(Network):
    """A graph whose input `x` has any shape; its channels lie along axis 1."""

    def __init__(self, onnx, shape):
        super().__init__(onnx, shape[-1], shape[1])
        self.shape = shape

    def rows(self):
        """The input as a matrix for each of the batch, whose channels lie along the last axis."""
        self.channels["x"] = self.shape[-1]
        return "x"

    def window(self, x, channels, kernel, stride=1, groups=1, dilation=1, pad=None):
        """A convolution with a bias along as many axes as `kernel` has extents."""
        inputs = self.channels[x] // groups
        weights = [self.filters((channels, inputs, *kernel), inputs * np.prod(kernel), 2.0), self.weight(self.random.normal(0, 0.1, channels))]
        pads = [(extent - 1) * dilation // 2 if pad is None else pad for extent in kernel]
        return self.node("Conv", [x, *weights], channels, kernel_shape=kernel, strides=[stride] * len(kernel), group=groups,
                         dilations=[dilation] * len(kernel), pads=pads * 2)

    def silu_conv(self, x, channels, kernel, **attributes):
        return self.silu(self.window(x, channels, (kernel, kernel), **attributes))

    def split(self, x, parts):
        count = self.channels[x] // parts
        names = [f"v{len(self.nodes)}_{i}" for i in range(parts)]
        self.nodes.append(self.onnx.helper.make_node("Split", [x, self.weight([count] * parts, np.int64)], names, axis=1))
        self.channels.update((name, count) for name in names)
        return names

    def resized(self, x, scale, **attributes):
        return self.node("Resize", [x, "", self.weight([1, 1, scale, scale])], self.channels[x], **attributes)

    def sliced(self, x, begin, end, axis, channels):
        return self.node("Slice", [x, *(self.weight([number], np.int64) for number in (begin, end, axis))], channels)

    def norm_of_images(self, x):
        count = self.channels[x]
        return self.node("InstanceNormalization", [x, self.weight(np.ones(count)), self.weight(np.zeros(count))], count)

    def group_norm(self, x, groups):
        """As it is exported: a norm of images over groups, then a scale and a shift for each channel."""
        channels = self.channels[x]
        flat = self.reshape(x, 0, groups, -1)
        self.channels[flat] = groups
        y = self.reshape(self.norm_of_images(flat), 1, channels, self.size, self.size)
        self.channels[y] = channels
        y = self.node("Mul", [y, self.weight(self.random.uniform(0.8, 1.2, (channels, 1, 1)))], channels)
        return self.node("Add", [y, self.weight(self.random.normal(0, 0.1, (channels, 1, 1)))], channels)

    def attention(self, x, tokens, heads, bias=None):
        width = self.channels[x]

        def head(y, *permutation):
            return self.transpose(self.reshape(y, -1, tokens, heads, width // heads), width // heads, *permutation)

        query, key, value = (head(self.linear(x, width), *order) for order in ((0, 2, 1, 3), (0, 2, 3, 1), (0, 2, 1, 3)))
        scores = self.node("Mul", [self.node("MatMul", [query, key], tokens), self.weight((width // heads)**-0.5)], tokens)
        if bias is not None:
            scores = self.node("Add", [scores, self.weight(bias)], tokens)
        y = self.node("MatMul", [self.node("Softmax", [scores], tokens, axis=-1), value], width // heads)
        return self.linear(self.reshape(self.transpose(y, width // heads, 0, 2, 1, 3), -1, tokens, width), width)

    def inner_layers(self, x, width):
        return self.add(x, self.linear(self.gelu(self.linear(self.layer_norm(x), width)), self.channels[x]))


def yolo_c2f(net):
    parts = net.split(net.silu_conv("x", 128, 1), 2)
    for _ in range(2):
        parts.append(net.add(parts[-1], net.silu_conv(net.silu_conv(parts[-1], 64, 3), 64, 3)))
    return net.silu_conv(net.concat(*parts), 128, 1)


def yolo_sppf(net):
    pooled = [net.silu_conv("x", 128, 1)]
    for _ in range(3):
        pooled.append(net.max_pool(pooled[-1], 5, 1, 2))
    return net.silu_conv(net.concat(*pooled), 256, 1)


def yolo_neck(net):
    return net.silu_conv(net.resized("x", 2, mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor"), 128, 3)


def mish_and_leaky(net):
    y = net.window("x", 64, (3, 3))
    y = net.node("Mul", [y, net.node("Tanh", [net.node("Softplus", [y], 64)], 64)], 64)
    return net.node("LeakyRelu", [net.window(y, 64, (3, 3))], 64, alpha=0.1)


def diffusion_residual(net):
    y = net.window(net.silu(net.group_norm("x", 32)), 320, (3, 3))
    return net.add("x", net.window(net.silu(net.group_norm(y, 32)), 320, (3, 3)))


def dilated_pyramid(net):
    return net.concat(*(net.relu(net.window("x", 64, (3, 3), dilation=d)) for d in (1, 2, 4, 6)))


def shuffle(net):
    kept, y = net.split("x", 2)
    y = net.window(net.relu(net.window(y, 58, (1, 1))), 58, (3, 3), groups=58)
    y = net.concat(kept, net.relu(net.window(y, 58, (1, 1))))
    y = net.transpose(net.reshape(y, 1, 2, 58, net.size, net.size), 58, 0, 2, 1, 3, 4)
    return net.reshape(y, 1, 116, net.size, net.size)


def groups_of_24(net):
    y = net.relu(net.window(net.relu(net.window("x", 240, (1, 1))), 240, (3, 3), groups=10))
    return net.relu(net.add("x", net.window(y, 240, (1, 1))))


def depthwise_7x7(net):
    return net.window("x", 192, (7, 7), groups=192)


def depthwise_5x5_by_2(net):
    return net.silu(net.window("x", 144, (5, 5), stride=2, groups=144))


def subpixels(net):
    return net.node("DepthToSpace", [net.window("x", 48, (3, 3))], 3, blocksize=4, mode="CRD")


def style(net):
    y = net.node("Pad", ["x", net.weight([0, 0, 1, 1, 0, 0, 1, 1], np.int64)], 64, mode="reflect")
    return net.relu(net.norm_of_images(net.window(y, 64, (3, 3), pad=0)))


def spatial_gate(net):
    mean, most = (net.node(kind, ["x"], 1, axes=[1], keepdims=1) for kind in ("ReduceMean", "ReduceMax"))
    return net.node("Mul", ["x", net.node("Sigmoid", [net.conv(net.concat(mean, most), 1, 7, gain=1.0)], 1)], net.channels["x"])


def upsampling(net):
    return net.resized("x", 2, mode="linear", coordinate_transformation_mode="half_pixel")


def transposed_4x4(net):
    return net.relu(net.conv_transposed("x", 64, 4, 2, 1))


def swin(net):
    """Windows of 7x7, shifted by 3."""
    width, x = net.channels["x"], net.transpose("x", net.channels["x"], 0, 2, 3, 1)
    y = net.layer_norm(x)
    for axis in (1, 2):
        y = net.node("Concat", [net.sliced(y, 3, 2**40, axis, width), net.sliced(y, 0, 3, axis, width)], width, axis=axis)
    y = net.reshape(net.transpose(net.reshape(y, 1, 8, 7, 8, 7, width), width, 0, 1, 3, 2, 4, 5), 64, 49, width)
    y = net.attention(y, 49, 3, net.random.normal(0, 1, (1, 3, 49, 49)))
    y = net.reshape(net.transpose(net.reshape(y, 1, 8, 8, 7, 7, width), width, 0, 1, 3, 2, 4, 5), 1, 56, 56, width)
    return net.inner_layers(net.add(x, y), 4 * width)


def mixer(net):
    tokens = net.size**2
    x = net.transpose(net.reshape("x", 1, net.channels["x"], tokens), net.channels["x"], 0, 2, 1)
    width = net.channels["x"]
    y = net.linear(net.gelu(net.linear(net.transpose(net.layer_norm(x), tokens, 0, 2, 1), 192)), tokens)
    return net.inner_layers(net.add(x, net.transpose(y, width, 0, 2, 1)), 4 * width)


def causal_attention(net):
    return net.attention(net.rows(), 50, 8, np.triu(np.full((50, 50), -1e9), 1))


def inner_layers(net):
    return net.inner_layers(net.rows(), 3072)


def whisper_stem(net):
    return net.gelu(net.window(net.gelu(net.window("x", 384, (3,))), 384, (3,), stride=2))


def conformer(net):
    y = net.window("x", 512, (1,))
    y = net.node("Mul", [net.sliced(y, 0, 256, 1, 256), net.node("Sigmoid", [net.sliced(y, 256, 512, 1, 256)], 256)], 256)
    return net.window(net.silu(net.norm(net.window(y, 256, (31,), groups=256))), 256, (1,))


def wavenet(net):
    x = "x"
    for dilation in (1, 2, 4, 8):
        gates = [net.node(kind, [net.window(x, 64, (3,), dilation=dilation)], 64) for kind in ("Tanh", "Sigmoid")]
        x = net.add(x, net.window(net.node("Mul", gates, 64), 64, (1,)))
    return x


def volumes(net):
    return net.relu(net.window("x", 32, (3, 3, 3)))


def small_images(net):
    x = "x"
    for channels in (32, 64):
        x = net.max_pool(net.relu(net.window(x, channels, (3, 3))), 2, 2)
    return net.dense(net.flatten(x, 64 * 64), 10)


# What makes a block, and the shape of its input.
BLOCKS = {
    yolo_c2f: (1, 128, 40, 40), yolo_sppf: (1, 256, 20, 20), yolo_neck: (1, 256, 20, 20), mish_and_leaky: (1, 32, 64, 64),
    diffusion_residual: (1, 320, 32, 32), dilated_pyramid: (3, 64, 64, 64), shuffle: (1, 116, 28, 28), groups_of_24: (4, 240, 28, 28),
    depthwise_7x7: (2, 192, 28, 28), depthwise_5x5_by_2: (1, 144, 57, 57), subpixels: (1, 64, 56, 56), style: (1, 64, 56, 56),
    spatial_gate: (1, 256, 28, 28), upsampling: (1, 64, 56, 56), transposed_4x4: (1, 128, 56, 56), swin: (1, 96, 56, 56),
    mixer: (1, 384, 14, 14), causal_attention: (1, 50, 512), inner_layers: (8, 128, 768), whisper_stem: (1, 80, 3000),
    conformer: (1, 256, 400), wavenet: (1, 64, 1000), volumes: (1, 16, 32, 32, 32), small_images: (32, 3, 32, 32),
}


def make(build):
    """The block's model and an input. Needs the package onnx."""
    import onnx  # pylint: disable=import-outside-toplevel

    shape = BLOCKS[build]
    net = Block(onnx, shape)
    return net.model(build(net)), np.random.default_rng(7).normal(size=shape).astype(np.float32)
