"""Times programs over trees and lists, compiled with --batch and without, beside eager PyTorch: one by one, and batched by hand.

The programs take a list of trees or of sequences, and are written for one of them, node by node and word by word. Items
differ from run to run. Results are compared first, with numpy's.

RELAYVM_TORCH_PYTHON: a Python that has PyTorch, if the one that runs this has none.
"""

import json
import os
import re
import subprocess
import sys

import numpy as np
import relayvm
from batching import workloads as work

TOLERANCE = 1e-4
ROUNDS = 5  # in turn
SECONDS = 1.0  # of all runs of a file in a round
TORCH_PYTHON = "RELAYVM_TORCH_PYTHON"


def torch_rows(folder, workloads):
    """What torch_peer.py gives, by the name of the workload, and a line that says why there is nothing."""
    python = os.environ.get(TORCH_PYTHON, sys.executable)
    with open(os.path.join(folder, "workloads.json"), "w", encoding="utf-8") as file:
        json.dump([[w.name, w.kind, w.items, w.parameters] for w in workloads], file)
    if subprocess.run([python, "-c", "import torch"], capture_output=True, check=False).returncode != 0:
        return {}, f"{python} has no PyTorch, with which nothing is compared; {TORCH_PYTHON} names a Python that has it\n\n"
    lines = relayvm.must(python, os.path.join(relayvm.ROOT, "benchmarks/batching/torch_peer.py"), folder).splitlines()
    return {row["name"]: row for row in map(json.loads, lines)}, ""


def check(name, results, expected):
    for ours, theirs in zip(results, expected, strict=True):
        np.testing.assert_allclose(np.reshape(ours, -1), np.reshape(theirs, -1), atol=TOLERANCE, rtol=0, err_msg=name)


def milliseconds(model, arguments):
    """Of the processor, in the fastest run inside the runtime, which times itself."""
    def runs(count):
        done = relayvm.run(relayvm.RUNTIME, model, "--repeat", count, "--args", arguments)
        if done.returncode != 0:
            sys.exit(done.stderr)
        return float(re.search(r"least of the processor ([0-9.]+) ms", done.stdout + done.stderr).group(1))
    return runs(int(min(500, max(5, SECONDS * 1e3 / runs(3)))))


def results_of(workload, model, arguments):
    """States, or trained weights."""
    value = relayvm.parse_value(relayvm.must(relayvm.RUNTIME, model, "--args", arguments))
    return list(value[1:]) if workload.parameters else relayvm.list_of(value)


def measure(workload, models, folder, rounds):
    """Milliseconds without and with --batch, the least of all rounds, and the results."""
    arguments = os.path.join(folder, "arguments.txt")
    with open(arguments, "w", encoding="utf-8") as file:
        file.write(workload.arguments())
    plain, batch = (results_of(workload, model, arguments) for model in models)
    expected = plain if workload.parameters else workload.expected()
    for results in (plain, batch):
        check(workload.name, results, expected)
    times = [[milliseconds(model, arguments) for model in models] for _ in range(rounds)]
    return *(min(column) for column in zip(*times)), expected


def compile_pair(kind, folder):
    np.savez(os.path.join(folder, f"{kind}.npz"), **work.weights(kind))
    source = os.path.join(relayvm.ROOT, "benchmarks/batching", f"{kind}.relay")
    return [relayvm.compile_file(source, os.path.join(folder, f"{kind}{'-batch' if extra else ''}.rvm"), 2,
                                 [os.path.join(folder, f"{kind}.npz")], extra) for extra in ((), ("--batch",))]


def table(folder):
    workloads = work.workloads()
    models = {kind: compile_pair(kind, folder) for kind in {w.kind for w in workloads}}
    peers, text = torch_rows(folder, workloads)
    version = next((row["version"] for row in peers.values()), "")
    text += (f"Tree-LSTM {work.INPUTS}->{work.TREE_UNITS} and LSTM {work.INPUTS}->{work.LSTM_UNITS}, one thread, milliseconds; in "
             "brackets, divided by those with `--batch`."
             f"{f' PyTorch {version}, eager; by hand: trees by levels, sequences packed.' if version else ''} Training: a step of gradient descent.\n\n"
             "| | nodes or words | with `--batch` | without | PyTorch one by one | PyTorch by hand |\n|---|---:|---:|---:|---:|---:|\n")
    for workload in workloads:
        plain, batch, expected = measure(workload, models[workload.kind], folder, ROUNDS)
        cells = [f"{batch:.3f}", f"{plain:.3f} ({plain / batch:.2f})"]
        for key, results in (("one_by_one", 0), ("by_hand", 1)):
            row = peers.get(workload.name)
            if row is not None:
                check(f"{workload.name} in PyTorch", row["results"][results], expected)
            cells.append("" if row is None else f"{row[key]:.3f} ({row[key] / batch:.2f})")
        text += f"| {workload.name} | {workload.steps()} | {' | '.join(cells)} |\n"
        print(text.splitlines()[-1], file=sys.stderr, flush=True)
    return text
