"""What share of a model's time the VM takes: `relayvm profile` on models whose steps are real work."""

import json
import os
import re

import numpy as np

import relayvm

INPUTS, UNITS, NODES = 300, 150, 200  # of the Tree-LSTM


def profile(model, *args, entry="main", repeat=200):
    """The report of the fastest of many runs, each beside one that nobody watches."""
    report = model + ".json"
    relayvm.must(relayvm.COMPILER, "profile", model, "--entry", entry, "--repeat", repeat, "--json", report, *args,
                 timeout=600)
    with open(report, encoding="utf-8") as file:
        return json.load(file)


def write_tree_lstm(folder):
    """The example at 300 inputs and 150 units: paths of its source and of random weights."""
    with open(os.path.join(relayvm.ROOT, "examples/tree_lstm/tree_lstm.relay"), encoding="utf-8") as file:
        text = file.read()
    weights = re.compile(r"free_var %(\w+): Tensor\[\((.*)\), float32\]")
    shapes = {"words": (100, INPUTS), "w_iou": (3 * UNITS, INPUTS), "u_iou": (3 * UNITS, UNITS), "b_iou": (3 * UNITS,),
              "w_f": (UNITS, INPUTS), "u_f": (UNITS, UNITS), "b_f": (UNITS,)}
    text = re.sub(r"\b64\b", str(UNITS), text)
    text = weights.sub(lambda w: f"free_var %{w[1]}: Tensor[({', '.join(map(str, shapes[w[1]]))},), float32]", text)
    source = os.path.join(folder, "tree300.relay")
    with open(source, "w", encoding="utf-8") as file:
        file.write(text)
    random = np.random.default_rng(1)
    np.savez(f"{folder}/tree300.npz",
             **{name: random.uniform(-0.3, 0.3, shape).astype(np.float32) for name, shape in shapes.items()})
    return source, f"{folder}/tree300.npz"


def tree_lstm(folder, reference):
    """On one random tree."""
    source, weights = write_tree_lstm(folder)
    model = relayvm.compile_file(source, f"{folder}/tree300.rvm", 3, [weights])
    return profile(model, reference.tree_text(reference.make_tree(NODES, np.random.default_rng(1)))), NODES


def lstm(folder, peers):
    np.savez(f"{folder}/lstm.npz", **peers.make_weights())
    np.save(f"{folder}/tokens.npy", peers.make_tokens())
    model = relayvm.compile_file(os.path.join(relayvm.ROOT, "benchmarks/lstm/lstm.relay"), f"{folder}/lstm.rvm", 3,
                                 [f"{folder}/lstm.npz"])
    return profile(model, f"@{folder}/tokens.npy", entry="list"), peers.TOKENS


def char_rnn(folder, reference):
    characters = 100
    np.savez(f"{folder}/char.npz", **reference.make_weights())
    model = relayvm.compile_file(os.path.join(relayvm.ROOT, "examples/char_rnn/char_rnn.relay"), f"{folder}/char.rvm", 3,
                                 [f"{folder}/char.npz"])
    return profile(model, 1, characters), characters


def g2p(folder, spell):
    weights = os.path.join(relayvm.G2P, "checkpoint20.npz")
    if not os.path.exists(weights):
        return None, 0
    model = relayvm.compile_file(os.path.join(relayvm.ROOT, "examples/g2p/g2p.relay"), f"{folder}/g2p.rvm", 3, [weights])
    words = [relayvm.relay_list(spell.letters(word)) for word in ("benchmark", "compiler", "tensor", "virtual")]
    return profile(model, relayvm.relay_list(words), entry="words", repeat=50), len(words)


def row(name, step, report, steps):
    split, plain = report["split_ns"], report["plain_ns"]
    moved = split["import"] + split["export"]
    # All of one run, which is watched: its instructions take longer than they do unwatched, so this is the most
    # that the share of the VM can be.
    vm = sum(split[part] for part in ("kernel_calls", "memory", "instructions", "other"))
    total = split["kernels"] + vm + moved
    shares = " | ".join(f"{100 * part / total:.1f}%" for part in (split["kernels"], vm, moved))
    instructions = sum(row["count"] for row in report["opcodes"])
    return f"| {name} | {plain / steps * 1e-3:.2f} us/{step} | {shares} | {instructions / steps:.0f} |"


def table(folder, load):
    lines = ["| Model | Time | Kernels | VM, at most | Values in and out | Instructions of a step |", "|---|---:|---:|---:|---:|---:|"]
    reports = (
        (f"Tree-LSTM {INPUTS}->{UNITS}, {NODES} nodes", "node", *tree_lstm(folder, load("examples/tree_lstm/reference.py"))),
        ("LSTM 300->512, cell over a List", "step", *lstm(folder, load("benchmarks/lstm/peers.py"))),
        ("char-RNN, 64 units, 100 characters", "character",
         *char_rnn(folder, load("examples/char_rnn/reference.py"))),
        ("g2p, four words", "word", *g2p(folder, load("examples/g2p/spell.py"))),
    )
    for name, step, report, steps in reports:
        if report is not None:
            lines.append(row(name, step, report, steps))
    return "\n".join(lines) + "\n"
