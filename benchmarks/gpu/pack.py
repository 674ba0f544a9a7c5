"""Makes a folder that checks and times RelayVM on a machine with an NVIDIA GPU: measure.py with programs, inputs and results.

The folder needs nothing but the GPU's driver and Python there; PyTorch, JAX, compute-sanitizer and ncu are used if they are
installed. Beside what the CPU computes it has what the interpreter of PTX in tests/cuda gives for the same code, so that results
can be compared bit by bit.

    PYTHONPATH=tests:benchmarks python benchmarks/gpu/pack.py FOLDER [--small]
"""

import concurrent.futures
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile

import numpy as np

import operator_cases
import operators_test
import relayvm
from gpu import programs

HERE = os.path.dirname(os.path.abspath(__file__))
FAKE = os.path.join(relayvm.ROOT, "bazel-bin/tests/cuda")
BATCH = 40  # operator cases of one program: starting a GPU takes longer than running them
TOLERANCE, HALF_TOLERANCE = 1e-4, 2e-2  # relative to the largest number of a result
HALVES = ("float16", "bfloat16")
MOST_INTERPRETED = 60  # seconds of one run on the interpreter
RANDOM_PROGRAMS, RANDOM_SEED = 60, 7000
# The first programs that ever run on a GPU: (text, shapes of the arguments).
SMOKE = [("def @main(%x: Tensor[(37, 50), float32]) { tanh(%x) * %x }", [(37, 50)]),
         ("def @main(%x: Tensor[(37, 300), float32]) { nn.softmax(%x) }", [(37, 300)]),
         ("def @main(%a: Tensor[(64, 96), float32], %b: Tensor[(80, 96), float32]) { nn.dense(%a, %b) }", [(64, 96), (80, 96)])]


class Packer:
    def __init__(self, folder):
        self.folder, self.numbers = folder, itertools.count(1)  # of files
        os.makedirs(folder, exist_ok=True)

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)
        return name

    def argument(self, value):
        """The argument on the command line of a run in the folder: a file, so that no text is taken for an option."""
        number = next(self.numbers)
        if isinstance(value, str):
            return "@" + self.write(f"{number}.val", value)
        np.save(self.path(f"{number}.npy"), value)
        return f"@{number}.npy"

    def compile(self, source, name, *flags, target=programs.HOST):
        """For the device, and for the host of that machine."""
        for kind, options in ("cuda", ["--device", "cuda", "--target", target]), ("host", ["--target", programs.HOST]):
            relayvm.must(relayvm.COMPILER, "compile", source, "-o", self.path(f"{name}.{kind}.rvm"), *options, *flags)

    def outcome(self, name, entry, arguments, **environment):
        """What the VM prints of a run, on the host, or on the interpreter if `environment` has a driver; None if it fails."""
        device = ["--device", "cuda:0"] if environment else []
        model = self.path(f"{name}.{'cuda' if environment else 'host'}.rvm")
        try:
            done = relayvm.run(relayvm.RUNTIME, model, "--entry", entry, *device, *arguments, cwd=self.folder, env={**os.environ, **environment},
                               timeout=MOST_INTERPRETED if environment else 600)
        except subprocess.TimeoutExpired:
            return None
        if done.returncode != 0 and not environment:
            raise relayvm.ToolError(done.stderr)
        return done.stdout if done.returncode == 0 else None

    def run(self, name, entry, values, label, interprets):
        """A run of the manifest: `expected` is the host's result, `interpreted` that of the interpreter, if it was asked and is in time."""
        arguments = [self.argument(value) for value in values]
        made = {"label": label, "entry": entry, "arguments": arguments, "multiplies_matrices": self.has(name, b"mma.sync")}  # NVIDIA does not specify its rounding
        number = next(self.numbers)
        expected = self.outcome(name, entry, arguments)
        made["expected"] = self.write(f"{number}.txt", expected)
        if interprets:
            # The code that an H100 runs; without the library of products.
            text = self.outcome(name, entry, arguments, LD_LIBRARY_PATH=FAKE, FAKE_CUDA_CAPABILITY="90", RELAYVM_CUBLASLT="off")
            if text is None:
                print(f"gpu: the interpreter has no result for {name}, entry {entry}", file=sys.stderr)
            else:
                made["interpreted"] = made["expected"] if text == expected else self.write(f"{number}.ptx.txt", text)
        return made

    def has(self, name, text):
        """Whether the code for the device has the text."""
        with open(self.path(f"{name}.cuda.rvm"), "rb") as file:
            return text in file.read()

    def drop(self, name, *kinds):
        for kind in kinds:
            os.remove(self.path(f"{name}.{kind}"))

    def operators(self, cases, first):
        """A batch: one function calls all cases, and each has an entry of its own to find the one that faults."""
        name, text, parameters, calls, entries = f"operators{first}", "", [], [], []
        for index, case in enumerate(cases, first):
            text += operators_test.signature(index, case, "static")
            names = [f"%p{index}_{n}" for n in range(len(case.inputs))]
            parameters += [f"{name}: Tensor[({''.join(f'{n}, ' for n in array.shape)}), {array.dtype}]" for name, array in zip(names, case.inputs)]
            calls.append(f"@case{index}({', '.join(names)})")
            is_half = any(half in text for half in HALVES for text in (case.expression, *(str(array.dtype) for array in (*case.inputs, case.expected))))
            entries.append({"entry": f"case{index}", "call": case.expression, "inputs": len(case.inputs), "tolerance": HALF_TOLERANCE if is_half else TOLERANCE, "is_half": is_half})
        text += f"def @main({', '.join(parameters)}) {{ ({', '.join(calls)},) }}\n"
        self.write(f"{name}.relay", programs.HEAD + text)
        self.compile(self.path(f"{name}.relay"), name, *(flag for entry in ["main", *(e["entry"] for e in entries)] for flag in ("--entry", entry)))
        run = self.run(name, "main", [array for case in cases for array in case.inputs], "", True)
        self.drop(name, "relay", "host.rvm")
        return {"name": name, "title": f"operators {first} to {first + len(cases) - 1}", "runs": [{**run, "cases": entries}]}

    def random(self, seed, source, calls):
        """A random program with its calls; None if no kernel of it is on the device, or the host gives no values."""
        name = f"random{seed}"
        entries = dict.fromkeys(call[0] for call in calls)
        self.compile(source, name, *(flag for entry in entries for flag in ("--entry", entry)))
        try:
            runs = [self.run(name, entry, values, f"call {n}", True) for n, (entry, *values) in enumerate(calls)]
        except relayvm.ToolError:  # a program may fail, as it should
            runs = []
        self.drop(name, "host.rvm")
        if not runs or not self.has(name, b".visible .entry"):
            return self.drop(name, "cuda.rvm")
        return {"name": name, "title": f"random program {seed}", "tolerance": TOLERANCE, "runs": runs}

    def program(self, program, name, interprets):
        source = program.path or self.path(self.write(f"{name}.relay", program.text))
        flags = []
        if program.weights:
            path = self.path(f"{name}." + ("npz" if program.dtype == "float32" else "safetensors"))
            if program.dtype == "float32":
                np.savez(path, **program.weights)
            else:
                programs.write_safetensors(path, program.weights)
            flags += ["--params", path]
        self.compile(source, name, *flags, target=program.target)
        runs = [self.run(name, "main", values, label, interprets) for label, values in program.runs]
        self.drop(name, "host.rvm")
        return {"name": name, "title": program.name, "unit": program.unit, "steps": program.steps, "rank": program.rank, "tolerance": program.tolerance, "runs": runs}

    def smoke(self, number, text, shapes):
        random, name = np.random.default_rng(number), f"smoke{number}"
        self.compile(self.path(self.write(f"{name}.relay", programs.HEAD + text + "\n")), name)
        run = self.run(name, "main", [random.standard_normal(shape).astype(np.float32) for shape in shapes], "", True)
        self.drop(name, "relay", "host.rvm")
        return {"name": name, "title": text[text.index("{") + 2:-2], "tolerance": TOLERANCE, "runs": [run]}


def operator_batches(packer, is_small):
    cases = [case for case in operator_cases.all_cases() if case.expected.size and "random" not in case.op]
    one_of_each = list({case.op: case for case in cases}.values())
    chosen = one_of_each[::12] if is_small else cases
    size = 8 if is_small else BATCH
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        return list(pool.map(lambda first: packer.operators(chosen[first:first + size], first), range(0, len(chosen), size)))


def random_programs(packer, count):
    """Those that tests/random makes for devices."""
    folder = packer.path("random")
    os.makedirs(folder)
    tool = relayvm.built("//tests/random:random_programs")
    relayvm.must(tool, "--device", "cuda", "--count", count, "--seed", RANDOM_SEED, "--write", folder)
    def one(seed):
        with open(f"{folder}/{seed}.calls", encoding="utf-8") as file:
            calls = [line.rstrip("\n").split("\t") for line in file]
        return packer.random(seed, f"{folder}/{seed}.relay", calls)

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        made = list(pool.map(one, range(RANDOM_SEED, RANDOM_SEED + count)))
    shutil.rmtree(folder)
    return [program for program in made if program]


def libraries(packer):
    """The libraries of the runtime that a bare system may lack."""
    os.makedirs(packer.path("lib"))
    for name, path in re.findall(r"(lib(?:stdc\+\+|gcc_s)\S*) => (/\S+)", relayvm.must("ldd", relayvm.RUNTIME)):
        shutil.copy(os.path.realpath(path), packer.path(f"lib/{name}"))


def pack(folder, is_small=False):
    shutil.rmtree(folder, ignore_errors=True)
    packer = Packer(folder)
    shutil.copy(relayvm.RUNTIME, packer.path("relayvm-run"))
    libraries(packer)
    for name in ("measure.py", "stages.py", "runs.py", "peers.py", "README.md"):
        shutil.copy(os.path.join(HERE, name), packer.path(name))
    smoke = [packer.smoke(number, *of) for number, of in enumerate(SMOKE)]
    networks = [packer.program(program, f"program{n}", is_small) for n, program in enumerate(programs.all_programs(folder, is_small))]
    manifest = {"commit": relayvm.must("git", "-C", relayvm.ROOT, "rev-parse", "--short", "HEAD").strip(), "smoke": smoke,
                "operators": operator_batches(packer, is_small), "random": random_programs(packer, 6 if is_small else RANDOM_PROGRAMS), "programs": networks}
    for name in os.listdir(folder):
        if name.endswith((".relay", ".onnx", ".npz", ".safetensors")):
            os.remove(packer.path(name))
    packer.write("manifest.json", json.dumps(manifest, indent=1))


def archive(folder):
    """The folder as one file beside it, which Python's own library unpacks."""
    path = f"{folder}.tar.gz"
    with tarfile.open(path, "w:gz", compresslevel=6) as file:
        file.add(folder, os.path.basename(folder))
    return path


if __name__ == "__main__":
    pack(sys.argv[1], "--small" in sys.argv[2:])
    made = archive(sys.argv[1])
    print(f"{made}: {os.path.getsize(made) / 2**20:.1f} MiB; on the machine with the GPU: python3 measure.py")
