"""One network in all formats that frameworks write: each file gives the same classes."""

import io
import lzma
import os
import tempfile

import numpy as np

import in_process
import relayvm

FIXTURE = os.path.join(relayvm.ROOT, "tests/formats/network.npz.xz")
FILES = ("network.keras", "network.h5", "network.pb", "saved", "network.tflite", "network.mlirbc", "network.onnx", "planes/network.pt2", "planes/network.pt")


class Formats(relayvm.TestCase):
    @classmethod
    def setUpClass(cls):
        with lzma.open(FIXTURE) as file:
            cls.arrays = dict(np.load(io.BytesIO(file.read())))

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.place = folder.name
        for key, content in self.arrays.items():
            if key.startswith("file|"):
                path = os.path.join(self.place, key.removeprefix("file|"))
                os.makedirs(os.path.dirname(path), exist_ok=True)
                with open(path, "wb") as file:
                    file.write(content.tobytes())

    def classes(self, name, *options):
        """What the network in that file says of the images, and of the last of them alone."""
        executable = os.path.join(self.place, "network.rvm")
        if name.endswith(".pt"):  # it does not have the shapes of inputs
            options = (*options, "--shape", "image=n,3,12,12")
        relayvm.must(relayvm.COMPILER, "compile", os.path.join(self.place, name), "-o", executable, *options)
        images = self.arrays["in"]
        if name.startswith("planes/"):
            images = np.ascontiguousarray(images.transpose(0, 3, 1, 2))
        network = in_process.load(executable)["main"]
        return [np.asarray(network(batch)) for batch in (images, images[1:])]

    def test_all_files_are_compared(self):
        files = {key.removeprefix("file|").split("/variables/")[0].removesuffix("/saved_model.pb") for key in self.arrays if key.startswith("file|")}
        self.assertEqual(sorted(files), sorted(FILES))

    def test_classes(self):
        for options in ((), ("--target", "portable")):
            for name in FILES:
                with self.subTest(f"{name} {options}"):
                    for got, expected in zip(self.classes(name, *options), (self.arrays["out"], self.arrays["out"][1:])):
                        self.assertEqual(got.shape, expected.shape)
                        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-6)

    def test_fronts_leave_nothing_between_layers(self):
        """Scales are in the filters, and the network has one layout, whatever file it is from."""
        for name in FILES:
            with self.subTest(name):
                executable = os.path.join(self.place, "network.rvm")
                options = ("--shape", "image=n,3,12,12") if name.endswith(".pt") else ()
                done = relayvm.must(relayvm.COMPILER, "compile", os.path.join(self.place, name), "-o", executable, "--print-after", "fuse_ops", *options)
                self.assertEqual(done.count("nn.conv2d"), 4)
                # An image of three channels is read as it is, in planes or not.
                self.assertEqual(done.count('data_layout="NHWC"') + done.count('out_layout="NHWC"'), 4)
                self.assertNotIn("multiply", done)
                self.assertNotIn(" * ", done.split("Primitive=1")[-1])
