"""Times BERT-base at many lengths, batch 1, beside ONNX Runtime; outputs are compared first, and the runs of both alternate.

RELAYVM_BERT: lengths instead of these, `8 64`. RELAYVM_THREADS: the numbers of threads, `1 2` unless given.
"""

import os
import statistics
import sys

import onnx_models
from bert import network

RESIDUES = range(61, 69)  # of the rows of a tile
LENGTHS = (8, 16, 31, 32, 33, *RESIDUES, 96, 128, 197, 256, 384)
SPEEDUP = 64  # the length at which threads are compared
ROUNDS, RUNS = 5, 3
TOLERANCE = 1e-4  # of the largest output


def summary(ours, ratios):
    """Lines below the table. `ours`: seconds by length and threads."""
    yield f"{len(ratios)} rows; geometric mean of the ratios {statistics.geometric_mean(ratios):.2f}, least {min(ratios):.2f}."
    for threads in sorted({threads for _, threads in ours}):
        each = [ours[length, threads] / length for length in RESIDUES if (length, threads) in ours]
        if len(each) == len(RESIDUES):
            yield (f"Lengths {RESIDUES[0]} to {RESIDUES[-1]} on {threads} thread{'s' if threads > 1 else ''}: the time per token of the worst "
                   f"is {max(each) / min(each):.3f} of the best.")
    if (SPEEDUP, 1) in ours and (SPEEDUP, 2) in ours:
        yield f"Two threads at length {SPEEDUP}: {ours[SPEEDUP, 1] / ours[SPEEDUP, 2]:.2f} times as fast as one."


def table(folder):
    try:
        import onnx  # noqa: F401  # pylint: disable=import-outside-toplevel,unused-import
        import onnxruntime  # pylint: disable=import-outside-toplevel
    except ImportError as error:
        return f"{error.name} is not installed: BERT is not measured\n"
    lengths = [int(length) for length in os.environ.get("RELAYVM_BERT", "").split()] or LENGTHS
    model = onnx_models.Model(folder, "bert", network.make())
    text = (f"BERT-base, batch 1; milliseconds beside ONNX Runtime {onnxruntime.__version__}. The error is the largest difference over "
            f"the largest output. Compiled in {model.compile_seconds:.1f} s.\n\n"
            "| Length | threads | RelayVM | ONNX Runtime | ratio | error |\n|---:|---:|---:|---:|---:|---:|\n")
    seconds, ratios = {}, []
    for threads in onnx_models.thread_counts():
        session = onnx_models.session_of(model.path, threads)
        for length in lengths:
            ours, theirs, error = model.measure(session, {"ids": network.ids(length)}, threads, ROUNDS, RUNS, TOLERANCE)
            seconds[length, threads] = ours
            ratios.append(theirs / ours)
            text += f"| {length} | {threads} | {ours * 1e3:.2f} | {theirs * 1e3:.2f} | {theirs / ours:.2f} | {error:.1g} |\n"
            print(text.splitlines()[-1], file=sys.stderr, flush=True)
    return text + "\n" + "".join(f"{line}\n" for line in summary(seconds, ratios))
