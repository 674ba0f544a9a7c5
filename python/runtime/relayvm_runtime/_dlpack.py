"""Tensors of dtypes that numpy's DLPack does not have, bfloat16 and float8, in and out without copies."""

import ctypes

import numpy

from ._errors import check
from ._library import DType, lib


class _Device(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int32), ("id", ctypes.c_int32)]


class _Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device", _Device), ("ndim", ctypes.c_int32), ("dtype", DType),
                ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
                ("byte_offset", ctypes.c_uint64)]


_DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class _Managed(ctypes.Structure):
    _fields_ = [("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


class _Versioned(ctypes.Structure):
    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("context", ctypes.c_void_p),
                ("deleter", ctypes.c_void_p), ("flags", ctypes.c_uint64), ("tensor", _Tensor)]


_VERSION = (1, 0)
_NUMPY_CODES = (0, 1, 2, 5, 6)  # int, uint, float, complex, bool
_READ_ONLY = 1
_HOST = (1, 3, 11, 13)  # memory of the host: plain, pinned for CUDA and for ROCm, and managed by CUDA
# Capsules keep a pointer to their name, so the names are never freed.
_NAME, _VERSIONED_NAME, _USED, _VERSIONED_USED = b"dltensor", b"dltensor_versioned", b"used_dltensor", b"used_dltensor_versioned"


def _python(name, result, *arguments):
    return ctypes.PYFUNCTYPE(result, *arguments)((name, ctypes.pythonapi))


_DESTRUCTOR = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)
_new_capsule = _python("PyCapsule_New", ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
_is_valid = _python("PyCapsule_IsValid", ctypes.c_int, ctypes.py_object, ctypes.c_char_p)
_pointer_of = _python("PyCapsule_GetPointer", ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
_rename = _python("PyCapsule_SetName", ctypes.c_int, ctypes.py_object, ctypes.c_char_p)
# A destructor gets a capsule that has no references left, so it may not become an object of Python again.
_is_valid_dying = _python("PyCapsule_IsValid", ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)
_pointer_of_dying = _python("PyCapsule_GetPointer", ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)


def _delete(structure, address):
    deleter = structure.from_address(address).deleter
    if deleter:
        _DELETER(deleter)(address)


# ---- in


class _Borrowed:
    """Lends the memory of a DLPack tensor to numpy, and gives it back when it is not needed any more."""

    def __init__(self, structure, address, read_only):
        self._structure, self._address = structure, address
        tensor = structure.from_address(address).tensor
        size = tensor.dtype.bits // 8
        rank = tensor.ndim
        strides = tuple(tensor.strides[i] * size for i in range(rank)) if tensor.strides else None
        kind = f"<u{size}" if size > 1 else "|u1"
        self.__array_interface__ = {
            "version": 3, "shape": tuple(tensor.shape[:rank]) if rank else (), "typestr": kind, "strides": strides,
            "data": ((tensor.data or 0) + tensor.byte_offset, read_only)}

    def __del__(self, delete=_delete):
        delete(self._structure, self._address)


def bits_of(value, codes):
    """The elements of `value`, an object with `__dlpack__`, as unsigned integers of their bits, and its DLPack code.

    None for the dtypes that numpy's DLPack has; an error for those that are none of `codes` either.
    """
    try:
        capsule = value.__dlpack__(max_version=_VERSION)
    except TypeError:  # made before versions were
        capsule = value.__dlpack__()
    versioned = bool(_is_valid(capsule, _VERSIONED_NAME))
    if not versioned and not _is_valid(capsule, _NAME):
        raise BufferError("`__dlpack__` gave no capsule of a tensor")
    structure = _Versioned if versioned else _Managed
    address = _pointer_of(capsule, _VERSIONED_NAME if versioned else _NAME)
    if versioned and structure.from_address(address).major != _VERSION[0]:
        raise BufferError(f"saw DLPack {structure.from_address(address).major}; expected version {_VERSION[0]}")
    tensor = structure.from_address(address).tensor
    if tensor.dtype.code in _NUMPY_CODES:
        return None
    if tensor.dtype.code not in codes or tensor.dtype.lanes != 1:
        raise BufferError(f"its dtype has the code {tensor.dtype.code} of DLPack and {tensor.dtype.bits} bits, which Relay has not")
    if tensor.device.type not in _HOST:
        raise BufferError("saw a tensor in memory of a device; expected one in memory of the host")
    _rename(capsule, _VERSIONED_USED if versioned else _USED)  # from here on the memory is this side's to give back
    read_only = versioned and bool(structure.from_address(address).flags & _READ_ONLY)
    return numpy.asarray(_Borrowed(structure, address, read_only)), tensor.dtype.code


# ---- out


@_DESTRUCTOR
def _destroy(capsule):
    if _is_valid_dying(capsule, _VERSIONED_NAME):  # nobody took it
        _delete(_Versioned, _pointer_of_dying(capsule, _VERSIONED_NAME))


def capsule_of(handle):
    """A DLPack capsule of a value of the machine, which shares its memory."""
    out = ctypes.c_void_p()
    check(lib.rvm_value_to_dlpack(handle.pointer, ctypes.byref(out)))
    return _new_capsule(out.value, _VERSIONED_NAME, ctypes.cast(_destroy, ctypes.c_void_p))


class Array(numpy.ndarray):
    """An array of a dtype of ml_dtypes, which DLPack has and numpy's `__dlpack__` has not."""

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        from ._arguments import handle_of  # which uses this file
        if self.dtype.isbuiltin == 1:
            return super().__dlpack__(stream=stream, max_version=max_version, dl_device=dl_device, copy=copy)
        if stream is not None:
            raise RuntimeError("a tensor in memory of the host has no stream")
        if dl_device is not None and tuple(dl_device) != (1, 0):
            raise BufferError("a tensor can only be passed on in memory of the host")
        if max_version is None or max_version[0] < _VERSION[0]:
            raise BufferError("a read-only array needs DLPack 1.0 or newer, which says that it is one")
        if copy is False and not self.flags.c_contiguous:
            raise BufferError("the elements of this array do not lie one behind the other: it must be copied")
        return capsule_of(handle_of(self.copy() if copy else self))

    def __dlpack_device__(self):
        return (1, 0)
