"""Times quantised models beside ONNX Runtime; outputs are compared first, and the runs of both sides alternate.

RELAYVM_QUANTISED: a regular expression that chooses rows, such as `product.*4 bits`. RELAYVM_THREADS: the numbers of
threads, `1` unless given. RELAYVM_QUANTISED_ROUNDS: rounds, each of a few runs of each side.
"""

import os
import re
import sys

import numpy as np

import onnx_models
from quantised import models

ROUNDS, SECONDS = 10, 0.15
# The two round in other places: results are as close to each other as either is to floats.
MIN_COSINE = 0.98


def cosine(a, b):
    a, b = (np.asarray(x, np.float64).ravel() for x in (a, b))
    return a @ b / max(np.linalg.norm(a) * np.linalg.norm(b), 1e-30)


class Row:
    def __init__(self, folder, name, form, path, what, feed, threads):
        import onnx  # pylint: disable=import-outside-toplevel

        self.name, self.form, self.what, self.feed, self.threads = name, form, what, feed, threads
        self.model = onnx_models.Model(folder, re.sub(r"\W+", "_", f"{name}_{form}"), onnx.load(path))
        self.session = onnx_models.session_of(self.model.path, threads)
        expected = self.session.run(None, feed)[0]
        result, seconds = self.model.run(feed, threads, 2)
        self.cosine = cosine(result, expected)
        if result.shape != expected.shape or not self.cosine >= MIN_COSINE:
            raise AssertionError(f"{name} {form}: the cosine of the results is {self.cosine}; expected {MIN_COSINE} or more")
        self.runs = int(min(max(SECONDS / max(seconds, 1e-6), 3), 300))
        self.ours = self.theirs = float("inf")

    def measure(self):
        ours, theirs = self.model.alternate(self.session, self.feed, self.threads, 1, self.runs)
        self.ours, self.theirs = min(self.ours, ours), min(self.theirs, theirs)

    def __str__(self):
        return (f"| {self.name}, {self.what} | {self.form} | {self.ours * 1e3:.3f} | {self.theirs * 1e3:.3f} | "
                f"{self.theirs / self.ours:.2f} | {self.cosine:.5f} |\n")


def rows_of(folder, chosen, threads):
    for name in models.NAMES:
        feeds = models.feeds_of(name)
        if not any(re.search(chosen, f"{name}, {what}") for what in feeds) and not re.search(name, chosen):
            continue
        for form, path in models.files(folder, name).items():
            for what, feed in feeds.items():
                if re.search(chosen, f"{name}, {what} {form}"):
                    yield Row(folder, name, form, path, what, feed, threads)


def table(folder):
    try:
        import onnx  # noqa: F401  # pylint: disable=import-outside-toplevel,unused-import
        import onnxruntime  # pylint: disable=import-outside-toplevel
    except ImportError as error:
        return f"{error.name} is not installed: quantised models are not measured\n"
    chosen, rounds = os.environ.get("RELAYVM_QUANTISED", ""), int(os.environ.get("RELAYVM_QUANTISED_ROUNDS", ROUNDS))
    text = (f"Quantised models; milliseconds beside ONNX Runtime {onnxruntime.__version__}, the least of {rounds} alternating rounds. The "
            "cosine is that of both results.\n")
    for threads in [int(n) for n in os.environ.get("RELAYVM_THREADS", "1").split()]:
        text += f"\n{threads} thread{'s' if threads > 1 else ''}\n\n| Model | form | RelayVM | ONNX Runtime | ratio | cosine |\n|---|---|---:|---:|---:|---:|\n"
        rows = list(rows_of(folder, chosen, threads))
        for number in range(rounds):
            print(f"quantised models: round {number + 1} of {rounds}", file=sys.stderr, flush=True)
            for row in rows:
                row.measure()
        text += "".join(map(str, rows))
    return text
