"""TensorFlow Lite models, built with the schema that ai-edge-litert brings, and what its reference kernels compute for them."""

import numpy as np
from ai_edge_litert import interpreter as litert
from ai_edge_litert import schema_py_generated as schema
import flatbuffers

TYPES = {"float32": 0, "float16": 1, "int32": 2, "uint8": 3, "int64": 4, "bool": 6, "int16": 7, "complex64": 8, "int8": 9, "float64": 10, "uint64": 12, "resource": 13,
         "uint32": 15, "uint16": 16, "int4": 17}
VERSIONS = {"BROADCAST_TO": 2}  # of operators that have no first one
OPERATORS = {name: number for name, number in vars(schema.BuiltinOperator).items() if isinstance(number, int)}
OPTIONS = {name: number for name, number in vars(schema.BuiltinOptions).items() if isinstance(number, int)}
OPTIONS2 = {name: number for name, number in vars(schema.BuiltinOptions2).items() if isinstance(number, int)}


def options(name, **fields):
    """The options of an operator: options("Add", fusedActivationFunction=1)."""
    table = getattr(schema, name + "OptionsT")()
    for field, value in fields.items():
        if not hasattr(table, field):
            raise AttributeError(f"{name}Options has no {field}")
        setattr(table, field, value)
    return table


class Graph:
    """A graph of a model. Tensors are their numbers; `given` are those that were made."""

    def __init__(self, model, name="main"):
        self.model, self.table = model, schema.SubGraphT()
        self.table.name, self.table.tensors, self.table.operators, self.table.inputs, self.table.outputs = name, [], [], [], []

    def tensor(self, shape, dtype="float32", data=None, scale=None, zero=0, axis=0, variable=False, name=None):
        tensor = schema.TensorT()
        tensor.name, tensor.type, tensor.isVariable = name or f"t{len(self.table.tensors)}", TYPES[dtype], variable
        tensor.shape = [max(extent, 1) if extent < 0 else extent for extent in shape]
        if any(extent < 0 for extent in shape):
            tensor.shapeSignature = list(shape)
        if data is not None:
            tensor.buffer = self.model.buffer(data)
        if scale is not None:
            q = tensor.quantization = schema.QuantizationParametersT()
            q.scale = [float(np.float32(s)) for s in np.atleast_1d(scale)]
            q.zeroPoint = [int(z) for z in np.broadcast_to(zero, len(q.scale))]
            q.quantizedDimension = axis
        self.table.tensors.append(tensor)
        return len(self.table.tensors) - 1

    def constant(self, array, dtype=None, **given):
        array = np.asarray(array)
        return self.tensor(list(array.shape), dtype or str(array.dtype), array, **given)

    def input(self, *args, **given):
        self.table.inputs.append(self.tensor(*args, **given))
        return self.table.inputs[-1]

    def output(self, *args, **given):
        self.table.outputs.append(self.tensor(*args, **given))
        return self.table.outputs[-1]

    def node(self, op, inputs, outputs, opts=None, custom=None):
        node = schema.OperatorT()
        node.opcodeIndex, node.inputs, node.outputs = self.model.code(op), list(inputs), list(outputs)
        if custom is not None:
            node.customOptions = list(custom)
        elif opts is not None:
            name = type(opts).__name__[:-1]
            if name in OPTIONS:
                node.builtinOptionsType, node.builtinOptions = OPTIONS[name], opts
            else:
                node.builtinOptions2Type, node.builtinOptions2 = OPTIONS2[name], opts
        self.table.operators.append(node)
        return node


class Model:
    def __init__(self):
        self.table, self.codes = schema.ModelT(), {}
        self.table.version, self.table.operatorCodes, self.table.subgraphs, self.table.buffers = 3, [], [], [schema.BufferT()]
        self.main = self.graph("main")

    def graph(self, name):
        graph = Graph(self, name)
        self.table.subgraphs.append(graph.table)
        return graph

    def buffer(self, array):
        buffer = schema.BufferT()
        buffer.data = np.frombuffer(array if isinstance(array, bytes) else np.ascontiguousarray(array).tobytes(), np.uint8)
        self.table.buffers.append(buffer)
        return len(self.table.buffers) - 1

    def code(self, op):
        if op not in self.codes:
            code = schema.OperatorCodeT()
            if op.startswith("CUSTOM."):
                code.customCode, number = op[7:], OPERATORS["CUSTOM"]
            else:
                number = OPERATORS[op]
            code.builtinCode, code.deprecatedBuiltinCode, code.version = number, min(number, 127), VERSIONS.get(op, 1)
            self.codes[op] = len(self.table.operatorCodes)
            self.table.operatorCodes.append(code)
        return self.codes[op]

    def bytes(self):
        builder = flatbuffers.Builder(1024)
        builder.Finish(self.table.Pack(builder), b"TFL3")
        return bytes(builder.Output())


def interpreter(content):
    """The reference kernels; the usual ones where an operator has no other."""
    kinds = litert.OpResolverType
    try:
        return litert.Interpreter(model_content=content, experimental_op_resolver_type=kinds.BUILTIN_REF, num_threads=1)
    except ValueError:
        return litert.Interpreter(model_content=content, experimental_op_resolver_type=kinds.BUILTIN_WITHOUT_DEFAULT_DELEGATES, num_threads=1)


def compute(content, *runs):
    """What LiteRT's kernels compute for the inputs of each run, one run behind the other: the outputs of each, in order."""
    run = interpreter(content)
    for place, feed in zip(run.get_input_details(), runs[0]):
        if list(place["shape"]) != list(feed.shape):
            run.resize_tensor_input(place["index"], feed.shape)
    run.allocate_tensors()
    results = []
    for feeds in runs:
        for place, feed in zip(run.get_input_details(), feeds):
            run.set_tensor(place["index"], feed)
        run.invoke()
        results.append([run.get_tensor(place["index"]).copy() for place in run.get_output_details()])
    return results
