"""Executables as bytes and as files."""

import ctypes
import io
import mmap
import os
import threading

import numpy

from ._arguments import give_back, lend
from ._library import lib

_SHARED_SIZE = 1 << 20  # bytes from which an unpickled executable is mapped from a file


def buffer(source):
    """A memoryview of the bytes of `source`; None of a path."""
    if isinstance(source, (str, os.PathLike)):
        return None
    if isinstance(source, io.BytesIO):
        return source.getbuffer()
    if hasattr(source, "read") and not isinstance(source, mmap.mmap):
        source = source.read()
    view = memoryview(source)
    return view.cast("B") if view.nbytes else memoryview(b"")


def load_borrowed(data, options, out):
    """rvm_program_load_borrow of a memoryview, which stays as long as the program needs it. Returns its error."""
    array = numpy.frombuffer(data, numpy.uint8) if data.nbytes else numpy.zeros(1, numpy.uint8)
    key = lend(array)
    error = lib.rvm_program_load_borrow(array.__array_interface__["data"][0], data.nbytes, ctypes.byref(options),
                                        give_back, key, ctypes.byref(out))
    if error:
        give_back(key)
    return error


def write(path, data, mode=0o666, keep=lambda path: False):
    """Writes a file that is there as a whole or not at all. `keep`: whether a file that is there stays in its place."""
    path = os.fspath(path)
    temporary = f"{path}.{os.getpid()}.{threading.get_ident()}.tmp"
    try:
        with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "wb") as file:
            file.write(data)
        try:
            os.link(temporary, path)  # fails if another process was first
            os.unlink(temporary)
        except FileExistsError:
            os.unlink(temporary) if keep(path) else os.replace(temporary, path)
        except OSError:  # a file system without links
            os.replace(temporary, path)
    except BaseException:
        if os.path.exists(temporary):
            os.unlink(temporary)
        raise


def mapped(path):
    """The bytes of a file, which processes share."""
    with open(path, "rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def shared_name(data):
    """The name in the cache of a file with these bytes, which is their hash; None of few bytes."""
    if data.nbytes < _SHARED_SIZE:
        return None
    import hashlib  # which loads OpenSSL: a megabyte of each process
    return f"{hashlib.sha256(data).hexdigest()}.rvm"


def shared(data, name=None):
    """The path of a file of the cache with these bytes, written if it is not there. The bytes themselves if they are few, or if it
    cannot be written.

    The cache is the folder $RELAYVM_CACHE, or relayvm in the user's cache folder. Only files that nobody but the user can
    write are used. `name`: shared_name of the bytes, which a pickle has; a file that is written is named by its own bytes.
    """
    if data.nbytes < _SHARED_SIZE:
        return data
    folder = os.environ.get("RELAYVM_CACHE") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "relayvm")

    def is_right(path):
        return os.path.exists(path) and _is_own(path) and os.path.getsize(path) == data.nbytes

    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        if not _is_own(folder):
            return data
        if name is None or not is_right(os.path.join(folder, name)):
            name = shared_name(data)
        path = os.path.join(folder, name)
        if not is_right(path):
            write(path, data, mode=0o400, keep=is_right)
        return path
    except OSError:
        return data


def _is_own(path):
    status = os.stat(path)
    return status.st_uid == os.geteuid() and not status.st_mode & 0o022
