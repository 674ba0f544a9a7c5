"""Makes a folder that checks and times RelayVM on a machine with an NVIDIA GPU: measure.py with programs, inputs and results.

The folder needs nothing but the GPU's driver and Python there; PyTorch is compared with if it is installed.

    PYTHONPATH=tests:benchmarks python benchmarks/gpu/pack.py FOLDER [--small]
"""

import json
import os
import shutil
import sys

import numpy as np

import operator_cases
import operators_test
import relayvm
from gpu import programs

BATCH = 40  # operator cases of one program: starting a GPU takes longer than running them
TOLERANCE = 1e-4
MOST_FOR_HOST = 24 << 20  # bytes of an executable for the CPU that is worth carrying


class Packer:
    def __init__(self, folder):
        self.folder, self.files = folder, 0
        os.makedirs(folder, exist_ok=True)

    def path(self, name):
        return os.path.join(self.folder, name)

    def argument(self, value):
        """The argument on the command line of a run in the folder."""
        if isinstance(value, str):
            return value
        self.files += 1
        np.save(self.path(f"{self.files}.npy"), value)
        return f"@{self.files}.npy"

    def compile(self, source, name, *flags):
        """For the device, and for the host of that machine."""
        for device in ("cuda", "host"):
            relayvm.must(relayvm.COMPILER, "compile", source, "-o", self.path(f"{name}.{device}.rvm"), "--device", device,
                         "--target", "x86-64-v3", *flags)

    def expected(self, name, entry, arguments):
        done = relayvm.run(relayvm.RUNTIME, self.path(f"{name}.host.rvm"), "--entry", entry, *arguments, cwd=self.folder)
        if done.returncode != 0:
            raise relayvm.ToolError(done.stderr)
        self.files += 1
        with open(self.path(f"{self.files}.txt"), "w", encoding="utf-8") as file:
            file.write(done.stdout)
        return f"{self.files}.txt"

    def operators(self, cases):
        """Batches of cases: one function calls all of a batch, and each has one of its own to find what differs."""
        batches = []
        for first in range(0, len(cases), BATCH):
            name, text, entries = f"operators{first}", "", []
            for index, case in enumerate(cases[first:first + BATCH], first):
                text += operators_test.signature(index, case, "static")
                arguments = [self.argument(array) for array in case.inputs]
                entries.append({"entry": f"case{index}", "op": case.op, "call": case.expression, "arguments": arguments})
            parameters, calls = [], []
            for index, case in enumerate(cases[first:first + BATCH], first):
                names = [f"%p{index}_{n}" for n in range(len(case.inputs))]
                parameters += [f"{name}: Tensor[({''.join(f'{n}, ' for n in array.shape)}), {array.dtype}]" for name, array in zip(names, case.inputs)]
                calls.append(f"@case{index}({', '.join(names)})")
            text += f"def @main({', '.join(parameters)}) {{ ({', '.join(calls)},) }}\n"
            with open(self.path(f"{name}.relay"), "w", encoding="utf-8") as file:
                file.write(programs.HEAD + text)
            self.compile(self.path(f"{name}.relay"), name, *(flag for entry in ["main", *(e["entry"] for e in entries)] for flag in ("--entry", entry)))
            for entry in entries:
                entry["expected"] = self.expected(name, entry["entry"], entry["arguments"])
            arguments = [argument for entry in entries for argument in entry["arguments"]]
            expected = self.expected(name, "main", arguments)
            os.remove(self.path(f"{name}.host.rvm"))
            batches.append({"name": name, "arguments": arguments, "expected": expected, "cases": entries})
        return batches

    def program(self, program, number):
        name, source = f"program{number}", program.path
        if program.text:
            source = self.path(f"{name}.relay")
            with open(source, "w", encoding="utf-8") as file:
                file.write(program.text)
        flags = []
        if program.weights:
            np.savez(self.path("weights.npz"), **program.weights)
            flags = ["--params", self.path("weights.npz")]
        self.compile(source, name, *flags)
        runs = []
        for label, values in program.runs:
            arguments = [self.argument(value) for value in values]
            runs.append({"label": label, "arguments": arguments, "expected": self.expected(name, "main", arguments)})
        has_host = os.path.getsize(self.path(f"{name}.host.rvm")) <= MOST_FOR_HOST
        if not has_host:
            os.remove(self.path(f"{name}.host.rvm"))
        return {"name": name, "has_host": has_host, "title": program.name, "unit": program.unit, "steps": program.steps, "runs": runs}


def pack(folder, is_small=False):
    shutil.rmtree(folder, ignore_errors=True)
    packer = Packer(folder)
    shutil.copy(relayvm.RUNTIME, packer.path("relayvm-run"))
    shutil.copy(os.path.join(os.path.dirname(os.path.abspath(__file__)), "measure.py"), packer.path("measure.py"))
    cases = [case for case in operator_cases.all_cases() if case.expected.size and "random" not in case.op]
    one_of_each = list({case.op: case for case in cases}.values())
    commit = relayvm.must("git", "-C", relayvm.ROOT, "rev-parse", "--short", "HEAD").strip()
    manifest = {"commit": commit, "tolerance": TOLERANCE, "seconds": 0.05 if is_small else 2,
                "operators": packer.operators(one_of_each[::12] if is_small else cases[::2]),
                "programs": [packer.program(program, n) for n, program in enumerate(programs.all_programs(folder, is_small))]}
    for name in os.listdir(folder):
        if name.endswith((".relay", ".onnx", ".npz")):
            os.remove(packer.path(name))
    with open(packer.path("manifest.json"), "w", encoding="utf-8") as file:
        json.dump(manifest, file, indent=1)
    size = sum(os.path.getsize(packer.path(name)) for name in os.listdir(folder))
    print(f"{folder}: {size / 2**20:.0f} MiB; on the machine with the GPU: python3 measure.py")


if __name__ == "__main__":
    pack(sys.argv[1], "--small" in sys.argv[2:])
