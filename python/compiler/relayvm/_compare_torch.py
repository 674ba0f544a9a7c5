"""Exported programs of PyTorch for relayvm.compare, with PyTorch or recorded tensors as the reference."""

import copy
import io
import json
import os
import re
import zipfile

import numpy

from ._compiler import import_torch
from ._study import TOLERANCES, Node, NotAlone, Study, extent_of, random_tensor

# Numbers of dtypes in the schema of torch.export.
_DTYPES = {1: "uint8", 2: "int8", 3: "int16", 4: "int32", 5: "int64", 6: "float16", 7: "float32", 8: "float64", 12: "bool", 28: "uint16"}
_BFLOAT16 = 13
_WRITES = re.compile(r"(?<!_)_$")  # the end of the names of operators that write their first argument


class TorchStudy(Study):
    suffix, program = ".pt2", "torch"

    def __init__(self, model, *options):
        super().__init__(*options)
        self.files = _files(model)
        self.path = next((name for name in self.files if re.search(r"(^|/)models/[^/]+\.json$", name)), None)
        try:
            self.json = json.loads(self.files[self.path])
            self.graph, self.signature = self.json["graph_module"]["graph"], self.json["graph_module"]["signature"]
            self._read()
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"the model is no exported program of PyTorch: {error!r}") from error

    def _read(self):
        arguments = [spec["user_input"]["arg"] for spec in self.signature["input_specs"] if "user_input" in spec]
        self.given = [argument["as_tensor"]["name"] for argument in arguments if "as_tensor" in argument]
        self.others = [argument for argument in arguments if "as_tensor" not in argument]
        self.constants = {argument["as_tensor"]["name"] for argument in self.graph["inputs"] if "as_tensor" in argument} - set(self.given)
        results = [spec["user_output"]["arg"] for spec in self.signature["output_specs"] if "user_output" in spec]
        self.outputs = list(dict.fromkeys(result["as_tensor"]["name"] for result in results if "as_tensor" in result))
        for number, node in enumerate(self.graph["nodes"]):
            target = node["target"].removeprefix("torch.ops.").removesuffix(".default")
            self.nodes.append(Node(node.get("name") or f"#{number}", target, _tensors(node["inputs"]), _tensors(node["outputs"])))

    def _sizes(self, name):
        return self.graph["tensor_values"][name]["sizes"]

    def _dtype(self, name):
        number = self.graph["tensor_values"][name]["dtype"]
        if number not in _DTYPES:
            raise ValueError(f"input {name!r} has a dtype that numpy lacks: give it in `inputs`")
        return numpy.dtype(_DTYPES[number])

    def array(self, name, value):
        is_number = isinstance(value, (bool, int, float)) and name in self.graph["tensor_values"]
        return numpy.asarray(value, self._dtype(name) if is_number else None)

    def complete(self, given, random):
        self.check_names([*given, *self.shapes], self.given)
        if self.others:
            raise ValueError("an input of the program is no tensor; expected tensors alone")
        made, extents = {name: self.array(name, value) for name, value in given.items()}, {}
        for name in self.given:
            shape = made[name].shape if name in made else self.shapes.get(name, ())
            for size, extent in zip(self._sizes(name), shape):
                extents.setdefault(_symbols(size), extent)
        for name in self.given:  # examples of the export
            for size in self._sizes(name):
                hint = (size.get("as_expr") or {}).get("hint") or {}
                if re.fullmatch(r"\w+", _symbols(size)) and "as_int" in hint:
                    extents.setdefault(_symbols(size), hint["as_int"])
        return {name: made[name] if name in made else self._random(name, extents, random) for name in self.given}

    def _random(self, name, extents, random):
        sizes = [size["as_int"] if "as_int" in size else extent_of(_symbols(size), extents) for size in self._sizes(name)]
        return random_tensor(self.shapes.get(name, sizes), self._dtype(name), random)

    def with_outputs(self, names):
        """The program, as the bytes of a file, with other outputs."""
        model = copy.deepcopy(self.json)
        _set_outputs(model["graph_module"], names)
        return self._archive(model)

    def _archive(self, model):
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
            for name, data in self.files.items():
                archive.writestr(name, json.dumps(model) if name == self.path else data)
        return out.getvalue()

    def module(self, names=None):
        return import_torch(self.with_outputs(names or self.outputs), inputs=self.shapes, freeze=self.frozen)

    def run_reference(self, names):
        try:
            from ._torch import record
        except ImportError as error:
            raise ImportError("the reference is PyTorch, which is not installed: give recorded tensors, as relayvm.torch.record makes") from error
        return record(self._archive(self.json), self.inputs)

    # Recorded tensors of bfloat16 are float32, as numpy has no such dtype.
    def run(self, module, names, inputs):
        return {name: _widened(value) if self._is_bfloat16(name) else value for name, value in super().run(module, names, inputs).items()}

    def tolerance_of(self, name):
        return TOLERANCES["bfloat16"] if self.tolerance is None and self._is_bfloat16(name) else self.tolerance

    def _is_bfloat16(self, name):
        return self.graph["tensor_values"].get(name, {}).get("dtype") == _BFLOAT16

    def alone(self, node, known):
        if any(_WRITES.search(each["target"].split(".")[-2]) for each in self.graph["nodes"] if "." in each["target"]):
            raise NotAlone("the program writes tensors in place, so that what the node has read is not known")
        source = next(each for each in self.graph["nodes"] if _tensors(each["outputs"]) == node.outputs)
        text = json.dumps(source["inputs"])
        if '"as_graph"' in text or '"as_name"' in text:
            raise NotAlone("the node has graphs inside, or reads numbers that other nodes compute")
        inputs = {name: known[name] for name in dict.fromkeys(node.inputs) if name not in self.constants}
        model = copy.deepcopy(self.json)
        module = model["graph_module"]
        kept = [spec for spec in module["signature"]["input_specs"] if "user_input" not in spec]
        module["signature"]["input_specs"] = kept + [{"user_input": {"arg": _tensor(name)}} for name in inputs]
        graph = module["graph"]
        graph["inputs"] = [argument for argument in graph["inputs"] if argument.get("as_tensor", {}).get("name") in self.constants]
        graph["inputs"] += [_tensor(name) for name in inputs]
        graph["nodes"] = [source]
        for name, array in {**inputs, **self.theirs(node.outputs)}.items():
            strides = [stride // array.itemsize for stride in numpy.ascontiguousarray(array).strides]
            graph["tensor_values"][name].update(sizes=[{"as_int": extent} for extent in array.shape], strides=[{"as_int": stride} for stride in strides])
        model["range_constraints"], model["guards_code"] = {}, []
        _set_outputs(module, node.outputs)
        data = self._archive(model)
        return data, inputs, lambda: import_torch(data)


def _files(model):
    """The files of an archive by name."""
    if not isinstance(model, (str, os.PathLike, bytes, bytearray)):
        from ._torch import exported, saved
        model = saved(exported(model, None, None, None))
    source = io.BytesIO(model) if isinstance(model, (bytes, bytearray)) else model
    try:
        with zipfile.ZipFile(source) as archive:
            return {name: archive.read(name) for name in archive.namelist()}
    except zipfile.BadZipFile as error:
        raise ValueError(f"the model is no .pt2 file: {error}") from error


def _widened(array):
    """An array of bfloat16, or of its bits where the package ml_dtypes is missing, as float32."""
    return (array.astype(numpy.uint32) << 16).view(numpy.float32) if array.dtype == numpy.uint16 else array.astype(numpy.float32)


def _tensor(name):
    return {"as_tensor": {"name": name}}


def _set_outputs(module, names):
    module["graph"]["outputs"] = [_tensor(name) for name in names]
    module["signature"]["output_specs"] = [{"user_output": {"arg": _tensor(name)}} for name in names]


def _tensors(arguments):
    """Names of the tensors in arguments or outputs of a node, in order. Graphs inside are not searched."""
    if isinstance(arguments, list):
        return [name for argument in arguments for name in _tensors(argument)]
    if not isinstance(arguments, dict):
        return []
    if "arg" in arguments:
        return _tensors(arguments["arg"])
    for kind in ("as_tensor", "as_tensors", "as_optional_tensors", "as_optional_tensor"):
        if kind in arguments:
            found = arguments[kind]
            named = [one for one in (found if isinstance(found, list) else [found]) if isinstance(one, dict)]
            return [name for one in named for name in ([one["name"]] if "name" in one else _tensors(one))]
    return []


def _symbols(size):
    """The expression of an extent, with the names of its symbols."""
    text = (size.get("as_expr") or {}).get("expr_str", "")
    return re.sub(r"Symbol\('(\w+)'[^)]*\)", r"\1", text)
