"""Eager PyTorch on one thread: torch_peer.py FOLDER. FOLDER has the weights of each kind, KIND.npz, and `workloads.json`, a list of
[name, kind, items, parameters]; writes a line of JSON for each: milliseconds one by one and batched by hand, and the results of both.

A workload with parameters is a step of gradient descent; its results are the new parameters. By hand, trees are batched by levels from the root, with index arrays made before; sequences are packed.
"""

import json
import os
import sys
import time

import numpy as np
import torch

F = torch.nn.functional


class Trees:
    def __init__(self, weights, items):
        self.w, self.items, self.units = weights, items, weights["u_f"].shape[0]
        self.levels = self.levels_of(items)

    def state(self, tree):
        w = self.w
        x = w["words"][tree[0]][None]
        x_f, h, c = F.linear(x, w["w_f"], w["b_f"]), torch.zeros(1, self.units), torch.zeros(1, self.units)
        for child in tree[1]:
            h_k, c_k = self.state(child)
            h, c = h + h_k, c + torch.sigmoid(x_f + F.linear(h_k, w["u_f"])) * c_k
        return self.gates(x, h, c)

    def gates(self, x, h, c):
        w = self.w
        i, o, u = torch.chunk(F.linear(x, w["w_iou"], w["b_iou"]) + F.linear(h, w["u_iou"]), 3, 1)
        c = torch.sigmoid(i) * torch.tanh(u) + c
        return torch.sigmoid(o) * torch.tanh(c), c

    @staticmethod
    def levels_of(trees):
        """The words of each level, and the place of each node's parent in the level above; the lowest level first."""
        levels, level, parents = [], list(trees), []
        while level:
            levels.append((torch.tensor([tree[0] for tree in level]), torch.tensor(parents, dtype=torch.int64)))
            parents = [i for i, tree in enumerate(level) for _ in tree[1]]
            level = [child for tree in level for child in tree[1]]
        return levels[::-1]

    def one_by_one(self):
        return [self.state(tree)[0][0] for tree in self.items]

    def by_hand(self):
        w, h, c, parents = self.w, None, None, None
        for words, next_parents in self.levels:
            x, h_sum, c_sum = w["words"][words], torch.zeros(len(words), self.units), torch.zeros(len(words), self.units)
            if h is not None:
                forget = torch.sigmoid(F.linear(x, w["w_f"], w["b_f"])[parents] + F.linear(h, w["u_f"]))
                h_sum.index_add_(0, parents, h)
                c_sum.index_add_(0, parents, forget * c)
            h, c = self.gates(x, h_sum, c_sum)
            parents = next_parents
        return list(h)


class Lists:
    def __init__(self, weights, items):
        self.w = weights
        self.net = torch.nn.LSTM(weights["w_ih"].shape[1], weights["w_hh"].shape[1])
        self.net.weight_ih_l0.copy_(weights["w_ih"])
        self.net.weight_hh_l0.copy_(weights["w_hh"])
        self.net.bias_ih_l0.copy_(weights["bias"])
        self.net.bias_hh_l0.zero_()
        self.w |= {"w_ih": self.net.weight_ih_l0, "w_hh": self.net.weight_hh_l0, "bias": self.net.bias_ih_l0}
        self.items = [torch.tensor(item) for item in items]

    def one_by_one(self):
        return [self.net(self.w["words"][item][:, None])[1][0][0, 0] for item in self.items]

    def by_hand(self):
        packed = torch.nn.utils.rnn.pack_sequence([self.w["words"][item] for item in self.items], enforce_sorted=False)
        return list(self.net(packed)[1][0][0])


RATE = 0.01  # of gradient descent


class Training:
    """A step of gradient descent, after which the weights are what they were; the loss is the sum of the squares of all states."""

    def __init__(self, peer, names):
        self.peer, self.parameters = peer, [peer.w[name].requires_grad_() for name in names]

    def step(self, states):
        with torch.enable_grad():
            loss = sum((state * state).sum() for state in states())
            gradients = torch.autograd.grad(loss, self.parameters)
        return [w - RATE * g for w, g in zip(self.parameters, gradients)]

    def one_by_one(self):
        return self.step(self.peer.one_by_one)

    def by_hand(self):
        return self.step(self.peer.by_hand)


def least(function, seconds=1.0):
    """Milliseconds of the processor of the fastest call, of as many as fit `seconds`, and of three at least."""
    times, began = [], time.perf_counter()
    while len(times) < 3 or time.perf_counter() - began < seconds:
        start = time.process_time()
        function()
        times.append(time.process_time() - start)
    return min(times) * 1e3


def main(folder):
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    with open(os.path.join(folder, "workloads.json"), encoding="utf-8") as file:
        workloads = json.load(file)
    for name, kind, items, parameters in workloads:
        weights = {key: torch.from_numpy(value) for key, value in np.load(os.path.join(folder, f"{kind}.npz")).items()}
        peer = (Lists if kind.startswith("list") else Trees)(weights, items)
        if parameters:
            peer = Training(peer, parameters)
        print(json.dumps({"name": name, "version": torch.__version__, "one_by_one": least(peer.one_by_one),
                          "by_hand": least(peer.by_hand),
                          "results": [[state.tolist() for state in states] for states in (peer.one_by_one(), peer.by_hand())]}))


if __name__ == "__main__":
    main(sys.argv[1])
