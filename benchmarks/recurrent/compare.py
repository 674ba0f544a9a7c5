"""Times LSTM and GRU of any length, batch 1, beside ONNX Runtime's fused operators and beside the floor of this machine.

No step begins before the one ahead of it has ended, and the weights of a layer are more than the inner caches hold: each
step reads the recurrent weights of its layer again. The input weights need reading once, for their product with all
tokens. The reads are timed on a block as large as what a run reads between two uses of a weight. The floor counts that
product as well: its reads or its multiplications at the FMA peak, whichever take longer.

RELAYVM_RECURRENT: a regular expression that chooses networks, such as `LSTM 2`. RELAYVM_THREADS: the numbers of threads,
`1 2` unless given.
"""

import os
import re
import statistics
import sys

import onnx_models
import relayvm
from recurrent import networks

LENGTHS, LAYERS = (1, 5, 28, 50), (1, 2)
ROUNDS, STEPS = 8, 500  # steps: of all runs of a round together
TOLERANCE = 1e-4  # of the largest element of the result
FLOAT = 4  # bytes


class Machine:
    """What this machine does at most in this minute."""

    def __init__(self, threads):
        self.threads = threads
        self.multiplications = threads * float(relayvm.must(relayvm.built("//benchmarks/kernels:fma_peak")))

    def read_seconds(self, floats, block):
        """The time to read so many weights, in blocks of that many."""
        bandwidth = float(relayvm.must(relayvm.built("//benchmarks/kernels:read_bandwidth"), block * FLOAT, self.threads))
        return floats * FLOAT / bandwidth

    def floors(self, shape, length):
        """Seconds of the reads alone, and with the product of all tokens with the input weights."""
        states = self.read_seconds(length * shape.layers * shape.recurrent, shape.all() if length == 1 else shape.recurrent)
        inputs = self.read_seconds(shape.input, shape.all())
        return states + inputs, states + max(inputs, length * shape.input / self.multiplications)


def table(folder):
    try:
        import onnx  # noqa: F401  # pylint: disable=import-outside-toplevel,unused-import
        import onnxruntime  # pylint: disable=import-outside-toplevel
    except ImportError as error:
        return f"{error.name} is not installed: recurrent networks are not measured\n"
    text = (f"LSTM and GRU, {networks.INPUTS} inputs, {networks.UNITS} units, batch 1; microseconds beside the fused operators of "
            f"ONNX Runtime {onnxruntime.__version__}. Shares: the time of the reads of the weights, alone and with the product of "
            "the inputs, divided by ours.\n\n"
            "| Network | layers | tokens | threads | RelayVM | ONNX Runtime | ratio | share of the reads | share of the floor |\n"
            "|---|---:|---:|---:|---:|---:|---:|---:|---:|\n")
    ratios = []
    for kind in networks.KINDS:
        for layers in LAYERS:
            if not re.search(os.environ.get("RELAYVM_RECURRENT", ""), f"{kind} {layers}"):
                continue
            model = onnx_models.Model(folder, f"{kind}-{layers}", networks.make(kind, layers))
            for threads in onnx_models.thread_counts():
                session = onnx_models.session_of(model.path, threads)
                for length in LENGTHS:
                    feed = {"x": networks.tokens(length)}
                    runs = max(10, STEPS // (length * layers))
                    model.check(session, feed, threads, TOLERANCE)
                    ours, theirs = model.alternate(session, feed, threads, ROUNDS, runs)
                    reads, floor = Machine(threads).floors(networks.Shape(kind, layers), length)
                    ratios.append(theirs / ours)
                    text += (f"| {kind} | {layers} | {length} | {threads} | {ours * 1e6:.1f} | {theirs * 1e6:.1f} | {theirs / ours:.2f} | "
                             f"{reads / ours:.0%} | {floor / ours:.0%} |\n")
                    print(text.splitlines()[-1], file=sys.stderr, flush=True)
    if ratios:
        text += f"\n{len(ratios)} rows; geometric mean of the ratios {statistics.geometric_mean(ratios):.2f}, least {min(ratios):.2f}.\n"
    return text
