"""Quantised models: those that ONNX Runtime's quantiser makes of networks here, and products by weights of a few bits.

`files(folder, name)` writes the forms of a model and gives {form: path}; "float" is the model that was quantised.
"""

import os

import numpy as np

from bert import network as bert
from recurrent import networks as recurrent
from vision import networks as vision

SIDE = 4096  # of the square matrix
VISION = {"resnet18": 224, "mobilenet_v2": 224}


def product(bits=0, block=32, level=0, depth=SIDE, columns=SIDE):
    """A product by a matrix of random weights: of floats, or a MatMulNBits of so many bits."""
    from onnx import TensorProto, helper, numpy_helper  # pylint: disable=import-outside-toplevel

    random = np.random.default_rng(0)
    weights = (random.standard_normal((columns, depth)) * 0.03).astype(np.float32)
    domains = [helper.make_opsetid("", 17)]
    if bits == 0:
        constants = {"w": np.ascontiguousarray(weights.T)}
        node = helper.make_node("MatMul", ["x", "w"], ["y"])
    else:
        blocks = weights.reshape(columns, depth // block, block)
        scales = (np.abs(blocks).max(-1) / (2 ** (bits - 1) - 1)).astype(np.float32)
        codes = (np.round(blocks / scales[..., None]) + 2 ** (bits - 1)).clip(0, 2**bits - 1).astype(np.uint8)
        if bits == 4:
            codes = codes[..., ::2] | codes[..., 1::2] << 4
        constants = {"w": codes, "s": scales.reshape(-1)}
        node = helper.make_node("MatMulNBits", ["x", "w", "s"], ["y"], domain="com.microsoft", K=depth, N=columns, bits=bits,
                                block_size=block, accuracy_level=level)
        domains.append(helper.make_opsetid("com.microsoft", 1))
    graph = helper.make_graph(
        [node], "product", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["rows", depth])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["rows", columns])],
        [numpy_helper.from_array(value, name) for name, value in constants.items()])
    return helper.make_model(graph, opset_imports=domains, ir_version=9)


def reader(feeds):
    """`feeds` as what the quantiser calibrates with."""
    from onnxruntime.quantization import CalibrationDataReader  # pylint: disable=import-outside-toplevel

    class Feeds(CalibrationDataReader):
        def __init__(self):
            super().__init__()
            self.left = iter(feeds)

        def get_next(self):
            return next(self.left, None)

    return Feeds()


def dynamic(prefix, graph):
    import onnx  # pylint: disable=import-outside-toplevel
    from onnxruntime.quantization import QuantType, quantize_dynamic  # pylint: disable=import-outside-toplevel

    onnx.save(graph, f"{prefix}_float.onnx")
    quantize_dynamic(f"{prefix}_float.onnx", f"{prefix}_dynamic.onnx", weight_type=QuantType.QInt8)
    return {"float": f"{prefix}_float.onnx", "dynamic": f"{prefix}_dynamic.onnx"}


def static(prefix, name):
    import onnx  # pylint: disable=import-outside-toplevel
    from onnxruntime.quantization import QuantFormat, QuantType, quantize_static  # pylint: disable=import-outside-toplevel
    from onnxruntime.quantization.shape_inference import quant_pre_process  # pylint: disable=import-outside-toplevel

    paths = {"float": f"{prefix}_float.onnx"}
    onnx.save(vision.make(name), f"{prefix}_raw.onnx")
    quant_pre_process(f"{prefix}_raw.onnx", paths["float"], skip_symbolic_shape=True)
    random = np.random.default_rng(1)
    feeds = [{"x": random.random((1, 3, VISION[name], VISION[name]), np.float32)} for _ in range(2)]
    for form, kind in (("QDQ", QuantFormat.QDQ), ("QOperator", QuantFormat.QOperator)):
        paths[form] = f"{prefix}_{form}.onnx"
        quantize_static(paths["float"], paths[form], reader(feeds), quant_format=kind, per_channel=True,
                        activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8)
    return paths


def files(folder, name):
    import onnx  # pylint: disable=import-outside-toplevel

    prefix = os.path.join(folder, name)
    if name == "lstm":
        return dynamic(prefix, recurrent.make("LSTM", 1))
    if name == "bert2":
        return dynamic(prefix, bert.make(2))
    if name in VISION:
        return static(prefix, name)
    paths = dynamic(prefix, product())
    for bits, block in ((4, 32), (4, 128), (8, 32)):
        for level in (0, 4):
            form = f"{bits} bits in {block}, level {level}"
            paths[form] = f"{prefix}_{bits}_{block}_{level}.onnx"
            onnx.save(product(bits, block, level), paths[form])
    return paths


def feeds_of(name):
    """{what the row says: the inputs}."""
    random = np.random.default_rng(2)
    if name == "lstm":
        return {f"{n} steps": {"x": recurrent.tokens(n)} for n in (1, 50)}
    if name == "bert2":
        return {f"{n} tokens": {"ids": bert.ids(n)} for n in (16, 128)}
    if name in VISION:
        return {"1 image": {"x": random.random((1, 3, VISION[name], VISION[name]), np.float32)}}
    return {f"{n} rows": {"x": random.standard_normal((n, SIDE), np.float32)} for n in (1, 64)}


NAMES = ("product", "lstm", "bert2", *VISION)
