#!/usr/bin/env python3
"""Data for the training examples, and the same training in numpy with gradients by hand.

  reference.py NAME ARGS     writes the arguments of NAME.relay, but for the number of steps

Each example is a class: `arguments` are those of @main before the steps (a tuple or `Adt` is a value of Relay,
an array a tensor), `parameters` the arrays that are trained, `step(parameters, i)` the loss and the gradients of
step i, `optimizer` what follows from them.
"""

import gzip
import os
import sys

import numpy as np

FOLDER = os.path.dirname(os.path.abspath(__file__))


class Adt(tuple):
    """A constructor's name, then its fields."""


def text(value):
    """A value as Relay writes it."""
    if isinstance(value, Adt):
        return value[0] + (f"({', '.join(map(text, value[1:]))})" if len(value) > 1 else "")
    if isinstance(value, tuple):
        return f"({', '.join(map(text, value))}{',' if len(value) == 1 else ''})"
    if isinstance(value, list):
        return f"[{', '.join(map(text, value))}]"
    return str(np.asarray(value).tolist())


def log_softmax(scores):
    shifted = scores - scores.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


# ---- optimizers: generators that take gradients and give the changes of the parameters

def sgd(rate):
    gradients = yield
    while True:
        gradients = yield [-rate * g for g in gradients]


def momentum(rate, friction):
    gradients = yield
    velocity = [np.zeros_like(g) for g in gradients]
    while True:
        velocity = [friction * v + g for v, g in zip(velocity, gradients)]
        gradients = yield [-rate * v for v in velocity]


def adam(rate):
    gradients = yield
    means, squares, i = [0.0 * g for g in gradients], [0.0 * g for g in gradients], 0
    while True:
        i += 1
        means = [0.9 * m + 0.1 * g for m, g in zip(means, gradients)]
        squares = [0.999 * s + 0.001 * g * g for s, g in zip(squares, gradients)]
        gradients = yield [-rate * (m / (1 - 0.9**i)) / (np.sqrt(s / (1 - 0.999**i)) + 1e-8)
                           for m, s in zip(means, squares)]


# ---- examples

class Linear:
    """32 points with a line in them, and some noise."""

    def __init__(self):
        random = np.random.default_rng(4)
        self.x = random.normal(size=(32, 3)).astype(np.float32)
        noise = random.normal(scale=0.1, size=(32, 1))
        self.y = (self.x @ np.array([[2.0], [-1.0], [0.5]]) + 3 + noise).astype(np.float32)
        self.parameters = [np.zeros((3, 1), np.float32), np.float32(0)]
        self.arguments = [tuple(self.parameters), self.x, self.y]
        self.optimizer = sgd(0.1)

    def step(self, parameters, _):
        weight, bias = parameters
        error = self.x @ weight + bias - self.y
        return np.mean(error * error), [self.x.T @ error * (2 / 32), error.sum() * (2 / 32)]


class Digits:
    """1,500 images in batches of 100 to learn from, the other 297 for the test."""

    def __init__(self):
        with gzip.open(os.path.join(FOLDER, "digits.csv.gz"), "rt") as file:
            rows = np.loadtxt(file, delimiter=",")
        x, digits = (rows[:, :64] / 16).astype(np.float32), rows[:, 64].astype(np.int32)
        self.x, self.digits = x[:1500].reshape(15, 100, 64), digits[:1500].reshape(15, 100)
        self.test = [x[1500:], digits[1500:]]
        random = np.random.default_rng(0)
        self.parameters = [random.normal(scale=64**-0.5, size=(64, 32)).astype(np.float32), np.zeros(32, np.float32),
                           random.normal(scale=32**-0.5, size=(32, 10)).astype(np.float32), np.zeros(10, np.float32)]
        self.arguments = [Adt(["Model", *self.parameters]), self.x, self.digits]
        self.optimizer = momentum(0.05, 0.9)

    def step(self, parameters, i):
        w1, b1, w2, b2 = parameters
        x, digits = self.x[i % 15].astype(float), self.digits[i % 15]
        before = x @ w1 + b1
        hidden = np.maximum(before, 0)
        likely = log_softmax(hidden @ w2 + b2)
        d_scores = (np.exp(likely) - np.eye(10)[digits]) / 100
        d_before = d_scores @ w2.T * (before > 0)
        return (-likely[np.arange(100), digits].mean(),
                [x.T @ d_before, d_before.sum(axis=0), hidden.T @ d_scores, d_scores.sum(axis=0)])


class CharRnn:
    """The licence of this project in 32 characters: small letters, and signs; what is none of them is a blank."""

    LETTERS = " abcdefghijklmnopqrstuvwxyz.,;()"

    def __init__(self):
        with open(os.path.join(FOLDER, "../../LICENSE"), encoding="utf-8") as file:
            words = " ".join(file.read().lower().split())
        self.text = np.array([max(self.LETTERS.find(c), 0) for c in words], np.int32)
        random = np.random.default_rng(1)
        shapes = [(32, 64), (64, 64), (64,), (64, 32), (32,)]
        self.parameters = [(random.normal(scale=0.1, size=shape) * (len(shape) > 1)).astype(np.float32)
                           for shape in shapes]
        self.arguments = [Adt(["Model", *self.parameters]), self.text]
        self.optimizer = adam(0.003)

    def step(self, parameters, i):
        w_x, w_h, b_h, w_out, b_out = parameters
        at = i % -(-(len(self.text) - 50) // 50) * 50
        inputs, targets = self.text[at:at + 50], self.text[at + 1:at + 51]
        states = [np.zeros(64)]
        for character in inputs:
            states.append(np.tanh(w_x[character] + states[-1] @ w_h + b_h))
        likely = log_softmax(np.array(states[1:]) @ w_out + b_out)
        d_scores = (np.exp(likely) - np.eye(32)[targets]) / 50
        d_x, d_h, d_b, d_state = np.zeros_like(w_x), np.zeros_like(w_h), np.zeros_like(b_h), np.zeros(64)
        for t in reversed(range(50)):
            d = (d_state + d_scores[t] @ w_out.T) * (1 - states[t + 1] ** 2)
            d_x[inputs[t]] += d
            d_h += np.outer(states[t], d)
            d_b += d
            d_state = d @ w_h.T
        return (-likely[np.arange(50), targets].mean(),
                [d_x, d_h, d_b, np.array(states[1:]).T @ d_scores, d_scores.sum(axis=0)])


class TreeLstm:
    """Phrases of 8 good, 8 bad and 3 other words, and one that turns what it is joined with into its opposite."""

    NOT = 19

    def __init__(self):
        self.random = np.random.default_rng(2)
        self.batches = [self.make_phrases(8) for _ in range(100)]
        self.test = self.make_phrases(100)
        shapes = [(20, 48), (16, 48), (48,), (16, 16), (16,), (16, 2), (2,)]
        self.parameters = [(self.random.normal(scale=0.3, size=shape) * (len(shape) > 1)).astype(np.float32)
                           for shape in shapes]
        self.arguments = [Adt(["Model", *self.parameters]), self.batches]
        self.optimizer = adam(0.01)

    def make_phrase(self, words):
        """A phrase, and how well it is meant."""
        if words == 1:
            word = int(self.random.integers(19))
            return Adt(["Word", word]), 1 if word < 8 else -1 if word < 16 else 0
        if self.random.random() < 0.25:
            phrase, meaning = self.make_phrase(words - 1)
            return Adt(["Join", Adt(["Word", self.NOT]), phrase]), -meaning
        left = int(self.random.integers(1, words))
        (a, x), (b, y) = self.make_phrase(left), self.make_phrase(words - left)
        return Adt(["Join", a, b]), x + y

    def make_phrases(self, n):
        phrases = []
        while len(phrases) < n:
            phrase, meaning = self.make_phrase(int(self.random.integers(1, 9)))
            if meaning != 0:
                phrases.append((phrase, int(meaning > 0)))
        return phrases

    def read(self, parameters, phrase, gradients):
        """State and cell, and a function that adds to `gradients` what follows from those of state and cell."""
        words, w, b, w_f, b_f = parameters[:5]
        if phrase[0] == "Word":
            gates, kept, backs = words[phrase[1]] + b, 0, []
        else:
            (h1, c1, back1), (h2, c2, back2) = (self.read(parameters, part, gradients) for part in phrase[1:])
            forget = [sigmoid(h1 @ w_f + b_f), sigmoid(h2 @ w_f + b_f)]
            gates, kept = (h1 + h2) @ w + b, forget[0] * c1 + forget[1] * c2
            backs = [(h1, c1, forget[0], back1), (h2, c2, forget[1], back2)]
        i, o, u = sigmoid(gates[:16]), sigmoid(gates[16:32]), np.tanh(gates[32:])
        c = i * u + kept
        h = o * np.tanh(c)

        def back(d_h, d_c):
            d_c = d_c + d_h * o * (1 - np.tanh(c) ** 2)
            d_gates = np.concatenate([d_c * u * i * (1 - i), d_h * np.tanh(c) * o * (1 - o), d_c * i * (1 - u * u)])
            gradients[2] += d_gates
            if phrase[0] == "Word":
                gradients[0][phrase[1]] += d_gates
            else:
                gradients[1] += np.outer(backs[0][0] + backs[1][0], d_gates)
            for h_k, c_k, forget_k, back_k in backs:
                d_forget = d_c * c_k * forget_k * (1 - forget_k)
                gradients[3] += np.outer(h_k, d_forget)
                gradients[4] += d_forget
                back_k(d_gates @ w.T + d_forget @ w_f.T, d_c * forget_k)

        return h, c, back

    def step(self, parameters, i):
        batch = self.batches[i % len(self.batches)]
        gradients, loss = [np.zeros(p.shape) for p in parameters], 0
        for phrase, meant_well in batch:
            h, _, back = self.read(parameters, phrase, gradients)
            likely = log_softmax(h @ parameters[5] + parameters[6])
            loss -= likely[meant_well] / len(batch)
            d = (np.exp(likely) - np.eye(2)[meant_well]) / len(batch)
            gradients[5] += np.outer(h, d)
            gradients[6] += d
            back(d @ parameters[5].T, np.zeros(16))
        return loss, gradients


EXAMPLES = {"linear": Linear, "digits": Digits, "char_rnn": CharRnn, "tree_lstm": TreeLstm}


def train(example, steps):
    """The loss before each step."""
    parameters = [np.asarray(p, float) for p in example.parameters]
    losses = []
    next(example.optimizer)
    for i in range(steps):
        loss, gradients = example.step(parameters, i)
        parameters = [p + change for p, change in zip(parameters, example.optimizer.send(gradients))]
        losses.append(loss)
    return losses


if __name__ == "__main__":
    with open(sys.argv[2], "w", encoding="utf-8") as file:
        file.writelines(text(argument) + "\n" for argument in EXAMPLES[sys.argv[1]]().arguments)
