"""Weights of the fixtures, drawn by their names, and files of weights in each form that MXNet and NNVM wrote."""

import struct
import zlib

import numpy as np

TYPES = ("float32", "float64", "float16", "uint8", "int32", "int8", "int64", "bool")


def draw(name, shape):
    """A weight: the same wherever it is drawn. Variances and scales are above 0; others keep the size of what passes."""
    random = np.random.RandomState(zlib.crc32(name.encode()))
    if name.endswith(("var", "gamma")):
        return random.uniform(.5, 1.5, shape).astype("float32")
    inputs = int(np.prod(shape[1:])) if len(shape) > 1 else 4
    return (random.standard_normal(shape) * np.sqrt(2 / inputs)).astype("float32")


def image(extent):
    return np.random.RandomState(extent).standard_normal((1, 3, extent, extent)).astype("float32")


def array(value, form):
    """One array. `form`: 2 and 1 of MXNet, 0 without a magic number."""
    extents = [struct.pack("<I" if form == 0 else "<q", extent) for extent in value.shape]
    head = {2: struct.pack("<Ii", 0xF993FAC9, 0), 1: struct.pack("<I", 0xF993FAC8), 0: b""}[form]
    return b"".join([head, struct.pack("<I", value.ndim), *extents, struct.pack("<iiI", 1, 0, TYPES.index(str(value.dtype))), value.tobytes()])


def params(weights, form=2):
    """A list of arrays with the names of `weights`."""
    names = [struct.pack("<Q", len(name)) + name.encode() for name in weights]
    return b"".join([struct.pack("<QQQ", 0x112, 0, len(weights)), *(array(value, form) for value in weights.values()),
                     struct.pack("<Q", len(names)), *names])


def blob(value):
    """A tensor as NNVM stores it: base/tensor_blob.h."""
    code = {"f": 2, "i": 0, "u": 1}[value.dtype.kind]
    return struct.pack("<QQiii", 0xDD5E40F096B4A13F, 0, 1, 0, value.ndim) + struct.pack("<BBH", code, value.dtype.itemsize * 8, 1) + \
        b"".join(struct.pack("<q", extent) for extent in value.shape) + struct.pack("<q", value.nbytes) + value.tobytes()


def nnvm_params(weights):
    names = b"".join(struct.pack("<Q", len(name)) + name.encode() for name in weights)
    return struct.pack("<QQQ", 0xF7E58D4F05049CB7, 0, len(weights)) + names + struct.pack("<Q", len(weights)) + \
        b"".join(blob(value) for value in weights.values())
