"""Peak memory of a run beside ONNX Runtime on the same LSTM, and what 10,000 runs over varying lengths add to it."""

import importlib.util
import os
import re
import sys

import numpy as np

import relayvm

LENGTHS = range(1, 51)  # tokens; the peak is of a run over the most
FEW, MANY = 1_000, 10_000

# The peer in a process of its own: kilobytes resident at most after its imports, the first run, few runs, many.
PEER = """
import importlib.util, resource, sys
import numpy as np
import onnx, onnxruntime
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
imported = peak()
spec = importlib.util.spec_from_file_location("peers", sys.argv[1])
peers = importlib.util.module_from_spec(spec)
spec.loader.exec_module(peers)
w = dict(np.load(sys.argv[2]))
name, session = peers.onnx_session(w)
tokens = [np.load(path) for path in sys.argv[6:]]
np.save(sys.argv[3], session(tokens[-1]))
first = peak()
def run(times):
    for i in range(times):
        session(tokens[i * 7 % len(tokens)])
    return peak()
few, many = (run(int(times)) for times in sys.argv[4:6])
print(name.replace(" ", "_"), imported, first, few, many)
"""


def peak_of(command):
    """Kilobytes that the process had resident at most."""
    tool = relayvm.built("//benchmarks/memory:peak_memory")
    done = relayvm.run(tool, *command, timeout=600)
    if done.returncode != 0:
        sys.exit(f"{command[0]} failed: {done.stderr}")
    return int(re.search(r"^peak (\d+) KB$", done.stderr, re.MULTILINE).group(1))


def table(folder, load):
    peers = load("benchmarks/lstm/peers.py")
    w = peers.make_weights()
    np.savez(f"{folder}/lstm.npz", **w)
    paths = []
    for length in LENGTHS:
        paths.append(f"{folder}/tokens{length}.npy")
        np.save(paths[-1], np.random.default_rng(length).normal(size=(length, peers.INPUTS)).astype(np.float32))
    with open(f"{folder}/lengths.txt", "w", encoding="utf-8") as file:
        file.writelines(f"@{paths[i * 7 % len(paths)]}\n" for i in range(len(paths)))
    model = relayvm.compile_file(os.path.join(relayvm.ROOT, "benchmarks/lstm/lstm.relay"), f"{folder}/lstm.rvm", 3,
                                 [f"{folder}/lstm.npz"])
    expected = peers.predict(w, np.load(paths[-1]))

    def check(path):
        np.testing.assert_allclose(np.load(path).ravel(), expected, atol=1e-5)

    ours = peak_of([relayvm.RUNTIME, model, "--entry", "any", "--out", f"{folder}/h.npy", f"@{paths[-1]}"])
    check(f"{folder}/h.npy")
    few, many = (peak_of([relayvm.COMPILER, "bench", model, "--entry", "any", "--runs", runs, "--args-file",
                          f"{folder}/lengths.txt"]) for runs in (FEW, MANY))
    lines = [f"| LSTM 300->512, {LENGTHS[-1]} tokens | Process, MB | of that above its imports | {MANY} runs over 1 to "
             f"{LENGTHS[-1]} tokens add to {FEW} |", "|---|---:|---:|---:|",
             f"| RelayVM (`relayvm-run`) | {ours / 1e3:.1f} | | {(many - few) / 1e3:.1f} |"]
    if any(importlib.util.find_spec(name) is None for name in ("onnx", "onnxruntime")):
        print("onnx and onnxruntime are not installed: memory is not compared with them", file=sys.stderr)
        return "\n".join(lines) + "\n"
    text = relayvm.must(sys.executable, "-c", PEER, os.path.join(relayvm.ROOT, "benchmarks/lstm/peers.py"),
                        f"{folder}/lstm.npz", f"{folder}/h.npy", FEW, MANY - FEW, *paths, timeout=600)
    name, *peaks = text.split()
    check(f"{folder}/h.npy")
    imported, first, few, many = map(int, peaks)
    lines.append(f"| {name.replace('_', ' ')}, from Python | {first / 1e3:.1f} | {(first - imported) / 1e3:.1f} | "
                 f"{(many - few) / 1e3:.1f} |")
    return "\n".join(lines) + f"\nThe weights are {sum(array.nbytes for array in w.values()) / 1e6:.1f} MB of that.\n"
