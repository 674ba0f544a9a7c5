"""Times single operators beside numpy and ONNX Runtime, large and small; outputs are compared first.

The runs of both sides alternate; each time is the least of all runs. Sorted by ratio, the slowest beside its peer first.
"""

import os
import re
import statistics
import sys
import time

import numpy as np

import relayvm
from operators import peers

NAMES = "abcdefgh"
SECONDS = 0.06  # of each side, ROUNDS times
ROUNDS = 3


class Graph:
    """An ONNX graph of one operator."""

    def __init__(self, onnx):
        self.onnx, self.nodes, self.constants = onnx, [], []

    def constant(self, value):
        name = f"k{len(self.constants)}"
        self.constants.append(self.onnx.numpy_helper.from_array(np.asarray(value), name))
        return name

    def node(self, kind, inputs, outputs, **attributes):
        names = [f"n{len(self.nodes)}_{i}" for i in range(outputs)]
        self.nodes.append(self.onnx.helper.make_node(kind, inputs, names, **attributes))
        return names


def session_of(row):
    """What runs the row in ONNX Runtime; None if it is not installed or has no such operator for these types."""
    try:
        import onnx
        import onnxruntime
    except ImportError:
        return None
    graph = Graph(onnx)
    names = list(NAMES[:len(row.inputs)])
    result = row.onnx(graph, names)
    helper = onnx.helper
    inputs = [helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape) for name, a in zip(names, row.inputs)]
    made = helper.make_graph(graph.nodes, "row", inputs, [helper.make_empty_tensor_value_info(result)], graph.constants)
    model = helper.make_model(made, opset_imports=[helper.make_opsetid("", 22)], ir_version=10)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime has no public class of its errors
        if "NOT_IMPLEMENTED" in str(error):
            return None
        raise
    feed = dict(zip(names, row.inputs))
    return lambda: session.run(None, feed)[0]


def least_of(function, seconds):
    best, end = float("inf"), time.perf_counter() + seconds
    while True:
        began = time.perf_counter()
        function()
        now = time.perf_counter()
        best = min(best, now - began)
        if now >= end:
            return best


def annotation(name, array):
    return f"%{name}: Tensor[({', '.join(map(str, array.shape))}), {array.dtype}]"


class Ours:
    """The rows compiled to one executable, an entry each."""

    def __init__(self, folder, rows):
        self.folder, self.model, source = folder, f"{folder}/rows.rvm", f"{folder}/rows.relay"
        with open(source, "w", encoding="utf-8") as file:
            for index, row in enumerate(rows):
                params = ", ".join(annotation(name, a) for name, a in zip(NAMES, row.inputs))
                file.write(f"def @row{index}({params}) {{ {row.relay} }}\n")
        relayvm.must(relayvm.COMPILER, "compile", source, "-o", self.model,
                     *(flag for index in range(len(rows)) for flag in ("--entry", f"row{index}")))

    def prepare(self, index, row):
        self.args = ["--entry", f"row{index}"]
        for name, array in zip(NAMES, row.inputs):
            np.save(f"{self.folder}/{name}.npy", array)
            self.args.append(f"@{self.folder}/{name}.npy")

    def run(self, repeat):
        """The result, and the seconds of the fastest run."""
        out = f"{self.folder}/out.npy"
        done = relayvm.run(relayvm.RUNTIME, self.model, *self.args, "--repeat", repeat, "--out", out)
        if done.returncode != 0:
            raise relayvm.ToolError(done.stderr)
        return np.load(out), float(re.search(r"least ([0-9.]+) ms", done.stderr).group(1)) / 1e3


def same(seen, expected, tolerance):
    expected = np.asarray(expected)
    if seen.size != expected.size:
        return False
    return np.allclose(seen.ravel().astype("float64"), expected.ravel().astype("float64"), rtol=tolerance, atol=tolerance, equal_nan=True)


def measure(ours, index, row):
    """Seconds: ours, and by peer."""
    others = {"numpy": lambda: row.numpy(*row.inputs)} if row.numpy else {}
    session = session_of(row) if row.onnx else None
    if session:
        others["ONNX Runtime"] = session
    ours.prepare(index, row)
    seen, first = ours.run(3)
    for name, peer in others.items():
        if not same(seen, peer(), row.tolerance):
            raise AssertionError(f"{row.op} on {row.what}: saw {seen.ravel()[:6]}; {name} has {np.asarray(peer()).ravel()[:6]}")
    repeat = max(3, min(20_000, int(SECONDS / max(first, 1e-7))))
    times = {"ours": first}
    for _ in range(ROUNDS):
        times["ours"] = min(times["ours"], ours.run(repeat)[1])
        for name, peer in others.items():
            times[name] = min(times.get(name, float("inf")), least_of(peer, SECONDS))
    return times


def micro(seconds):
    return f"{seconds * 1e6:.3g}" if seconds is not None and seconds < 1e-3 else "" if seconds is None else f"{seconds * 1e6:.0f}"


def rows_of(folder, scale, chosen):
    rows = [row for row in peers.measured(scale) if re.search(chosen, row.op)]
    ours = Ours(folder, rows)
    measured = []
    for index, row in enumerate(rows):
        times = measure(ours, index, row)
        best = min((seconds for name, seconds in times.items() if name != "ours"), default=None)
        if best is None:
            print(f"{row.op} on {row.what}: no peer is installed that has it", file=sys.stderr)
            continue
        measured.append((best / times["ours"], row, times))
    return sorted(measured, key=lambda found: found[0])


def table(folder):
    """RELAYVM_OPERATORS: a regular expression that chooses operators."""
    chosen = os.environ.get("RELAYVM_OPERATORS", "")
    text = ""
    for scale in ("large", "small"):
        found = rows_of(folder, scale, chosen)
        if not found:
            continue
        ratios = [ratio for ratio, _, _ in found]
        text += (f"Operators, {scale}; microseconds, and the best peer's time divided by ours: {len(found)} rows, median "
                 f"{statistics.median(ratios):.2f}, below 0.7: {sum(ratio < 0.7 for ratio in ratios)}\n\n"
                 "| Operator | On | RelayVM | numpy | ONNX Runtime | ratio |\n|---|---|---:|---:|---:|---:|\n")
        for ratio, row, times in found:
            text += (f"| `{row.op}` | {row.what} | {micro(times['ours'])} | {micro(times.get('numpy'))} | "
                     f"{micro(times.get('ONNX Runtime'))} | {ratio:.2f} |\n")
        text += "\n"
    return text + _unmeasured()


def _unmeasured():
    """The operators of docs/operators.md that no row measures."""
    with open(os.path.join(relayvm.ROOT, "docs/operators.md"), encoding="utf-8") as file:
        known = set(re.findall(r"^\| `([^`]+)`", file.read(), re.M))
    missing = sorted(known - {row.op for row in peers.measured("small")})
    return f"Of {len(known)} operators these are not measured here: {', '.join(missing)}\n"
