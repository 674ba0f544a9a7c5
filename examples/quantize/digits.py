#!/usr/bin/env python3
"""Trains a network that reads digits, quantises it, and compares accuracy and size. Needs numpy and the package relayvm.

    python3 examples/quantize/digits.py
"""

import gzip
import os

import numpy as np
import relayvm

FOLDER = os.path.dirname(os.path.abspath(__file__))
SCHEMES = ("float16", "w8", "w4", "w8a8-dynamic", "w8a8")


def images():
    """(pixels, digits) of 1,500 images to learn from and of 297 to test with, of other persons."""
    with gzip.open(os.path.join(FOLDER, "..", "training", "digits.csv.gz"), "rt") as file:
        rows = np.loadtxt(file, delimiter=",")
    pixels, digits = (rows[:, :64] / 16).astype(np.float32), rows[:, 64].astype(np.int32)
    return (pixels[:1500], digits[:1500]), (pixels[1500:], digits[1500:])


def trained(program, pixels, digits, steps=600):
    random = np.random.default_rng(0)
    weights = [random.normal(scale=64**-0.5, size=(512, 64)), np.zeros(512), random.normal(scale=512**-0.5, size=(10, 512)), np.zeros(10)]
    weights = [weight.astype(np.float32) for weight in weights]
    train = relayvm.compile(program, entries=["train"])["train"]
    weights = train(*weights, pixels.reshape(15, 100, 64), digits.reshape(15, 100), np.int32(steps))
    return dict(zip(("w1", "b1", "w2", "b2"), map(np.asarray, weights)))


def compare(steps=600):
    """(form, share of the test that is read right, bytes of the file) of the network in floats and as each scheme."""
    with open(os.path.join(FOLDER, "digits.relay"), encoding="utf-8") as file:
        program = file.read()
    (pixels, digits), (test, answers) = images()
    weights = trained(program, pixels, digits, steps)

    def row(form, executable):
        accuracy = np.mean(np.argmax(executable(test), axis=1) == answers)
        return form, float(accuracy), len(executable.tobytes())

    rows = [row("floats", relayvm.compile(program, params=weights, entries=["main"]))]
    for scheme in SCHEMES:
        # The ranges of activations come from images that the network learnt from, never from the test. Of weights as
        # small as these, floats are faster in most forms: `force` quantises for the sake of size.
        calibration = [pixels[i:i + 50] for i in range(0, 500, 50)]
        quantised = relayvm.quantize(program, scheme=scheme, params=weights, entries=["main"], data=calibration, force=True)
        rows.append(row(scheme, quantised.executable))
    return rows


if __name__ == "__main__":
    print(f"{'form':14} {'right':>7} {'bytes':>8}")
    for form, accuracy, size in compare():
        print(f"{form:14} {accuracy:7.1%} {size:8,}")
