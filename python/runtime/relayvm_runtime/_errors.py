"""What can go wrong, as exceptions."""

from ._library import lib


class Error(Exception):
    """Base of all errors of RelayVM.

    `code` is a stable name ("program-failed"), `message` one or a few lines for people, `backtrace` the Relay functions
    that ran, innermost first, `limit` the limit that was reached ("memory", "stack", "fuel", "time") or "".
    """

    def __init__(self, message, code="", backtrace="", limit=""):
        super().__init__(message + ("\n" + backtrace.rstrip("\n") if backtrace else ""))
        self.message, self.code, self.backtrace, self.limit = message, code, backtrace, limit

    def __reduce__(self):
        return (type(self), (self.message, self.code, self.backtrace, self.limit))


class InvalidArgument(Error, ValueError):
    """An argument has another type, dtype, shape or constructor than the entry takes."""


class InvalidFile(Error):
    """The bytes are damaged, or no executable."""


class UnsupportedFile(Error):
    """The file needs a newer RelayVM, another CPU, or a device that is not here."""


class UntrustedCode(Error):
    """The file has machine code that is neither allowed nor signed by a trusted key."""


class FileError(Error, OSError):
    """A file cannot be read."""

    def __str__(self):
        return self.message


class ProgramFailed(Error):
    """The program itself failed: no clause of a match fits, an index or an extent is out of range."""


class ResourceExhausted(Error, MemoryError):
    """A limit of memory, stack or fuel was reached."""


class DeadlineExceeded(Error, TimeoutError):
    """The time limit is over."""

    def __str__(self):
        return self.message


class Cancelled(Error):
    """The run was cancelled."""


class DeviceFailed(Error):
    """A GPU or other device failed, or is lost. The next run begins anew."""


class HostFailed(Error):
    """A function of the host that a program called failed. One of Python passes its own exception on instead."""


_BY_CODE = {
    "invalid-argument": InvalidArgument, "invalid-file": InvalidFile, "unsupported-version": UnsupportedFile,
    "unsupported-target": UnsupportedFile, "untrusted-code": UntrustedCode, "io": FileError,
    "program-failed": ProgramFailed, "resource-exhausted": ResourceExhausted, "deadline-exceeded": DeadlineExceeded,
    "cancelled": Cancelled, "device-failed": DeviceFailed, "host-failed": HostFailed,
}


def check(error):
    """Raises an rvm_error*, which may be null, and frees it."""
    if error:
        raise error_of(error)


def error_of(error):
    """An rvm_error* as an exception; frees it."""
    code = lib.rvm_code_name(lib.rvm_error_code(error)).decode()
    texts = [f(error).decode(errors="replace")
             for f in (lib.rvm_error_message, lib.rvm_error_backtrace, lib.rvm_error_limit)]
    lib.rvm_error_free(error)
    return _BY_CODE.get(code, Error)(texts[0], code, *texts[1:])
