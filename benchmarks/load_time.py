"""How long an executable takes to load, and how long until a big one gives its first result."""

import os
import time

import numpy as np

import relayvm

STEPS = ("decode", "verify", "link", "machine")
BIG = """#[version = "0.0.5"]
free_var %w: Tensor[(100, 1048576), float32];
def @main(%row: int32) -> Tensor[(8,), float32] {
  strided_slice(take(%w, %row, axis=0), begin=[1000], end=[1008])
}
"""


def steps(model):
    """Microseconds by step."""
    tool = relayvm.built("//benchmarks/load:load_benchmark")
    return {name: float(us) for name, us in (line.split() for line in relayvm.must(tool, model).splitlines())}


def first_result(folder):
    """(bytes, milliseconds of a process) of an executable with 400 MB of weights."""
    source = os.path.join(folder, "big.relay")
    with open(source, "w", encoding="utf-8") as file:
        file.write(BIG)
    w = np.arange(100 * 1048576, dtype=np.float32).reshape(100, 1048576)
    np.save(f"{folder}/w.npy", w)
    model = relayvm.compile_file(source, f"{folder}/big.rvm", 2, [f"{folder}/w.npy"])
    os.remove(f"{folder}/w.npy")
    times = []
    for _ in range(8):
        began = time.perf_counter()
        relayvm.must(relayvm.RUNTIME, model, "7", "--out", f"{folder}/first.npy")
        times.append(time.perf_counter() - began)
    np.testing.assert_array_equal(np.load(f"{folder}/first.npy"), w[7, 1000:1008])
    size = os.path.getsize(model)
    os.remove(model)
    return size, min(times) * 1e3


def table(folder):
    lines = ["| Executable | Decode | Verify | Link | Machine | Verification is |", "|---|---:|---:|---:|---:|---:|"]
    models = []
    weights = os.path.join(relayvm.G2P, "checkpoint20.npz")
    if os.path.exists(weights):
        models.append(("g2p", os.path.join(relayvm.ROOT, "examples/g2p/g2p.relay"), [weights]))
    models.append(("fib", os.path.join(relayvm.ROOT, "benchmarks/vm/fib.relay"), []))
    for name, source, params in models:
        times = steps(relayvm.compile_file(source, f"{folder}/{name}.rvm", 3, params))
        shown = " | ".join(f"{times[step]:.0f} us" for step in STEPS)
        lines.append(f"| {name} | {shown} | {100 * times['verify'] / sum(times.values()):.1f}% |")
    size, ms = first_result(folder)
    lines.append(f"\nFirst result of an executable of {size / 1e6:.0f} MB, start of the process included: {ms:.1f} ms")
    return "\n".join(lines) + "\n"
