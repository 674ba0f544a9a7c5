"""Tensors of PyTorch as values of the machine, and back, without copies."""

import ctypes

import torch
from relayvm_runtime import InvalidArgument
from relayvm_runtime import _dlpack
from relayvm_runtime._arguments import give_back, lend
from relayvm_runtime._errors import check
from relayvm_runtime._library import lib
from relayvm_runtime._values import SMALL, Handle

_CODES = {torch.bool: (6, 8), torch.bfloat16: (4, 16), torch.float16: (2, 16), torch.float32: (2, 32), torch.float64: (2, 64),
          torch.int8: (0, 8), torch.int16: (0, 16), torch.int32: (0, 32), torch.int64: (0, 64), torch.uint8: (1, 8),
          torch.uint16: (1, 16), torch.uint32: (1, 32), torch.uint64: (1, 64), torch.float8_e4m3fn: (10, 8)}
_WORDS = {dtype: code | bits << 8 | 1 << 16 for dtype, (code, bits) in _CODES.items()}
_INT64 = _WORDS[torch.int64]
_EXTENTS = [ctypes.c_int64 * rank for rank in range(16)]


def handle_of(tensor, owned=True):
    """A tensor of the CPU as a Handle that shares its memory. `owned`: the Handle keeps the memory alive."""
    word = _WORDS.get(tensor.dtype)
    if word is None or tensor.device.type != "cpu" or tensor.layout != torch.strided:
        raise InvalidArgument(f"saw a tensor of {tensor.dtype} of layout {tensor.layout} on the device {tensor.device}; expected a "
                              "dense tensor of the CPU of integers, floats or bool", "invalid-argument")
    if not tensor.is_contiguous() or tensor.is_neg():
        tensor, owned = tensor.resolve_neg().contiguous(), True
    shape = tensor.shape
    rank, size = len(shape), tensor.nbytes
    extents, out = (_EXTENTS[rank] if rank < 16 else ctypes.c_int64 * rank)(*shape), ctypes.c_void_p()
    if size <= SMALL:
        check(lib.rvm_value_tensor_copy(word, extents, rank, tensor.data_ptr(), ctypes.byref(out)))
    elif owned:
        check(lib.rvm_value_tensor_borrow(word, extents, rank, tensor.data_ptr(), give_back, lend(tensor), ctypes.byref(out)))
    else:
        check(lib.rvm_value_tensor_borrow(word, extents, rank, tensor.data_ptr(), _NO_RELEASE, None, ctypes.byref(out)))
    return Handle(out.value)


_NO_RELEASE = type(give_back)()


def handle_of_int(number):
    """An integer as a Handle of an int64."""
    out = ctypes.c_void_p()
    check(lib.rvm_value_tensor_copy(_INT64, _EXTENTS[0](), 0, ctypes.addressof(ctypes.c_int64(number)), ctypes.byref(out)))
    return Handle(out.value)


def tensor_of(handle):
    """A tensor of the machine as one of PyTorch, which shares its memory."""
    return torch.from_dlpack(_dlpack.capsule_of(handle))


def field(handle, number):
    """A field of a tuple, as a Handle."""
    return Handle(lib.rvm_value_field(handle.pointer, number))
