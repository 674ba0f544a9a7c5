"""Times vision networks beside ONNX Runtime, batch 1; outputs are compared first, and the runs of both sides alternate.

RELAYVM_VISION: a regular expression that chooses networks. RELAYVM_VISION_FLAGS: more flags of the compiler.
RELAYVM_THREADS: the numbers of threads, `1 2` unless given.
"""

import os
import re
import sys

import onnx_models
from vision import networks

ROUNDS, RUNS = 6, 4
TOLERANCE = 1e-3  # of the largest element of the result


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
        model = onnx_models.Model(folder, name, networks.make(name), *os.environ.get("RELAYVM_VISION_FLAGS", "").split())
        feed = {"x": networks.image(name)}
        for threads in onnx_models.thread_counts():
            session = onnx_models.session_of(model.path, threads)
            error = model.check(session, feed, threads, TOLERANCE)
            ours, theirs = model.alternate(session, feed, threads, ROUNDS, RUNS)
            text += (f"| {name} | {threads} | {ours * 1e3:.2f} | {theirs * 1e3:.2f} | {theirs / ours:.2f} | {error:.1g} | "
                     f"{model.compile_seconds:.1f} |\n")
            print(text.splitlines()[-1], file=sys.stderr)
    return text
