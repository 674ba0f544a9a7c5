"""The models that MediaPipe's package holds, compiled and run beside LiteRT. Only with --long, where LiteRT is installed.

`pip download` fetches the package into build/onnx_models, once, as for onnx_models_test.py.
"""

import os
import tempfile
import unittest
import zipfile

import in_process
import onnx_models_test
import relayvm

PACKAGE = "mediapipe==0.10.14"
# Operators of its own, which LiteRT has not either.
REFUSED = {"face_landmark_with_attention.tflite": "CUSTOM.Landmarks2TransformMatrix"}


def interpreter_of(path):
    from ai_edge_litert.interpreter import Interpreter  # pylint: disable=import-outside-toplevel
    interpreter = Interpreter(path, num_threads=1)
    interpreter.allocate_tensors()
    return interpreter


@unittest.skipUnless(onnx_models_test.is_long(), "only with --long")
class MediaPipe(relayvm.TestCase):
    def setUp(self):
        try:
            import ai_edge_litert  # noqa: F401 pylint: disable=import-outside-toplevel,unused-import
        except ImportError:
            self.skipTest("the Python package ai-edge-litert is not installed")
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.place = folder.name

    def test_models(self):
        package = onnx_models_test.wheel(PACKAGE)
        if package is None:
            self.skipTest(f"{PACKAGE} cannot be fetched: the package index is not reachable")
        with zipfile.ZipFile(package) as archive:
            models = [name for name in archive.namelist() if name.endswith(".tflite")]
            self.assertGreaterEqual(len(models), 12)
            for name in models:
                with self.subTest(model=name):
                    self.compare(archive.extract(name, self.place))

    def compare(self, path):
        import numpy as np  # pylint: disable=import-outside-toplevel
        executable = os.path.join(self.place, "model.rvm")
        refused = REFUSED.get(os.path.basename(path))
        if refused:
            done = relayvm.run(relayvm.COMPILER, "compile", path, "-o", executable)
            self.assertEqual(done.returncode, 1)
            self.assertIn(refused, done.stderr)
            return
        relayvm.must(relayvm.COMPILER, "compile", path, "-o", executable, timeout=600)
        interpreter, random, feed = interpreter_of(path), np.random.default_rng(9), []
        for details in interpreter.get_input_details():
            feed.append(random.uniform(0, 1, details["shape"]).astype(details["dtype"]))
            interpreter.set_tensor(details["index"], feed[-1])
        interpreter.invoke()
        results = in_process.load(executable)["main"](*feed)
        results = results if isinstance(results, tuple) else (results,)
        self.assertEqual(len(results), len(interpreter.get_output_details()))
        for result, details in zip(results, interpreter.get_output_details()):
            expected = interpreter.get_tensor(details["index"])
            largest = max(np.abs(expected).max(), 1e-6)
            np.testing.assert_allclose(np.asarray(result), expected, rtol=1e-2, atol=1e-3 * largest, err_msg=details["name"])


if __name__ == "__main__":
    unittest.main()
