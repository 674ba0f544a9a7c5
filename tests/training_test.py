"""The examples that train: loss curves as in numpy, with gradients by hand; what they reach; memory."""

import importlib.util
import os
import re
import tempfile
import unittest

import numpy as np

import relayvm

EXAMPLES = os.path.join(relayvm.ROOT, "examples")
STEPS = 100


def load_reference():
    spec = importlib.util.spec_from_file_location("training_reference",
                                                  os.path.join(EXAMPLES, "training", "reference.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


REFERENCE = load_reference()


def with_optimizers(name, folder):
    """One file of the example and the optimizers."""
    path = os.path.join(folder, f"{name}.relay")
    with open(path, "w", encoding="utf-8") as out:
        for part in ("optimizers.relay", f"training/{name}.relay"):
            with open(os.path.join(EXAMPLES, part), encoding="utf-8") as file:
                out.write(file.read())
    return path


class Training(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def compile(self, name, entries, level=3):
        flags = [flag for entry in entries for flag in ("--entry", entry)]
        return relayvm.compile_file(with_optimizers(name, self.folder.name),
                                    os.path.join(self.folder.name, f"{name}{level}.rvm"), level, extra=flags)

    def call(self, model, entry, arguments):
        path = os.path.join(self.folder.name, "arguments")
        with open(path, "w", encoding="utf-8") as file:
            file.writelines(f"{a if isinstance(a, str) else REFERENCE.text(a)}\n" for a in arguments)
        return relayvm.execute(model, "--args", path, entry=entry)

    def train(self, model, arguments, steps):
        """The text of the parameters after the steps, and the losses."""
        parameters, losses = self.call(model, "main", [*arguments, steps])[1:].split(", Cons(", 1)
        return parameters, [float(loss) for loss in re.findall(r"([-+.\de]+)f", losses)]

    def check_curve(self, name, entries, levels=(0, 3)):
        """That the losses are those of numpy; gives the example and the model of -O3."""
        example = REFERENCE.EXAMPLES[name]()
        expected = REFERENCE.train(example, STEPS)
        for level in levels:
            model = self.compile(name, entries, level)
            with self.subTest(f"{name} -O{level}"):
                _, losses = self.train(model, example.arguments, STEPS)
                np.testing.assert_allclose(losses, expected, rtol=1e-4, atol=1e-4)
        return example, model

    def test_linear(self):
        example, model = self.check_curve("linear", ["main"])
        parameters, losses = self.train(model, example.arguments, 200)
        self.assertLess(losses[-1], 0.012)
        weight, bias = relayvm.parse_value(parameters)
        np.testing.assert_allclose(np.ravel(weight), [2, -1, 0.5], atol=0.1)
        self.assertAlmostEqual(bias, 3, delta=0.1)

    def test_digits(self):
        example, model = self.check_curve("digits", ["main", "accuracy"])
        parameters, _ = self.train(model, example.arguments, 1500)
        accuracy = relayvm.parse_value(self.call(model, "accuracy", [parameters, *example.test]))
        self.assertGreater(accuracy, 0.91)

    def test_char_rnn(self):
        example, model = self.check_curve("char_rnn", ["main"])
        _, losses = self.train(model, example.arguments, 3000)
        self.assertLess(np.mean(losses[-200:]), 1.5)

    def test_tree_lstm(self):
        example, model = self.check_curve("tree_lstm", ["main", "right"])
        parameters, _ = self.train(model, example.arguments, 500)
        self.assertGreaterEqual(int(self.call(model, "right", [parameters, example.test])), 95)

    def test_a_million_steps_take_the_memory_of_one(self):
        model = self.compile("linear", ["descend"])
        arguments = [REFERENCE.text(a) for a in REFERENCE.Linear().arguments]

        def peak(steps):
            done = relayvm.run(relayvm.RUNTIME, model, "--entry", "descend", "--stats", *arguments, steps)
            self.assertEqual(done.returncode, 0, done.stderr)
            return done.stdout, int(re.search(r"at most (\d+) bytes", done.stderr)[1])

        few, many = peak(10), peak(1_000_000)
        self.assertNotEqual(many[0], few[0])
        self.assertEqual(many[1], few[1])
