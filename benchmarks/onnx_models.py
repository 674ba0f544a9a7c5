"""An ONNX model on both sides: compiled by RelayVM, and in ONNX Runtime."""

import os
import re
import time

import numpy as np

import relayvm


SPINNING = 0.2  # seconds: the session's threads keep a processor busy for a while after a run


def thread_counts():
    """RELAYVM_THREADS: the numbers of threads, `1 2` unless given."""
    return [int(threads) for threads in os.environ.get("RELAYVM_THREADS", "1 2").split()]


def session_of(path, threads):
    import onnxruntime  # pylint: disable=import-outside-toplevel

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


def execute(executable, feed, threads=1, repeat=1):
    """The result, and the seconds of the fastest run, of two or more."""
    prefix, arguments = executable.removesuffix(".rvm"), []
    for name, array in feed.items():
        np.save(f"{prefix}.{name}.npy", array)
        arguments.append(f"@{prefix}.{name}.npy")
    out = f"{prefix}.out.npy"
    done = relayvm.run(relayvm.RUNTIME, executable, "--threads", threads, "--repeat", repeat, "--out", out, *arguments)
    if done.returncode != 0:
        raise relayvm.ToolError(f"{executable}: {done.stderr}")
    found = re.search(r"least ([0-9.]+) ms", done.stderr)
    return np.load(out), float(found.group(1)) / 1e3 if found else float("nan")


class Model:
    """A model of one result in `folder`, saved and compiled. `flags`: more flags of the compiler."""

    def __init__(self, folder, name, graph, *flags):
        import onnx  # pylint: disable=import-outside-toplevel

        self.name, self.prefix = name, f"{folder}/{name}"
        self.path, self.executable = f"{self.prefix}.onnx", f"{self.prefix}.rvm"
        onnx.save(graph, self.path)
        began = time.perf_counter()
        relayvm.must(relayvm.COMPILER, "compile", self.path, "-o", self.executable, *flags)
        self.compile_seconds = time.perf_counter() - began

    def run(self, feed, threads, repeat=1):
        """As `execute`."""
        return execute(self.executable, feed, threads, repeat)

    def check(self, session, feed, threads, tolerance):
        """The largest difference between the results of both sides, of the largest element."""
        expected = session.run(None, feed)[0]
        result = self.run(feed, threads)[0]
        if result.shape != expected.shape:
            raise AssertionError(f"{self.name}: the result has the shape {result.shape}; expected {expected.shape}")
        error = np.abs(result - expected).max() / np.abs(expected).max()
        if not error <= tolerance:
            raise AssertionError(f"{self.name}: the results differ by {error:.2g} of the largest; expected {tolerance} or less")
        return error

    def alternate(self, session, feed, threads, rounds, runs):
        """Seconds of the fastest run of ours and of the session, in rounds of so many runs of each."""
        ours = theirs = float("inf")
        for _ in range(rounds):
            time.sleep(SPINNING)
            ours = min(ours, self.run(feed, threads, runs)[1])
            theirs = min(theirs, least_of(lambda: session.run(None, feed), runs))
        return ours, theirs
