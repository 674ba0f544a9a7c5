#!/usr/bin/env python3
"""The character network in numpy, and random weights for it.

  reference.py WEIGHTS.npz     writes the weights
"""

import sys

import numpy as np

CHARS, INPUT, SIZE = 40, 24, 64


def make_weights(seed=3):
    random = np.random.default_rng(seed)

    def uniform(bound, *shape):
        return random.uniform(-bound, bound, shape).astype(np.float32)

    return {
        "chars": uniform(1.0, CHARS, INPUT),
        "w_x": uniform(0.5, SIZE, INPUT),
        "w_h": uniform(0.25, SIZE, SIZE),
        "b_h": uniform(0.5, SIZE),
        "w_out": uniform(0.5, CHARS, SIZE),
        "b_out": uniform(0.1, CHARS),
    }


def predict(w, char, n):
    h = np.zeros(SIZE, np.float32)
    written = []
    for _ in range(n):
        h = np.tanh(w["w_x"] @ w["chars"][char] + w["w_h"] @ h + w["b_h"])
        char = int(np.argmax(w["w_out"] @ h + w["b_out"]))
        written.append(char)
    return written


if __name__ == "__main__":
    np.savez(sys.argv[1], **make_weights())
