"""Quantised programs: relayvm.quantize."""

import ctypes
import json
import math
import time
from ctypes import POINTER, c_char_p, c_double, c_int, c_int64, c_size_t, c_uint32, c_void_p

import numpy
from relayvm_runtime import Adt, Executable
from relayvm_runtime._library import declare

from ._compiler import (CompileError, Module, _array, _call, _CompileOptions, _given, _lib, _reporting, _Result, _strings,
                        _Tensor, _weights)


class _Program(ctypes.Structure):
    _fields_ = [("bytes", c_void_p), ("size", c_size_t)]


_SEE = ctypes.CFUNCTYPE(None, c_void_p, c_int64, c_void_p, c_size_t)
_TIME = ctypes.CFUNCTYPE(c_int, c_void_p, POINTER(_Program), c_size_t, POINTER(c_int64), POINTER(_Tensor), POINTER(c_double))
_BEGIN = ctypes.CFUNCTYPE(c_int, c_void_p, POINTER(_Program), POINTER(c_int64))
_ERROR = ctypes.CFUNCTYPE(c_int, c_void_p, POINTER(_Program), POINTER(c_double))
_OBSERVE = ctypes.CFUNCTYPE(c_int, c_void_p, POINTER(_Program), _SEE, c_void_p)


class _QuantizeOptions(ctypes.Structure):
    _fields_ = [("struct_size", c_uint32), ("force", c_uint32), ("scheme", c_char_p), ("kept", POINTER(c_char_p)),
                ("kept_count", c_size_t), ("group", c_int64), ("entry", c_char_p), ("observer", c_char_p),
                ("greatest_error", c_double), ("context", c_void_p), ("time", _TIME), ("begin", _BEGIN), ("error", _ERROR),
                ("observe", _OBSERVE)]


declare(_lib, {
    "rvm_quantize": (c_void_p, [c_char_p, c_char_p, c_size_t, POINTER(_CompileOptions), POINTER(_QuantizeOptions)]),
    "rvm_compilation_report": (c_char_p, [c_void_p]),
})

# Rounds of calls: at least so many, and more up to this time in seconds.
_MIN_ROUNDS, _MAX_ROUNDS, _SECONDS = 7, 400, 0.08
_MAX_OTHER_BYTES = 64 << 20


class Quantized:
    """A quantised program: `executable`; `module`, the same as text with its weights; `report`, what became of each
    weight, as `relayvm quantize --report FILE.json` writes it."""

    def __init__(self, executable, result):
        self.executable, self._result = executable, result
        self.report = json.loads(_lib.rvm_compilation_report(result.pointer))

    @property
    def module(self):
        return Module(self._result.text, _weights(self._result), "<quantized>")

    def __repr__(self):
        before, after = self.report["bytes_before"], self.report["bytes_after"]
        return f"<Quantized {self.report['scheme']}: weights of {before} -> {after} bytes>"


def _parts(value):
    """Tensors of a result in order, and all else as text."""
    stack = [value]
    while stack:
        value = stack.pop()
        if isinstance(value, Adt):
            yield value.constructor
            value = value.fields
        if isinstance(value, (tuple, list)):
            yield len(value)
            stack.extend(reversed(value))
        elif isinstance(value, numpy.ndarray) or numpy.isscalar(value):
            yield numpy.asarray(value)


def _norm(expected, results):
    """The norm of the difference of all floats, divided by their norm; if that is more, the share of other results."""
    difference = square = others = 0.0
    for a, b in zip(expected, results):
        a, b = list(_parts(a)), list(_parts(b))
        same = len(a) == len(b)
        for x, y in zip(a, b):
            if isinstance(x, numpy.ndarray) and x.dtype.kind == "f" and isinstance(y, numpy.ndarray) and x.shape == y.shape:
                x, y = x.astype(numpy.float64), y.astype(numpy.float64)
                difference += float(numpy.sum((x - y) ** 2))
                square += float(numpy.sum(x ** 2))
            else:
                same = same and numpy.array_equal(x, y)
        others += not same
    error = math.sqrt(difference / square) if square else math.inf if difference else 0.0
    return max(math.inf if math.isnan(error) else error, others / max(1, len(expected)))


class _Runs:
    """The functions that the library calls. The first error of one ends it, and is raised then; an operator that cannot be
    measured is no error."""

    def __init__(self, data, entry, metric):
        self.data = None if data is None else [call if isinstance(call, tuple) else (call,) for call in data]
        self.entry, self.metric, self.failure, self.expected = entry, metric, None, None

    def _run(self, function, is_recorded=True):
        try:
            function()
            return 0
        except BaseException as error:  # pylint: disable=broad-exception-caught
            if is_recorded or not isinstance(error, Exception):
                self.failure = self.failure or error
            return 1

    @staticmethod
    def _load(program):
        return Executable._load(ctypes.string_at(program.bytes, program.size), True, (), None, False)

    def _results(self, program, *more):
        function = self._load(program)[self.entry]
        return [function(*call, *more) for call in self.data]

    def time(self, _, programs, count, others, operand, nanoseconds):
        def measure():
            name, calls = self.entry, self.data
            if operand:
                name, calls = "main", [(_array(operand[0]),)]
            functions = [self._load(programs[i])[name] for i in range(count)]
            sizes = [min(others[i], _MAX_OTHER_BYTES) // 8 for i in range(count)]
            memory = numpy.ones(max(sizes))  # written: pages of zeros would be one page of the caches
            least = numpy.full((count, len(calls)), numpy.inf)
            begin = time.perf_counter()
            for turn in range(_MAX_ROUNDS):
                if turn >= _MIN_ROUNDS and time.perf_counter() - begin > _SECONDS:
                    break
                for i, function in enumerate(functions):
                    memory[:sizes[i]].sum()
                    for call, arguments in enumerate(calls):
                        before = time.perf_counter_ns()
                        function(*arguments)
                        least[i, call] = min(least[i, call], time.perf_counter_ns() - before)
            for i in range(count):
                nanoseconds[i] = least[i].sum()

        return self._run(measure, is_recorded=not operand)

    def begin(self, _, program, calls):
        def start():
            self.expected = self._results(program[0])
            calls[0] = len(self.data)

        return self._run(start)

    def error(self, _, program, error):
        def compare():
            error[0] = float(self.metric(self.expected, self._results(program[0])))

        return self._run(compare)

    def observe(self, _, program, see, observer):
        def pass_on(site, activations):
            activations = numpy.ascontiguousarray(activations, dtype=numpy.float32)
            see(observer, int(site), activations.ctypes.data, activations.size)
            return ()

        return self._run(lambda: self._results(program[0], pass_on))


def quantize(program, *, scheme="w8", data=None, entry="main", observer="mse", error=None, metric=None, keep=(), group=32,
             force=False, params=None, target="host", opt_level=2, entries=None, imports=None):
    """Stores and multiplies weights in fewer bits, where that gains, as `relayvm quantize` does.

    program, params, target, opt_level, entries, imports: as of `compile`. scheme: "float16", "bfloat16", "w16a16", "w8", "w4",
    "w4a8-dynamic", "w8a8-dynamic" or "w8a8". data: calls of `entry` like those that the program is for, each a tuple of arguments, or an
    argument; "w8a8" needs them. observer: the rule for the range of activations: "mse", "minmax", "percentile=99.9" or
    "entropy". error: a bound for the error of the results; weights are left in more bits, the worst first, until it holds.
    metric: what that is, a function of two lists of results, those in floats first; by default the norm of the difference of
    all floats, divided by their norm. keep: names of weights that stay in floats. group: weights of 4 bits that share
    a scale. force: also quantise what is slower for it. Returns a Quantized; raises CompileError.
    """
    if error is not None and not error > 0:
        raise ValueError(f"error is {error!r}; expected a number above 0")
    name, text, fields, given = _given(program, params, entries, imports)
    names = _strings(keep, "keep")
    runs = _Runs(data, entry, metric or _norm)
    functions = [_TIME(runs.time)]
    functions += [_BEGIN(), _ERROR(), _OBSERVE()] if data is None else [_BEGIN(runs.begin), _ERROR(runs.error),
                                                                       _OBSERVE(runs.observe)]
    with _reporting(lambda *_: None) as (report, poll):
        options = _CompileOptions(ctypes.sizeof(_CompileOptions), opt_level, target.encode(), progress=report, poll=poll, **fields)
        wanted = _QuantizeOptions(ctypes.sizeof(_QuantizeOptions), bool(force), scheme.encode(), names, len(names), group,
                                  entry.encode(), observer.encode(), error or 0.0, None, *functions)
        kept = (given, names, report, poll, functions, runs)
        result = _call(lambda: kept and _Result(
            _lib.rvm_quantize(name, text, len(text), ctypes.byref(options), ctypes.byref(wanted)), None))
    if runs.failure is not None and (result.failed or not isinstance(runs.failure, Exception)):
        raise runs.failure
    result.raise_errors(CompileError)
    return Quantized(Executable._load(result.program_bytes, True, (), None, False), result)
