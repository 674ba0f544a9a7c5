"""Loads and runs compiled Relay programs (.rvm files).

>>> import relayvm_runtime as relayvm
>>> program = relayvm.load("lists.rvm")
>>> int(program([1, 2, 3]))
6
"""

import ctypes
import json
import os
import pickle

from . import _files
from ._arguments import Importer
from ._errors import (Cancelled, DeadlineExceeded, DeviceFailed, Error, FileError, HostFailed, InvalidArgument, InvalidFile,
                      ProgramFailed, ResourceExhausted, UnsupportedFile, UntrustedCode, check)
from ._library import LoadOptions, lib
from ._session import Argument, Entry, Function, Profile, RunStats, Session, Signature, Stats, check_control, check_limits, run_stats
from ._stream import Stream
from ._values import Adt, Closure, Ref, adt, from_handle

__all__ = ["Adt", "Argument", "Batch", "BatchStats", "Cancelled", "Closure", "DeadlineExceeded", "DeviceFailed", "Error", "Executable",
           "FileError", "Function", "HostFailed", "InvalidArgument", "InvalidFile", "Profile", "ProgramFailed", "Ref", "Request",
           "ResourceExhausted", "RunStats", "Session", "Signature", "Stats", "Stream", "UnsupportedFile", "UntrustedCode", "adt", "load",
           "verify"]
_OF_BATCHES = ("Batch", "BatchStats", "Request")
_version = lib.rvm_version()
__version__ = f"{_version >> 16}.{_version >> 8 & 255}.{_version & 255}"


def __getattr__(name):
    # With the first of them come concurrent.futures and logging, which take a megabyte of each process.
    if name not in _OF_BATCHES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from . import _batch
    return getattr(_batch, name)


def __dir__():
    return sorted({*globals(), *_OF_BATCHES})


def verify(source):
    """Checks an executable, a path or bytes, without running any of it. Raises InvalidFile."""
    data = _files.buffer(source)
    if data is None:
        check(lib.rvm_verify_file(os.fsencode(source)))
    else:
        data = bytes(data)
        check(lib.rvm_verify(data, len(data)))


def load(source, *, allow_native=None, trusted_keys=(), device=None, host_fallback=False):
    """Loads an executable: a path, or bytes: anything with a buffer (bytes, mmap, a numpy array of uint8) or a file object. Bytes
    are shared, not copied, and must not change; the file at a path is mapped, so that processes share it.

    Machine code runs with all rights of this process. `allow_native` allows it: by default for a path, and not for
    bytes. A file that one of `trusted_keys` signed runs in any case, and so does a portable one; a key is 32 bytes, or
    the path of the .pub file that `relayvm keygen` made.

    device: where kernels with code for a device run: "gpu", "opencl", "cuda", one of them ("opencl:1"), several between
    commas, or "host"; by default the first that fits. host_fallback: without such a device they run on the host, and
    otherwise that is an error.
    """
    return Executable._load(source, allow_native, trusted_keys, device, host_fallback)


class Executable:
    """A program that is ready to run. Immutable; any number of threads may use it, and so may the child of a fork. Pickles as its
    bytes; unpickled, a large one is mapped from a file that processes share (see `load`)."""

    def __init__(self):
        raise TypeError("load and compile make executables")

    @classmethod
    def _load(cls, source, allow_native, trusted_keys, device=None, host_fallback=False):
        self = cls.__new__(cls)
        data = _files.buffer(source)
        self._allow_native = data is None if allow_native is None else bool(allow_native)
        if isinstance(trusted_keys, (str, bytes, os.PathLike)):
            raise TypeError("trusted_keys is a list of keys; saw one key")
        self._trusted_keys = tuple(_key(key, _PUBLIC, 32, "public key") for key in trusted_keys)
        keys = ctypes.create_string_buffer(b"".join(self._trusted_keys))
        options = LoadOptions(ctypes.sizeof(LoadOptions), self._allow_native, ctypes.addressof(keys),
                              len(self._trusted_keys), None if device is None else device.encode(), host_fallback)
        self._device, self._host_fallback = device, bool(host_fallback)
        self._pointer, out = None, ctypes.c_void_p()
        if data is None:
            self._source = os.fspath(source)
            check(lib.rvm_program_load_file(os.fsencode(source), ctypes.byref(options), ctypes.byref(out)))
        else:
            self._source = data
            check(_files.load_borrowed(data, options, out))
        self._pointer = out.value
        self._signature = json.loads(lib.rvm_program_signature(self._pointer))
        importer = self._importer = Importer(self._signature)
        self._has_functions = importer.has_functions(self._signature["entries"])
        self._entries = {}
        for i, entry in enumerate(self._signature["entries"]):
            text = lib.rvm_program_entry_type(self._pointer, i).decode()
            self._entries[entry["name"]] = Entry(entry, text, importer)
        self._session_limits, self._run_limits = {}, {}
        self._idle, self._process = [], os.getpid()
        return self

    def __del__(self, release=lib.rvm_program_release):
        if getattr(self, "_pointer", None):
            release(self._pointer)

    def __call__(self, /, *args, **kwargs):
        """Runs the entry `main`. Parameters are given by position or by name."""
        return self._run("main", args, kwargs)

    async def call_async(self, /, *args, **kwargs):
        """Runs `main` in a worker thread; any number of calls may run at once. Cancelling the task cancels the run."""
        return await self._run_async("main", args, kwargs)

    def __getitem__(self, entry):
        """The entry with this name, as a function."""
        self._entry(entry, KeyError)
        return Function(self, entry)

    @property
    def entries(self):
        """The type of each entry, by name, as Relay writes it: {"main": "fn (%x: int32) -> int32"}."""
        return {name: entry.text for name, entry in self._entries.items()}

    @property
    def signature(self):
        """The Signature of `main`: names, dtypes and shapes of its inputs and outputs. `executable["name"].signature` is
        that of another entry."""
        return self._entry("main").signature

    @property
    def stats(self):
        """RunStats of now: the runs of this process, those of sessions and of with_limits() included.

        >>> program = load("lists.rvm")
        >>> int(program([1, 2, 3]))
        6
        >>> program.stats.runs, program.stats.errors
        (1, {})
        """
        return run_stats(self._pointer)

    @property
    def is_native(self):
        """Whether it holds machine code, for some kinds of CPUs only."""
        return self._signature["class"] == "native"

    def session(self, **limits):
        """A Session; its keyword arguments are those of Session."""
        return Session(self, **limits)

    def batch(self, **options):
        """A Batch, which runs requests together; its keyword arguments are those of Batch."""
        from ._batch import Batch
        return Batch(self, **options)

    def with_limits(self, *, threads=None, memory_limit=None, stack_limit=None, fuel=None, time_limit=None,
                    control=None):
        """The same program, whose calls have these limits; those that are not given stay. Limits and control are as of
        Session.

        >>> program = load("lists.rvm")
        >>> int(program.with_limits(time_limit=5)([1, 2, 3]))
        6
        """
        check_limits({"threads": threads, "memory_limit": memory_limit, "stack_limit": stack_limit, "fuel": fuel,
                      "time_limit": time_limit})
        check_control(control)
        other = type(self).__new__(type(self))
        vars(other).update(vars(self), _pointer=lib.rvm_program_retain(self._pointer))
        given = {"threads": threads, "memory_limit": memory_limit, "stack_limit": stack_limit, "control": control}
        given = {name: value for name, value in given.items() if value is not None}
        if given:  # other sessions; those of a run's limits are the same
            other._session_limits, other._idle = {**self._session_limits, **given}, []
        run = {"fuel": fuel, "time_limit": time_limit}
        other._run_limits = {**self._run_limits, **{name: value for name, value in run.items() if value is not None}}
        return other

    def _entry(self, name, error=None):
        entry = self._entries.get(name)
        if entry is None:
            text = f"no entry `{name}`; the executable has {', '.join(self._entries)}"
            raise error(text) if error else InvalidArgument(text, "invalid-argument")
        return entry

    def _take_session(self):
        """A session for one call, from those that earlier calls made. Lists are safe for threads, without a lock that a fork could
        leave locked."""
        if self._process != os.getpid():  # the child of a fork: sessions are its parent's
            self._idle, self._process = [], os.getpid()
        try:
            return self._idle.pop()
        except IndexError:
            return Session(self, **self._session_limits)

    def _run(self, name, args, kwargs):
        entry = self._entry(name)
        return self._invoke(entry, entry.handles(args, kwargs), from_handle)

    def _invoke(self, entry, handles, convert):
        """What `convert` makes of the Handle of a result, within the limits of this executable."""
        session = self._take_session()
        try:
            limits = self._run_limits
            return convert(session._invoke(entry, handles, **limits) if limits else session._invoke(entry, handles))
        finally:
            self._give_session(session)

    def _give_session(self, session):
        if not self._has_functions:  # else it may have closures for the caller
            self._idle.append(session)

    async def _run_async(self, name, args, kwargs):
        session = self._take_session()
        try:
            return await session._run_async(name, args, kwargs, **self._run_limits)
        finally:
            self._give_session(session)

    def stream(self, /, *args, ahead=0, **kwargs):
        """A Stream of what `main` emits: Session.stream, in a session of its own."""
        return self._stream("main", args, kwargs, ahead)

    def _stream(self, name, args, kwargs, ahead=0):
        return Session(self, **self._session_limits)._stream(name, args, kwargs, ahead, **self._run_limits)

    def tobytes(self):
        """The bytes of its file."""
        if isinstance(self._source, memoryview):
            return bytes(self._source)
        with open(self._source, "rb") as file:
            return file.read()

    def save(self, path, *, sign_with=None):
        """Writes the file, replacing it at once.

        sign_with: a secret key, as the path of the .key file that `relayvm keygen` made or as its 64 bytes. Who has the
        public key passes it to load() as one of `trusted_keys`.
        """
        _files.write(path, self.tobytes() if sign_with is None else _signed(self.tobytes(), _secret_key(sign_with)))

    def __reduce_ex__(self, protocol):
        data = self._source if isinstance(self._source, memoryview) else memoryview(_files.mapped(self._source))
        limits = {**self._session_limits, **self._run_limits}
        return (_unpickle, (pickle.PickleBuffer(data) if protocol >= 5 else bytes(data), self._allow_native,
                            self._trusted_keys, self._device, self._host_fallback, limits, _files.shared_name(data)))

    def __repr__(self):
        return "\n".join(f"@{name}: {text}" for name, text in self.entries.items())

    def _repr_html_(self):
        from . import _html
        return _html.program(self)


def _unpickle(data, allow_native, trusted_keys, device, host_fallback, limits, name=None):
    data = _files.shared(_files.buffer(data), name)
    executable = Executable._load(data, allow_native, trusted_keys, device, host_fallback)
    return executable.with_limits(**limits) if limits else executable


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
