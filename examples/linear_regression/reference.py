#!/usr/bin/env python3
"""The same descent in numpy, and random data with a line in it.

  reference.py DATA.npz     writes the data
"""

import sys

import numpy as np


def make_weights(seed=4):
    random = np.random.default_rng(seed)
    x = random.normal(size=(32, 3)).astype(np.float32)
    y = x @ np.array([[2.0], [-1.0], [0.5]], np.float32) + 3 + random.normal(scale=0.1, size=(32, 1))
    return {"x": x, "y": y.astype(np.float32)}


def predict(data, steps):
    x, y = data["x"], data["y"]
    weight, bias = np.zeros((1, 3), np.float32), np.zeros(1, np.float32)
    rate = np.float32(0.1 * 2 / 32)
    for _ in range(steps):
        error = x @ weight.T + bias - y
        weight = weight - rate * (error.T @ x)
        bias = bias - rate * error.sum(axis=0)
    error = x @ weight.T + bias - y
    return weight, bias, np.mean(error * error)


if __name__ == "__main__":
    np.savez(sys.argv[1], **make_weights())
