"""The programs of `./run bench control`: the six of benchmarks/vm/ and workloads of dynamic models, with their data."""

import dataclasses
import math
import os
import typing

import numpy as np
import relayvm

VM = os.path.join(relayvm.ROOT, "benchmarks", "vm")
WORKLOADS = os.path.join(relayvm.ROOT, "benchmarks", "control", "workloads")


def no_arrays(_):
    return []


@dataclasses.dataclass(frozen=True)
class Program:
    """One algorithm in several languages: FOLDER/NAME.{relay,lua,c,py}. `main` and `run` take the size, then the arrays."""

    name: str
    folder: str
    size: int  # some 5 to 50 ms in RelayVM
    small: int  # for the test
    arrays: typing.Callable = no_arrays  # from the size
    doubles: typing.Callable = None  # from the size: the result where all numbers are float64, if it differs
    tolerance: float = 0.0  # relative, of the result

    def path(self, ending):
        return os.path.join(self.folder, f"{self.name}.{ending}")

    def text(self, ending):
        with open(self.path(ending), encoding="utf-8") as file:
            return file.read()

    def allocates(self):
        return "New(" in self.text("c")

    def agrees(self, result, reference, all_doubles):
        """Whether a peer's result is right, given that of RelayVM."""
        if all_doubles and self.doubles:
            return math.isclose(result, self.doubles(self.size), rel_tol=1e-9)
        return math.isclose(result, reference, rel_tol=self.tolerance)

    def write(self, folder):
        """Writes the arrays for every language; gives the paths without their endings (.npy, .txt, .bin)."""
        paths = []
        for i, array in enumerate(self.arrays(self.size)):
            path = os.path.join(folder, f"{self.name}-{i}")
            np.save(f"{path}.npy", array)
            np.savetxt(f"{path}.txt", array.ravel(), fmt="%d" if array.dtype.kind in "iu" else "%.9g")
            array.tofile(f"{path}.bin")
            paths.append(path)
        return paths


def text_of_words(n):
    """Words of letters, numbers, and what is between them."""
    random = np.random.default_rng(7)
    kinds = {0: b" \n.,;", 1: b"abcdefghijklmnopqrstuvwxyz", 2: b"0123456789"}
    made = bytearray()
    while len(made) < n:
        made += bytes(random.choice(list(kinds[random.integers(3)]), random.integers(1, 9)).tolist())
    return [np.frombuffer(bytes(made[:n]), np.uint8)]


def expression(n):
    """Sums of products of numbers and of such sums in parentheses, some n bytes, then `;`."""
    random = np.random.default_rng(8)

    def factor(depth):
        if depth == 0 or random.random() < 0.5:
            return str(random.integers(1000))
        return f"({sum_of(depth - 1)})"

    def sum_of(depth):
        made = factor(depth)
        for _ in range(random.integers(1, 5)):
            made += "+-*"[random.integers(3)] + factor(depth)
        return made

    made = sum_of(6)
    while len(made) < n:
        made += "+" + sum_of(6)
    return [np.frombuffer(made.encode() + b";", np.uint8)]


def weights(*shapes, scale=1.0):
    """Random arrays, the same for each size."""
    def make(_):
        random = np.random.default_rng(9)
        return [(scale * random.standard_normal(shape)).astype(np.float32) for shape in shapes]
    return make


def scores(n):
    """Whole numbers: their sums are exact in float32."""
    random = np.random.default_rng(10)
    return [random.integers(0, 100, shape).astype(np.float32) for shape in ((n, 8), (8, 8))]


def affine(_):
    return [np.array(values, np.float32) for values in ([0.9, 0.8, 0.5, 0.25], [1, 2, 3, 4], 1e9)]


PROGRAMS = (
    Program("fib", VM, 32, 12),
    Program("counter", VM, 10_000_000, 1000, doubles=lambda n: float((n - 1) * n * (2 * n - 1) // 6)),
    Program("sieve", VM, 8000, 100),
    Program("nbody", VM, 50_000, 20, tolerance=1e-6),
    Program("ackermann", VM, 8, 3),
    Program("binary_trees", VM, 16, 5),
    Program("beam", WORKLOADS, 5000, 40),
    Program("stack_machine", WORKLOADS, 30_000, 50),
    Program("tree_fold", WORKLOADS, 13, 4),
    Program("tokenizer", WORKLOADS, 500_000, 300, text_of_words),
    Program("recursive_descent", WORKLOADS, 300_000, 300, expression),
    Program("tensor_loop", WORKLOADS, 300_000, 50, affine, tolerance=1e-5),
    Program("viterbi", WORKLOADS, 50_000, 30, scores),
    Program("decoder", WORKLOADS, 2000, 20, weights((32, 16), (16, 16), (32, 16), scale=0.7)),
)
