"""What gradients cost beside their functions, and steps of gradient descent beside PyTorch's, if it is installed.

Each program (NAME.relay, then entries.relay, with examples/optimizers.relay) has a Model and @loss of it and of data.
Gradients are compared with PyTorch's first. Runs of RelayVM and PyTorch alternate; each number is the processor time of
one thread, the least of several.
"""

import os
import re
import sys
import time

import numpy as np

import relayvm

HERE = os.path.dirname(os.path.abspath(__file__))
RATE, ROUNDS = 0.01, 5


def random_tree(random, nodes, words):
    """A tree as (word, [tree, ...]): each node hangs under a random earlier one."""
    trees = [(int(random.integers(words)), []) for _ in range(nodes)]
    for i in range(1, nodes):
        trees[int(random.integers(i))][1].append(trees[i])
    return trees[0]


def tree_text(tree):
    return f"Rose({tree[0]}, [{', '.join(map(tree_text, tree[1]))}])"


class Mlp:
    title, steps = "MLP 784-256-10, batch 32", 50
    shapes = [(256, 784), (256,), (10, 256), (10,)]
    types = ["Tensor[(32, 784), float32]", "Tensor[(32, 10), float32]"]

    def __init__(self, random):
        self.x = random.normal(size=(32, 784)).astype(np.float32)
        self.digits = random.integers(10, size=32)
        self.data = [self.x.tolist(), np.eye(10)[self.digits].tolist()]

    def loss(self, torch, p):
        functional = torch.nn.functional
        hidden = functional.relu(functional.linear(torch.from_numpy(self.x), p[0], p[1]))
        return functional.cross_entropy(functional.linear(hidden, p[2], p[3]), torch.from_numpy(self.digits))


class CharRnn:
    title, steps = "char-RNN, 64 units, 100 characters", 50
    shapes = [(40, 24), (64, 24), (64, 64), (64,), (40, 64), (40,)]
    types = ["Tensor[(101), int32]"]

    def __init__(self, random):
        self.text = [int(c) for c in random.integers(40, size=101)]
        self.data = [self.text]

    def loss(self, torch, p):
        functional = torch.nn.functional
        chars, w_x, w_h, b_h, w_out, b_out = p
        h, total, targets = torch.zeros(1, 64), 0, torch.tensor(self.text)
        for i in range(100):
            x = chars[self.text[i]][None]
            h = torch.tanh(functional.linear(x, w_x) + functional.linear(h, w_h, b_h))
            total = total + functional.cross_entropy(functional.linear(h, w_out, b_out), targets[i + 1:i + 2])
        return total / 100


class Lstm:
    title, steps = "LSTM cell 300->512, 28 tokens", 10
    shapes = [(2048, 300), (2048, 512), (2048,)]
    types = ["Tensor[(28, 300), float32]"]

    def __init__(self, random):
        self.xs = random.normal(size=(28, 300)).astype(np.float32)
        self.data = [self.xs.tolist()]

    def loss(self, torch, p):
        functional = torch.nn.functional
        h = c = torch.zeros(1, 512)
        for x in torch.from_numpy(self.xs).split(1):
            i, f, g, o = (functional.linear(x, p[0]) + functional.linear(h, p[1], p[2])).chunk(4, dim=1)
            c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
            h = torch.sigmoid(o) * torch.tanh(c)
        return (h * h).sum()


class TreeLstm:
    title, steps = "child-sum Tree-LSTM 300->150, 50 nodes", 20
    shapes = [(450, 300), (450, 150), (450,), (150, 300), (150, 150), (150,)]
    types = ["Tensor[(100, 300), float32]", "Tree[int32]"]

    def __init__(self, random):
        self.words = random.normal(size=(100, 300)).astype(np.float32)
        self.tree = random_tree(random, 50, 100)
        self.data = [self.words.tolist(), tree_text(self.tree)]

    def loss(self, torch, p):
        functional = torch.nn.functional
        words = torch.from_numpy(self.words)

        def state(tree):
            x = words[tree[0]][None]
            h, c, x_f = torch.zeros(1, 150), torch.zeros(1, 150), functional.linear(x, p[3], p[5])
            for child in tree[1]:
                h_k, c_k = state(child)
                h = h + h_k
                c = c + torch.sigmoid(x_f + functional.linear(h_k, p[4])) * c_k
            i, o, u = (functional.linear(x, p[0], p[2]) + functional.linear(h, p[1])).chunk(3, dim=1)
            c = torch.sigmoid(i) * torch.tanh(u) + c
            return torch.sigmoid(o) * torch.tanh(c), c

        h = state(self.tree)[0]
        return (h * h).sum()


PROGRAMS = {"mlp": Mlp, "char_rnn": CharRnn, "lstm": Lstm, "tree_lstm": TreeLstm}


class Measured:
    """A program compiled, with its weights and its data as arguments."""

    def __init__(self, folder, name):
        random = np.random.default_rng(5)
        self.program = PROGRAMS[name](random)
        self.weights = [random.normal(scale=shape[-1]**-0.5 if len(shape) > 1 else 0.1, size=shape).astype(np.float32)
                        for shape in self.program.shapes]
        source = os.path.join(folder, f"{name}.relay")
        with open(source, "w", encoding="utf-8") as out:
            for part in (f"{name}.relay", "entries.relay", "../../examples/optimizers.relay"):
                with open(os.path.join(HERE, part), encoding="utf-8") as file:
                    out.write(self.with_data(file.read()))
        flags = [flag for entry in ("function", "gradient", "train") for flag in ("--entry", entry)]
        self.model = relayvm.compile_file(source, os.path.join(folder, f"{name}.rvm"), 3, extra=flags, verify=False)
        self.arguments = os.path.join(folder, f"{name}.args")

    def with_data(self, text):
        names = [f"%data{i}" for i in range(len(self.program.types))]
        declared = ", ".join(f"{name}: {kind}" for name, kind in zip(names, self.program.types))
        return re.sub(r"%data\b", ", ".join(names), text.replace("%data: Data", declared))

    def run(self, entry, times, *options):
        with open(self.arguments, "w", encoding="utf-8") as file:
            file.write(f"Model({', '.join(str(w.tolist()) for w in self.weights)})\n"
                       + "\n".join(map(str, [*self.program.data, times])))
        done = relayvm.run(relayvm.RUNTIME, self.model, "--entry", entry, *options, "--args", self.arguments)
        if done.returncode != 0:
            sys.exit(done.stderr)
        return done

    def gradient(self):
        """Each weight's, flat."""
        numbers = np.array(re.findall(r"(-?[\d.]+(?:e[-+]?\d+)?)f", self.run("gradient", 1).stdout), np.float32)
        return np.split(numbers, np.cumsum([w.size for w in self.weights])[:-1])

    def seconds(self, entry):
        """Of the processor for one round of an entry, without the arguments and the result of the whole run."""
        def least(times):
            done = self.run(entry, times, "--repeat", 5)
            return float(re.search(r"least of the processor ([0-9.]+) ms", done.stdout + done.stderr).group(1)) / 1e3

        return (least(self.program.steps) - least(0)) / self.program.steps


def torch_step(torch, program, weights):
    """Seconds of one step of gradient descent."""
    p = [torch.from_numpy(w.copy()).requires_grad_() for w in weights]
    measured = []
    for _ in range(6):
        began = time.thread_time()
        gradients = torch.autograd.grad(program.loss(torch, p), p)
        with torch.no_grad():
            for w, g in zip(p, gradients):
                w -= RATE * g
        measured.append(time.thread_time() - began)
    return min(measured[1:])


def check_gradient(torch, measured):
    p = [torch.from_numpy(w).requires_grad_() for w in measured.weights]
    expected = torch.autograd.grad(measured.program.loss(torch, p), p)
    for ours, theirs in zip(measured.gradient(), expected):
        theirs = theirs.numpy().ravel()
        np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-4 * np.abs(theirs).max())


def table(folder):
    try:
        # Not `import torch` first: that takes the folder tests/torch where PyTorch is not installed.
        from torch import set_num_threads
        import torch
        set_num_threads(1)
    except ImportError:
        torch = None
        print("PyTorch is not installed: gradients are not compared with it", file=sys.stderr)
    peer = f"PyTorch {torch.__version__}, us" if torch else "PyTorch"
    lines = [f"| Gradients | Function, us | Gradient, us | Ratio | Training step, us | {peer} | RelayVM is |",
             "|---|---:|---:|---:|---:|---:|---:|"]
    for name in PROGRAMS:
        measured = Measured(folder, name)
        if torch:
            check_gradient(torch, measured)
        entries, theirs = ("function", "gradient", "train"), []
        best = dict.fromkeys(entries, float("inf"))
        for _ in range(ROUNDS):
            for entry in entries:
                best[entry] = min(best[entry], measured.seconds(entry))
            if torch:
                theirs.append(torch_step(torch, measured.program, measured.weights))
        ratio = best["gradient"] / best["function"]
        shown = " | ".join(f"{best[entry] * 1e6:.4g}" for entry in ("function", "gradient"))
        other = f"{min(theirs) * 1e6:.4g} | {min(theirs) / best['train']:.1f}x" if torch else "|"
        lines.append(f"| {measured.program.title} | {shown} | {ratio:.1f} | {best['train'] * 1e6:.4g} | {other} |")
    return "\n".join(lines) + "\n"
