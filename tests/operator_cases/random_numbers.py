"""Random numbers: the generator bit by bit, and what is made of its bits."""

import numpy as np

from operator_cases.case import random

ROTATIONS = [(14, 16), (52, 57), (23, 40), (5, 37), (25, 33), (46, 12), (58, 22), (32, 32)]
MASK = (1 << 64) - 1
KEY, PATH, COUNTER, BIT = 0, 4, 7, 8  # words of a key


def threefry(key, counter, is_standard=False):
    """Threefry-4x64 of Salmon et al., SC 2011, section 3.3, or as the operators have it: without the last injection of
    the key, and with the second word of a pair added twice."""
    key = [int(k) for k in key] + [int(key[0]) ^ int(key[1]) ^ int(key[2]) ^ int(key[3]) ^ 0x1BD11BDAA9FC1A22]
    x = [(int(c) + k) & MASK for c, k in zip(counter, key)]
    for r in range(20):
        for half, (a, b) in enumerate([(0, 1), (2, 3)] if r % 2 == 0 else [(0, 3), (2, 1)]):
            n = ROTATIONS[r % 8][half]
            x[a] = (x[a] + x[b]) & MASK
            mixed = x[a] if is_standard else (x[a] + x[b]) & MASK
            x[b] = (((x[b] << n) | (x[b] >> (64 - n))) & MASK) ^ mixed
        if r % 4 == 3 and (r < 19 or is_standard):
            s = r // 4 + 1
            x = [(v + key[(s + k) % 5] + (s if k == 3 else 0)) & MASK for k, v in enumerate(x)]
    return x


def split(key, to_right):
    words = [int(word) for word in key]
    bit = words[BIT] << 64 | words[BIT + 1]
    if bit == 0:  # the path is full
        return threefry(words[:4], words[PATH:PATH + 4]) + [1 << 63 if to_right else 0, 0, 0, 0, 1 << 62, 0]
    path = words[PATH] << 64 | words[PATH + 1]
    path |= bit if to_right else 0
    return words[:4] + [path >> 64, path & MASK] + words[6:8] + [bit >> 65, bit >> 1 & MASK]


def with_room(key, count):
    if int(key[COUNTER]) < MASK - count:
        return [int(word) for word in key]
    moved = split(key, True)
    moved[6:8] = [0, 0]
    return moved


def bits(key, count):
    key = with_room(key, count)
    words = []
    for block in range(count // 4):
        words += threefry(key[:4], [(word + block) & MASK for word in key[PATH:PATH + 4]])
    if count % 4:
        words += threefry(key[:4], key[PATH:COUNTER] + [(key[COUNTER] + count // 4 * 4) & MASK])
    return np.array(words[:count], "uint64")


def after(key, count):
    moved = with_room(key, count)
    moved[6:8] = [0, (moved[COUNTER] + -(-count // 4) * 4) & MASK]
    return np.array(moved, "uint64")


KNOWN = [(0, [0x09218EBDE6C85537, 0x55941F5266D86105, 0x4BD25E16282434DC, 0xEE29EC846BD2E40B]),
         (MASK, [0x29C24097942BBA1B, 0x0371BBFB0F6F4E11, 0x3C231FFA33F83A1C, 0xCD29113FDE32D168])]


def unit(words, dtype):
    precision = {"float64": 52, "float32": 23, "float16": 10}[dtype]
    if dtype == "float64":
        return (words >> np.uint64(12)).astype("float64") / 2.0 ** 52
    return ((words & np.uint64(0xFFFFFFFF)) >> np.uint64(32 - precision)).astype("float64") / 2.0 ** precision


def cases(case):
    # The authors' own test vectors.
    for word, expected in KNOWN:
        assert threefry([word] * 4, [word] * 4, True) == expected
    _as_the_predecessor(case)
    keys = [np.array([7] + [0] * 9, "uint64"), np.array([1, 2, 3, MASK, 5, 6, 0, 4, 1, 0], "uint64"),
            np.array([9, 0, 0, 0, 1 << 63, 0, 0, MASK - 3, 1 << 62, 0], "uint64"), np.array([9, 0, 0, 0, MASK, 0, 0, 8, 0, 1 << 5], "uint64")]
    for key in keys:
        for shape in [(4,), (3, 5), (), (0, 2), (1, 7, 3)]:
            count = int(np.prod(shape))
            extents = list(shape)
            call = f"random.threefry_generate(%a, out_shape={extents})"
            case("random.threefry_generate", call + ".1", [key], bits(key, count).reshape(shape))
            case("random.threefry_generate", call + ".0", [key], after(key, count))
            for dtype in ("float32", "float64", "float16")[:3 if shape == (3, 5) else 1]:
                low, high = np.asarray(-1, dtype), np.asarray(3, dtype)
                expected = (-1 + 4 * unit(bits(key, count), dtype)).reshape(shape).astype(dtype)
                case("random.uniform", f'random.uniform(%a, %b, %c, out_shape={extents}, out_dtype="{dtype}").1', [key, low, high], expected)
                dynamic = [key, low, high, np.array(shape, "int64")]
                case("dyn.random.uniform", f'dyn.random.uniform(%a, %b, %c, %d, out_dtype="{dtype}").1', dynamic, expected, fixed="d")
            for dtype, tolerance in (("float64", 1e-9), ("float32", 2e-5)):
                mean, scale = np.asarray(10, dtype), np.asarray(2, dtype)
                words = unit(bits(key, 2 * count), dtype)
                normal = 10 + 2 * np.sqrt(-2 * np.log(1 - words[:count])) * np.sin(2 * np.pi * words[count:])
                case("random.normal", f"random.normal(%a, %b, %c, out_shape={extents}).1", [key, mean, scale],
                     normal.reshape(shape).astype(dtype), tolerance)
                dynamic = [key, mean, scale, np.array(shape, "int64")]
                case("dyn.random.normal", "dyn.random.normal(%a, %b, %c, %d).1", dynamic, normal.reshape(shape).astype(dtype), tolerance, fixed="d")
        case("random.normal", "random.normal(%a, %b, %c, out_shape=[5]).0", [key, np.float32(0), np.float32(1)], after(key, 10))
        for half in (0, 1):
            case("random.threefry_split", f"random.threefry_split(%a).{half}", [key], np.array(split(key, half == 1), "uint64"))
        weights = random((2, 5), "float64", "weights", low=0, high=1).astype("float32")
        weights[:, 2] = 0
        weights[:, 4] *= -1
        chances = unit(bits(key, 14), "float32").reshape(2, 7)
        positive = np.maximum(weights, 0)
        running = (positive / positive.sum(axis=1, keepdims=True)).cumsum(axis=1, dtype="float32")
        expected = np.stack([np.searchsorted(running[r], chances[r], "right") for r in range(2)])
        case("random.multinomial", "random.multinomial(%a, %b, num_samples=7).1", [key, weights], np.minimum(expected, 4))


def _as_the_predecessor(case):
    """Values that the predecessor computed."""
    key = np.array([42, 0, 0, 0, 0, 0, 0, 0, 1 << 63, 0], "uint64")
    words = [0xDABD3FF95F385EB9, 0x849FEB91EF39BDDC, 0x9B96A4A8021827E0, 0x6D869EE4944C2BED, 0xC4B5B8FA2405C647, 0x3C60D31020312A1D]
    case("random.threefry_generate", "random.threefry_generate(%a, out_shape=[6]).1", [key], np.array(words, "uint64"))
    case("random.threefry_generate", "random.threefry_generate(%a, out_shape=[6]).0", [key], np.array([42, 0, 0, 0, 0, 0, 0, 8, 1 << 63, 0], "uint64"))
    twice = np.array([42, 0, 0, 0, 3 << 62, 0, 0, 0, 1 << 61, 0], "uint64")
    case("random.threefry_split", "random.threefry_split(random.threefry_split(%a).1).1", [key], twice)
    full = key.copy()
    full[BIT] = 0
    case("random.threefry_split", "random.threefry_split(%a).1", [full], np.array(words[:4] + [1 << 63, 0, 0, 0, 1 << 62, 0], "uint64"))
    uniform = {"float32": [0.48781538, 2.7378988, -0.9672761, 1.3171487, -0.43714762],
               "float64": [2.4178009, 1.07226075, 1.43106953, 0.71134159, 2.07359147]}
    normal = {"float32": [-0.92895675, 4.712187, 0.9482855, 3.068201, 0.60758257],
              "float64": [1.82263305, 2.16477936, 3.1943642, 2.99559347, -0.28838075]}
    for dtype, values in uniform.items():
        one, two, three = (np.asarray(value, dtype) for value in (1, 2, 3))
        tolerance = 0 if dtype == "float32" else 1e-8
        case("random.uniform", f'random.uniform(%a, %b, %c, out_shape=[5], out_dtype="{dtype}").1', [key, -one, three], np.array(values, dtype), tolerance)
        case("random.normal", f'random.normal(%a, %b, %c, out_shape=[5], out_dtype="{dtype}").1', [key, one, two], np.array(normal[dtype], dtype), 2e-6)
    weights = np.array([[0.1, 0.2, 0.0, 0.7], [1, 2, 3, 4]], "float32")
    case("random.multinomial", "random.multinomial(%a, %b, num_samples=6).1", [key, weights], np.array([[3, 3, 0, 3, 0, 3], [2, 2, 3, 3, 1, 3]]))
