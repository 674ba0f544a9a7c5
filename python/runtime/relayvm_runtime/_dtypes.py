"""dtypes of DLPack, which the machine has, and those of numpy."""

import numpy

from ._errors import InvalidArgument
from ._library import DType

_ml_dtypes = False  # not looked for yet
_CODES = {"i": 0, "u": 1, "f": 2, "b": 6}
KINDS = {0: "i", 1: "u", 2: "f", 6: "b"}
EXTENSIONS = {4: "bfloat16", 10: "float8_e4m3fn"}  # code -> name, of dtypes in ml_dtypes
EXTENSION_CODES = {name: code for code, name in EXTENSIONS.items()}


def extension(code):
    """The dtype of ml_dtypes with that DLPack code; None for others, and where ml_dtypes is not installed."""
    global _ml_dtypes
    if code not in EXTENSIONS:
        return None
    if _ml_dtypes is False:
        try:
            import ml_dtypes as _ml_dtypes
        except ImportError:  # then the dtypes that numpy has only with it come and go as their bits, uint16 and uint8
            _ml_dtypes = None
    return numpy.dtype(getattr(_ml_dtypes, EXTENSIONS[code])) if _ml_dtypes else None


def bfloat16_bits(array):
    """Numbers as the bits of the nearest bfloat16, ties to even.

    >>> [hex(bits) for bits in bfloat16_bits([1, -2, 1.00390625, 1.01171875])]
    ['0x3f80', '0xc000', '0x3f80', '0x3f82']
    """
    values = numpy.asarray(array, dtype=numpy.float32)
    bits = values.view(numpy.uint32)
    rounded = (bits + (0x7fff + ((bits >> 16) & 1))) >> 16
    return numpy.where(numpy.isnan(values), 0x7fc0 | (bits >> 16 & 0x8000), rounded).astype(numpy.uint16)


def dtype_of(array):
    if array.dtype.name in EXTENSION_CODES:
        return DType(EXTENSION_CODES[array.dtype.name], array.dtype.itemsize * 8, 1)
    if array.dtype.kind not in _CODES or not array.dtype.isnative:
        raise InvalidArgument(f"saw an array of dtype {array.dtype}; expected integers, floats or bool", "invalid-argument")
    return DType(_CODES[array.dtype.kind], array.dtype.itemsize * 8, 1)


def of_name(name):
    """The numpy dtype and the DType of a dtype of Relay; for one of ml_dtypes, the numpy dtype of its bits."""
    code = EXTENSION_CODES.get(name)
    wanted = numpy.dtype(name if code is None else "uint16" if name == "bfloat16" else "uint8")
    return wanted, dtype_of(numpy.empty(0, wanted)) if code is None else DType(code, wanted.itemsize * 8, 1)
