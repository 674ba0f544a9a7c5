"""Loads and runs compiled Relay programs (.rvm files).

>>> import relayvm_runtime as relayvm
>>> program = relayvm.load("lists.rvm")
>>> int(program([1, 2, 3]))
6
"""

import asyncio
import ctypes
import json
import os
import threading

from . import _html
from ._errors import (Cancelled, DeadlineExceeded, DeviceFailed, Error, FileError, InvalidArgument, InvalidFile, ProgramFailed,
                      ResourceExhausted, UnsupportedFile, UntrustedCode, check)
from ._library import LoadOptions, MachineOptions, MachineStats, lib, take_string
from ._values import Adt, Closure, Handle, Importer, Ref, adt, from_handle

__all__ = ["Adt", "Cancelled", "Closure", "DeadlineExceeded", "DeviceFailed", "Error", "Executable", "FileError", "Function",
           "InvalidArgument", "InvalidFile", "Profile", "ProgramFailed", "Ref", "ResourceExhausted", "Session", "Stats",
           "UnsupportedFile", "UntrustedCode", "adt", "load", "verify"]
_version = lib.rvm_version()
__version__ = f"{_version >> 16}.{_version >> 8 & 255}.{_version & 255}"


def verify(source):
    """Checks an executable, a path or bytes, without running any of it. Raises InvalidFile."""
    if isinstance(source, (bytes, bytearray)):
        check(lib.rvm_verify(bytes(source), len(source)))
    else:
        check(lib.rvm_verify_file(os.fsencode(source)))


def load(source, *, allow_native=None, trusted_keys=(), device=None, host_fallback=False):
    """Loads an executable: a path, or bytes.

    Machine code runs with all rights of this process. `allow_native` allows it: by default for a path, and not for
    bytes. A file that one of `trusted_keys` signed runs in any case, and so does a portable one; a key is 32 bytes, or
    the path of the .pub file that `relayvm keygen` made.

    device: where kernels with code for a device run: "gpu", "opencl", "cuda", one of them ("opencl:1"), several between
    commas, or "host"; by default the first that fits. host_fallback: without such a device they run on the host, and
    otherwise that is an error.
    """
    return Executable._load(source, allow_native, trusted_keys, device, host_fallback)


class Executable:
    """A program that is ready to run. Immutable; any number of threads may use it; pickles as its bytes."""

    def __init__(self):
        raise TypeError("load and compile make executables")

    @classmethod
    def _load(cls, source, allow_native, trusted_keys, device=None, host_fallback=False):
        self = cls.__new__(cls)
        is_bytes = isinstance(source, (bytes, bytearray, memoryview))
        self._source = bytes(source) if is_bytes else os.fspath(source)
        self._allow_native = not is_bytes if allow_native is None else bool(allow_native)
        if isinstance(trusted_keys, (str, bytes, os.PathLike)):
            raise TypeError("trusted_keys is a list of keys; saw one key")
        self._trusted_keys = tuple(_key(key, _PUBLIC, 32, "public key") for key in trusted_keys)
        keys = ctypes.create_string_buffer(b"".join(self._trusted_keys))
        options = LoadOptions(ctypes.sizeof(LoadOptions), self._allow_native, ctypes.addressof(keys),
                              len(self._trusted_keys), None if device is None else device.encode(), host_fallback)
        self._device, self._host_fallback = device, bool(host_fallback)
        self._pointer, out = None, ctypes.c_void_p()
        if is_bytes:
            check(lib.rvm_program_load(self._source, len(self._source), ctypes.byref(options), ctypes.byref(out)))
        else:
            check(lib.rvm_program_load_file(os.fsencode(source), ctypes.byref(options), ctypes.byref(out)))
        self._pointer = out.value
        self._signature = json.loads(lib.rvm_program_signature(self._pointer))
        self._entries = {entry["name"]: entry for entry in self._signature["entries"]}
        self._importer = Importer(self._signature)
        self._idle, self._lock = [], threading.Lock()
        return self

    def __del__(self, release=lib.rvm_program_release):
        if getattr(self, "_pointer", None):
            release(self._pointer)

    def __call__(self, *args, **kwargs):
        """Runs the entry `main`. Parameters are given by position or by name."""
        return self._run("main", args, kwargs)

    def __getitem__(self, entry):
        """The entry with this name, as a function."""
        if entry not in self._entries:
            raise KeyError(f"no entry `{entry}`; the executable has {', '.join(self._entries)}")
        return Function(self, entry)

    @property
    def entries(self):
        """The type of each entry, by name, as Relay writes it: {"main": "fn (%x: int32) -> int32"}."""
        return {name: lib.rvm_program_entry_type(self._pointer, i).decode() for i, name in enumerate(self._entries)}

    @property
    def is_native(self):
        """Whether it holds machine code, for some kinds of CPUs only."""
        return self._signature["class"] == "native"

    def session(self, **limits):
        """A Session; its keyword arguments are those of Session."""
        return Session(self, **limits)

    def _run(self, entry, args, kwargs):
        """In a session of its own, reused by later calls."""
        with self._lock:
            session = self._idle.pop() if self._idle else None
        session = session or Session(self)
        try:
            return session(*args, entry=entry, **kwargs)
        finally:
            with self._lock:
                self._idle.append(session)

    def tobytes(self):
        """The bytes of its file."""
        if isinstance(self._source, bytes):
            return self._source
        with open(self._source, "rb") as file:
            return file.read()

    def save(self, path, *, sign_with=None):
        """Writes the file, replacing it at once.

        sign_with: a secret key, as the path of the .key file that `relayvm keygen` made or as its 64 bytes. Who has the
        public key passes it to load() as one of `trusted_keys`.
        """
        data = self.tobytes() if sign_with is None else _signed(self.tobytes(), _secret_key(sign_with))
        temporary = f"{os.fspath(path)}.{os.getpid()}.tmp"
        with open(temporary, "wb") as file:
            file.write(data)
        os.replace(temporary, path)

    def __reduce__(self):
        return (_unpickle, (self.tobytes(), self._allow_native, self._trusted_keys, self._device, self._host_fallback))

    def __repr__(self):
        return "\n".join(f"@{name}: {text}" for name, text in self.entries.items())

    def _repr_html_(self):
        return _html.program(self)


_SECRET, _PUBLIC = "relayvm-secret-key", "relayvm-public-key"


def _key(source, kind, size, what):
    """A key as bytes: itself, or what the text file at a path says."""
    if not isinstance(source, (bytes, bytearray)):
        with open(source, encoding="ascii", errors="replace") as file:
            words = file.read().split()
        try:
            source = bytes.fromhex(words[1]) if len(words) == 2 and words[0] == kind else b""
        except ValueError:
            source = b""
    if len(source) != size:
        raise InvalidArgument(f"this is no {what}; expected {size} bytes, or the path of a file of `relayvm keygen`",
                              "invalid-argument")
    return bytes(source)


def _secret_key(source):
    return _key(source, _SECRET, 64, "secret key")


def _signed(data, key):
    out, size = ctypes.c_void_p(), ctypes.c_size_t()
    check(lib.rvm_sign(data, len(data), key, ctypes.byref(out), ctypes.byref(size)))
    try:
        return ctypes.string_at(out, size.value)
    finally:
        lib.rvm_string_free(out)


def _unpickle(source, *options):
    return Executable._load(source, *options)


class Function:
    """An entry of an executable."""

    def __init__(self, executable, name):
        self._executable, self.name = executable, name

    def __call__(self, *args, **kwargs):
        return self._executable._run(self.name, args, kwargs)

    def __repr__(self):
        return f"@{self.name}: {self._executable.entries[self.name]}"


class Stats:
    """Memory of a session, in bytes: `live_bytes` now, `peak_bytes`, `reserved_bytes` of the system; `allocations`."""

    def __init__(self, stats):
        self.live_bytes, self.peak_bytes = stats.live_bytes, stats.peak_bytes
        self.reserved_bytes, self.allocations = stats.reserved_bytes, stats.allocations

    def __repr__(self):
        return f"Stats({', '.join(f'{name}={value}' for name, value in vars(self).items())})"


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
        return _html.profile(self.data())


class Session:
    """Heap, stack and limits of one run at a time, for one thread at a time; only cancel() is for any thread.

    threads: that share the work of one big kernel. memory_limit, stack_limit: bytes. fuel: calls and backward jumps of
    a run. time_limit: seconds of a run. profile: watch every instruction; trace_events: events of the time line kept.
    """

    def __init__(self, executable, *, threads=1, memory_limit=None, stack_limit=None, fuel=None, time_limit=None,
                 profile=False, trace_events=0):
        for name, value in (("memory_limit", memory_limit), ("stack_limit", stack_limit), ("fuel", fuel),
                            ("time_limit", time_limit), ("threads", threads)):
            if value is not None and not value > 0:
                raise InvalidArgument(f"`{name}` is {value}; expected more than 0", "invalid-argument")
        self._pointer, self._executable = None, executable
        options = MachineOptions(ctypes.sizeof(MachineOptions), threads, memory_limit or 0, stack_limit or 0, fuel or 0,
                                 (time_limit or 0) * 1e3, bool(profile), trace_events)
        out = ctypes.c_void_p()
        check(lib.rvm_machine_create(executable._pointer, ctypes.byref(options), ctypes.byref(out)))
        self._pointer = out.value

    def __del__(self, free=lib.rvm_machine_free):
        if getattr(self, "_pointer", None):
            free(self._pointer)

    def __reduce__(self):
        raise TypeError("a session cannot be copied or pickled; its executable can, and makes others")

    def _arguments(self, entry, args, kwargs):
        executable = self._executable
        if entry not in executable._entries:
            raise InvalidArgument(f"no entry `{entry}`; the executable has {', '.join(executable._entries)}", "invalid-argument")
        parameters = executable._entries[entry]["parameters"]
        names = [parameter["name"] for parameter in parameters]
        unknown = [name for name in kwargs if name not in names[len(args):]]
        missing = [name for name in names[len(args):] if name not in kwargs]
        if len(args) > len(names) or unknown or missing:
            detail = f"no value for {', '.join(missing)}" if missing else f"no parameter for {', '.join(unknown)}" if unknown else ""
            raise InvalidArgument(f"saw {len(args) + len(kwargs)} arguments{': ' + detail if detail else ''}; expected "
                                  f"`{entry}`: {executable.entries[entry]}", "invalid-argument")
        values = [*args, *(kwargs[name] for name in names[len(args):])]
        handles = []
        for i, (value, parameter) in enumerate(zip(values, parameters)):
            try:
                handles.append(executable._importer.handle(value, parameter["type"]))
            except InvalidArgument as error:
                raise InvalidArgument(f"argument {i + 1} (`%{parameter['name']}`) of `{entry}`: {error.message}",
                                      error.code) from error.__cause__
        return handles

    def _invoke(self, entry, handles):
        array = (ctypes.c_void_p * len(handles))(*(handle.pointer for handle in handles))
        out = ctypes.c_void_p()
        check(lib.rvm_machine_run(self._pointer, entry.encode(), array, len(handles), ctypes.byref(out)))
        return Handle(out.value)

    def __call__(self, *args, entry="main", **kwargs):
        """Runs an entry. Other threads of Python run meanwhile."""
        return from_handle(self._invoke(entry, self._arguments(entry, args, kwargs)))

    async def call_async(self, *args, entry="main", **kwargs):
        """Runs an entry in a worker thread. Cancelling the task cancels the run."""
        handles = self._arguments(entry, args, kwargs)
        run = asyncio.get_running_loop().run_in_executor(None, self._invoke, entry, handles)
        try:
            return from_handle(await asyncio.shield(run))
        except asyncio.CancelledError:
            # The run may not have begun: a cancel before that has no effect.
            while not run.done():
                self.cancel()
                await asyncio.wait([run], timeout=0.001)
            run.exception()
            raise

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
