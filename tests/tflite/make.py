"""Writes the fixtures of tflite_test.py: models, and what the reference kernels of LiteRT compute for them.

    python tests/tflite/make.py

Needs ai-edge-litert (2.3.0 made those that are committed), which no test needs. NAME.npz.xz holds models: `MODEL.model` are the bytes,
`MODEL.RUN.in.N` and `MODEL.RUN.out.N` the inputs and outputs of its runs, of which each begins where the one before ended.
"""

import io
import lzma
import os
import sys

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

import cases  # noqa: E402
import models  # noqa: E402
import programs  # noqa: E402

SEEDS = 2


def store(arrays, name, content, runs):
    arrays[f"{name}.model"] = np.frombuffer(content, np.uint8)
    for number, (feeds, outputs) in enumerate(zip(runs, models.compute(content, *runs))):
        for kind, values in (("in", feeds), ("out", outputs)):
            for i, value in enumerate(values):
                arrays[f"{name}.{number}.{kind}.{i}"] = value


def main():
    operators, whole = {}, {}
    for name in cases.FAMILIES:
        for seed in range(SEEDS):
            content, feeds = cases.draw(name, seed)
            store(operators, f"{name}_{seed}", content, [feeds])
    for name, function in programs.PROGRAMS.items():
        content, runs = function(np.random.default_rng(1))
        store(whole, name, content, runs)
    for name, arrays in (("operators", operators), ("programs", whole)):
        content = io.BytesIO()
        np.savez(content, **arrays)
        with lzma.open(os.path.join(HERE, f"{name}.npz.xz"), "wb") as file:
            file.write(content.getvalue())


if __name__ == "__main__":
    main()
