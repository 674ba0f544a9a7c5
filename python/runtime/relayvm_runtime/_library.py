"""The C interface of relayvm.h, declared for ctypes. ctypes releases the interpreter's lock during each call."""

import ctypes
import os
from ctypes import POINTER, c_char_p, c_double, c_int, c_int64, c_size_t, c_uint8, c_uint16, c_uint32, c_void_p


class DType(ctypes.Structure):
    _fields_ = [("code", c_uint8), ("bits", c_uint8), ("lanes", c_uint16)]


class LoadOptions(ctypes.Structure):
    _fields_ = [("struct_size", c_uint32), ("allow_native", c_uint32), ("trusted_keys", c_void_p),
                ("key_count", c_size_t), ("device", c_char_p), ("host_fallback", c_uint32)]


class MachineOptions(ctypes.Structure):
    _fields_ = [("struct_size", c_uint32), ("threads", c_uint32), ("memory_limit", c_int64), ("stack_limit", c_int64),
                ("fuel", c_int64), ("time_limit_ms", c_double), ("profile", c_uint32), ("trace_events", c_uint32)]


class MachineStats(ctypes.Structure):
    _fields_ = [("struct_size", c_uint32), ("reserved", c_uint32), ("live_bytes", c_int64), ("peak_bytes", c_int64),
                ("reserved_bytes", c_int64), ("allocations", c_int64)]


RELEASE = ctypes.CFUNCTYPE(None, c_void_p)
OUT = POINTER(c_void_p)
# name: result, arguments. void* results are handles; errors, too.
_FUNCTIONS = {
    "rvm_error_code": (c_int, [c_void_p]),
    "rvm_code_name": (c_char_p, [c_int]),
    "rvm_error_message": (c_char_p, [c_void_p]),
    "rvm_error_backtrace": (c_char_p, [c_void_p]),
    "rvm_error_limit": (c_char_p, [c_void_p]),
    "rvm_error_free": (None, [c_void_p]),
    "rvm_version": (c_uint32, []),
    "rvm_string_free": (None, [c_void_p]),
    "rvm_program_load": (c_void_p, [c_char_p, c_size_t, POINTER(LoadOptions), OUT]),
    "rvm_program_load_file": (c_void_p, [c_char_p, POINTER(LoadOptions), OUT]),
    "rvm_verify": (c_void_p, [c_char_p, c_size_t]),
    "rvm_sign": (c_void_p, [c_char_p, c_size_t, c_char_p, OUT, POINTER(c_size_t)]),
    "rvm_verify_file": (c_void_p, [c_char_p]),
    "rvm_program_release": (None, [c_void_p]),
    "rvm_program_entry_count": (c_size_t, [c_void_p]),
    "rvm_program_entry_type": (c_char_p, [c_void_p, c_size_t]),
    "rvm_program_signature": (c_char_p, [c_void_p]),
    "rvm_machine_create": (c_void_p, [c_void_p, POINTER(MachineOptions), OUT]),
    "rvm_machine_free": (None, [c_void_p]),
    "rvm_machine_run": (c_void_p, [c_void_p, c_char_p, POINTER(c_void_p), c_size_t, OUT]),
    "rvm_machine_cancel": (None, [c_void_p]),
    "rvm_machine_trim": (c_void_p, [c_void_p]),
    "rvm_machine_get_stats": (c_void_p, [c_void_p, POINTER(MachineStats)]),
    "rvm_machine_profile": (c_void_p, [c_void_p, c_int, OUT]),
    "rvm_value_tensor_borrow": (c_void_p, [DType, POINTER(c_int64), c_size_t, c_void_p, RELEASE, c_void_p, OUT]),
    "rvm_value_tensor_copy": (c_void_p, [DType, POINTER(c_int64), c_size_t, c_void_p, OUT]),
    "rvm_value_to_dlpack": (c_void_p, [c_void_p, OUT]),
    "rvm_value_tuple": (c_void_p, [POINTER(c_void_p), c_size_t, OUT]),
    "rvm_value_adt": (c_void_p, [c_char_p, POINTER(c_void_p), c_size_t, OUT]),
    "rvm_value_ref": (c_void_p, [c_void_p, OUT]),
    "rvm_value_release": (None, [c_void_p]),
    "rvm_value_kind": (c_int, [c_void_p]),
    "rvm_value_constructor": (c_char_p, [c_void_p]),
    "rvm_value_field_count": (c_size_t, [c_void_p]),
    "rvm_value_field": (c_void_p, [c_void_p, c_size_t]),
    "rvm_value_dtype": (DType, [c_void_p]),
    "rvm_value_rank": (c_size_t, [c_void_p]),
    "rvm_value_shape": (POINTER(c_int64), [c_void_p]),
    "rvm_value_data": (c_void_p, [c_void_p]),
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
        return ctypes.CDLL(os.environ[override])
    needed = sorted(file for file in os.listdir(folder) if ".so" in file and file != name)
    while needed:
        later = [file for file in needed if not _loads(os.path.join(folder, file))]
        if len(later) == len(needed):
            break  # the library itself says what is missing
        needed = later
    return ctypes.CDLL(os.path.join(folder, name))


def _loads(path):
    try:
        ctypes.CDLL(path)
    except OSError:
        return False
    return True


lib = declare(load("librelayvm.so.1", os.path.dirname(__file__), "RELAYVM_LIBRARY"), _FUNCTIONS)


def take_string(pointer):
    """A char* that the library made."""
    try:
        return ctypes.string_at(pointer).decode()
    finally:
        lib.rvm_string_free(pointer)
