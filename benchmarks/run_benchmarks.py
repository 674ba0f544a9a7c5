#!/usr/bin/env python3
"""Measures RelayVM beside its peers; prints a table and keeps it in benchmarks/results/."""

import datetime
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "tests"))
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
import numpy as np  # noqa: E402
import relayvm  # noqa: E402
import compile_models  # noqa: E402
import load_time  # noqa: E402
import peak_memory  # noqa: E402
import python_calls  # noqa: E402
import python_threads  # noqa: E402
import vm_operations  # noqa: E402
import vm_programs  # noqa: E402
import vm_share  # noqa: E402
from batching import compare as batching  # noqa: E402
from bert import compare as bert  # noqa: E402
from blocks import compare as blocks  # noqa: E402
from control import compare as control  # noqa: E402
from formats import compare as formats  # noqa: E402
from gpu import pack  # noqa: E402
from gradients import compare as gradients  # noqa: E402
from language import compare as language  # noqa: E402
from operators import compare as operators  # noqa: E402
from quantised import compare as quantised  # noqa: E402
from recurrent import compare as recurrent  # noqa: E402
from vision import compare as vision  # noqa: E402


def load(path):
    spec = importlib.util.spec_from_file_location(os.path.basename(path)[:-3], os.path.join(ROOT, path))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def least(function, times=5):
    """Seconds of the fastest of `times` calls, after one that is not counted."""
    function()
    measured = []
    for _ in range(times):
        began = time.perf_counter()
        function()
        measured.append(time.perf_counter() - began)
    return min(measured)


def run_vm(model, *args, entry="main", repeat=7):
    """Seconds of the fastest run inside the runtime, which times itself."""
    done = relayvm.run(relayvm.RUNTIME, model, "--entry", entry, "--repeat", repeat, *args, timeout=600)
    if done.returncode != 0:
        sys.exit(done.stderr)
    found = re.search(r"least ([0-9.]+) ms", done.stdout + done.stderr)
    return float(found.group(1)) / 1e3


def g2p(folder):
    spell, reference = load("examples/g2p/spell.py"), load("examples/g2p/reference.py")
    weights = os.path.join(relayvm.G2P, "checkpoint20.npz")
    w = reference.load(weights)
    with open(os.path.join(relayvm.G2P, "homographs.en"), encoding="utf-8") as file:
        words = sorted({line.split("|")[0].lower() for line in file if "|" in line and line[0] != "#"})[:300]
    model = relayvm.compile_file(os.path.join(ROOT, "examples/g2p/g2p.relay"), f"{folder}/g2p.rvm", 3, [weights])
    ids = [spell.letters(word) for word in words]
    ours = run_vm(model, relayvm.relay_list([relayvm.relay_list(word) for word in ids]), entry="words")
    theirs = least(lambda: [reference.predict(w, word) for word in ids], 3)
    yield "g2p", "words/s", len(words) / ours, "numpy", len(words) / theirs


def tree_lstm(folder):
    reference = load("examples/tree_lstm/reference.py")
    w = reference.make_weights()
    np.savez(f"{folder}/tree.npz", **w)
    model = relayvm.compile_file(os.path.join(ROOT, "examples/tree_lstm/tree_lstm.relay"), f"{folder}/tree.rvm", 3,
                                 [f"{folder}/tree.npz"])
    nodes = 200
    tree = reference.make_tree(nodes, np.random.default_rng(1))
    ours = run_vm(model, reference.tree_text(tree), repeat=50)
    theirs = least(lambda: reference.predict(w, tree))
    yield "tree_lstm", "us/node", ours / nodes * 1e6, "numpy", theirs / nodes * 1e6
    try:
        import torch
    except ImportError:
        print("PyTorch is not installed: tree_lstm is not compared with it", file=sys.stderr)
        return
    torch.set_num_threads(1)
    t = {name: torch.from_numpy(value) for name, value in w.items()}

    def state(node):
        word, children = node
        x = t["words"][word]
        h_sum, kept = torch.zeros(reference.SIZE), torch.zeros(reference.SIZE)
        x_f = t["w_f"] @ x + t["b_f"]
        for child in children:
            h, c = state(child)
            h_sum = h_sum + h
            kept = kept + torch.sigmoid(x_f + t["u_f"] @ h) * c
        i, o, u = torch.split(t["w_iou"] @ x + t["u_iou"] @ h_sum + t["b_iou"], reference.SIZE)
        c = torch.sigmoid(i) * torch.tanh(u) + kept
        return torch.sigmoid(o) * torch.tanh(c), c

    with torch.inference_mode():
        theirs = least(lambda: state(tree))
    yield "tree_lstm", "us/node", ours / nodes * 1e6, f"PyTorch {torch.__version__}", theirs / nodes * 1e6


def char_rnn(folder):
    reference = load("examples/char_rnn/reference.py")
    w, n = reference.make_weights(), 1000
    np.savez(f"{folder}/char.npz", **w)
    model = relayvm.compile_file(os.path.join(ROOT, "examples/char_rnn/char_rnn.relay"), f"{folder}/char.rvm", 3,
                                 [f"{folder}/char.npz"])
    written = relayvm.must(relayvm.RUNTIME, model, 1, n)
    if [int(char) for char in re.findall(r"\d+", written)] != reference.predict(w, 1, n):
        sys.exit("char_rnn writes other characters than numpy")
    ours = run_vm(model, 1, n, repeat=20)
    theirs = least(lambda: reference.predict(w, 1, n))
    yield "char_rnn", "us/character", ours / n * 1e6, "numpy", theirs / n * 1e6


def lstm(folder):
    peers = load("benchmarks/lstm/peers.py")
    w, tokens = peers.make_weights(), peers.make_tokens()
    np.savez(f"{folder}/lstm.npz", **w)
    np.save(f"{folder}/tokens.npy", tokens)
    model = relayvm.compile_file(os.path.join(ROOT, "benchmarks/lstm/lstm.relay"), f"{folder}/lstm.rvm", 3,
                                 [f"{folder}/lstm.npz"])
    expected = peers.predict(w, tokens)
    try:
        peer, session = peers.onnx_session(w)
        np.testing.assert_allclose(session(tokens), expected, atol=1e-5)
        theirs = least(lambda: session(tokens), 50)
    except ImportError:
        print("onnx and onnxruntime are not installed: lstm is not compared with them", file=sys.stderr)
        peer, theirs = "", float("nan")
    for entry, name in (("rows", "LSTM 300->512, inputs at once"), ("list", "LSTM 300->512, cell over a List")):
        relayvm.must(relayvm.RUNTIME, model, "--entry", entry, "--out", f"{folder}/h.npy", f"@{folder}/tokens.npy")
        np.testing.assert_allclose(np.load(f"{folder}/h.npy").ravel(), expected, atol=1e-5)
        ours = run_vm(model, f"@{folder}/tokens.npy", entry=entry, repeat=50)
        yield name, "us/token", ours / peers.TOKENS * 1e6, peer, theirs / peers.TOKENS * 1e6


def cpu_name():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        found = re.search(r"model name\s*: (.*)", file.read())
    return found.group(1).strip() if found else os.uname().machine


def table(rows):
    lines = ["| Benchmark | Unit | RelayVM | Peer | Peer's | RelayVM is |", "|---|---|---:|---|---:|---:|"]
    for name, unit, ours, peer, theirs in rows:
        faster = ours / theirs if unit.endswith("/s") else theirs / ours
        shown = f"{faster:.1f}x" if faster == faster else ""
        lines.append(f"| {name} | {unit} | {ours:.4g} | {peer} | {f'{theirs:.4g}' if peer else ''} | {shown} |")
    return "\n".join(lines) + "\n"


def programs(folder):
    if shutil.which("lua5.4") is None:
        print("lua5.4 is not installed: the programs are not compared with it", file=sys.stderr)
    return vm_programs.table(vm_programs.rows(folder)) + "\n" + vm_operations.table(folder)


def models(folder):
    return table([row for benchmark in (g2p, tree_lstm, char_rnn, lstm) for row in benchmark(folder)])


def kernels(folder):
    try:
        from kernels import compare_onnxruntime
    except ImportError:
        return "onnx and onnxruntime are not installed: kernels are not measured\n"
    return compare_onnxruntime.table(folder, relayvm.COMPILER, relayvm.built("//benchmarks/kernels:fma_peak"))


def share(folder):
    return vm_share.table(folder, load)


def memory(folder):
    return peak_memory.table(folder, load)


# By the name that chooses it on the command line.
TABLES = {"models": models, "vm": programs, "share": share, "load": load_time.table, "memory": memory,
          "kernels": kernels, "operators": operators.table, "gradients": gradients.table, "threads": python_threads.table, "calls": python_calls.table,
          "vision": vision.table, "blocks": blocks.table, "formats": formats.table, "quantised": quantised.table, "recurrent": recurrent.table, "batching": batching.table, "bert": bert.table, "compile": compile_models.table,
          "control": control.table, "language": language.table}


def gpu(flags):
    """Checks and times on this machine's GPU; without one, packs what does so elsewhere. Gives the exit code and the summary."""
    folder = os.path.join(ROOT, "build/gpu")
    pack.pack(folder)
    if not re.search("(?m)^cuda:", relayvm.must(relayvm.COMPILER, "devices")):
        archive = pack.archive(folder)
        print(f"no NVIDIA GPU here; {os.path.relpath(archive, ROOT)} ({os.path.getsize(archive) / 2**20:.1f} MiB) has all that another machine needs: "
              "benchmarks/gpu/README.md says how to run it there")
        sys.exit(0)
    measured = subprocess.run([sys.executable, os.path.join(folder, "measure.py"), *flags], check=False)
    with open(os.path.join(folder, "out/summary.md"), encoding="utf-8") as file:
        return measured.returncode, file.read()


def main():
    if sys.argv[1:2] == ["gpu"]:
        code, text = gpu(sys.argv[2:])
        path = os.path.join(ROOT, "benchmarks/results", f"{datetime.date.today().isoformat()}-gpu.md")
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"# {datetime.date.today().isoformat()}, `./run bench gpu`\n\n{text}")
        print(f"kept in {os.path.relpath(path, ROOT)}")
        sys.exit(code)
    chosen = sys.argv[1:] or list(TABLES)
    if unknown := [name for name in chosen if name not in TABLES]:
        sys.exit(f"unknown table `{unknown[0]}`; there are: {', '.join(TABLES)}, and `gpu`, alone")
    with tempfile.TemporaryDirectory() as folder:
        text = "\n".join(TABLES[name](folder) for name in chosen)
    print(text, end="")
    today = datetime.date.today().isoformat()
    commit = relayvm.must("git", "-C", ROOT, "rev-parse", "--short", "HEAD").strip()
    results = os.path.join(ROOT, "benchmarks", "results")
    os.makedirs(results, exist_ok=True)
    short = re.sub(r"[^a-z0-9]+", "-", re.sub(r"\(.*?\)|@.*|CPU|Processor", "", cpu_name()).lower()).strip("-")
    suffix = "" if chosen == list(TABLES) else "-" + "-".join(chosen)
    path = os.path.join(results, f"{today}-{short}{suffix}.md")
    with open(path, "w", encoding="utf-8") as file:
        command = " ".join(["./run bench", *sys.argv[1:]])
        file.write(f"# {today}, {cpu_name()}\n\nCommit {commit}; `{command}`; one thread.\n\n{text}")
    print(f"kept in {os.path.relpath(path, ROOT)}")


if __name__ == "__main__":
    main()
