"""A model of 300 MB is imported within twice its size in memory: its file is mapped, each weight copied once."""

import os
import subprocess
import sys
import tempfile
import unittest

import relayvm

LAYERS, WIDTH = 18, 2048  # 302 MB of float32


def write_model(path):
    """A chain of products, its weights in the file, as exporters write models below 2 GB."""
    import numpy as np  # pylint: disable=import-outside-toplevel
    from onnx import TensorProto, helper, numpy_helper  # pylint: disable=import-outside-toplevel
    random = np.random.default_rng(1)
    info = helper.make_tensor_value_info
    weights = [numpy_helper.from_array(random.standard_normal((WIDTH, WIDTH)).astype(np.float32), f"w{i}")
               for i in range(LAYERS)]
    nodes = [helper.make_node("MatMul", [f"x{i}", f"w{i}"], [f"x{i + 1}"]) for i in range(LAYERS)]
    graph = helper.make_graph(nodes, "chain", [info("x0", TensorProto.FLOAT, ["rows", WIDTH])],
                              [info(f"x{LAYERS}", TensorProto.FLOAT, ["rows", WIDTH])], weights)
    with open(path, "wb") as file:
        file.write(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]).SerializeToString())


def peak_bytes(command):
    """The most memory that the process had resident."""
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)  # pylint: disable=consider-using-with
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise AssertionError(f"{command} ended with exit code {process.returncode}")
    return usage.ru_maxrss * 1024


@unittest.skipUnless(os.environ.get("RELAYVM_SOAK"), "only with --long")
class Memory(relayvm.TestCase):
    def test_import(self):
        with tempfile.TemporaryDirectory() as folder:
            model, program = os.path.join(folder, "model.onnx"), os.path.join(folder, "model.relay")
            # In a process of its own: a child begins with the memory of its parent.
            subprocess.run([sys.executable, "-c", "import sys, onnx_memory_test as t; t.write_model(sys.argv[1])", model],
                           cwd=os.path.dirname(os.path.abspath(__file__)), check=True)
            size = os.path.getsize(model)
            self.assertGreater(size, 300_000_000)
            peak = peak_bytes([relayvm.COMPILER, "import", model, "-o", program])
            self.assertGreater(os.path.getsize(os.path.join(folder, "model.safetensors")), 300_000_000)
            self.assertLess(peak, 2 * size, f"the import took {peak / 1e6:.0f} MB for a model of {size / 1e6:.0f} MB")


if __name__ == "__main__":
    unittest.main()
