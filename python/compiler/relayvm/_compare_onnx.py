"""ONNX models for relayvm.compare, with ONNX Runtime as the reference."""

import os
import tempfile

import numpy

from ._compiler import import_onnx
from ._study import Node, NotAlone, Study, extent_of, random_tensor

_MOST_BYTES = 1900 << 20  # of a model as one message of protobuf, which ends at 2 GiB


def _onnx():
    try:
        import onnx
        import onnx.shape_inference  # noqa: F401
    except ImportError as error:
        raise ImportError("relayvm.compare needs the package onnx: pip install onnx onnxruntime") from error
    return onnx


def _loaded(model):
    onnx = _onnx()
    if isinstance(model, (bytes, bytearray)):
        return onnx.load_from_string(bytes(model))
    if hasattr(model, "SerializeToString"):
        copy = onnx.ModelProto()
        copy.CopyFrom(model)
        return copy
    return onnx.load(os.fspath(model))


class OnnxStudy(Study):
    suffix, program = ".onnx", "onnxruntime"

    def __init__(self, model, *options):
        super().__init__(*options)
        self.model = _loaded(model)
        self.weights = {tensor.name: tensor for tensor in self.model.graph.initializer}
        self.constants = set(self.weights)
        self.types = self._types()
        self.outputs = [output.name for output in self.model.graph.output]
        self.protos = {}  # by the first output
        for number, node in enumerate(self.model.graph.node):
            outputs = [name for name in node.output if name and self._is_tensor(name)]
            self.nodes.append(Node(node.name or f"#{number}", node.op_type, list(node.input), outputs))
            if outputs:
                self.protos[outputs[0]] = node

    def _types(self):
        """Types of tensors by name, as far as inference finds them."""
        onnx = _onnx()
        try:
            graph = onnx.shape_inference.infer_shapes(self.model).graph
        except Exception:  # pylint: disable=broad-exception-caught  # a model of more than 2 GiB, or one that inference refuses
            graph = self.model.graph
        return {info.name: info.type for info in [*graph.value_info, *graph.output, *graph.input]}

    def array(self, name, value):
        """A value of an input, a number with the dtype that the model declares."""
        declared = next((info.type.tensor_type.elem_type for info in self.model.graph.input if info.name == name), 0)
        is_number = isinstance(value, (bool, int, float)) and declared
        return numpy.asarray(value, _onnx().helper.tensor_dtype_to_np_dtype(declared) if is_number else None)

    def complete(self, given, random):
        """All inputs: those that were given, the others random."""
        open_inputs = [info for info in self.model.graph.input if info.name not in self.weights]
        names = [info.name for info in open_inputs]
        self.check_names([*given, *self.shapes], names)
        made, extents = {name: self.array(name, value) for name, value in given.items()}, {}
        for info in open_inputs:
            shape = made[info.name].shape if info.name in made else self.shapes.get(info.name, ())
            for dim, extent in zip(info.type.tensor_type.shape.dim, shape):
                if dim.dim_param:
                    extents.setdefault(dim.dim_param, extent)
        return {info.name: made[info.name] if info.name in made else self._random(info, extents, random) for info in open_inputs}

    def _random(self, info, extents, random):
        if info.type.WhichOneof("value") != "tensor_type":
            raise ValueError(f"input {info.name!r} is no tensor: give it in `inputs`")
        shape = self.shapes.get(info.name)
        if shape is None:
            shape = [dim.dim_value if dim.HasField("dim_value") else extent_of(dim.dim_param, extents) for dim in info.type.tensor_type.shape.dim]
        return random_tensor(shape, _onnx().helper.tensor_dtype_to_np_dtype(info.type.tensor_type.elem_type), random)

    def with_outputs(self, names):
        """The model with other outputs."""
        onnx = _onnx()
        copy = onnx.ModelProto()
        copy.CopyFrom(self.model)
        del copy.graph.output[:]
        for name in names:
            info = copy.graph.output.add()
            info.name = name
            if name in self.types:
                info.type.CopyFrom(self.types[name])
                info.type.tensor_type.ClearField("shape")  # of no use here, and inference is not always right
        return copy

    def module(self, names=None):
        with _Stored(self.model if names is None else self.with_outputs(names)) as source:
            return import_onnx(source, inputs=self.shapes, freeze=self.frozen)

    def run_reference(self, names):
        return _run_onnxruntime(self.with_outputs(names), self.inputs)

    def _is_tensor(self, name):
        return name not in self.types or self.types[name].WhichOneof("value") in (None, "tensor_type")

    def alone(self, node, known):
        onnx = _onnx()
        proto = self.protos[node.outputs[0]]
        if any(attribute.HasField("g") or attribute.graphs for attribute in proto.attribute):
            raise NotAlone("the node has graphs inside, which may read any tensor")
        needed = [name for name in dict.fromkeys(proto.input) if name and name not in self.weights]
        folded = [name for name in needed if name in self.makers and self.makers[name].operator == "Constant"]
        weights = [self.weights[name] for name in dict.fromkeys(proto.input) if name in self.weights]
        weights += [onnx.numpy_helper.from_array(known[name], name) for name in folded]
        inputs = {name: known[name] for name in needed if name not in folded}
        infos = [onnx.helper.make_tensor_value_info(name, onnx.helper.np_dtype_to_tensor_dtype(array.dtype), array.shape) for name, array in inputs.items()]
        model = self.with_outputs(node.outputs)
        for field in ("node", "initializer", "input", "value_info", "sparse_initializer"):
            model.graph.ClearField(field)
        model.graph.node.append(proto)
        model.graph.initializer.extend(weights)
        model.graph.input.extend(infos)
        data = model.SerializeToString()
        return data, inputs, lambda: import_onnx(data)


class _Stored:
    """A model as import_onnx takes it: bytes, or the path of a file for as long as it is needed."""

    def __init__(self, model):
        self.model, self.folder = model, None

    def __enter__(self):
        if self.model.ByteSize() < _MOST_BYTES:
            return self.model.SerializeToString()
        self.folder = tempfile.TemporaryDirectory()
        path = os.path.join(self.folder.name, "model.onnx")
        _onnx().save(self.model, path, save_as_external_data=True, location="weights.bin")
        return path

    def __exit__(self, *_):
        if self.folder is not None:
            self.folder.cleanup()


def _run_onnxruntime(model, inputs):
    try:
        import onnxruntime
    except ImportError as error:
        raise ImportError("the reference is onnxruntime, which is not installed: pip install onnxruntime") from error
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL  # each tensor is computed
    options.log_severity_level = 3
    with _Stored(model) as source:
        try:
            session = onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
        except Exception as error:  # it has classes of its own for each reason
            raise ValueError(f"onnxruntime refuses the model: {error}") from error
    wanted = [output.name for output in model.graph.output]
    used = {info.name for info in session.get_inputs()}
    try:
        return dict(zip(wanted, session.run(wanted, {name: array for name, array in inputs.items() if name in used})))
    except Exception as error:
        raise ValueError(f"onnxruntime fails on these inputs: {error}") from error
