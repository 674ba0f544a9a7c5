"""LSTM and GRU of one layer or more over a sequence of any length, as ONNX's fused operators with random weights."""

import numpy as np

INPUTS, UNITS = 300, 512
# Gates and attributes. PyTorch's GRU resets the product with the state, the original one the state.
KINDS = {"LSTM": ("LSTM", 4, {}), "GRU": ("GRU", 3, {"linear_before_reset": 1}),
         "GRU-reset-first": ("GRU", 3, {"linear_before_reset": 0})}


class Shape:
    """The numbers of weights of a network, biases not counted."""

    def __init__(self, kind, layers):
        gates = KINDS[kind][1]
        self.layers, self.recurrent = layers, gates * UNITS * UNITS  # of one layer
        self.input = gates * UNITS * (INPUTS + (layers - 1) * UNITS)  # of all

    def all(self):
        return self.layers * self.recurrent + self.input


def tokens(length):
    return np.random.default_rng(length).normal(size=(length, 1, INPUTS)).astype(np.float32)


def make(kind, layers):
    """All states of the last layer."""
    from onnx import TensorProto, helper, numpy_helper  # pylint: disable=import-outside-toplevel

    op, gates, attributes = KINDS[kind]
    random = np.random.default_rng(0)

    def weight(name, *shape):
        return numpy_helper.from_array((random.normal(size=shape) * 0.05).astype(np.float32), name)

    nodes, weights, x = [], [numpy_helper.from_array(np.array([1]), "axes")], "x"
    for n in range(layers):
        inputs = INPUTS if n == 0 else UNITS
        weights += [weight(f"W{n}", 1, gates * UNITS, inputs), weight(f"R{n}", 1, gates * UNITS, UNITS),
                    weight(f"B{n}", 1, 2 * gates * UNITS)]
        y = "y" if n == layers - 1 else f"y{n}"
        nodes += [helper.make_node(op, [x, f"W{n}", f"R{n}", f"B{n}"], [f"states{n}"], hidden_size=UNITS, **attributes),
                  helper.make_node("Squeeze", [f"states{n}", "axes"], [y])]  # the axis of the directions
        x = y
    graph = helper.make_graph(nodes, kind, [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["tokens", 1, INPUTS])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["tokens", 1, UNITS])], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
