"""Calls of compiled graphs."""

import ctypes
import threading
import weakref

import torch
from relayvm_runtime import Error

from .. import _compiler
from . import _settings
from ._settings import Unsupported
from ._tensors import SMALL, field, handle_of, handle_of_int, tensor_of

_HEAD = 64  # bytes of a frozen tensor that are compared at each call


class Compiled:
    """A graph that runs on the machine. It compiles at its first call.

    static: the positions of parameters and buffers that the graph does not write to. A program has their values as
    constants, which is much faster for weights, as long as the arguments are these tensors and nobody has written to
    them. When that ends, another program is compiled, which takes them as arguments, and stays right.
    """

    def __init__(self, graph, settings, static, eager):
        self._graph, self._settings, self._eager = graph, settings, eager
        names = dict(zip(graph.inputs, graph.names))
        self._static = {position: names[position] for position in static if position in names}
        self._lock = threading.Lock()
        self._constant, self._general, self._failed = None, None, False
        self._may_freeze = settings.freeze and bool(self._static)

    def __call__(self, args):
        """Takes the arguments as a list, as functions of AOTAutograd with `_boxed_call` do."""
        program = None
        if self._graph.has_program and not self._failed:
            try:
                program = self._program(args)
            except _compiler.CompileError as error:
                self._give_up(Unsupported(self._graph.reasons(error), error))
            except Unsupported as error:
                self._give_up(error)
        if self._failed:
            return self._eager(*args)
        results = program(args) if program is not None else ()
        return self._graph.tail(*results, *[args[i] for i in self._graph.tail_inputs])

    def _give_up(self, error):
        if not self._settings.fallback:
            raise error.cause or error
        _settings.warn(error.reasons)
        self._failed = True

    def _program(self, args):
        """The program for these arguments."""
        if self._constant is not None and self._constant.fits(args):
            return self._constant
        if self._general is not None:
            return self._general
        with self._lock:
            if self._may_freeze:
                self._may_freeze = False
                frozen = {i: args[i] for i in self._static if not args[i].is_inference()}
                if frozen:
                    self._constant = self._compile(frozen)
                    return self._constant
            if self._general is None:
                self._general = self._compile({})
            return self._general

    def _compile(self, frozen):
        graph, settings = self._graph, self._settings
        module = graph.imported({self._static[i]: tensor for i, tensor in frozen.items()})
        executable = _compiler.compile(module, target=settings.target, opt_level=settings.opt_level, device=settings.device)
        return _Program(executable.with_limits(threads=settings.threads), graph, frozen, self._static)


class _Program:
    """An executable of a graph; `frozen`: the tensors, by position, that it holds as constants."""

    def __init__(self, executable, graph, frozen, static):
        self._executable, self._graph, self._entry = executable, graph, executable._entry("main")
        self._inputs = [(i, i in static) for i in graph.inputs if i not in frozen]
        self._draws = len(self._entry._names) > len(self._inputs)  # its last parameter is the seed of random numbers
        self._frozen = [(i, weakref.ref(tensor), tensor.data_ptr(), tensor._version, _head_size(tensor), _head(tensor))
                        for i, tensor in frozen.items()]
        self._handles = {}  # of parameters and buffers: (address, Handle) by position

    def fits(self, args):
        """Whether the frozen tensors are these arguments, unchanged. Writes through `Tensor.data` do not count up the
        version, so the first elements are compared, too."""
        for position, tensor, address, version, size, head in self._frozen:
            given = args[position]
            if (given is not tensor() or given._version != version or given.data_ptr() != address
                    or ctypes.string_at(address, size) != head):
                return False
        return True

    def __call__(self, args):
        handles = [self._static_handle(i, args[i]) if is_static else self._handle(args[i]) for i, is_static in self._inputs]
        if self._draws:
            handles.append(handle_of_int(int(torch.randint(0, 2**62, ()))))
        try:
            return self._executable._invoke(self._entry, handles, lambda result: self._results(result, args))
        except Error as error:
            raise self._located(error) from None

    @staticmethod
    def _handle(value):
        return handle_of(value, owned=False) if isinstance(value, torch.Tensor) else handle_of_int(int(value))

    def _static_handle(self, position, tensor):
        """A Handle of the memory at an address, which is right as long as an argument is there."""
        known = self._handles.get(position)
        if known is not None and known[0] == tensor.data_ptr() and tensor.is_contiguous():
            return known[1]
        handle = handle_of(tensor, owned=False)
        if tensor.nbytes > SMALL and tensor.is_contiguous():
            self._handles[position] = tensor.data_ptr(), handle
        return handle

    def _results(self, value, args):
        """The results as tensors of their own memory, and numbers."""
        graph, results = self._graph, []
        count = len(graph.layouts)
        taken = {args[i].data_ptr() for i, _ in self._inputs if isinstance(args[i], torch.Tensor)}
        for i, layout in enumerate(graph.layouts):
            tensor = tensor_of(field(value, i) if count > 1 else value)
            if i in graph.numbers:
                tensor = tensor.item()
            elif layout is not None:
                tensor = torch.empty_permuted(tensor.shape, layout, dtype=tensor.dtype).copy_(tensor)
            elif tensor.data_ptr() in taken and tensor.nbytes:
                tensor = tensor.clone()  # two results, or a result and an argument, are one value of the machine
            else:
                taken.add(tensor.data_ptr())
            results.append(tensor)
        return results

    def _located(self, error):
        """The error with the lines of the user's program that its backtrace is about."""
        places = self._graph.places_in(f"{error.message}\n{error.backtrace}")
        if not places:
            return error
        backtrace = "\n".join([*error.backtrace.rstrip("\n").splitlines(), *(f"  {place}" for place in places)])
        return type(error)(error.message, error.code, backtrace, error.limit)


def _head_size(tensor):
    """The bytes at the beginning of a tensor that lie one behind the other, 64 at most."""
    return min(_HEAD, tensor.nbytes if tensor.is_contiguous() else tensor.element_size())


def _head(tensor):
    return ctypes.string_at(tensor.data_ptr(), _head_size(tensor))
