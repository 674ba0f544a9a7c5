"""The LSTM of lstm.relay in numpy (what is right) and as ONNX Runtime's fused operator (what is fast)."""

import numpy as np

TOKENS, INPUTS, UNITS = 28, 300, 512


def make_weights():
    rng = np.random.default_rng(0)

    def normal(*shape, scale):
        return (rng.normal(size=shape) * scale).astype(np.float32)

    return {"w_ih": normal(4 * UNITS, INPUTS, scale=0.05), "w_hh": normal(4 * UNITS, UNITS, scale=0.05),
            "bias": normal(4 * UNITS, scale=0.1)}


def make_tokens():
    return np.random.default_rng(1).normal(size=(TOKENS, INPUTS)).astype(np.float32)


def predict(w, tokens):
    """The state behind the last token, computed in float64."""
    h, c = np.zeros(UNITS), np.zeros(UNITS)
    for x in tokens:
        i, f, g, o = np.split(w["w_ih"] @ x + w["w_hh"] @ h + w["bias"], 4)
        c = c / (1 + np.exp(-f)) + np.tanh(g) / (1 + np.exp(-i))
        h = np.tanh(c) / (1 + np.exp(-o))
    return h


def onnx_session(w):
    """A function from tokens to the last state, on one thread. ImportError without onnx and onnxruntime."""
    import onnxruntime
    from onnx import TensorProto, helper, numpy_helper

    def reordered(array):  # ONNX has the gates in the order i o f c
        parts = np.split(array, 4)
        return np.concatenate([parts[k] for k in (0, 3, 1, 2)])[None]

    biases = np.concatenate([reordered(w["bias"]), np.zeros((1, 4 * UNITS), np.float32)], axis=1)
    graph = helper.make_graph(
        [helper.make_node("LSTM", ["x", "W", "R", "B"], ["", "h"], hidden_size=UNITS)], "lstm",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["tokens", 1, INPUTS])],
        [helper.make_tensor_value_info("h", TensorProto.FLOAT, [1, 1, UNITS])],
        [numpy_helper.from_array(reordered(w["w_ih"]), "W"), numpy_helper.from_array(reordered(w["w_hh"]), "R"),
         numpy_helper.from_array(biases, "B")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)])
    model.ir_version = 9
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    name = f"ONNX Runtime {onnxruntime.__version__}"
    return name, lambda tokens: session.run(None, {"x": tokens[:, None]})[0].ravel()
