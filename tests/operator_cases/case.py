"""A case, and the random inputs of cases."""

import numpy as np

FLOATS = ["float16", "float32", "float64"]
INTS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
TOLERANCE = {"float16": 4e-3, "float32": 3e-6, "float64": 1e-9}


class Case:
    def __init__(self, op, expression, inputs, expected, tolerance=None, fixed=""):
        self.fixed = fixed  # parameters whose extents are always written
        self.op, self.expression = op, expression
        self.inputs = [np.asarray(a) for a in inputs]
        self.expected = np.asarray(expected)
        name = str(self.expected.dtype)
        self.tolerance = tolerance if tolerance is not None else TOLERANCE.get(name, 0)


def rng(*key):
    return np.random.default_rng(abs(hash_text("/".join(map(str, key)))))


def hash_text(text):
    value = 7
    for c in text:
        value = (value * 31 + ord(c)) % (1 << 61)
    return value


def random(shape, dtype, *key, low=-2.0, high=2.0):
    generator = rng(shape, dtype, *key)
    if dtype == "bool":
        return generator.integers(0, 2, shape).astype(bool)
    if dtype.startswith("float"):
        return generator.uniform(low, high, shape).astype(dtype)
    limits = np.iinfo(dtype)
    return generator.integers(max(limits.min, -20), min(limits.max, 20), shape, endpoint=True).astype(dtype)


def round_away(array):
    """To the nearest integer, halves away from zero."""
    return np.trunc(array + np.copysign(np.nextafter(array.dtype.type(0.5), 0), array)) if array.dtype.kind == "f" else array


def wide(array):
    """float16 is computed in float32 and rounded once, everything else in float64 or as it is."""
    return array.astype(np.float64) if array.dtype.kind == "f" else array
