"""Runs a program by something that is called from Python; prints its result and the least seconds of the processor.

run_python.py python FILE N REPEAT ARRAY.npy...
run_python.py onnxruntime|torch|torchscript|jax|iree NAME N REPEAT ARRAY.npy...
"""

import sys
import time

import numpy as np

sys.setrecursionlimit(1 << 20)


def measure(function, repeat):
    """The result, and the least seconds of the processor of `repeat` calls."""
    least = float("inf")
    for _ in range(repeat):
        began = time.process_time()
        result = function()
        least = min(least, time.process_time() - began)
    return result, least


def plain(path, n, arrays):
    module = {"__name__": path}
    with open(path, encoding="utf-8") as file:
        exec(compile(file.read(), path, "exec"), module)  # pylint: disable=exec-used
    return lambda: module["run"](n, *arrays)


def runner(kind, program, n, arrays):
    """A function without arguments that runs the program once."""
    if kind == "python":
        return plain(program, n, arrays)
    if kind == "onnxruntime":
        import onnx_loops  # pylint: disable=import-outside-toplevel
        return onnx_loops.runner(program, n, arrays)
    if kind in ("jax", "iree"):
        import jax_loops  # pylint: disable=import-outside-toplevel
        return jax_loops.runner(program, n, arrays, by_iree=kind == "iree")
    import torch_loops  # pylint: disable=import-outside-toplevel
    return torch_loops.runner(program, n, arrays, script=kind == "torchscript")


def main(kind, program, n, repeat, *paths):
    result, seconds = measure(runner(kind, program, int(n), [np.load(path) for path in paths]), int(repeat))
    print(result, f"{seconds:.9f}")


if __name__ == "__main__":
    main(*sys.argv[1:])
