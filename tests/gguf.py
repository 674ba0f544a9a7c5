"""GGUF files for tests: a writer, and blocks of random quantised elements with their values."""

import struct

import numpy as np

TYPES = {"F32": 0, "F16": 1, "Q4_0": 2, "Q8_0": 8, "Q5_K": 13, "Q4_K": 12, "Q6_K": 14, "BF16": 30}
ALIGNMENT = 32


def string(text):
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def value(given):
    """A value of metadata, with its type before it."""
    if isinstance(given, bool):
        return struct.pack("<IB", 7, given)
    if isinstance(given, int):
        return struct.pack("<II", 4, given)
    if isinstance(given, float):
        return struct.pack("<If", 6, given)
    if isinstance(given, str):
        return struct.pack("<I", 8) + string(given)
    items = [value(item) for item in given]  # each has its type, which an array has once
    return struct.pack("<I", 9) + items[0][:4] + struct.pack("<Q", len(items)) + b"".join(item[4:] for item in items)


def write(path, metadata, tensors, version=3):
    """`tensors`: by name (type, shape with the outermost axis first, bytes)."""
    header = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(metadata))
    for key, given in metadata.items():
        header += string(key) + value(given)
    data = b""
    for name, (kind, shape, content) in tensors.items():
        header += string(name) + struct.pack("<I", len(shape)) + struct.pack(f"<{len(shape)}Q", *reversed(shape))
        header += struct.pack("<IQ", TYPES.get(kind, 99), len(data))
        data += content + b"\0" * (-len(content) % ALIGNMENT)
    with open(path, "wb") as file:
        file.write(header + b"\0" * (-len(header) % ALIGNMENT) + data)


def bfloat16(values):
    return (np.asarray(values, "<f4").view("<u4") >> 16).astype("<u2")


def plain(kind, values):
    """Values as bytes of a type of floats, and as that type has them."""
    if kind == "BF16":
        bits = bfloat16(values)
        return bits.tobytes(), (bits.astype("<u4") << 16).view("<f4")
    stored = np.asarray(values, {"F32": "<f4", "F16": "<f2"}[kind])
    return stored.tobytes(), stored.astype("f4")


def low_and_high(codes, run):
    """Codes of 4 bits: `run` in the low bits of bytes, the next `run` in the high ones."""
    pairs = codes.reshape(len(codes), -1, 2, run)
    return (pairs[:, :, 0] | pairs[:, :, 1] << 4).reshape(len(codes), -1).astype("u1")


def halves(dice, count, scale):
    return (dice.uniform(0.5, 1, (count, 1)) * scale).astype("<f2")


def q8_0(dice, count):
    scale, codes = halves(dice, count, 2e-3), dice.integers(-128, 128, (count, 32)).astype("i1")
    return np.hstack([scale.view("u1"), codes.view("u1")]), scale.astype("f4") * codes


def q4_0(dice, count):
    scale, codes = halves(dice, count, 3e-2), dice.integers(0, 16, (count, 32))
    return np.hstack([scale.view("u1"), low_and_high(codes, 16)]), scale.astype("f4") * (codes - 8)


def q4_k(dice, count):
    factor, minimum = halves(dice, count, 6e-4), halves(dice, count, 4e-3)
    scales, minima = dice.integers(0, 64, (count, 8)), dice.integers(0, 64, (count, 8))
    codes = dice.integers(0, 16, (count, 256))
    packed = np.hstack([scales[:, :4] | scales[:, 4:] >> 4 << 6, minima[:, :4] | minima[:, 4:] >> 4 << 6,
                        scales[:, 4:] & 15 | (minima[:, 4:] & 15) << 4]).astype("u1")
    values = (factor.astype("f4") * scales).repeat(32, 1) * codes - (minimum.astype("f4") * minima).repeat(32, 1)
    return np.hstack([factor.view("u1"), minimum.view("u1"), packed, low_and_high(codes, 32)]), values


def q6_k(dice, count):
    factor, scales = halves(dice, count, 1e-4), dice.integers(-128, 128, (count, 16)).astype("i1")
    codes = dice.integers(0, 64, (count, 256))
    quarters = codes.reshape(count, 2, 4, 32)  # of each half
    low = (quarters[:, :, :2] & 15 | (quarters[:, :, 2:] & 15) << 4).reshape(count, 128).astype("u1")
    high = sum(quarters[:, :, i] >> 4 << (2 * i) for i in range(4)).reshape(count, 64).astype("u1")
    values = (factor.astype("f4") * scales).repeat(16, 1) * (codes - 32)
    return np.hstack([low, high, scales.view("u1"), factor.view("u1")]), values


BLOCKS = {"Q8_0": (q8_0, 32), "Q4_0": (q4_0, 32), "Q4_K": (q4_k, 256), "Q6_K": (q6_k, 256)}


def random(dice, kind, shape, scale=0.1, shift=0.0):
    """A tensor for `write`, and its values."""
    if kind not in BLOCKS:
        data, values = plain(kind, dice.standard_normal(shape) * scale + shift)
        return (kind, shape, data), values.reshape(shape)
    make, size = BLOCKS[kind]
    data, values = make(dice, int(np.prod(shape)) // size)
    return (kind, shape, data.tobytes()), values.astype("f4").reshape(shape)
