"""The networks of benchmarks/vision on small images, and layers before batch normalisation, beside ONNX Runtime."""

import os
import sys
import tempfile
import unittest

import relayvm

sys.path.insert(0, os.path.join(relayvm.ROOT, "benchmarks"))
from vision import networks  # noqa: E402 pylint: disable=wrong-import-position

TOLERANCE = 1e-4  # of the largest output


def has_peer():
    try:
        import numpy, onnx, onnxruntime  # noqa: F401,E401 pylint: disable=import-outside-toplevel,unused-import,multiple-imports
    except ImportError:
        return False
    return True


def folded_layers(net):
    """Each kind of layer whose filters can be scaled, and some whose cannot."""
    x = net.conv("x", 12, 3, bias=True)
    x = net.norm(x)
    x = net.relu(net.norm(net.conv(x, 24, 3, stride=2, groups=12)))  # two filters a channel
    x = net.relu(net.norm(net.conv(x, 20, 3, groups=4, bias=True)))
    x = net.norm(net.conv_transposed(x, 10, 2, 2))
    shared = net.conv(x, 10, 1)
    x = net.add(shared, net.norm(shared))  # the convolution has another user
    x = net.norm(net.norm(x))
    return net.norm(net.node("Gemm", [net.node("Flatten", [x], 10 * 32 * 32), net.filters((10 * 32 * 32, 7), 10 * 32 * 32, 1)], 7))


@unittest.skipUnless(has_peer(), "the Python packages numpy, onnx and onnxruntime are not installed")
class VisionNetworks(relayvm.TestCase):
    def check(self, model, image):
        import numpy as np  # pylint: disable=import-outside-toplevel
        import onnx  # pylint: disable=import-outside-toplevel
        import onnxruntime  # pylint: disable=import-outside-toplevel

        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        expected = session.run(None, {"x": image})[0]
        with tempfile.TemporaryDirectory() as folder:
            path, out = f"{folder}/network.onnx", f"{folder}/out.npy"
            onnx.save(model, path)
            np.save(f"{folder}/x.npy", image)
            compiled = relayvm.compile_file(path, f"{folder}/network.rvm")
            relayvm.must(relayvm.RUNTIME, compiled, "--out", out, f"@{folder}/x.npy")
            seen = np.load(out)
        self.assertEqual(seen.shape, expected.shape)
        self.assertLessEqual(np.abs(seen - expected).max() / np.abs(expected).max(), TOLERANCE)

    def test_networks(self):
        sizes = {"resnet18": 64, "mobilenet_v1": 96, "mobilenet_v2": 96, "unet": 48, "inception_v3": 107, "dqn": 52, "dcgan": 2}
        for name, size in sizes.items():
            with self.subTest(name):
                self.check(networks.make(name, size), networks.image(name, size))

    def test_layers_before_batch_normalisation(self):
        import onnx  # pylint: disable=import-outside-toplevel

        net = networks.Network(onnx, 32)
        self.check(net.model(folded_layers(net)), networks.image("resnet18", 32))


if __name__ == "__main__":
    unittest.main()
