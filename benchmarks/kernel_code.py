"""Compares the machine code of kernels that two versions of the compiler make, kernel by kernel.

    python benchmarks/kernel_code.py --relayvm BINARY --before BINARY [--only REGEX] [--targets CPU,...]

Compiles the programs of benchmarks/, examples/ and tests/programs/, the kernels and operators that are measured beside
ONNX Runtime, and the networks of bert/, recurrent/ and vision/, for each target; prints the functions that differ, and
exits with 1 if there are some. A change that only moves code must make none.
"""

import argparse
import concurrent.futures
import glob
import os
import re
import subprocess
import sys
import tempfile

import numpy as np

import relayvm
from bert import network as bert
from kernels import compare_onnxruntime as kernels
from recurrent import networks as recurrent
from vision import networks as vision

TARGETS = "x86-64-v2,x86-64-v3,x86-64-v4,aarch64"
FREE = re.compile(r"^free_var %([A-Za-z0-9_.]+): Tensor\[\(([0-9, ]*)\), (\w+)\]", re.MULTILINE)
RANDOM = np.random.default_rng(11)


def weights_of(text, path):
    """Writes weights for the free variables of a program; the compiler's arguments that name them."""
    weights = {}
    for name, dims, dtype in FREE.findall(text):
        shape = [int(d) for d in dims.split(",") if d.strip()]
        weights[name] = (RANDOM.normal(size=shape) * 8).astype("float32" if dtype == "bfloat16" else dtype)
    if not weights:
        return []
    np.savez(path, **weights)
    return ["--params", path]


def programs(folder, only):
    """The name and the compiler's arguments of each whose name matches."""
    sources = [path for top in ("benchmarks", "examples", "tests/programs")
               for path in sorted(glob.glob(f"{top}/**/*.relay", root_dir=relayvm.ROOT, recursive=True))]
    for number, name in enumerate(filter(only.search, sources)):
        path = os.path.join(relayvm.ROOT, name)
        with open(path, encoding="utf-8") as file:
            yield name, [path, *weights_of(file.read(), f"{folder}/{number}.npz")]
    for case in kernels.cases():
        if not only.search(f"kernels: {case.name}"):
            continue
        path = os.path.join(folder, re.sub(r"\W+", "_", case.name))
        os.makedirs(path, exist_ok=True)
        case.write_relay(path)
        weights = ["--params", f"{path}/weights.npz"] if case.weights else []
        yield f"kernels: {case.name}", [f"{path}/case.relay", *weights]
    import onnx  # pylint: disable=import-outside-toplevel

    made = [("bert", lambda: bert.make(2))]
    made += [(f"recurrent: {kind}", lambda kind=kind: recurrent.make(kind, 1)) for kind in ("LSTM", "GRU")]
    made += [(f"vision: {name}", lambda name=name: vision.make(name)) for name in vision.NETWORKS]
    for name, make in made:
        if not only.search(name):
            continue
        path = os.path.join(folder, re.sub(r"\W+", "_", name) + ".onnx")
        onnx.save(make(), path)
        yield name, [path]


def functions(compiler, arguments, target, output):
    """The assembly of each function by name; None if the compiler refuses the program."""
    command = [compiler, "compile", *arguments, "-o", output, "--target", target, "--control", "bytecode",
               "--print-assembly"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return None
    # Numbers of labels depend on the order of functions in the module.
    text = re.sub(r"\.L[A-Za-z_]+[0-9_]*", ".L", done.stdout)
    parts = re.split(r"^([A-Za-z_][\w.]*):.*$", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2]))


def compare(name, arguments, target, options, folder):
    """The number of functions, and those that differ; None if neither compiler accepts the program."""
    output = tempfile.mktemp(dir=folder)
    before, after = (functions(compiler, arguments, target, output) for compiler in (options.before, options.relayvm))
    if os.path.exists(output):
        os.remove(output)
    if before is None and after is None:
        return name, target, 0, None
    if before is None or after is None:
        return name, target, 0, ["only one version compiles it"]
    changed = sorted(symbol for symbol in before.keys() | after.keys() if before.get(symbol) != after.get(symbol))
    return name, target, len(after), changed


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--relayvm", default=relayvm.COMPILER)
    parser.add_argument("--before", required=True)
    parser.add_argument("--only", default="", help="a regular expression for names of programs")
    parser.add_argument("--targets", default=TARGETS)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    options = parser.parse_args()
    count, compared, refused, differ = 0, 0, set(), 0
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        chosen = list(programs(folder, re.compile(options.only)))
        waiting = [pool.submit(compare, name, arguments, target, options, folder)
                   for name, arguments in chosen for target in options.targets.split(",")]
        for one in waiting:
            name, target, number, changed = one.result()
            if changed is None:
                refused.add(name)
                continue
            count, compared, differ = count + number, compared + 1, differ + len(changed)
            for symbol in changed:
                print(f"{name}, {target}: {symbol}", flush=True)
    print(f"{compared} compilations, {count} functions compared, {differ} differ; {len(refused)} programs do not compile alone")
    sys.exit(differ > 0)


if __name__ == "__main__":
    main()
