"""Runs a program in Python: run_python.py FILE N REPEAT ARRAY.npy... prints its result and the least seconds of the processor."""

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


def main(path, n, repeat, *arrays):
    module = {"__name__": path}
    with open(path, encoding="utf-8") as file:
        exec(compile(file.read(), path, "exec"), module)  # pylint: disable=exec-used
    data = [np.load(array) for array in arrays]
    result, seconds = measure(lambda: module["run"](int(n), *data), int(repeat))
    print(result, f"{seconds:.9f}")


if __name__ == "__main__":
    main(*sys.argv[1:])
