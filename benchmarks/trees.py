#!/usr/bin/env python3
"""Ensembles of random trees as ONNX models, beside ONNX Runtime on one thread: microseconds of the fastest run.

  trees.py [--rows 1,1000] [TREESxDEPTH...]     default: 100x6 1000x6 100x10
"""

import argparse
import os
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(os.path.dirname(HERE), "tests"))

import numpy as np  # pylint: disable=wrong-import-position
import onnx  # pylint: disable=wrong-import-position
import onnxruntime  # pylint: disable=wrong-import-position

import in_process  # pylint: disable=wrong-import-position
import relayvm  # pylint: disable=wrong-import-position
from onnx_ml_test import Forest  # pylint: disable=wrong-import-position

FEATURES = 30


def save(path, trees, depth, random):
    """A regression by complete trees, whose thresholds are as the features are distributed."""
    forest = Forest(random, FEATURES)
    for _ in range(trees):
        forest.tree(depth, lambda tree: [0], branch=1.0)
    attributes = forest.attributes("target")
    attributes["nodes_values"] = random.standard_normal(len(attributes["nodes_values"])).tolist()
    helper = onnx.helper
    node = helper.make_node("TreeEnsembleRegressor", ["x"], ["y"], domain="ai.onnx.ml", n_targets=1, **attributes)
    values = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["n", size]) for name, size in (("x", FEATURES), ("y", 1))]
    sets = [helper.make_opsetid("", 18), helper.make_opsetid("ai.onnx.ml", 3)]
    onnx.save(helper.make_model(helper.make_graph([node], "trees", values[:1], values[1:]), opset_imports=sets, ir_version=9), path)


def fastest(run, seconds=1.0):
    """Microseconds of one run."""
    best, end = float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < end:
        begin = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - begin)
    return best * 1e6


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", default="1,1000")
    parser.add_argument("sizes", nargs="*", default=["100x6", "1000x6", "100x10"])
    options = parser.parse_args()
    random = np.random.default_rng(0)
    print("trees x depth, rows, relayvm us, onnxruntime us")
    with tempfile.TemporaryDirectory() as folder:
        model, executable = (os.path.join(folder, name) for name in ("model.onnx", "model.rvm"))
        for size in options.sizes:
            save(model, *map(int, size.split("x")), random)
            relayvm.must(relayvm.COMPILER, "compile", model, "-o", executable)
            run = in_process.load(executable)["main"]
            one = onnxruntime.SessionOptions()
            one.intra_op_num_threads = 1
            session = onnxruntime.InferenceSession(model, one, providers=["CPUExecutionProvider"])
            for rows in map(int, options.rows.split(",")):
                x = random.standard_normal((rows, FEATURES)).astype("float32")
                np.testing.assert_allclose(run(x), session.run(None, {"x": x})[0], rtol=1e-4, atol=1e-4)
                print(f"{size}, {rows}, {fastest(lambda: run(x)):.1f}, {fastest(lambda: session.run(None, {'x': x})):.1f}")


if __name__ == "__main__":
    main()
