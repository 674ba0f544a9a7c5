#!/usr/bin/env python3
"""The Tree-LSTM in numpy, random weights for it, and random trees.

  reference.py WEIGHTS.npz     writes the weights
"""

import sys

import numpy as np

WORDS, SIZE = 100, 64


def make_weights(seed=1):
    random = np.random.default_rng(seed)

    def uniform(*shape):
        return random.uniform(-0.3, 0.3, shape).astype(np.float32)

    return {
        "words": uniform(WORDS, SIZE),
        "w_iou": uniform(3 * SIZE, SIZE),
        "u_iou": uniform(3 * SIZE, SIZE),
        "b_iou": uniform(3 * SIZE),
        "w_f": uniform(SIZE, SIZE),
        "u_f": uniform(SIZE, SIZE),
        "b_f": uniform(SIZE),
    }


def make_tree(nodes, random):
    """A tree as (word, [tree, ...]): each node hangs under a random earlier one."""
    trees = [(int(random.integers(WORDS)), []) for _ in range(nodes)]
    for i in range(1, nodes):
        trees[int(random.integers(i))][1].append(trees[i])
    return trees[0]


def tree_text(tree):
    word, children = tree
    items = "".join(f"Cons({tree_text(child)}, " for child in children)
    return f"Node({word}, {items}Nil{')' * len(children)})"


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def state(w, tree):
    word, children = tree
    x = w["words"][word]
    h_sum = np.zeros(SIZE, np.float32)
    kept = np.zeros(SIZE, np.float32)
    for child in children:
        h, c = state(w, child)
        h_sum = h_sum + h
        kept = kept + sigmoid(w["w_f"] @ x + w["u_f"] @ h + w["b_f"]) * c
    i, o, u = np.split(w["w_iou"] @ x + w["u_iou"] @ h_sum + w["b_iou"], 3)
    c = sigmoid(i) * np.tanh(u) + kept
    return sigmoid(o) * np.tanh(c), c


def predict(w, tree):
    return state(w, tree)[0].reshape(1, SIZE)


if __name__ == "__main__":
    np.savez(sys.argv[1], **make_weights())
