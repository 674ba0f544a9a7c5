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
TOLERANCE = 1e-4  # of the largest element of the result


def summary(ours, ratios):
    """Lines below the table. `ours`: seconds by threads and length."""
    yield f"{len(ratios)} rows; geometric mean of the ratios {statistics.geometric_mean(ratios):.2f}, least {min(ratios):.2f}."
    for threads in sorted({threads for threads, _ in ours}):
        each = [ours[threads, length] / length for length in RESIDUES if (threads, length) in ours]
        if len(each) == len(RESIDUES):
            yield (f"Lengths {RESIDUES[0]} to {RESIDUES[-1]} on {threads} thread{'s' if threads > 1 else ''}: the time per token of the worst "
                   f"is {max(each) / min(each):.3f} of the best.")
    if (1, SPEEDUP) in ours and (2, SPEEDUP) in ours:
        yield f"Two threads at length {SPEEDUP}: {ours[1, SPEEDUP] / ours[2, SPEEDUP]:.2f} times as fast as one."


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
    sessions = {threads: onnx_models.session_of(model.path, threads) for threads in onnx_models.thread_counts()}
    rows = [(threads, length) for threads in sessions for length in lengths]
    feeds = {length: {"ids": network.ids(length)} for length in lengths}
    errors = {row: model.check(sessions[row[0]], feeds[row[1]], row[0], TOLERANCE) for row in rows}
    ours, theirs = ({row: float("inf") for row in rows} for _ in range(2))
    # All rows in each round: a machine that slows down for a while slows down all of them.
    for number in range(ROUNDS):
        print(f"BERT: round {number + 1} of {ROUNDS}", file=sys.stderr, flush=True)
        for row in rows:
            times = model.alternate(sessions[row[0]], feeds[row[1]], row[0], 1, RUNS)
            ours[row], theirs[row] = min(ours[row], times[0]), min(theirs[row], times[1])
    for row in rows:
        text += (f"| {row[1]} | {row[0]} | {ours[row] * 1e3:.2f} | {theirs[row] * 1e3:.2f} | {theirs[row] / ours[row]:.2f} | "
                 f"{errors[row]:.1g} |\n")
    return text + "\n" + "".join(f"{line}\n" for line in summary(ours, [theirs[row] / ours[row] for row in rows]))
