"""Compiled programs as modules of PyTorch."""

import os

import torch
from relayvm_runtime import Executable, InvalidArgument, load
from relayvm_runtime._values import _info, _TENSOR, _TUPLE, from_handle
from torch.export.graph_signature import ConstantArgument, InputKind, OutputKind
from torch.utils import _pytree

from .. import _compiler, _torch
from ._tensors import field, handle_of, tensor_of


class Module(torch.nn.Module):
    """A compiled program as a torch.nn.Module: tensors in and out, without copies of large ones.

    program: an Executable, the path of an .rvm file, or what relayvm.compile takes, which is compiled with `options`.
    threads: None for as many as PyTorch has. Inputs are given by position or by the names of the program's
    parameters, also as what programs of Python take; a tuple of results is a tuple. Any number of threads may call it.
    It pickles and copies with its program. It computes no gradients; inputs that require one are an error unless
    gradients are off (torch.no_grad()).

    Where the program has an entry `initial_state`, its state is parameters and results like others. Modules that
    relayvm.torch.compile returns keep their state in buffers.
    """

    def __init__(self, program, *, entry="main", threads=None, **options):
        super().__init__()
        if not isinstance(program, Executable):
            is_file = isinstance(program, os.PathLike) or isinstance(program, str) and program.endswith(".rvm")
            if is_file and os.fspath(program).endswith(".rvm"):
                program = load(program, **options)
            else:
                program = _compiler.compile(program, **options)
        elif options:
            raise TypeError(f"saw the options {', '.join(options)}; the program is compiled already")
        self.executable = program.with_limits(threads=threads or torch.get_num_threads())
        self._entry_name = entry
        self.executable._entry(entry)

    @property
    def signature(self):
        """The Signature of its program: names, dtypes and shapes of inputs and outputs."""
        return self.executable[self._entry_name].signature

    def forward(self, /, *args, **kwargs):
        """Runs the program."""
        entry = self.executable._entry(self._entry_name)
        if kwargs or len(args) != len(entry._names):
            args = entry._in_order(args, kwargs)
        return _value(self._invoke(entry, args))

    def extra_repr(self):
        return self.executable.entries[self._entry_name]

    def _invoke(self, entry, args):
        for name, value in zip(entry._names, args):
            if isinstance(value, torch.Tensor) and value.requires_grad and torch.is_grad_enabled():
                raise InvalidArgument(f"input `{name}` requires a gradient, which a compiled program does not compute; call the "
                                      "module under torch.no_grad(), or give it `detach()` of the tensor", "invalid-argument")
        handles = [handle_of(value) if isinstance(value, torch.Tensor) else None for value in args]
        if None in handles:
            makers = map(entry._importer.maker, entry._types)
            handles = [make(value) if handle is None else handle for handle, make, value in zip(handles, makers, args)]
        return self.executable._invoke(entry, handles, lambda result: result)


def _value(handle):
    """A value of the machine, with tensors of PyTorch."""
    info = _info(handle)
    if info.kind == _TUPLE:
        return tuple(_value(field(handle, i)) for i in range(info.field_count))
    return tensor_of(handle) if info.kind == _TENSOR else from_handle(handle)


class _Exported(Module):
    """A module that torch.export exported: inputs and outputs have its structure, what it writes to is written."""

    def __init__(self, exported, state, executable, threads):
        super().__init__(executable, threads=threads)
        signature = exported.graph_signature
        self._in_spec, self._out_spec = exported.call_spec.in_spec, exported.call_spec.out_spec
        inputs = [spec for spec in signature.input_specs if spec.kind == InputKind.USER_INPUT]
        self._leaves = [i for i, spec in enumerate(inputs) if not isinstance(spec.arg, ConstantArgument)]
        outputs = [spec for spec in signature.output_specs if spec.kind == OutputKind.USER_OUTPUT]
        self._constants = [(isinstance(spec.arg, ConstantArgument), getattr(spec.arg, "value", None)) for spec in outputs]
        self._count = sum(not is_constant for is_constant, _ in self._constants)
        names = {spec.arg.name: i for i, spec in enumerate(inputs)}
        self._writes = []  # behind the outputs: the name of a buffer, or the number of an input, that a result goes to
        self._states = []  # behind the inputs: names of buffers
        for spec in signature.output_specs:
            if spec.kind == OutputKind.BUFFER_MUTATION:
                self._writes.append(_buffer_name(spec.target))
            elif spec.kind == OutputKind.USER_INPUT_MUTATION:
                self._writes.append(names[spec.target])
        for spec in signature.input_specs:
            name = _buffer_name(spec.target) if spec.kind == InputKind.BUFFER else None
            if name in self._writes:
                self._states.append(name)
                self.register_buffer(name, state[spec.target].detach().clone())
        self._draws = len(executable._entry("main")._names) > len(self._leaves) + len(self._states)

    def forward(self, /, *args, **kwargs):
        """Runs the program with inputs of the structure that was exported."""
        wanted = self._in_spec.child(1).context if hasattr(self._in_spec, "child") else self._in_spec.children_specs[1].context
        if set(kwargs) == set(wanted or ()):
            kwargs = {name: kwargs[name] for name in wanted or ()}
        leaves, spec = _pytree.tree_flatten((args, kwargs))
        if spec != self._in_spec:
            raise InvalidArgument(f"saw inputs of the structure {spec}; the model was exported with {self._in_spec}",
                                  "invalid-argument")
        given = [leaves[i] for i in self._leaves] + [getattr(self, name) for name in self._states]
        if self._draws:
            given.append(int(torch.randint(0, 2**62, ())))
        handle = self._invoke(self.executable._entry("main"), given)
        fields = _info(handle).field_count
        results = [tensor_of(field(handle, i)) for i in range(fields)] if fields else [tensor_of(handle)]
        for target, value in zip(self._writes, results[self._count:]):
            (getattr(self, target) if isinstance(target, str) else leaves[target]).copy_(value)
        outputs = iter(results[:self._count])
        return _pytree.tree_unflatten([value if is_constant else next(outputs) for is_constant, value in self._constants],
                                      self._out_spec)


def _buffer_name(target):
    return "state_" + target.replace(".", "_")


def compile(model, args=(), kwargs=None, *, dynamic_shapes=None, threads=None, **options):
    """Exports a torch.nn.Module by torch.export with `args`, `kwargs` and `dynamic_shapes`, compiles it once for all of its
    extents, and returns a Module.

    Inputs and outputs have the structure of the model's. LSTM, GRU and RNN stay loops, also over a dynamic number of steps.
    Buffers that the model writes to are buffers of the result, which begin with their values of now; inputs that it
    writes to are written. options: as of relayvm.compile. Raises ImportFailed.
    """
    exported = _torch.exported(model, args, kwargs, dynamic_shapes)
    if any(_writes(node) for node in exported.graph.nodes):
        exported = exported.run_decompositions({})  # free of writes: its signature says what is written
    executable = _compiler.compile(_compiler.import_torch(exported), **options)
    return _Exported(exported, exported.state_dict, executable, threads)


def _writes(node):
    return isinstance(node.target, torch._ops.OpOverload) and node.target._schema.is_mutable
