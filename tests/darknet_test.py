"""DarkNet models: equal to numpy at each level, and to what OpenCV computed (darknet/make.py); errors that say what is wrong."""

import importlib.util
import os
import sys
import tempfile

import numpy as np

import in_process
import relayvm

HERE = os.path.join(relayvm.ROOT, "tests", "darknet")
SPEC = importlib.util.spec_from_file_location("darknet_networks", os.path.join(HERE, "networks.py"))
networks = importlib.util.module_from_spec(SPEC)
sys.modules[SPEC.name] = networks
SPEC.loader.exec_module(networks)

LEVELS = (["-O0"], ["-O2"], ["--target", "portable"])


# Of a file of weights without numbers.
HEADER = b"\0\0\0\0\2\0\0\0" + bytes(12)


class Models(relayvm.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.place = folder.name

    def save(self, config, weights=None, name="model"):
        path = os.path.join(self.place, f"{name}.cfg")
        with open(path, "w", encoding="utf-8") as file:
            file.write(config)
        if weights is not None:
            with open(os.path.join(self.place, f"{name}.weights"), "wb") as file:
                file.write(weights)
        return path

    def outputs(self, path, x, *options):
        executable = os.path.join(self.place, "model.rvm")
        relayvm.must(relayvm.COMPILER, "compile", path, "-o", executable, *options)
        got = in_process.load(executable)["main"](x)
        return [np.asarray(part) for part in (got if isinstance(got, tuple) else (got,))]

    def close(self, got, expected, near=1e-4):
        self.assertEqual(len(got), len(expected))
        for a, b in zip(got, expected):
            self.assertEqual(a.shape, b.shape)
            np.testing.assert_allclose(a, b, rtol=near, atol=near)

    def check(self, text, levels=LEVELS, **given):
        """Returns the outputs of the last level."""
        x = networks.feed(text)
        network = networks.Network(text, x, **given)
        path = self.save(networks.config(text), network.weights)
        for level in levels:
            with self.subTest(level=level):
                got = self.outputs(path, x, *level)
                self.close(got, network.outputs)
        return got

    def fails(self, config, message, weights=HEADER):
        done = relayvm.run(relayvm.COMPILER, "check", self.save(config, weights))
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn(message, done.stderr)
        return done.stderr


class Networks(Models):
    def test_own(self):
        for name, text in networks.OWN.items():
            with self.subTest(name):
                self.check(text)

    def test_opencv(self):
        expected = np.load(os.path.join(HERE, "opencv.npz"))
        for name, text in networks.OPENCV.items():
            with self.subTest(name):
                got = self.check(text, (["-O2"],))
                want = [expected[f"{name}.{i}"] for i in range(len(got))]
                got = networks.like_opencv(text, got, want)
                self.close(got, [part.reshape(own.shape) for part, own in zip(want, got)])

    def test_versions_of_weights(self):
        text = networks.net("connected output=4 activation=linear batch_normalize=1", "connected output=3 activation=linear")
        for version in ((0, 1, 0), (0, 2, 5), (0, 1001, 0), (1001, 1, 0)):
            with self.subTest(version):
                self.check(text, (["-O2"],), version=version)


class Doors(Models):
    TEXT = networks.net("convolutional filters=4 size=3 pad=1 activation=leaky", "avgpool", "softmax")

    def setUp(self):
        super().setUp()
        self.x = networks.feed(self.TEXT)
        self.network = networks.Network(self.TEXT, self.x)
        self.path = self.save(networks.config(self.TEXT), self.network.weights)

    def test_weights_elsewhere(self):
        os.rename(os.path.join(self.place, "model.weights"), os.path.join(self.place, "other.weights"))
        weights = os.path.join(self.place, "other.weights")
        self.close(self.outputs(self.path, self.x, "--params", weights), self.network.outputs)
        done = relayvm.run(relayvm.COMPILER, "check", self.path)
        self.assertIn("its weights are missing", done.stderr)
        self.assertEqual(relayvm.must(relayvm.COMPILER, "check", self.path, "--params", weights), "")
        done = relayvm.run(relayvm.COMPILER, "check", self.path, "--params", weights, "--params", weights)
        self.assertIn("`--params`: saw 2 files", done.stderr)

    def test_import(self):
        program = os.path.join(self.place, "model.relay")
        relayvm.must(relayvm.COMPILER, "import", self.path, "-o", program)
        params = os.path.join(self.place, "model.safetensors")
        self.close(self.outputs(program, self.x, "--params", params), self.network.outputs)
        weights = os.path.join(self.place, "model.weights")
        done = relayvm.run(relayvm.COMPILER, "import", self.path, "-o", program, "--params", weights)
        self.assertIn("`--weights` names those of the model", done.stderr)
        relayvm.must(relayvm.COMPILER, "import", self.path, "-o", program, "--weights", weights)

    def test_shapes_and_frozen_inputs(self):
        types = relayvm.must(relayvm.COMPILER, "check", self.path, "--types")
        self.assertIn("@main: fn [batch: ShapeVar](Tensor[(batch, 3, 16, 16), float32]) -> Tensor[(batch, 4), float32]", types)
        types = relayvm.must(relayvm.COMPILER, "check", self.path, "--types", "--shape", "data=1,3,h,w")
        self.assertIn("(Tensor[(1, 3, h, w), float32]) -> Tensor[(1, 4), float32]", types)
        np.save(os.path.join(self.place, "x.npy"), self.x)
        frozen = relayvm.must(relayvm.COMPILER, "check", self.path, "--types", "--freeze", f"data=@{self.place}/x.npy")
        self.assertIn("@main: fn () -> Tensor[(2, 4), float32]", frozen)

    def test_names_and_origins(self):
        text = relayvm.must(relayvm.COMPILER, "import", self.path, "-o", "/dev/stdout")
        self.assertIn("convolutional layer 0, line 6 of", text)
        self.assertIn('result_names=["softmax_2"]', text)

    def test_default_of_activation(self):
        x = np.linspace(-2, 2, 2 * 3 * 8 * 8, dtype="float32").reshape(2, 3, 8, 8)
        path = self.save("[net]\nchannels=3\nheight=+8\nwidth=8\n[activation]\n", HEADER)
        self.close(self.outputs(path, x), [x])
        self.assertIn("(batch, 3, 8, 8)", relayvm.must(relayvm.COMPILER, "check", path, "--types"))

    def test_rest_of_weights(self):
        path = self.save(networks.config(self.TEXT), self.network.weights + bytes(8))
        done = relayvm.run(relayvm.COMPILER, "check", path)
        self.assertEqual(done.returncode, 0)
        self.assertIn("warning", done.stderr)
        self.assertIn("has 2 more numbers than the layers read", done.stderr)


class Mistakes(Models):
    NET = "[net]\nchannels=3\nheight=8\nwidth=8\n"

    def test_configurations(self):
        for config, message in (
                ("", "it has no sections"), ("\n# nothing\n", "it has no sections"), ("a=1\n", "line 1: saw `a=1`; expected the section `[net]`"),
                ("[net]\nwidth\n", "line 2: saw `width`; expected an option such as `size=3`"), ("[net\n", "expected a section such as `[convolutional]`"),
                ("[maxpool]\n", "line 1: saw `[maxpool]`; expected the section `[net]`"), ("[net]\n", "neither `height` and `width` nor `inputs`"),
                ("[net]\ninputs=x\n", "`inputs`: saw `x`; expected an integer from 1"), (self.NET, "it has no layers"),
                (self.NET + "[maxpool]\nsize=0\n", "`size`: saw `0`; expected an integer from 1"),
                (self.NET + "[convolutional]\nfilters=99999999999\n", "`filters`: saw `99999999999`"),
                (self.NET + "[convolutional]\nfilters=4\ngroups=2\n", "are not 2 groups"),
                (self.NET + "[convolutional]\nfilters=4\n", "go beyond the end of the file, where 0 numbers are left"),
                (self.NET + "[route]\nlayers=-1\n", "it reads layer -1; there are 0 layers before it"),
                (self.NET + "[dropout]\n[route]\nlayers=4\n", "it reads layer 4; there are 1 layers before it"),
                (self.NET + "[route]\n", "`layers` is missing"), (self.NET + "[activation]\nactivation=sine\n", "the activation `sine`"),
                (self.NET + "[yolo]\nclasses=1\nmask=0\n", "its input has 3 channels; 1 anchors of 6 numbers are 6"),
                (self.NET + "[reorg]\nstride=2\n", "that squares of 2 do not divide"),
                (self.NET + "[dropout]\n[maxpool]\nsize=2\nstride=2\n[shortcut]\nfrom=0\n", "a shortcut between images of different extents"),
                ("[net]\nchannels=16777216\nheight=16777216\nwidth=16777216\n[upsample]\nstride=4096\n[reorg]\nstride=4096\n", "its input has an extent of 68719476736; expected at most 16777216"),
                (self.NET + "[upsample]\nstride=4096\n" * 5, "a scale is 4096 for an extent of 2251799813685248"),
                (self.NET + "[upsample]\nscale=high\n", "`scale`: saw `high`; expected a number")):
            with self.subTest(config):
                self.fails(config, message)

    def test_weights(self):
        self.fails(self.NET + "[dropout]\n", "expected the header of DarkNet's .weights", b"\0\0")

    def test_all_refusals(self):
        shown = self.fails(self.NET + "[dropout]\n[deconvolutional]\nfilters=2\n[maxpool]\n[crop]\n", "deconvolutional: this layer is not supported (layer 1, line 6)")
        self.assertIn("crop: this layer is not supported (layer 3, line 9)", shown)
        shown = self.fails(self.NET + "[convolutional]\nxnor=1\nbinary=1\n", "the option `binary`")

    def test_damaged_files(self):
        """Each prefix of a model, and each line left out: a message or a program."""
        text = networks.OPENCV["yolo"]
        config = networks.config(text)
        lines = config.splitlines(keepends=True)
        for i in range(0, len(lines), 3):
            with self.subTest(line=i):
                done = relayvm.run(relayvm.COMPILER, "check", self.save("".join(lines[:i] + lines[i + 1:]), bytes(4000)))
                self.assertIn(done.returncode, (0, 1))
                self.assertNotIn("internal", done.stderr)
