"""The C interface of relayvm.h, declared for ctypes."""

import ctypes
import os
import types
from ctypes import POINTER, c_char_p, c_double, c_int, c_int64, c_size_t, c_uint8, c_uint16, c_uint32, c_uint64, c_void_p


class DType(ctypes.Structure):
    _fields_ = [("code", c_uint8), ("bits", c_uint8), ("lanes", c_uint16)]

    def word(self):
        """The struct as a function takes it, in a register. ctypes takes five times as long for a struct as for a number."""
        return self.code | self.bits << 8 | self.lanes << 16


class LoadOptions(ctypes.Structure):
    _fields_ = [("struct_size", c_uint32), ("allow_native", c_uint32), ("trusted_keys", c_void_p),
                ("key_count", c_size_t), ("device", c_char_p), ("host_fallback", c_uint32)]


class MachineOptions(ctypes.Structure):
    _fields_ = [("struct_size", c_uint32), ("threads", c_uint32), ("memory_limit", c_int64), ("stack_limit", c_int64),
                ("fuel", c_int64), ("time_limit_ms", c_double), ("profile", c_uint32), ("trace_events", c_uint32),
                ("bytecode", c_uint32), ("reserved", c_uint32)]


class MachineStats(ctypes.Structure):
    _fields_ = [("struct_size", c_uint32), ("reserved", c_uint32), ("live_bytes", c_int64), ("peak_bytes", c_int64),
                ("reserved_bytes", c_int64), ("allocations", c_int64)]


class BatchOptions(ctypes.Structure):
    _fields_ = [("struct_size", c_uint32), ("lanes", c_uint32), ("machine", POINTER(MachineOptions))]


class BatchStats(ctypes.Structure):
    _fields_ = [("struct_size", c_uint32), ("reserved", c_uint32), ("requests", c_int64), ("calls", c_int64),
                ("groups", c_int64)]


class RunOptions(ctypes.Structure):
    _fields_ = [("struct_size", c_uint32), ("reserved", c_uint32), ("fuel", c_int64), ("time_limit_ms", c_double),
                ("poll", c_void_p), ("poll_context", c_void_p)]


class ProgramStats(ctypes.Structure):
    _fields_ = [("struct_size", c_uint32), ("reserved", c_uint32), ("runs", c_int64), ("errors", c_int64 * 16),
                ("seconds", c_double), ("peak_bytes", c_int64)]


class ValueInfo(ctypes.Structure):
    # `dtype` as DType.word().
    _fields_ = [("struct_size", c_uint32), ("kind", c_int), ("dtype", c_uint32), ("rank", c_uint32),
                ("shape", POINTER(c_int64)), ("data", c_void_p), ("constructor", c_char_p), ("field_count", c_size_t)]


RELEASE = ctypes.CFUNCTYPE(None, c_void_p)
DONE = ctypes.CFUNCTYPE(None, c_void_p, c_void_p, c_void_p)
FUNCTION = ctypes.CFUNCTYPE(c_void_p, c_void_p, POINTER(c_void_p), c_size_t, POINTER(c_void_p))
OUT = POINTER(c_void_p)
# name: result, arguments. void* results are handles; errors, too. ctypes releases the interpreter's lock during calls of
# these, which may take long.
_LONG_FUNCTIONS = {
    "rvm_program_load_borrow": (c_void_p, [c_void_p, c_size_t, POINTER(LoadOptions), RELEASE, c_void_p, OUT]),
    "rvm_program_load_file": (c_void_p, [c_char_p, POINTER(LoadOptions), OUT]),
    "rvm_verify": (c_void_p, [c_char_p, c_size_t]),
    "rvm_verify_file": (c_void_p, [c_char_p]),
    "rvm_sign": (c_void_p, [c_char_p, c_size_t, c_char_p, OUT, POINTER(c_size_t)]),
    "rvm_machine_create": (c_void_p, [c_void_p, POINTER(MachineOptions), OUT]),
    "rvm_machine_free": (None, [c_void_p]),
    "rvm_machine_run_with": (c_void_p, [c_void_p, c_char_p, POINTER(c_void_p), c_size_t, POINTER(RunOptions), OUT]),
    "rvm_machine_call": (c_void_p, [c_void_p, c_void_p, POINTER(c_void_p), c_size_t, POINTER(RunOptions), OUT]),
    "rvm_machine_trim": (c_void_p, [c_void_p]),
    "rvm_machine_profile": (c_void_p, [c_void_p, c_int, OUT]),
    "rvm_batch_create": (c_void_p, [c_void_p, POINTER(BatchOptions), OUT]),
    "rvm_batch_free": (None, [c_void_p]),
    "rvm_batch_submit": (c_void_p, [c_void_p, c_char_p, POINTER(c_void_p), c_size_t, POINTER(RunOptions), DONE, c_void_p,
                                    POINTER(c_uint64)]),
    "rvm_batch_cancel": (None, [c_void_p, c_uint64]),
    "rvm_batch_drive": (c_void_p, [c_void_p, c_double]),
    "rvm_batch_get_stats": (c_void_p, [c_void_p, POINTER(BatchStats)]),
}
# Calls of these keep the lock, since to give it up and get it back would take longer.
_SHORT_FUNCTIONS = {
    "rvm_error_code": (c_int, [c_void_p]),
    "rvm_code_name": (c_char_p, [c_int]),
    "rvm_error_message": (c_char_p, [c_void_p]),
    "rvm_error_backtrace": (c_char_p, [c_void_p]),
    "rvm_error_limit": (c_char_p, [c_void_p]),
    "rvm_error_free": (None, [c_void_p]),
    "rvm_error_create": (c_void_p, [c_char_p]),
    "rvm_version": (c_uint32, []),
    "rvm_string_free": (None, [c_void_p]),
    "rvm_program_retain": (c_void_p, [c_void_p]),
    "rvm_program_release": (None, [c_void_p]),
    "rvm_program_entry_count": (c_size_t, [c_void_p]),
    "rvm_program_entry_type": (c_char_p, [c_void_p, c_size_t]),
    "rvm_program_signature": (c_char_p, [c_void_p]),
    "rvm_program_get_stats": (c_void_p, [c_void_p, POINTER(ProgramStats)]),
    "rvm_machine_cancel": (None, [c_void_p]),
    "rvm_machine_get_stats": (c_void_p, [c_void_p, POINTER(MachineStats)]),
    "rvm_value_tensor_borrow": (c_void_p, [c_uint32, POINTER(c_int64), c_size_t, c_void_p, RELEASE, c_void_p, OUT]),
    "rvm_value_tensor_copy": (c_void_p, [c_uint32, POINTER(c_int64), c_size_t, c_void_p, OUT]),
    "rvm_value_to_dlpack": (c_void_p, [c_void_p, OUT]),
    "rvm_value_tuple": (c_void_p, [POINTER(c_void_p), c_size_t, OUT]),
    "rvm_value_adt": (c_void_p, [c_char_p, POINTER(c_void_p), c_size_t, OUT]),
    "rvm_value_ref": (c_void_p, [c_void_p, OUT]),
    "rvm_value_list": (c_void_p, [POINTER(c_void_p), c_size_t, OUT]),
    "rvm_value_list_from_tensor": (c_void_p, [c_void_p, OUT]),
    "rvm_value_list_to_tensor": (c_void_p, [c_void_p, OUT]),
    "rvm_value_list_elements": (c_void_p, [c_void_p, POINTER(c_void_p), c_size_t, POINTER(c_size_t)]),
    "rvm_value_function": (c_void_p, [FUNCTION, RELEASE, c_void_p, OUT]),
    "rvm_value_function_type": (c_int64, [c_void_p]),
    "rvm_value_retain": (c_void_p, [c_void_p]),
    "rvm_value_release": (None, [c_void_p]),
    "rvm_value_field": (c_void_p, [c_void_p, c_size_t]),
    "rvm_value_get_info": (c_void_p, [c_void_p, POINTER(ValueInfo)]),
    "rvm_value_to_string": (c_void_p, [c_void_p]),
}


def declare(library, functions):
    for name, (result, arguments) in functions.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


def load(name, folder, override):
    """The library `name` beside the package, with the libraries that its wheel brings; `override` is a variable of the
    environment that gives another path.

    The ones it needs are loaded first, each after those that it needs itself: one that was built with a run path of its
    own, as LLVM is, would not be searched for here.
    """
    if os.environ.get(override):
        return _open(os.environ[override])
    needed = sorted(file for file in os.listdir(folder) if ".so" in file and file != name)
    while needed:
        later = [file for file in needed if not _loads(os.path.join(folder, file))]
        if len(later) == len(needed):
            break  # the library itself says what is missing
        needed = later
    return _open(os.path.join(folder, name))


def _open(path):
    """Opens a library that takes its own LLVM and Abseil before those that another module of the process exports."""
    return ctypes.CDLL(path, mode=ctypes.DEFAULT_MODE | getattr(os, "RTLD_DEEPBIND", 0))


def _loads(path):
    try:
        _open(path)
    except OSError:
        return False
    return True


def _declare_all(library):
    declare(library, _LONG_FUNCTIONS)
    short = declare(ctypes.PyDLL(library._name), _SHORT_FUNCTIONS)
    functions = {name: getattr(library, name) for name in _LONG_FUNCTIONS}
    return types.SimpleNamespace(**functions, **{name: getattr(short, name) for name in _SHORT_FUNCTIONS})


_library = load("librelayvm.so.1", os.path.dirname(__file__), "RELAYVM_LIBRARY")
lib = _declare_all(_library)


class SignalsError(ctypes.Structure):
    """The exception of a handler of signals that ran during a run: python_signals.c."""

    _fields_ = [("type", c_void_p), ("value", c_void_p), ("traceback", c_void_p)]


def _load_signals():
    """The function that polls signals, and the one that raises a SignalsError. Without them a signal waits for the end of a run."""
    try:
        signals = ctypes.PyDLL(os.path.join(os.path.dirname(_library._name), "librelayvm_python_signals.so"))
    except OSError:
        return None, None
    signals.relayvm_signals_raise.restype, signals.relayvm_signals_raise.argtypes = None, [POINTER(SignalsError)]
    return ctypes.cast(signals.relayvm_signals_poll, c_void_p).value, signals.relayvm_signals_raise


poll_signals, raise_signals_error = _load_signals()


def take_string(pointer):
    """A char* that the library made."""
    try:
        return ctypes.string_at(pointer).decode()
    finally:
        lib.rvm_string_free(pointer)
