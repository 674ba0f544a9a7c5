#!/usr/bin/env python3
"""The LSTM in numpy, and random weights for it.

  reference.py WEIGHTS.npz     writes the weights
"""

import sys

import numpy as np

WORDS, INPUT, SIZE = 100, 48, 32


def make_weights(seed=2):
    random = np.random.default_rng(seed)

    def uniform(*shape):
        return random.uniform(-0.4, 0.4, shape).astype(np.float32)

    return {
        "words": uniform(WORDS, INPUT),
        "w_ih": uniform(4 * SIZE, INPUT),
        "w_hh": uniform(4 * SIZE, SIZE),
        "bias": uniform(4 * SIZE),
    }


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def each(w, words):
    """The state behind every word."""
    h = np.zeros(SIZE, np.float32)
    c = np.zeros(SIZE, np.float32)
    states = []
    for word in words:
        i, f, g, o = np.split(w["w_ih"] @ w["words"][word] + w["w_hh"] @ h + w["bias"], 4)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        states.append(h.reshape(1, SIZE))
    return states


def predict(w, words):
    return each(w, words)[-1] if words else np.zeros((1, SIZE), np.float32)


if __name__ == "__main__":
    np.savez(sys.argv[1], **make_weights())
