"""Exports PyTorch modules in the user's process. The only file that needs PyTorch."""

import contextlib
import io
import threading

import torch
from torch.nn.modules import rnn

# nn.LSTM over a dynamic number of steps cannot be exported: tracing unrolls its loop, or fixes the number. While a
# module is exported its recurrent functions are these operators, which tracing takes as they are.
_RECURRENT = ("lstm", "gru", "rnn_tanh", "rnn_relu")
_library = torch.library.Library("relayvm", "DEF")
_ARGUMENTS = "Tensor[] params, bool has_biases, int num_layers, float dropout, bool train, bool bidirectional, " \
             "bool batch_first"
_library.define(f"lstm(Tensor input, Tensor[] hx, {_ARGUMENTS}) -> (Tensor, Tensor, Tensor)")
for _name in _RECURRENT[1:]:
    _library.define(f"{_name}(Tensor input, Tensor hx, {_ARGUMENTS}) -> (Tensor, Tensor)")


def _implement(name):
    function = getattr(torch._VF, name)

    def compute(*args):
        return tuple(result.clone() for result in function(*args))

    def shapes(input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first):
        states = list(hx) if isinstance(hx, (list, tuple)) else [hx]
        hidden = states[0].shape[-1] * (2 if bidirectional else 1)
        return (input.new_empty((*input.shape[:-1], hidden)), *(torch.empty_like(state) for state in states))

    _library.impl(name, compute, "CompositeExplicitAutograd")
    torch.library.register_fake(f"relayvm::{name}", shapes, lib=_library)


class _Recurrent:
    """Stands for torch._VF in torch.nn.modules.rnn. Packed sequences, and tensors without a batch, go as ever."""

    def __getattr__(self, name):
        function = getattr(torch._VF, name)
        if name not in _RECURRENT:
            return function

        def call(input, hx, *rest):
            if input.dim() != 3 or not isinstance(rest[0], (list, tuple)):
                return function(input, hx, *rest)
            return getattr(torch.ops.relayvm, name)(input, list(hx) if name == "lstm" else hx, list(rest[0]), *rest[1:])

        return call


for _name in _RECURRENT:
    _implement(_name)


def roll(graph):
    """Makes the recurrent functions in a graph of Dynamo operators, as _Recurrent does."""
    for node in graph.nodes:
        name = getattr(node.target, "__name__", "")
        if node.op != "call_function" or name not in _RECURRENT or node.target is not getattr(torch._VF, name):
            continue
        example = node.args[0].meta.get("example_value")
        if isinstance(example, torch.Tensor) and example.dim() == 3 and isinstance(node.args[2], (list, tuple)):
            node.target = getattr(torch.ops.relayvm, name).default


_exporting = threading.Lock()


@contextlib.contextmanager
def _rolled():
    with _exporting:
        plain, rnn._VF = rnn._VF, _Recurrent()
        try:
            yield
        finally:
            rnn._VF = plain


def exported(model, args, kwargs, dynamic_shapes):
    """An exported program of a module, as it is in eval mode; an exported program is one."""
    if isinstance(model, torch.nn.Module):
        trains = [module for module in model.modules() if module.training]
        try:
            model.eval()
            with _rolled(), torch.no_grad():
                return torch.export.export(model, tuple(args or ()), kwargs, dynamic_shapes=dynamic_shapes)
        finally:
            for module in trains:
                module.training = True
    if not isinstance(model, torch.export.ExportedProgram):
        raise TypeError(f"saw {type(model).__name__}; expected a torch.nn.Module, an exported program, a path or bytes")
    return model


def decomposed(program):
    """The program in fewer operators: first without writes and transforms of functions, then of the core of ATen."""
    for tables in (({},), ()):
        try:
            simpler = program.run_decompositions(*tables)
        except Exception:  # pylint: disable=broad-exception-caught
            continue  # PyTorch cannot decompose every program
        yield simpler


def saved(program):
    """The bytes of a .pt2 file."""
    buffer = io.BytesIO()
    torch.export.save(program, buffer)
    return buffer.getvalue()


class _Recorder(torch.fx.Interpreter):
    """Keeps the tensors of all nodes by name. What is written later shows as written, as in outputs of the program."""

    def __init__(self, module):
        super().__init__(module)
        self.tensors = {}

    def run_node(self, node):
        value = super().run_node(node)
        if isinstance(value, torch.Tensor):
            self.tensors[node.name] = value
        return value


def record(program, inputs):
    """The tensors of all nodes of an exported program by name, as arrays; bfloat16 and float8 as float32. `program`: it, or the
    bytes of its file; `inputs`: arrays or tensors by name."""
    if isinstance(program, bytes):
        program = torch.export.load(io.BytesIO(program))
    values = []
    for spec in program.graph_signature.input_specs:
        if spec.kind == torch.export.graph_signature.InputKind.USER_INPUT:
            values.append(torch.as_tensor(inputs[spec.arg.name]).clone())
        else:
            values.append((program.state_dict if spec.target in program.state_dict else program.constants)[spec.target])
    recorder = _Recorder(program.graph_module)
    with torch.no_grad():
        recorder.run(*values)
    return {name: _array(value) for name, value in recorder.tensors.items()}


def _array(tensor):
    tensor = tensor.detach()
    wide = tensor.dtype == torch.bfloat16 or "float8" in str(tensor.dtype)
    return (tensor.float() if wide else tensor).numpy(force=True)
