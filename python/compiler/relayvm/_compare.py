"""Finds the node of an ONNX model whose values differ from those of another implementation: relayvm.compare."""

import ast
import itertools
import math
import operator
import os
import re
import tempfile

import numpy

from ._compiler import compile, import_onnx

# Errors that are taken for rounding, relative to the largest number of a tensor. Integers and booleans must be equal.
TOLERANCES = {"float64": 1e-6, "float32": 1e-4, "float16": 1e-2, "bfloat16": 5e-2}
_MOST_BYTES = 1900 << 20  # of a model as one message of protobuf, which ends at 2 GiB
_DEFAULT_EXTENT = 4       # of an axis of an input that the model leaves open


class Difference:
    """One tensor beside the reference's.

    name: of the tensor; node, operator: the name (or "#" and the number) and the type of the node that gives it, None for a
    Comparison's `outputs`; shape, dtype: the reference's; error: the largest difference, relative to the largest finite
    number of the reference; at, ours, theirs: where it is and both numbers there, None if the tensors are equal; agrees: the
    error is within the tolerance; why: the reason if shapes or dtypes differ, else None.
    """

    def __init__(self, name, node, operator, ours, theirs, tolerance):  # pylint: disable=redefined-outer-name
        self.name, self.node, self.operator = name, node, operator
        theirs, ours = numpy.asarray(theirs), numpy.asarray(ours)
        self.shape, self.dtype = theirs.shape, str(theirs.dtype)
        self.error, self.at, self.ours, self.theirs, self.why = 0.0, None, None, None, None
        if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
            self.error = math.inf
            self.why = f"{ours.dtype}{list(ours.shape)} here; the reference has {theirs.dtype}{list(theirs.shape)}"
        elif theirs.size:
            self._find_largest(ours, theirs)
        self.agrees = self.error <= (TOLERANCES.get(self.dtype, 0.0) if tolerance is None else tolerance)

    def _find_largest(self, ours, theirs):
        a, b = (array.astype(numpy.float64) if array.dtype != object else array for array in (ours, theirs))
        with numpy.errstate(invalid="ignore", over="ignore"):
            equal = (a == b) | (numpy.isnan(a) & numpy.isnan(b))
            finite = numpy.abs(b[numpy.isfinite(b)])
            scale = finite.max(initial=0.0) or 1.0
            errors = numpy.where(equal, 0.0, numpy.abs(a - b) / scale)
        errors = numpy.where(numpy.isnan(errors), math.inf, errors)
        if equal.all():
            return
        self.at = tuple(int(i) for i in numpy.unravel_index(errors.argmax(), errors.shape))
        self.error, self.ours, self.theirs = float(errors[self.at]), ours[self.at].item(), theirs[self.at].item()

    def __repr__(self):
        where = "" if self.node is None else f" of {self.operator} `{self.node}`"
        what = f"{self.dtype}{list(self.shape)}"
        if self.why is not None:
            return f"{self.name}{where}: {self.why}"
        if self.at is None:
            return f"{self.name}{where}: {what}, equal"
        return f"{self.name}{where}: {what}, error {self.error:.3g} at {list(self.at)}: {self.ours!r} here, {self.theirs!r} there"


class Comparison:
    """What relayvm.compare found.

    outputs: the model's own outputs, compiled as always; nodes: each tensor that a node gives, in the order of the model, if
    one of the outputs differed or `all` was asked for; first: the first of `nodes` that differs although what its node
    reads agrees, else None; alone: that node by itself, on the reference's inputs: a Difference for each of its outputs (one
    that agrees means that rounding before the node is the cause), or the text of an error; fused: the first tensor that differs
    only when the nodes before it are compiled together with its own, if `nodes` all agree, else None; agrees: all outputs
    and nodes do.
    """

    def __init__(self):
        self.outputs, self.nodes, self.first, self.alone, self.fused = [], [], None, None, None
        self._repro = None  # (model of one node, its inputs, the reference's outputs)

    @property
    def agrees(self):
        return all(difference.agrees for difference in [*self.outputs, *self.nodes])

    def save(self, folder):
        """Writes the first node that differs as a model of its own, with its inputs and the reference's outputs: model.onnx,
        inputs.npz, expected.npz. Raises ValueError if there is none."""
        if self._repro is None:
            raise ValueError("no node differs; there is nothing to save")
        model, inputs, expected = self._repro
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, "model.onnx"), "wb") as file:
            file.write(model.SerializeToString())
        numpy.savez(os.path.join(folder, "inputs.npz"), **inputs)
        numpy.savez(os.path.join(folder, "expected.npz"), **expected)

    def __str__(self):
        agreeing = sum(difference.agrees for difference in self.outputs)
        lines = [f"{agreeing} of {len(self.outputs)} outputs agree"]
        lines += [f"  {difference}" for difference in self.outputs if not difference.agrees]
        if self.nodes:
            lines.append(f"{sum(difference.agrees for difference in self.nodes)} of {len(self.nodes)} tensors of nodes agree")
        if self.first is not None:
            lines.append(f"the first node that differs: {self.first}")
            if isinstance(self.alone, str):
                lines.append(f"  alone, on the reference's inputs: {self.alone}")
            elif all(difference.agrees for difference in self.alone):
                lines.append("  alone, on the reference's inputs, it agrees: differences before it, within the tolerance, grow there")
            else:
                lines += [f"  alone, on the reference's inputs: {difference}" for difference in self.alone]
        if self.fused is not None:
            lines.append(f"differs only if compiled together with the nodes before it: {self.fused}")
        return "\n".join(lines)


def compare(model, inputs=None, *, reference="onnxruntime", tolerance=None, shapes=None, freeze=None, all=False, seed=0,
            target="host", opt_level=2, threads=1):
    """Runs an ONNX model here and in a reference, and finds the first node whose values differ: a Comparison.

    model: a path, bytes, or an onnx.ModelProto. inputs: arrays by name; those that are left out are random, with 4 for an extent
    that the model leaves open. shapes: extents of inputs by name, for which the program is compiled. freeze: values of inputs
    that never change, as of import_onnx. reference: "onnxruntime"; or a mapping of names to
    recorded arrays, the path of an .npz file of them: outputs of the model, and of any nodes. tolerance: the largest error
    that counts as rounding, relative to the largest number of a tensor; by default TOLERANCES by dtype. all: compare each
    node even if all outputs agree. target, opt_level: as of compile; threads: for big kernels.

    Needs the package onnx. Raises ImportFailed if the model cannot be imported, ValueError for wrong arguments.
    """
    study = _Study(_loaded(model), tolerance, {"target": target, "opt_level": opt_level}, threads)
    study.frozen, study.shapes = {name: study.array(name, value) for name, value in (freeze or {}).items()}, dict(shapes or {})
    study.inputs = study.complete({**(inputs or {}), **study.frozen}, numpy.random.default_rng(seed))
    study.reference = _recorded(reference) if reference != "onnxruntime" else None
    found = Comparison()
    own = [output.name for output in study.model.graph.output]
    found.outputs = study.differences(own, study.ours(study.model), study.theirs(own), of_nodes=False)
    if all or not found.agrees:
        study.compare_nodes(found)
    return found


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


def _recorded(reference):
    if isinstance(reference, (str, os.PathLike)):
        if not os.fspath(reference).endswith(".npz"):
            raise ValueError(f"reference is {os.fspath(reference)!r}; expected \"onnxruntime\", a mapping, or the path of an .npz file")
        with numpy.load(reference) as arrays:
            return dict(arrays)
    if not hasattr(reference, "keys"):
        raise ValueError(f"reference is a {type(reference).__name__}; expected \"onnxruntime\", a mapping, or the path of an .npz file")
    return {name: numpy.asarray(reference[name]) for name in reference.keys()}


class _Study:
    """A model, its inputs, and what both sides give for any of its tensors."""

    def __init__(self, model, tolerance, options, threads):
        self.model, self.tolerance, self.options, self.threads = model, tolerance, options, threads
        self.inputs, self.frozen, self.shapes, self.reference, self.seen = {}, {}, {}, None, {}
        self.constants = {tensor.name: tensor for tensor in model.graph.initializer}
        self.types = self._types()
        self.maker = {}  # tensor: (number of the node, its label, its type)
        for number, node in enumerate(model.graph.node):
            for name in node.output:
                if name:
                    self.maker[name] = (number, node.name or f"#{number}", node.op_type)

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
        open_inputs = [info for info in self.model.graph.input if info.name not in self.constants]
        names = [info.name for info in open_inputs]
        for name in [*given, *self.shapes]:
            if name not in names:
                raise ValueError(f"the model has no input {name!r}; its inputs are {', '.join(names)}")
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
            shape = [dim.dim_value if dim.HasField("dim_value") else _extent(dim.dim_param, extents) for dim in info.type.tensor_type.shape.dim]
        dtype = _onnx().helper.tensor_dtype_to_np_dtype(info.type.tensor_type.elem_type)
        if dtype == numpy.bool_:
            return random.integers(0, 2, shape).astype(bool)
        if dtype.kind in "iu":
            return random.integers(0, 2, shape).astype(dtype)  # a token of any vocabulary, an entry of any mask
        return random.standard_normal(shape).astype(dtype)

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

    def ours(self, model, inputs=None):
        """The outputs of a model by name, compiled and run here."""
        with _Stored(model) as source:
            if inputs is None:
                inputs = {name: array for name, array in self.inputs.items() if name not in self.frozen}
                module = import_onnx(source, inputs=self.shapes, freeze=self.frozen)
            else:
                module = import_onnx(source)
        session = compile(module, **self.options).session(threads=self.threads)
        results = session(*inputs.values())
        names = [output.name for output in model.graph.output]
        return dict(zip(names, results if len(names) > 1 else [results]))

    def theirs(self, names):
        """The reference's tensors of these names; of recorded ones, those that there are."""
        if self.reference is not None:
            if not any(name in self.reference for name in names):
                raise ValueError(f"the reference has none of {', '.join(names[:5])}; it has {', '.join(sorted(self.reference)[:5])}")
            return {name: self.reference[name] for name in names if name in self.reference}
        missing = [name for name in names if name not in self.seen]
        if missing:
            self.seen.update(_run_onnxruntime(self.with_outputs(missing), self.inputs))
        return {name: self.seen[name] for name in names}

    def differences(self, names, ours, theirs, of_nodes=True):
        def one(name):
            _, node, kind = self.maker.get(name, (None, None, None)) if of_nodes else (None, None, None)
            return Difference(name, node, kind, ours[name], theirs[name], self.tolerance)
        return [one(name) for name in names if name in theirs]

    def compare_nodes(self, found):
        names = [name for node in self.model.graph.node for name in node.output if name and self._is_tensor(name)]
        if self.reference is not None:
            names = [name for name in names if name in self.reference]
        theirs = self.theirs(names)
        found.nodes = self.differences(names, self.ours(self.with_outputs(names)), theirs)
        wrong = {difference.name for difference in found.nodes if not difference.agrees}
        found.first = next((difference for difference in found.nodes if difference.name in wrong and
                            not wrong.intersection(self.model.graph.node[self.maker[difference.name][0]].input)), None)
        if found.first is not None:
            self._isolate(found)
        elif not found.agrees:
            found.fused = self._first_fused(names, theirs, [difference.name for difference in found.outputs if not difference.agrees])

    def _is_tensor(self, name):
        return name not in self.types or self.types[name].WhichOneof("value") in (None, "tensor_type")

    def _isolate(self, found):
        """The first node that differs as a model of its own."""
        onnx = _onnx()
        node = self.model.graph.node[self.maker[found.first.name][0]]
        needed = [name for name in dict.fromkeys(node.input) if name and name not in self.constants]
        if any(attribute.HasField("g") or attribute.graphs for attribute in node.attribute):
            found.alone = "not run: the node has graphs inside, which may read any tensor"
            return
        known = {**self.inputs, **self.reference} if self.reference is not None else self.inputs
        if self.reference is None:
            known = {**known, **self.theirs([name for name in needed if name not in self.inputs])} if needed else known
        if missing := [name for name in needed if name not in known]:
            found.alone = f"not run: the reference has no `{missing[0]}`"
            return
        makers = {name: self.model.graph.node[self.maker[name][0]] for name in needed if name in self.maker}
        folded = [name for name in needed if name in makers and makers[name].op_type == "Constant"]
        constants = [self.constants[name] for name in dict.fromkeys(node.input) if name in self.constants]
        constants += [onnx.numpy_helper.from_array(known[name], name) for name in folded]
        inputs = {name: known[name] for name in needed if name not in folded}
        infos = [onnx.helper.make_tensor_value_info(name, onnx.helper.np_dtype_to_tensor_dtype(array.dtype), array.shape) for name, array in inputs.items()]
        outputs = [name for name in node.output if name and self._is_tensor(name)]
        alone = self.with_outputs(outputs)
        for field in ("node", "initializer", "input", "value_info", "sparse_initializer"):
            alone.graph.ClearField(field)
        alone.graph.node.append(node)
        alone.graph.initializer.extend(constants)
        alone.graph.input.extend(infos)
        theirs = self.theirs(outputs)
        found._repro = (alone, inputs, theirs)
        try:
            found.alone = self.differences(outputs, self.ours(alone, inputs), theirs)
        except Exception as error:  # pylint: disable=broad-exception-caught  # what was found before counts
            found.alone = f"fails: {error}"

    def _first_fused(self, names, theirs, wrong_outputs):
        """Bisects: each step compiles the nodes up to one tensor, which is the only output."""
        needed, todo = set(), list(wrong_outputs)
        while todo:
            name = todo.pop()
            if name not in needed and name in self.maker:
                needed.add(name)
                todo += self.model.graph.node[self.maker[name][0]].input
        chain = [name for name in names if name in needed]
        low, high, found = 0, len(chain) - 1, None
        while low <= high:
            middle = (low + high) // 2
            name = chain[middle]
            difference = self.differences([name], self.ours(self.with_outputs([name])), theirs)[0]
            if difference.agrees:
                low = middle + 1
            else:
                found, high = difference, middle - 1
        return found


def _extent(text, extents):
    """The extent that a model calls by a name, or by an expression such as `past + t`; names without an extent get one."""
    if text in extents:
        return extents[text]
    names = re.findall(r"[^\W\d][\w.]*", text)
    if text not in names and names and re.fullmatch(r"[\w.\s+*()/-]+", text):
        for name in names:
            extents.setdefault(name, _DEFAULT_EXTENT)
        values = {f"_{number}": extents[name] for number, name in enumerate(names)}
        numbered = itertools.count()
        try:
            tree = ast.parse(re.sub(r"[^\W\d][\w.]*", lambda _: f"_{next(numbered)}", text).strip(), mode="eval")
            return extents.setdefault(text, _evaluate(tree.body, values))
        except (SyntaxError, KeyError, TypeError, ZeroDivisionError):
            pass  # the name of an extent, if it is an odd one
    return extents.setdefault(text, _DEFAULT_EXTENT)


def _evaluate(tree, values):
    if isinstance(tree, ast.BinOp):
        left, right = _evaluate(tree.left, values), _evaluate(tree.right, values)
        return {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv,
                ast.Div: operator.floordiv}[type(tree.op)](left, right)
    return values[tree.id] if isinstance(tree, ast.Name) else operator.index(getattr(tree, "value", None))


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
