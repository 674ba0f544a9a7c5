"""BERT-base (Devlin et al. 2018) as ONNX in plain operators, as exporters write it, with random weights, at any length."""

import numpy as np

LAYERS, WIDTH, HEADS, INNER, WORDS, POSITIONS = 12, 768, 12, 3072, 30522, 512


def ids(length):
    return np.random.default_rng(length).integers(0, WORDS, (1, length))


class Builder:
    """Nodes and weights of a graph."""

    def __init__(self):
        from onnx import helper, numpy_helper  # pylint: disable=import-outside-toplevel

        self.helper, self.numpy_helper = helper, numpy_helper
        self.nodes, self.constants = [], []
        self.random = np.random.default_rng(0)

    def node(self, op, *inputs, **attributes):
        name = f"v{len(self.nodes)}"
        self.nodes.append(self.helper.make_node(op, list(inputs), [name], **attributes))
        return name

    def constant(self, value, dtype=np.float32):
        name = f"w{len(self.constants)}"
        self.constants.append(self.numpy_helper.from_array(np.asarray(value, dtype), name))
        return name

    def integers(self, *values):
        return self.constant(values, np.int64)

    def weight(self, *shape, scale=0.04, mean=0.0):
        return self.constant(mean + scale * self.random.standard_normal(shape, np.float32))

    def dense(self, x, inputs, outputs):
        return self.node("Add", self.node("MatMul", x, self.weight(inputs, outputs)), self.weight(outputs))

    def norm(self, x):
        return self.node("LayerNormalization", x, self.weight(WIDTH, scale=0.1, mean=1.0), self.weight(WIDTH), axis=-1, epsilon=1e-12)

    def gelu(self, x):
        erf = self.node("Erf", self.node("Div", x, self.constant(np.sqrt(2))))
        return self.node("Mul", self.node("Mul", x, self.node("Add", erf, self.constant(1))), self.constant(0.5))

    def heads(self, x, order):
        split = self.node("Reshape", self.dense(x, WIDTH, WIDTH), self.integers(0, 0, HEADS, WIDTH // HEADS))
        return self.node("Transpose", split, perm=order)

    def attention(self, x):
        q, k, v = (self.heads(x, order) for order in ((0, 2, 1, 3), (0, 2, 3, 1), (0, 2, 1, 3)))
        scores = self.node("Div", self.node("MatMul", q, k), self.constant(np.sqrt(WIDTH // HEADS)))
        mixed = self.node("MatMul", self.node("Softmax", scores, axis=-1), v)
        joined = self.node("Reshape", self.node("Transpose", mixed, perm=(0, 2, 1, 3)), self.integers(0, 0, WIDTH))
        return self.dense(joined, WIDTH, WIDTH)

    def embedded(self, words):
        length = self.node("Shape", words, start=1, end=2)
        positions = self.node("Slice", self.weight(POSITIONS, WIDTH), self.integers(0), length, self.integers(0))
        token = self.node("Add", self.node("Gather", self.weight(WORDS, WIDTH), words), self.weight(1, 1, WIDTH))
        return self.norm(self.node("Add", token, positions))

    def layer(self, x):
        x = self.norm(self.node("Add", x, self.attention(x)))
        return self.norm(self.node("Add", x, self.dense(self.gelu(self.dense(x, WIDTH, INNER)), INNER, WIDTH)))


def make(layers=LAYERS):
    """From the numbers of the words to the states behind the last layer."""
    builder = Builder()
    helper, tensor_type = builder.helper, builder.helper.np_dtype_to_tensor_dtype
    x = builder.embedded("ids")
    for _ in range(layers):
        x = builder.layer(x)
    builder.nodes[-1].output[0] = "states"
    graph = helper.make_graph(
        builder.nodes, "bert", [helper.make_tensor_value_info("ids", tensor_type(np.dtype(np.int64)), [1, "length"])],
        [helper.make_tensor_value_info("states", tensor_type(np.dtype(np.float32)), [1, "length", WIDTH])], builder.constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
