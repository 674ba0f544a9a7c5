"""Models of Keras: `.keras` and `.h5` files where tools take programs, equal to what Keras computed.

The files and the script that made them are in tests/keras. No test needs Keras, but for that of `--long`.
"""

import glob
import json
import os
import re
import subprocess
import tempfile
import unittest
import zipfile

import numpy as np

import in_process
import relayvm

FIXTURES = os.path.join(relayvm.ROOT, "tests/keras")
LEVELS = (["-O0"], ["-O2"], ["--target", "portable"])
LIVE_PYTHON = os.path.join(relayvm.ROOT, "build/keras-venv/bin/python")


def fixture(name):
    return os.path.join(FIXTURES, name)


def models():
    paths = glob.glob(fixture("*.keras")) + glob.glob(fixture("*.h5"))
    return sorted(path for path in paths if "refused" not in path and "stateful" not in path)


class Models(relayvm.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.place = folder.name

    def compiled(self, path, *options):
        executable = os.path.join(self.place, "model.rvm")
        relayvm.must(relayvm.COMPILER, "compile", path, "-o", executable, *options)
        return in_process.load(executable)

    def cases(self, path):
        arrays = np.load(os.path.splitext(path)[0] + ".npz")
        for number in range(len({name.split(".")[0] for name in arrays.files})):
            of = lambda kind: [arrays[f"{number}.{kind}.{i}"] for i in range(sum(name.startswith(f"{number}.{kind}.") for name in arrays.files))]  # noqa: B023
            yield of("in"), of("out")

    def equal(self, got, expected):
        got = list(got) if isinstance(got, tuple) else [got]
        self.assertEqual(len(got), len(expected))
        for a, b in zip(map(np.asarray, got), expected):
            self.assertEqual((a.shape, a.dtype), (b.shape, b.dtype))
            np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-5)

    def fails(self, path, message, *options):
        done = relayvm.run(relayvm.COMPILER, "check", path, *options)
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn(message, done.stderr)

    def changed(self, name, change, ending=".keras"):
        """A copy of an archive whose config was changed; None leaves an entry out."""
        with zipfile.ZipFile(fixture(name)) as archive:
            entries = {entry: archive.read(entry) for entry in archive.namelist()}
        config = json.loads(entries["config.json"])
        entries["config.json"] = json.dumps(change(config) or config)
        path = os.path.join(self.place, "changed" + ending)
        with zipfile.ZipFile(path, "w") as archive:
            for entry, content in entries.items():
                archive.writestr(entry, content)
        return path


class Files(Models):
    def test_values(self):
        """Each file at each level, at the batches and lengths of all of its cases."""
        self.assertGreater(len(models()), 6)
        for path in models():
            for level in LEVELS:
                loaded = self.compiled(path, *level)
                for number, (inputs, expected) in enumerate(self.cases(path)):
                    with self.subTest(file=os.path.basename(path), level=level, case=number):
                        self.equal(loaded["main"](*inputs), expected)

    def test_names_and_extents(self):
        types = relayvm.must(relayvm.COMPILER, "check", fixture("words.keras"), "--types")
        self.assertIn("(Tensor[(batch, words_1), int32]) -> (Tensor[(batch, words_1, 2), float32],", types)
        types = relayvm.must(relayvm.COMPILER, "check", fixture("words.keras"), "--types", "--shape", "words=1,n")
        self.assertIn("Tensor[(1, n), int32]", types)
        self.fails(fixture("words.keras"), "the model has no input `word` to give a shape; did you mean `words`?", "--shape", "word=1,n")

    def test_freeze(self):
        inputs, expected = next(self.cases(fixture("nested.keras")))
        frozen = os.path.join(self.place, "b.npy")
        np.save(frozen, inputs[1])
        loaded = self.compiled(fixture("nested.keras"), "--freeze", f"b=@{frozen}")
        self.equal(loaded["main"](inputs[0]), expected)

    def test_state(self):
        """A layer that is called again goes on where it was."""
        loaded = self.compiled(fixture("stateful.keras"))
        state = loaded["initial_state"]()
        for inputs, expected in self.cases(fixture("stateful.keras")):
            output, *state = loaded["main"](*inputs, *state)
            self.equal(output, expected)

    def test_loops_stay_loops(self):
        """Each recurrent layer is a loop, and that of both directions two."""
        text = relayvm.must(relayvm.COMPILER, "import", fixture("words.keras"), "-o", "/dev/stdout", "--params", os.path.join(self.place, "w.safetensors"))
        self.assertEqual(len(re.findall(r"let %loop\w* = fn", text)), 4)


class Errors(Models):
    def test_refusals(self):
        """All layers that cannot be imported, by name, with the way out."""
        done = relayvm.run(relayvm.COMPILER, "check", fixture("refused.keras"))
        self.assertEqual(done.returncode, 1)
        self.assertIn("STFTSpectrogram: this layer is not supported; `relayvm.import_keras(model)` with KERAS_BACKEND=jax exports it by JAX (`stft_spectrogram`)", done.stderr)
        self.assertIn("Lambda: it is Python code: import the model with `relayvm.import_keras(model)`, which exports it by JAX (`lambda`)", done.stderr)

    def test_code_of_the_user(self):
        def custom(config):
            layer = config["config"]["layers"][1]
            layer["module"], layer["class_name"], layer["registered_name"] = "mine.layers", "Mine", "Package>Mine"
        self.fails(self.changed("dense.keras", custom), "Mine: it is Python code: import the model with `relayvm.import_keras(model)`")

    def test_configs(self):
        def layer(number, **members):
            def change(config):
                config["config"]["layers"][number]["config"].update(members)
            return change
        for change, message in (
                (layer(1, units="many"), None),  # the weights say the number of units
                (layer(1, activation="wave"), "Dense: the activation `wave`"),
                (layer(1, dtype="int8_from_float32"), "Dense: the dtype policy `int8_from_float32`"),
                (layer(2, axis=7), "BatchNormalization:"),
                (layer(2, epsilon="small"), "BatchNormalization: its `epsilon` is no number"),
                (lambda config: {"class_name": "Sequential"}, "its config is malformed: a layer has no class or no config"),
                (lambda config: {"class_name": "Mine", "config": {}}, "the model is a `Mine`, not Sequential or Functional"),
                (lambda config: config["config"]["layers"].clear(), "a Sequential model has no layers")):
            path = self.changed("dense.keras", change)
            if message is None:
                relayvm.must(relayvm.COMPILER, "check", path)
            else:
                self.fails(path, message)

    def test_graphs(self):
        def refer(*history):
            def change(config):
                for layer in config["config"]["layers"]:
                    if layer["class_name"] == "Concatenate":
                        layer["inbound_nodes"][0]["args"][0][0]["config"]["keras_history"] = list(history)
            return change
        self.fails(self.changed("nested.keras", refer("nobody", 0, 0)), "layer `nobody` is used; the model has no such layer")
        self.fails(self.changed("nested.keras", refer("inner", 9, 0)), "layer `inner` is called 2 times; call 9 is used")
        self.fails(self.changed("nested.keras", refer("shared", 0, 5)), "layer `shared` has no result 5")
        self.fails(self.changed("nested.keras", refer("concatenate", 0, 0)), "layer `concatenate` depends on itself")

    def test_arguments_without_a_tensor(self):
        """None in a list of tensors, which is the first argument or has a keyword."""
        def lists(kind, keyword, *order):
            def change(config):
                call = next(layer for layer in config["config"]["layers"] if layer["class_name"] == kind)["inbound_nodes"][0]
                values = [(call["args"][0], None)[i] for i in order]
                if keyword is None:
                    call["args"][0] = values
                else:
                    call["kwargs"][keyword] = values
            return change
        for name, kind, keyword, order, message in (
                ("words", "NotEqual", None, (1, 0), "an argument is neither a tensor nor a number"),
                ("words", "GRU", None, (1, 0), "it is called without a sequence"),
                ("words", "GRU", None, (0, 1), "it is called with some of its states alone"),
                ("words", "GRU", "initial_state", (1, 0), "it is called with 2 states; it has 1"),
                ("words", "Bidirectional", "initial_state", (0, 1), "it is called with 1 states; it has 2"),
                ("nested", "Dense", None, (1, 0), "input 0 is missing")):
            with self.subTest(kind, keyword=keyword, order=order):
                self.fails(self.changed(f"{name}.keras", lists(kind, keyword, *order)), f"{kind}: {message}")
        relayvm.must(relayvm.COMPILER, "check", self.changed("attention.keras", lists("MultiHeadAttention", "attention_mask", 1, 0)))

    def test_layers_in_layers(self):
        """A layer for both directions holds a recurrent one, so that what is nested deeply is read once."""
        def nest(config):
            outer = next(layer for layer in config["config"]["layers"] if layer["class_name"] == "Bidirectional")["config"]
            for _ in range(40):
                outer["layer"] = {"class_name": "Bidirectional", "config": {"name": "inner", "layer": outer["layer"]}}
        self.fails(self.changed("words.keras", nest), "Bidirectional: a layer inside that is not recurrent")
        def empty(config):
            next(layer for layer in config["config"]["layers"] if layer["class_name"] == "Bidirectional")["config"]["layer"]["config"] = []
        self.fails(self.changed("words.keras", empty), "a layer has no class or no config")

    def test_weights_alone(self):
        with zipfile.ZipFile(fixture("dense.keras")) as archive:
            path = os.path.join(self.place, "model.weights.h5")
            with open(path, "wb") as file:
                file.write(archive.read("model.weights.h5"))
        self.fails(path, "it has weights alone; expected a model: build it in Python")

    def test_damaged(self):
        """No prefix and no changed byte of a file does harm."""
        with open(fixture("keras2.h5"), "rb") as file:
            content = file.read()
        rng = np.random.default_rng(0)
        for number in range(60):
            damaged = bytearray(content)
            if number % 2:
                del damaged[int(rng.integers(len(content))):]
            else:
                for _ in range(8):
                    damaged[int(rng.integers(len(content)))] = int(rng.integers(256))
            path = os.path.join(self.place, "damaged.h5")
            with open(path, "wb") as file:
                file.write(damaged)
            done = relayvm.run(relayvm.COMPILER, "check", path)
            self.assertIn(done.returncode, (0, 1), done.stderr)


@unittest.skipUnless(os.environ.get("RELAYVM_SOAK") and os.path.exists(LIVE_PYTHON), "runs with --long, beside Keras in build/keras-venv")
class Live(relayvm.TestCase):
    def test_layers(self):
        done = subprocess.run([LIVE_PYTHON, fixture("live.py")], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout[-4000:] + done.stderr[-2000:])


if __name__ == "__main__":
    unittest.main()
