"""The weights of the models in this folder: each tensor from its name, so that no file has them.

An exported model has its weights in a file beside it (external data), `<model>.bin`. `layouts.json` says, for each model,
which tensors these are, in order.
"""

import json
import os
import zlib

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
ALIGNMENT = 64


def array(family, name, shape, spread, shift=0.0):
    """Multiples of spread / 64, exact in float32 for a spread that is a power of two. Streams of RandomState never change."""
    dice = np.random.RandomState(zlib.crc32(f"{family} {name}".encode()))
    return (dice.randint(-64, 65, shape) * (spread / 64) + shift).astype("float32")


def write(model, path):
    """Writes the file of weights of a model."""
    with open(os.path.join(HERE, "layouts.json"), encoding="utf-8") as file:
        family, tensors = json.load(file)[model]
    with open(path, "wb") as file:
        for name, shape, spread, shift, is_transposed in tensors:
            given = array(family, name, shape, spread, shift)
            file.write(np.ascontiguousarray(given.T if is_transposed else given).tobytes())
            file.write(bytes(-file.tell() % ALIGNMENT))
