"""Times blocks of networks beside ONNX Runtime; outputs are compared first, and the runs of both sides alternate.

RELAYVM_BLOCKS: a regular expression that chooses blocks. RELAYVM_BLOCKS_FLAGS: more flags of the compiler.
RELAYVM_THREADS: the numbers of threads, `1` unless given.
"""

import os
import re
import statistics
import sys

import onnx_models
from blocks import blocks

ROUNDS, RUNS = 6, 12
TOLERANCE = 1e-4  # of the largest element of the result


def table(folder):
    try:
        import onnx  # noqa: F401  # pylint: disable=import-outside-toplevel,unused-import
        import onnxruntime  # pylint: disable=import-outside-toplevel
    except ImportError as error:
        return f"{error.name} is not installed: blocks of networks are not measured\n"
    text = (f"Blocks of networks; milliseconds beside ONNX Runtime {onnxruntime.__version__}. The error is the largest difference over the "
            "largest output.\n\n| Block | Input | threads | RelayVM | ONNX Runtime | ratio | error |\n|---|---|---:|---:|---:|---:|---:|\n")
    ratios = []
    for build, shape in blocks.BLOCKS.items():
        name = build.__name__
        if not re.search(os.environ.get("RELAYVM_BLOCKS", ""), name):
            continue
        graph, x = blocks.make(build)
        model = onnx_models.Model(folder, name, graph, *os.environ.get("RELAYVM_BLOCKS_FLAGS", "").split())
        for threads in (int(count) for count in os.environ.get("RELAYVM_THREADS", "1").split()):
            session = onnx_models.session_of(model.path, threads)
            error = model.check(session, {"x": x}, threads, TOLERANCE)
            ours, theirs = model.alternate(session, {"x": x}, threads, ROUNDS, RUNS)
            ratios.append(theirs / ours)
            text += (f"| {name} | {'x'.join(map(str, shape))} | {threads} | {ours * 1e3:.3f} | {theirs * 1e3:.3f} | {ratios[-1]:.2f} | "
                     f"{error:.1g} |\n")
            print(text.splitlines()[-1], file=sys.stderr)
    if not ratios:
        return text
    return text + f"\n{len(ratios)} rows; geometric mean of the ratios {statistics.geometric_mean(ratios):.2f}, least {min(ratios):.2f}.\n"
