"""What relayvm.compare has for models of any format: a tensor beside the reference's, and the search for the first node."""

import ast
import collections
import functools
import itertools
import math
import operator as arithmetic
import os
import re

import numpy

from ._compiler import compile

# Errors that are taken for rounding, relative to the largest number of a tensor. Integers and booleans must be equal.
TOLERANCES = {"float64": 1e-6, "float32": 1e-4, "float16": 1e-2, "bfloat16": 5e-2}
DEFAULT_EXTENT = 4  # of an axis of an input that the model leaves open

# A node: its name, or "#" and its number; its operator; the tensors that it reads and gives, by name.
Node = collections.namedtuple("Node", "label operator inputs outputs")


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


class NotAlone(Exception):
    """A node that cannot be a model of its own; the text says why."""


def recorded(reference, programs):
    """The arrays of a reference that is not one of these programs."""
    expected = f"expected {programs}, a mapping, or the path of an .npz file"
    if isinstance(reference, (str, os.PathLike)):
        if not os.fspath(reference).endswith(".npz"):
            raise ValueError(f"reference is {os.fspath(reference)!r}; {expected}")
        with numpy.load(reference) as arrays:
            return dict(arrays)
    if not hasattr(reference, "keys"):
        raise ValueError(f"reference is a {type(reference).__name__}; {expected}")
    return {name: numpy.asarray(reference[name]) for name in reference.keys()}


def random_tensor(shape, dtype, random):
    """A tensor for an input: numbers that are tokens of any vocabulary and entries of any mask, or normal ones."""
    if dtype == numpy.bool_:
        return random.integers(0, 2, shape).astype(bool)
    if dtype.kind in "iu":
        return random.integers(0, 2, shape).astype(dtype)
    return random.standard_normal(shape).astype(dtype)


class Study:
    """A model, its inputs, and what both sides give for any of its tensors.

    A format sets `nodes`, in the order of the model, `outputs`, the names of the model's own, and `program`, the name of its
    reference; it has the methods that raise NotImplementedError here.
    """

    suffix = ""  # of its files

    def __init__(self, tolerance, options, threads):
        self.tolerance, self.options, self.threads = tolerance, options, threads
        self.inputs, self.frozen, self.shapes, self.reference, self.seen = {}, {}, {}, None, {}
        self.nodes, self.outputs, self.constants = [], [], set()

    def array(self, name, value):
        """A value of an input, a number with the dtype that the model declares."""
        raise NotImplementedError

    def complete(self, given, random):
        """All inputs: those that were given, the others random."""
        raise NotImplementedError

    def module(self, names=None):
        """The model, with other outputs if there are names of them."""
        raise NotImplementedError

    def run_reference(self, names):
        """The reference's tensors of these names, and others that it gives."""
        raise NotImplementedError

    def alone(self, node, known):
        """A node as a model of its own: its bytes, its inputs by name, and a module. Raises NotAlone."""
        raise NotImplementedError

    def check_names(self, names, known):
        for name in names:
            if name not in known:
                raise ValueError(f"the model has no input {name!r}; its inputs are {', '.join(known)}")

    def run(self, module, names, inputs):
        """The outputs of a module by name, compiled and run here."""
        session = compile(module, **self.options).session(threads=self.threads)
        results = session(*inputs.values())
        return dict(zip(names, results if len(names) > 1 else [results]))

    def ours(self, names=None):
        inputs = {name: array for name, array in self.inputs.items() if name not in self.frozen}
        return self.run(self.module(names), names or self.outputs, inputs)

    def theirs(self, names):
        """The reference's tensors of these names; of recorded ones, those that there are."""
        if self.reference is not None:
            if not any(name in self.reference for name in names):
                raise ValueError(f"the reference has none of {', '.join(names[:5])}; it has {', '.join(sorted(self.reference)[:5])}")
            return {name: self.reference[name] for name in names if name in self.reference}
        missing = [name for name in names if name not in self.seen]
        if missing:
            self.seen.update(self.run_reference(missing))
        return {name: self.seen[name] for name in names}

    def tolerance_of(self, _):
        return self.tolerance

    @functools.cached_property
    def makers(self):
        """The node that gives each tensor, by name."""
        return {name: node for node in self.nodes for name in node.outputs}

    def differences(self, names, ours, theirs, of_nodes=True):
        def one(name):
            node = self.makers.get(name) if of_nodes else None
            return Difference(name, node and node.label, node and node.operator, ours[name], theirs[name], self.tolerance_of(name))
        return [one(name) for name in names if name in theirs]

    def compare_nodes(self, found):
        names = list(self.makers)
        if self.reference is not None:
            names = [name for name in names if name in self.reference]
        theirs = self.theirs(names)
        found.nodes = self.differences(names, self.ours(names), theirs)
        wrong = {difference.name for difference in found.nodes if not difference.agrees}
        found.first = next((difference for difference in found.nodes if difference.name in wrong and
                            not wrong.intersection(self.makers[difference.name].inputs)), None)
        if found.first is not None:
            self._isolate(found, self.makers[found.first.name])
        elif not found.agrees:
            found.fused = self._first_fused(names, theirs, [difference.name for difference in found.outputs if not difference.agrees])

    def _isolate(self, found, node):
        """The first node that differs as a model of its own."""
        needed = [name for name in dict.fromkeys(node.inputs) if name and name not in self.constants]
        known = {**self.inputs, **(self.reference or {})}
        try:
            if self.reference is None:
                known.update(self.theirs([name for name in needed if name not in self.inputs]))
            if missing := [name for name in needed if name not in known]:
                raise NotAlone(f"the reference has no `{missing[0]}`")
            data, inputs, module = self.alone(node, known)
        except NotAlone as why:
            found.alone = f"not run: {why}"
            return
        theirs = self.theirs(node.outputs)
        found._repro = (self.suffix, data, inputs, theirs)
        try:
            found.alone = self.differences(node.outputs, self.run(module(), node.outputs, inputs), theirs)
        except Exception as error:  # pylint: disable=broad-exception-caught  # what was found before counts
            found.alone = f"fails: {error}"

    def _first_fused(self, names, theirs, wrong_outputs):
        """Bisects: each step compiles the nodes up to one tensor, which is the only output."""
        needed, todo = set(), list(wrong_outputs)
        while todo:
            name = todo.pop()
            if name not in needed and name in self.makers:
                needed.add(name)
                todo += self.makers[name].inputs
        chain = [name for name in names if name in needed]
        low, high, found = 0, len(chain) - 1, None
        while low <= high:
            middle = (low + high) // 2
            name = chain[middle]
            difference = self.differences([name], self.ours([name]), theirs)[0]
            if difference.agrees:
                low = middle + 1
            else:
                found, high = difference, middle - 1
        return found


def extent_of(text, extents):
    """The extent that a model calls by a name, or by an expression such as `past + t`; names without an extent get one."""
    if text in extents:
        return extents[text]
    names = re.findall(r"[^\W\d][\w.]*", text)
    if text not in names and names and re.fullmatch(r"[\w.\s+*()/-]+", text):
        for name in names:
            extents.setdefault(name, DEFAULT_EXTENT)
        values = {f"_{number}": extents[name] for number, name in enumerate(names)}
        numbered = itertools.count()
        try:
            tree = ast.parse(re.sub(r"[^\W\d][\w.]*", lambda _: f"_{next(numbered)}", text).strip(), mode="eval")
            return extents.setdefault(text, _evaluate(tree.body, values))
        except (SyntaxError, KeyError, TypeError, ZeroDivisionError):
            pass  # the name of an extent, if it is an odd one
    return extents.setdefault(text, DEFAULT_EXTENT)


def _evaluate(tree, values):
    if isinstance(tree, ast.BinOp):
        left, right = _evaluate(tree.left, values), _evaluate(tree.right, values)
        return {ast.Add: arithmetic.add, ast.Sub: arithmetic.sub, ast.Mult: arithmetic.mul, ast.FloorDiv: arithmetic.floordiv,
                ast.Div: arithmetic.floordiv}[type(tree.op)](left, right)
    return values[tree.id] if isinstance(tree, ast.Name) else arithmetic.index(getattr(tree, "value", None))
