"""Times vision networks beside ONNX Runtime, batch 1; outputs are compared first, and the runs of both sides alternate.

RELAYVM_VISION: a regular expression that chooses networks. RELAYVM_VISION_FLAGS: more flags of the compiler.
RELAYVM_THREADS: the numbers of threads, `1 2` unless given.
"""

import os
import re
import sys
import time

import numpy as np

import relayvm
from vision import networks

ROUNDS, RUNS = 6, 4
TOLERANCE = 1e-3  # of the largest output


def session_of(onnxruntime, path, threads):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def least_of(function, runs):
    times = []
    for _ in range(runs):
        began = time.perf_counter()
        function()
        times.append(time.perf_counter() - began)
    return min(times)


class Network:
    """A network in a file, compiled, and its input."""

    def __init__(self, folder, name):
        import onnx

        self.name, self.folder = name, folder
        self.path, self.model, self.out = f"{folder}/{name}.onnx", f"{folder}/{name}.rvm", f"{folder}/{name}.out.npy"
        onnx.save(networks.make(name), self.path)
        self.image = networks.image(name)
        np.save(f"{folder}/{name}.npy", self.image)
        began = time.perf_counter()
        relayvm.must(relayvm.COMPILER, "compile", self.path, "-o", self.model, *os.environ.get("RELAYVM_VISION_FLAGS", "").split())
        self.compile_seconds = time.perf_counter() - began

    def run(self, threads, repeat=1):
        """Seconds of the fastest run."""
        done = relayvm.run(relayvm.RUNTIME, self.model, "--threads", threads, "--repeat", repeat, "--out", self.out,
                           f"@{self.folder}/{self.name}.npy")
        if done.returncode != 0:
            raise relayvm.ToolError(done.stderr)
        found = re.search(r"least ([0-9.]+) ms", done.stderr)
        return float(found.group(1)) / 1e3 if found else float("nan")

    def error(self, expected):
        """The largest difference, of the largest output."""
        return np.abs(np.load(self.out) - expected).max() / np.abs(expected).max()


def measure(onnxruntime, network, threads):
    """Seconds of ours and of ONNX Runtime, and the largest difference."""
    session = session_of(onnxruntime, network.path, threads)
    feed = {"x": network.image}
    network.run(threads)
    error = network.error(session.run(None, feed)[0])
    if not error <= TOLERANCE:
        raise AssertionError(f"{network.name}: the outputs differ by {error:.2g} of the largest; expected {TOLERANCE} or less")
    ours = theirs = float("inf")
    for _ in range(ROUNDS):
        ours = min(ours, network.run(threads, RUNS))
        theirs = min(theirs, least_of(lambda: session.run(None, feed), RUNS))
    return ours, theirs, error


def table(folder):
    try:
        import onnx  # noqa: F401
        import onnxruntime
    except ImportError:
        return "onnx and onnxruntime are not installed: vision networks are not measured\n"
    chosen = os.environ.get("RELAYVM_VISION", "")
    text = (f"Vision networks, batch 1; milliseconds beside ONNX Runtime {onnxruntime.__version__}. The error is the largest "
            "difference over the largest output.\n\n"
            "| Network | threads | RelayVM | ONNX Runtime | ratio | error | compile, s |\n|---|---:|---:|---:|---:|---:|---:|\n")
    for name in networks.NETWORKS:
        if not re.search(chosen, name):
            continue
        network = Network(folder, name)
        for threads in map(int, os.environ.get("RELAYVM_THREADS", "1 2").split()):
            ours, theirs, error = measure(onnxruntime, network, threads)
            text += (f"| {name} | {threads} | {ours * 1e3:.2f} | {theirs * 1e3:.2f} | {theirs / ours:.2f} | {error:.1g} | "
                     f"{network.compile_seconds:.1f} |\n")
            print(text.splitlines()[-1], file=sys.stderr)
    return text
