"""Each example gives what its numpy reference gives, on the evaluator and on the VM at every level."""

import importlib.util
import os
import tempfile
import unittest

import numpy as np

import relayvm

LEVELS = range(4)


def load_reference(example):
    path = os.path.join(relayvm.ROOT, "examples", example, "reference.py")
    spec = importlib.util.spec_from_file_location(f"{example}_reference", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def tensor(value):
    return np.array(value, np.float32)


class Example(unittest.TestCase):
    def run_everywhere(self, example, calls, check):
        """Each of `calls` (entry, arguments, expected) by every evaluator; `check` compares."""
        source = os.path.join(relayvm.ROOT, "examples", example, f"{example}.relay")
        with tempfile.TemporaryDirectory() as folder:
            weights = os.path.join(folder, "weights.npz")
            np.savez(weights, **self.weights)
            models = {}
            for level in LEVELS:
                models[level] = relayvm.compile_file(source, os.path.join(folder, f"o{level}.rvm"), level, [weights])
            for entry, arguments, expected in calls:
                with self.subTest(f"{entry}, reference evaluator"):
                    check(relayvm.parse_value(relayvm.evaluate(source, *arguments, entry=entry, params=[weights])), expected)
                for level, model in models.items():
                    with self.subTest(f"{entry}, VM -O{level}"):
                        check(relayvm.parse_value(relayvm.execute(model, *arguments, entry=entry)), expected)

    def close(self, value, expected):
        np.testing.assert_allclose(tensor(value), expected, rtol=1e-4, atol=1e-5)

    def test_tree_lstm(self):
        reference = load_reference("tree_lstm")
        self.weights = reference.make_weights()
        random = np.random.default_rng(7)
        trees = [reference.make_tree(nodes, random) for nodes in (1, 2, 9, 30)]
        self.run_everywhere("tree_lstm", [("main", [reference.tree_text(tree)], reference.predict(self.weights, tree))
                                          for tree in trees], self.close)

    def test_char_rnn(self):
        reference = load_reference("char_rnn")
        self.weights = reference.make_weights()
        self.run_everywhere("char_rnn", [("main", [first, n], reference.predict(self.weights, first, n))
                                         for first, n in ((7, 20), (0, 60), (39, 1), (5, 0))],
                            lambda value, expected: self.assertEqual(relayvm.list_of(value), expected))

    def test_list_lstm(self):
        reference = load_reference("list_lstm")
        self.weights = reference.make_weights()
        random = np.random.default_rng(8)
        sentences = [[int(word) for word in random.integers(100, size=n)] for n in (0, 1, 12)]
        self.run_everywhere("list_lstm", [("main", [relayvm.relay_list(s)], reference.predict(self.weights, s))
                                          for s in sentences], self.close)

        def each_close(value, expected):
            states = relayvm.list_of(value)
            self.assertEqual(len(states), len(expected))
            for state, right in zip(states, expected):
                self.close(state, right)

        self.run_everywhere("list_lstm", [("each", [relayvm.relay_list(s)], reference.each(self.weights, s))
                                          for s in sentences], each_close)

    def test_linear_regression(self):
        reference = load_reference("linear_regression")
        self.weights = reference.make_weights()

        def check(value, expected):
            for one, right in zip(value, expected):
                self.close(one, right)

        self.run_everywhere("linear_regression", [("main", [steps], reference.predict(self.weights, steps))
                                                  for steps in (0, 1, 100)], check)
