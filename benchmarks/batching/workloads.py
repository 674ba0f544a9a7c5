"""Trees and sequences of random words, weights, and the results in numpy."""

import os

import numpy as np
import relayvm

WORDS, INPUTS = 100, 300
TREE_UNITS, LSTM_UNITS = 150, 512
COUNT = 32
# The weights that a step of gradient descent changes, by the kind of workload; they are arguments.
PARAMETERS = {"tree_training": ["w_iou", "u_iou", "b_iou", "w_f", "u_f", "b_f"], "list_training": ["w_ih", "w_hh", "bias"]}


def weights(kind):
    random = np.random.default_rng(1)

    def uniform(*shape):
        return random.uniform(-0.1, 0.1, shape).astype(np.float32)

    of_lists = kind.startswith("list")
    words, units = uniform(WORDS, INPUTS), LSTM_UNITS if of_lists else TREE_UNITS
    if of_lists:
        return {"words": words, "w_ih": uniform(4 * units, INPUTS), "w_hh": uniform(4 * units, units), "bias": uniform(4 * units)}
    return {"words": words, "w_iou": uniform(3 * units, INPUTS), "u_iou": uniform(3 * units, units), "b_iou": uniform(3 * units),
            "w_f": uniform(units, INPUTS), "u_f": uniform(units, units), "b_f": uniform(units)}


def parse_tree(leaves, random):
    """A binary tree as (word, [tree, tree]), divided at random."""
    word = int(random.integers(WORDS))
    if leaves == 1:
        return (word, [])
    left = int(random.integers(1, leaves))
    return (word, [parse_tree(left, random), parse_tree(leaves - left, random)])


def random_tree(nodes, random):
    """Each node hangs under a random earlier one."""
    trees = [(int(random.integers(WORDS)), []) for _ in range(nodes)]
    for i in range(1, nodes):
        trees[int(random.integers(i))][1].append(trees[i])
    return trees[0]


def size(tree):
    return 1 + sum(size(child) for child in tree[1])


def tree_text(tree):
    return f"Node({tree[0]}, [{', '.join(tree_text(child) for child in tree[1])}])"


class Workload:
    """Items that one call of `@main` of `kind`.relay takes together."""

    def __init__(self, name, kind, items):
        self.name, self.kind, self.items = name, kind, items
        self.of_lists, self.parameters = kind.startswith("list"), PARAMETERS.get(kind, [])
        self.source = os.path.join(relayvm.ROOT, "benchmarks/batching", f"{kind}.relay")

    def steps(self):
        return sum(len(item) if self.of_lists else size(item) for item in self.items)

    def arguments(self):
        """As text: the weights that are trained, if there are some, and the items."""
        w = weights(self.kind)
        model = f"Model({', '.join(str(w[name].tolist()) for name in self.parameters)})\n" if self.parameters else ""
        return f"{model}[{', '.join(str(item) if self.of_lists else tree_text(item) for item in self.items)}]\n"

    def expected(self):
        """The states in numpy; not for training."""
        w = weights(self.kind)
        return [lstm(w, item) if self.of_lists else tree_state(w, item)[0] for item in self.items]


def workloads(count=COUNT, seed=None):
    """`seed`: None for other items in each run."""
    random = np.random.default_rng(seed)
    trees = [parse_tree(int(random.integers(10, 27)), random) for _ in range(count)]
    others = [random_tree(int(random.integers(20, 60)), random) for _ in range(count)]
    lists = [[int(word) for word in random.integers(WORDS, size=int(random.integers(10, 47)))] for _ in range(count)]
    return [Workload(f"{count} parse trees", "tree_lstm", trees), Workload(f"{count} random trees", "tree_lstm", others),
            Workload("one parse tree of 20 leaves", "tree_lstm", [parse_tree(20, random)]),
            Workload(f"{count} sequences", "list_lstm", lists), Workload("one sequence", "list_lstm", lists[:1]),
            Workload(f"training, {count} parse trees", "tree_training", trees),
            Workload(f"training, {count} random trees", "tree_training", others),
            Workload("training, one parse tree of 20 leaves", "tree_training", [parse_tree(20, random)]),
            Workload(f"training, {count} sequences", "list_training", lists)]


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def tree_state(w, tree):
    word, children = tree
    x = w["words"][word]
    h_sum, kept = np.zeros(TREE_UNITS, np.float32), np.zeros(TREE_UNITS, np.float32)
    for child in children:
        h, c = tree_state(w, child)
        h_sum = h_sum + h
        kept = kept + sigmoid(w["w_f"] @ x + w["u_f"] @ h + w["b_f"]) * c
    i, o, u = np.split(w["w_iou"] @ x + w["u_iou"] @ h_sum + w["b_iou"], 3)
    c = sigmoid(i) * np.tanh(u) + kept
    return sigmoid(o) * np.tanh(c), c


def lstm(w, words):
    h, c = np.zeros(LSTM_UNITS, np.float32), np.zeros(LSTM_UNITS, np.float32)
    for word in words:
        i, f, g, o = np.split(w["w_ih"] @ w["words"][word] + w["w_hh"] @ h + w["bias"], 4)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
    return h
