"""Random numbers: the generator bit by bit, and what is made of its bits."""

import numpy as np

from operator_cases.case import random

ROTATIONS = [(14, 16), (52, 57), (23, 40), (5, 37), (25, 33), (46, 12), (58, 22), (32, 32)]
MASK = (1 << 64) - 1


def threefry(key, counter, rounds=20):
    """Threefry-4x64 of Salmon et al., SC 2011, section 3.3."""
    key = [int(k) for k in key] + [int(key[0]) ^ int(key[1]) ^ int(key[2]) ^ int(key[3]) ^ 0x1BD11BDAA9FC1A22]
    x = [(int(c) + k) & MASK for c, k in zip(counter, key)]
    for r in range(rounds):
        for half, (a, b) in enumerate([(0, 1), (2, 3)] if r % 2 == 0 else [(0, 3), (2, 1)]):
            n = ROTATIONS[r % 8][half]
            x[a] = (x[a] + x[b]) & MASK
            x[b] = (((x[b] << n) | (x[b] >> (64 - n))) & MASK) ^ x[a]
        if r % 4 == 3:
            s = r // 4 + 1
            x = [(v + key[(s + k) % 5] + (s if k == 3 else 0)) & MASK for k, v in enumerate(x)]
    return x


def bits(key, count):
    words = []
    for block in range(-(-count // 4)):
        words += threefry(key[:4], [(int(key[4]) + block) & MASK, key[5], key[6], 0])
    return np.array(words[:count], "uint64")


def after(key, count):
    moved = key.copy()
    moved[4] = np.uint64((int(key[4]) + -(-count // 4)) & MASK)
    return moved


KNOWN = [(0, [0x09218EBDE6C85537, 0x55941F5266D86105, 0x4BD25E16282434DC, 0xEE29EC846BD2E40B]),
         (MASK, [0x29C24097942BBA1B, 0x0371BBFB0F6F4E11, 0x3C231FFA33F83A1C, 0xCD29113FDE32D168])]


def unit(words, precision):
    return (words >> np.uint64(64 - precision)).astype("float64") / 2.0 ** precision


def cases(case):
    # The authors' own test vectors.
    for word, expected in KNOWN:
        assert threefry([word] * 4, [word] * 4) == expected
    keys = [np.zeros(10, "uint64"), np.array([1, 2, 3, MASK, 5, 6, 7, 0, 0, 0], "uint64"), np.array([9, 0, 0, 0, MASK, 0, 0, 0, 0, 0], "uint64")]
    for key in keys:
        for shape in [(4,), (3, 5), (), (0, 2), (1, 7, 3)]:
            count = int(np.prod(shape))
            extents = list(shape)
            call = f"random.threefry_generate(%a, out_shape={extents})"
            case("random.threefry_generate", call + ".1", [key], bits(key, count).reshape(shape))
            case("random.threefry_generate", call + ".0", [key], after(key, count))
            for dtype, precision in (("float32", 24), ("float64", 53), ("float16", 11))[:3 if shape == (3, 5) else 1]:
                low, high = np.asarray(-1, dtype), np.asarray(3, dtype)
                expected = (-1 + 4 * unit(bits(key, count), precision)).reshape(shape).astype(dtype)
                case("random.uniform", f'random.uniform(%a, %b, %c, out_shape={extents}, out_dtype="{dtype}").1', [key, low, high], expected)
            mean, scale = np.asarray(10, "float64"), np.asarray(2, "float64")
            words = unit(bits(key, 2 * count), 53)
            normal = 10 + 2 * np.sqrt(-2 * np.log(1 - words[::2])) * np.cos(2 * np.pi * words[1::2])
            case("random.normal", f"random.normal(%a, %b, %c, out_shape={extents}).1", [key, mean, scale], normal.reshape(shape), 1e-9)
            words = unit(bits(key, 2 * count), 24)
            normal = np.sqrt(-2 * np.log(1 - words[::2])) * np.cos(2 * np.pi * words[1::2])
            case("random.normal", f'random.normal(%a, %b, %c, out_shape={extents}, out_dtype="float32").1',
                 [key, np.float32(0), np.float32(1)], normal.reshape(shape).astype("float32"), 2e-5)
        case("random.normal", "random.normal(%a, %b, %c, out_shape=[5]).0", [key, np.float32(0), np.float32(1)], after(key, 10))
        for half in (0, 1):
            words = threefry(key[:4], [key[4], key[5], key[6], half + 1])
            expected = np.concatenate([np.array(words, "uint64"), np.zeros(4, "uint64"), key[8:]])
            case("random.threefry_split", f"random.threefry_split(%a).{half}", [key], expected)
        weights = random((2, 5), "float64", "weights", low=0, high=1)
        weights[:, 2] = 0
        chances = unit(bits(key, 14), 53).reshape(2, 7)
        running = weights.cumsum(axis=1)
        expected = np.stack([np.searchsorted(running[r], chances[r] * running[r, -1], "right") for r in range(2)])
        case("random.multinomial", "random.multinomial(%a, %b, num_samples=7).1", [key, weights], expected)
        case("random.multinomial", "random.multinomial(%a, %b).1", [key, weights[0]], np.searchsorted(running[0], chances[0, :1] * running[0, -1], "right"))
