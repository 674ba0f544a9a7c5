"""Sessions: runs, their limits, and what they say of themselves."""

import ctypes
import json
import re
import threading
import typing

from ._arguments import enter_session, pointers, take_raised
from ._errors import HostFailed, InvalidArgument, check
from ._library import (MachineOptions, MachineStats, ProgramStats, RunOptions, SignalsError, lib, poll_signals, raise_signals_error,
                       take_string)
from ._stream import Stream
from ._values import Handle, from_handle


class Argument(typing.NamedTuple):
    """A parameter or a result: its name and its type as Relay writes it. `dtype` and `shape` are those of a tensor, otherwise
    None; an extent that is not fixed is its name or expression, or None."""

    name: str
    type: str
    dtype: str | None
    shape: tuple[int | str | None, ...] | None


class Signature(typing.NamedTuple):
    """The parameters and the results of an entry; a tuple is as many results as it has fields."""

    inputs: tuple[Argument, ...]
    outputs: tuple[Argument, ...]


def _argument(name, type_, text):
    if type_["kind"] != "tensor":
        return Argument(name, text, None, None)
    shape = tuple(type_["shape"])
    extents = re.fullmatch(r"Tensor\[\((.*)\), \w+\]", text)
    named = [extent.strip() for extent in extents[1].rstrip(",").split(",")] if extents else []
    if len(named) == len(shape):
        shape = tuple(fixed if fixed is not None else None if name == "?" else name for fixed, name in zip(shape, named))
    return Argument(name, text, type_["dtype"], shape)


class Entry:
    """A function that can be called from outside: how its arguments become values of the machine."""

    def __init__(self, description, text, importer):
        self.name, self.text = description["name"], text
        self.encoded = self.name.encode()
        self._names = [parameter["name"] for parameter in description["parameters"]]
        self._types = [parameter["type"] for parameter in description["parameters"]]
        self._importer, self._description = importer, description
        self._makers = None  # of the parameters, when they are first needed

    @property
    def signature(self):
        types, description = self._importer.types, self._description
        return Signature(
            tuple(_argument(p["name"], types[p["type"]], p["text"]) for p in description["parameters"]),
            tuple(_argument(r["name"], types[r["type"]], types[r["type"]]["text"]) for r in description["results"]))

    def handles(self, args, kwargs):
        """The arguments, by position and by name, as Handles. Raises InvalidArgument."""
        names = self._names
        if kwargs or len(args) != len(names):
            args = self._in_order(args, kwargs)
        if self._makers is None:
            self._makers = [self._importer.maker(type_) for type_ in self._types]
        handles = []
        try:
            for make, value in zip(self._makers, args):
                handles.append(make(value))
        except InvalidArgument as error:
            i = len(handles)
            raise InvalidArgument(f"argument {i + 1} (`%{names[i]}`) of `{self.name}`: {error.message}",
                                  error.code) from error.__cause__
        return handles

    def handles_with(self, emit, args, kwargs):
        """Like handles; `emit` is for the one parameter that is a function without a result and is not given."""
        types = self._importer.types
        functions = [name for name, type_ in zip(self._names, self._types)
                     if types[type_]["kind"] == "closure" and types[types[type_]["result"]].get("fields") == []
                     and name not in kwargs]
        if len(functions) != 1:
            raise InvalidArgument(f"saw {len(functions)} parameters to emit by{': ' if functions else ''}{', '.join(functions)}; "
                                  "expected one that is a function, of type fn (...) -> (), and is not given, of "
                                  f"`{self.name}`: {self.text}", "invalid-argument")
        others = [name for name in self._names if name not in functions]
        if len(args) > len(others):
            raise InvalidArgument(f"saw {len(args)} arguments; expected {len(others)} at most beside `{functions[0]}` of "
                                  f"`{self.name}`: {self.text}", "invalid-argument")
        given = dict(zip(others, args))
        if twice := [name for name in kwargs if name in given]:
            raise InvalidArgument(f"`{twice[0]}` is given twice, by position and by name", "invalid-argument")
        return self.handles((), {**given, **kwargs, functions[0]: emit})

    def _in_order(self, args, kwargs):
        names = self._names
        unknown = [name for name in kwargs if name not in names[len(args):]]
        missing = [name for name in names[len(args):] if name not in kwargs]
        if len(args) > len(names) or unknown or missing:
            detail = f"no value for {', '.join(missing)}" if missing else f"no parameter for {', '.join(unknown)}" if unknown else ""
            raise InvalidArgument(f"saw {len(args) + len(kwargs)} arguments{': ' + detail if detail else ''}; expected "
                                  f"`{self.name}`: {self.text}", "invalid-argument")
        return [*args, *(kwargs[name] for name in names[len(args):])]


class Function:
    """An entry of an executable or a session."""

    def __init__(self, owner, name):
        self._owner, self.name = owner, name

    def __call__(self, /, *args, **kwargs):
        return self._owner._run(self.name, args, kwargs)

    @property
    def signature(self):
        """A Signature."""
        return self._owner._entry(self.name).signature

    async def call_async(self, /, *args, **kwargs):
        """Runs the entry in a worker thread. Cancelling the task cancels the run."""
        return await self._owner._run_async(self.name, args, kwargs)

    def stream(self, /, *args, **kwargs):
        """A Stream of what the entry emits: Session.stream."""
        return self._owner._stream(self.name, args, kwargs)

    def __repr__(self):
        return f"@{self.name}: {self._owner.entries[self.name]}"


class Stats:
    """Memory of a session, in bytes: `live_bytes` now, `peak_bytes`, `reserved_bytes` of the system; `allocations`."""

    def __init__(self, stats):
        self.live_bytes, self.peak_bytes = stats.live_bytes, stats.peak_bytes
        self.reserved_bytes, self.allocations = stats.reserved_bytes, stats.allocations

    def __repr__(self):
        return f"Stats({', '.join(f'{name}={value}' for name, value in vars(self).items())})"


class RunStats(typing.NamedTuple):
    """What the runs of a program were, in all of its sessions: how many have ended, how many of them with an error, by its code,
    their seconds together, and the most bytes that one session has held."""

    runs: int
    errors: dict[str, int]
    seconds: float
    peak_bytes: int


def run_stats(program):
    stats = ProgramStats(ctypes.sizeof(ProgramStats))
    check(lib.rvm_program_get_stats(program, ctypes.byref(stats)))
    errors = {lib.rvm_code_name(code).decode(): count for code, count in enumerate(stats.errors) if count}
    return RunStats(stats.runs, errors, stats.seconds, stats.peak_bytes)


class Profile:
    """What the runs of a profiling session did."""

    def __init__(self, session):
        self._session = session

    def _text(self, form):
        out = ctypes.c_void_p()
        check(lib.rvm_machine_profile(self._session._pointer, form, ctypes.byref(out)))
        return take_string(out.value)

    def table(self):
        """Tables for people."""
        return self._text(0)

    def data(self):
        """Counts and times as dicts and lists."""
        return json.loads(self._text(1))

    def save_trace(self, path):
        """Writes a time line for ui.perfetto.dev."""
        with open(path, "w", encoding="utf-8") as file:
            file.write(self._text(2))

    def __str__(self):
        return self.table()

    def _repr_html_(self):
        from . import _html
        return _html.profile(self.data())


def check_limits(limits):
    """Raises InvalidArgument for a limit that is not above 0."""
    for name, value in limits.items():
        if value is not None and not value > 0:
            raise InvalidArgument(f"`{name}` is {value}; expected more than 0", "invalid-argument")


def machine_options(threads=1, memory_limit=None, stack_limit=None, fuel=None, time_limit=None):
    """MachineOptions with these limits. Raises InvalidArgument."""
    check_limits({"memory_limit": memory_limit, "stack_limit": stack_limit, "fuel": fuel, "time_limit": time_limit,
                  "threads": threads})
    return MachineOptions(ctypes.sizeof(MachineOptions), threads, memory_limit or 0, stack_limit or 0, fuel or 0,
                          (time_limit or 0) * 1e3)


def check_control(control):
    """Raises InvalidArgument for what is no kind of control."""
    if control not in (None, "native", "bytecode"):
        raise InvalidArgument(f"`control` is {control!r}; expected 'native' or 'bytecode'", "invalid-argument")


class Session:
    """Heap, stack and limits of one run at a time, for one thread at a time; only cancel() is for any thread.

    threads: that share the work of one big kernel. memory_limit, stack_limit: bytes. fuel: calls and backward jumps of
    a run. time_limit: seconds of a run. profile: watch every instruction; trace_events: events of the time line kept.
    control: "bytecode" runs functions as bytecode; by default they run as machine code where the executable has some.

    A session gives its memory back when it is freed, or at the end of a `with` block; then it cannot run any more.
    In the child of a fork it cannot run either; the executable can.
    """

    def __init__(self, executable, *, threads=1, memory_limit=None, stack_limit=None, fuel=None, time_limit=None,
                 profile=False, trace_events=0, control=None):
        check_control(control)
        self._pointer, self._executable = None, executable
        options = machine_options(threads, memory_limit, stack_limit, fuel, time_limit)
        options.profile, options.trace_events, options.bytecode = bool(profile), trace_events, control == "bytecode"
        out = ctypes.c_void_p()
        check(lib.rvm_machine_create(executable._pointer, ctypes.byref(options), ctypes.byref(out)))
        self._pointer = out.value
        self._signals_error = SignalsError()
        self._has_functions = executable._has_functions
        self._main_options = self._run_options()

    def __del__(self, free=lib.rvm_machine_free):
        pointer, self._pointer = getattr(self, "_pointer", None), None
        if pointer:
            free(pointer)

    def close(self):
        """Frees the memory. A run that another thread is in is cancelled."""
        self.__del__()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __reduce__(self):
        raise TypeError("a session cannot be copied or pickled; its executable can, and makes others")

    def __getitem__(self, entry):
        """The entry with this name, as a function."""
        self._entry(entry, KeyError)
        return Function(self, entry)

    def _entry(self, name, error=None):
        return self._executable._entry(name, error)

    @property
    def entries(self):
        """The type of each entry, by name, as Relay writes it."""
        return self._executable.entries

    def _run_options(self, polls=True, fuel=0, time_limit=0):
        options = RunOptions(ctypes.sizeof(RunOptions), 0, fuel, time_limit * 1e3)
        if polls and poll_signals is not None:
            options.poll, options.poll_context = poll_signals, ctypes.addressof(self._signals_error)
        return ctypes.byref(options)

    def _invoke(self, entry, handles, fuel=None, time_limit=None):
        """Runs an entry to a Handle. Handlers of signals run meanwhile if this is the main thread; their exceptions end the run."""
        is_main = threading.current_thread() is threading.main_thread()
        if fuel or time_limit:
            options = self._run_options(is_main, fuel or 0, time_limit or 0)
        else:
            options = self._main_options if is_main else None
        if self._has_functions:
            return self._invoke_with_functions(entry, handles, options)
        out = ctypes.c_void_p()
        error = lib.rvm_machine_run_with(self._pointer, entry.encoded, pointers(handles), len(handles), options,
                                         ctypes.byref(out))
        if error:
            self._raise(error)
        return Handle(out.value)

    def _invoke_with_functions(self, entry, handles, options):
        """Runs an entry, or a closure that its Handle stands for."""
        is_closure = isinstance(entry, Handle)
        out, outer = ctypes.c_void_p(), enter_session(self)
        take_raised()  # of a batch on this thread
        try:
            run = lib.rvm_machine_call if is_closure else lib.rvm_machine_run_with
            error = run(self._pointer, entry.pointer if is_closure else entry.encoded, pointers(handles), len(handles), options,
                        ctypes.byref(out))
            raised = take_raised()
        finally:
            enter_session(outer)
        if error:
            self._raise(error, raised)
        return Handle(out.value, self)

    def _raise(self, error, raised=None):
        """Raises the error of a run. `raised`: the exception of a function of the host, if one was raised in it."""
        if self._signals_error.type:
            lib.rvm_error_free(error)
            raise_signals_error(ctypes.byref(self._signals_error))
        try:
            check(error)
        except HostFailed:
            if raised is None:
                raise
        raise raised

    def _call(self, function, args):
        """Runs a closure of this session: what Closure.__call__ does."""
        importer, index = self._executable._importer, lib.rvm_value_function_type(function.pointer)
        if index >= 0:
            type_ = importer.types[index]
            if len(args) != len(type_["parameters"]):
                raise InvalidArgument(f"saw {len(args)} arguments; expected a call of {type_['text']}", "invalid-argument")
            handles = []
            for value, parameter in zip(args, type_["parameters"]):
                try:
                    handles.append(importer.handle(value, parameter))
                except InvalidArgument as error:
                    raise InvalidArgument(f"argument {len(handles) + 1} of {type_['text']}: {error.message}",
                                          error.code) from error.__cause__
        else:
            handles = []  # the machine says what is wrong
        return from_handle(self._invoke(function, handles))

    def _stream(self, entry, args, kwargs, ahead=0, **limits):
        return Stream(self, self._entry(entry), args, kwargs, ahead, limits, from_handle)

    def _run(self, entry, args, kwargs):
        entry = self._entry(entry)
        return from_handle(self._invoke(entry, entry.handles(args, kwargs)))

    async def _run_async(self, entry, args, kwargs, **limits):
        import asyncio  # whoever calls this has it; others save its memory
        entry = self._entry(entry)
        handles = entry.handles(args, kwargs)
        run = asyncio.get_running_loop().run_in_executor(None, lambda: self._invoke(entry, handles, **limits))
        try:
            return from_handle(await asyncio.shield(run))
        except asyncio.CancelledError:
            # The run may not have begun: a cancel before that has no effect.
            while not run.done():
                self.cancel()
                await asyncio.wait([run], timeout=0.001)
            run.exception()
            raise

    def __call__(self, /, *args, entry="main", **kwargs):
        """Runs an entry. Other threads of Python run meanwhile. `session["name"]` also calls an entry that has a parameter named
        `entry`, by name."""
        return self._run(entry, args, kwargs)

    async def call_async(self, /, *args, entry="main", **kwargs):
        """Runs an entry in a worker thread. Cancelling the task cancels the run."""
        return await self._run_async(entry, args, kwargs)

    def stream(self, /, *args, entry="main", ahead=0, **kwargs):
        """A Stream of the values that an entry emits while it runs, by calling a parameter of type `fn (...) -> ()`: the one that
        is not given. Several arguments of a call are a tuple. `for token in session.stream(prompt)` and `async for` take them.

        ahead: values that the program may compute before the consumer asks for them; with 0 it waits after each.
        """
        return self._stream(entry, args, kwargs, ahead)

    def cancel(self):
        """Ends the run that is going on, if any: it raises Cancelled. Any thread may call this."""
        lib.rvm_machine_cancel(self._pointer)

    def trim(self):
        """Gives cached memory back to the system."""
        check(lib.rvm_machine_trim(self._pointer))

    @property
    def stats(self):
        """Stats of now."""
        stats = MachineStats(ctypes.sizeof(MachineStats))
        check(lib.rvm_machine_get_stats(self._pointer, ctypes.byref(stats)))
        return Stats(stats)

    @property
    def profile(self):
        """Profile of all runs of a session made with `profile=True`."""
        return Profile(self)
