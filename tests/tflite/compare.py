"""Compares random models with LiteRT's reference kernels: python tests/tflite/compare.py [--seeds N] [--show N] [FAMILY...]

Needs ai-edge-litert beside this repository's build. Results of integers are equal, or apart by as much as `STEPS`
says of the family; floats differ by rounding. The last lines say how many are equal.
"""

import argparse
import os
import sys
import tempfile

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.dirname(HERE)]

import cases  # noqa: E402
import in_process  # noqa: E402
import models  # noqa: E402
import relayvm  # noqa: E402

RELAYVM = os.environ.get("RELAYVM", relayvm.COMPILER)
# Functions that are computed in floats here, and in other ways by the reference kernels: how far results may be apart.
STEPS = {"log_softmax": 1, "l2_normalization": 1, "softmax_int16": 128, "logistic_int16": 1, "tanh_int16": 1}


def run(content, feeds, *options):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.tflite")
        with open(path, "wb") as file:
            file.write(content)
        relayvm.must(RELAYVM, "compile", path, "-o", path + ".rvm", *options)
        got = in_process.load(path + ".rvm")["main"](*feeds)
        return [np.asarray(x) for x in (got if isinstance(got, tuple) else (got,))]


def difference(name, got, wanted):
    """"" if the outputs are equal, "step" if they are within a step where that is allowed, else what differs."""
    if len(got) != len(wanted):
        return f"{len(got)} outputs for {len(wanted)}"
    close = ""
    for a, b in zip(got, wanted):
        if a.shape != b.shape or a.dtype != b.dtype:
            return f"{a.dtype}{a.shape} for {b.dtype}{b.shape}"
        if b.dtype.kind == "f":
            if not np.allclose(a, b, rtol=1e-4, atol=1e-5, equal_nan=True):
                return f"off by {np.nanmax(np.abs(a - b))}"
        elif not np.array_equal(a, b):
            far = np.abs(a.astype(np.int64) - b.astype(np.int64))
            if far.max() > max((steps for known, steps in STEPS.items() if name.startswith(known)), default=0):
                return f"{(far > 0).sum()} of {far.size} differ, by {far.max()}"
            close = "step"
    return close


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("families", nargs="*")
    given = parser.parse_args()
    counts = {"equal": 0, "step": 0, "other": 0, "error": 0, "refused by LiteRT": 0}
    for name in cases.FAMILIES:
        if given.families and not any(part in name for part in given.families):
            continue
        for seed in range(given.first, given.first + given.seeds):
            content, feeds = cases.draw(name, seed)
            try:
                wanted, = models.compute(content, feeds)
            except (RuntimeError, ValueError) as error:
                counts["refused by LiteRT"] += 1
                print(f"{name} {seed}: LiteRT: {str(error)[:150]!r}", flush=True)
                continue
            try:
                why = difference(name, run(content, feeds), wanted)
                kind = "other" if why not in ("", "step") else why or "equal"
            except Exception as error:  # pylint: disable=broad-except
                kind, why = "error", str(error)[-400:]
            counts[kind] += 1
            if kind in ("other", "error"):
                print(f"{name} {seed}: {why}", flush=True)
    print(", ".join(f"{count} {kind}" for kind, count in counts.items()))


if __name__ == "__main__":
    main()
