"""Programs behind the Open Inference Protocol (KServe V2), the interface of MLServer, KServe and Triton.

`metadata` describes an entry as the protocol does, `decode` makes its arguments of the inputs of a request, `encode` the
outputs of a response of its result; `infer` does both around a call. All of them are dictionaries as in the JSON of the
protocol; "data" may be an array of numpy as well. A server adds the transport.

A tensor is a tensor. A scalar has shape [1]. A `List` of scalars or of tensors of one shape is a tensor whose first extent is its
length. A result that is a tuple is as many outputs as it has fields. Other types have no form in the protocol; an entry
with one of them raises InvalidArgument.

A mistake of the client raises InvalidArgument, too; `http_status` gives the status for any error of a run.
"""

import math

import numpy

from . import _dtypes
from ._errors import (Cancelled, DeadlineExceeded, Error, InvalidArgument, ResourceExhausted)

__all__ = ["decode", "encode", "http_status", "infer", "metadata"]

_DATATYPES = {"bool": "BOOL", "int8": "INT8", "int16": "INT16", "int32": "INT32", "int64": "INT64", "uint8": "UINT8",
              "uint16": "UINT16", "uint32": "UINT32", "uint64": "UINT64", "float16": "FP16", "float32": "FP32", "float64": "FP64",
              "bfloat16": "BF16"}


def _invalid(message):
    return InvalidArgument(message, "invalid-argument")


class _Form:
    """How values of a type are tensors of the protocol."""

    def __init__(self, name, type_id, importer):
        types = importer.types
        type_, self.name, self.text, self.is_list = types[type_id], name, types[type_id]["text"], False
        if type_["kind"] == "adt" and (element := importer.list_element(type_id)) is not None:
            type_, self.is_list = types[element], True
        if type_["kind"] != "tensor" or type_["dtype"] not in _DATATYPES:
            raise _invalid(f"`{name}` has type `{self.text}`, which has no form in the Open Inference Protocol; expected a tensor or "
                           "a list of tensors")
        self.datatype, self.is_scalar = _DATATYPES[type_["dtype"]], not type_["shape"] and not self.is_list
        self.dtype = _dtypes.of_name(type_["dtype"])[0]
        extents = [-1 if extent is None else extent for extent in type_["shape"]]
        self.shape = [-1, *extents] if self.is_list else extents or [1]

    def metadata(self):
        return {"name": self.name, "datatype": self.datatype, "shape": list(self.shape)}

    def decode(self, given):
        """The argument of an input of a request."""
        where = f"input `{self.name}`"
        if given.get("datatype") != self.datatype:
            raise _invalid(f"{where}: saw datatype {given.get('datatype')}; expected {self.datatype}")
        data, shape = given.get("data"), given.get("shape")
        is_shape = isinstance(shape, (list, tuple)) and all(isinstance(extent, int) and extent >= 0 for extent in shape)
        if not is_shape:
            raise _invalid(f"{where}: saw shape {shape}; expected a list of numbers of 0 or more")
        try:
            array = self._array(data)
        except (TypeError, ValueError, OverflowError) as error:
            raise _invalid(f"{where}: the data are no numbers of {self.datatype}: {error}") from error
        if array.size != math.prod(shape):
            raise _invalid(f"{where}: saw {array.size} elements; shape {list(shape)} has {math.prod(shape)}")
        fits = len(shape) == len(self.shape) and all(own in (-1, extent) for own, extent in zip(self.shape, shape))
        if not fits and not (self.is_scalar and array.size == 1):
            raise _invalid(f"{where}: saw shape {list(shape)}; expected {self.shape}")
        return array.reshape(() if self.is_scalar else tuple(shape))

    def _array(self, data):
        if data is None:
            raise ValueError("there are none")
        if self.datatype == "BF16":
            bits = isinstance(data, numpy.ndarray) and data.dtype == self.dtype
            wide = data if bits else _dtypes.bfloat16_bits(data)
            extended = _dtypes.extension(_dtypes.EXTENSION_CODES["bfloat16"])
            return wide if extended is None else wide.view(extended)
        array = numpy.asarray(data)
        if array.dtype == self.dtype:
            return array
        # Numbers of JSON are integers or floats; those of an array were given their dtype by somebody.
        if isinstance(data, numpy.ndarray):
            raise ValueError(f"an array of {array.dtype}")
        if array.size and (array.dtype.kind not in "biuf" or (self.dtype.kind in "biu" and array.dtype.kind == "f")):
            raise ValueError(f"they are {array.dtype}")
        if array.size and (array.dtype.kind == "b") != (self.dtype.kind == "b"):
            is_flag = array.dtype.kind in "iu" and ((array == 0) | (array == 1)).all()  # some clients write 0 and 1
            if not is_flag:
                raise ValueError(f"they are {array.dtype}")
        if array.size and self.dtype.kind in "iu":
            limits = numpy.iinfo(self.dtype)
            if array.min() < limits.min or array.max() > limits.max:
                raise ValueError("one of them is out of range")
        return array.astype(self.dtype)

    def encode(self, value, as_arrays):
        """The output of a response for a result."""
        try:
            array = numpy.asarray(value)
        except ValueError as error:  # tensors of different shapes
            raise Error(f"output `{self.name}`: the tensors of the list have different shapes: {error}", "program-failed") from error
        if self.is_list and array.size == 0 and array.ndim < len(self.shape):
            array = array.reshape([max(extent, 0) for extent in self.shape])
        if self.is_scalar:
            array = array.reshape(1)
        output = {"name": self.name, "datatype": self.datatype, "shape": list(array.shape)}
        if as_arrays:
            return {**output, "data": array}
        return {**output, "data": (array.astype("float32") if self.datatype == "BF16" else array).ravel().tolist()}


def _forms(program, entry):
    """The forms of the parameters and of the results; whether the results are fields of a tuple."""
    found = program._entry(entry)
    description, importer = found._description, found._importer
    forms = [[_Form(one["name"], one["type"], importer) for one in description[side]] for side in ("parameters", "results")]
    return (*forms, importer.types[description["result"]]["kind"] == "tuple")


def metadata(program, name="model", versions=(), *, entry="main"):
    """The metadata of a model.

    >>> import relayvm_runtime
    >>> program = relayvm_runtime.load("lists.rvm")
    >>> metadata(program, "sum")["inputs"]
    [{'name': 'l', 'datatype': 'INT32', 'shape': [-1]}]
    """
    inputs, outputs, _ = _forms(program, entry)
    return {"name": name, "versions": [str(version) for version in versions], "platform": "relayvm",
            "inputs": [form.metadata() for form in inputs], "outputs": [form.metadata() for form in outputs]}


def decode(program, inputs, *, entry="main"):
    """The arguments by name, as arrays, of the inputs of a request.

    >>> import relayvm_runtime
    >>> decode(relayvm_runtime.load("lists.rvm"), [{"name": "l", "datatype": "INT32", "shape": [2], "data": [4, 5]}])
    {'l': array([4, 5], dtype=int32)}
    """
    forms, _, _ = _forms(program, entry)
    given = {one.get("name"): one for one in inputs}
    names = [form.name for form in forms]
    if len(given) != len(inputs) or set(given) != set(names):
        raise _invalid(f"saw inputs {', '.join(str(one.get('name')) for one in inputs) or 'none'}; expected {', '.join(names)}")
    return {form.name: form.decode(given[form.name]) for form in forms}


def encode(program, result, *, entry="main", as_arrays=False):
    """The outputs of a response for the result of a call. as_arrays: "data" is an array of numpy instead of a flat list.

    >>> import relayvm_runtime
    >>> program = relayvm_runtime.load("lists.rvm")
    >>> encode(program, program([4, 5]))
    [{'name': 'result', 'datatype': 'INT32', 'shape': [1], 'data': [9]}]
    """
    _, forms, is_tuple = _forms(program, entry)
    return [form.encode(value, as_arrays) for form, value in zip(forms, result if is_tuple else [result])]


def infer(program, request, *, name="model", entry="main"):
    """The response to a request: decodes, runs, encodes.

    >>> one = {"name": "l", "datatype": "INT32", "shape": [2], "data": [4, 5]}
    >>> import relayvm_runtime
    >>> infer(relayvm_runtime.load("lists.rvm"), {"id": "7", "inputs": [one]}, name="sum")
    {'model_name': 'sum', 'id': '7', 'outputs': [{'name': 'result', 'datatype': 'INT32', 'shape': [1], 'data': [9]}]}
    """
    outputs = encode(program, program[entry](**decode(program, request.get("inputs", []), entry=entry)), entry=entry)
    id_ = {"id": request["id"]} if "id" in request else {}
    return {"model_name": name, **id_, "outputs": outputs}


def http_status(error):
    """The status of HTTP for an error: 400 for a mistake of the client, 429 for a limit of memory, stack or fuel, 499 for a cancelled
    run, 504 for one that took too long, 500 for others."""
    for kind, status in ((InvalidArgument, 400), (ResourceExhausted, 429), (Cancelled, 499), (DeadlineExceeded, 504)):
        if isinstance(error, kind):
            return status
    return 500
