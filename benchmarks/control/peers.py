"""Who runs a program of `./run bench control`, and how: each peer is a command that prints a result and seconds."""

import dataclasses
import os
import re
import shutil
import sys

import relayvm
from control import programs

HERE = os.path.join(relayvm.ROOT, "benchmarks", "control")
WORKLOADS = programs.WORKLOADS
CLANG = "clang-19"
# Name the Pythons that have PyTorch, and JAX and IREE, if they are others.
TORCH_PYTHON = "RELAYVM_TORCH_PYTHON"
JAX_PYTHON = "RELAYVM_JAX_PYTHON"
C_FLAGS = ("-O2", "-march=native", "-fwrapv")


class Unwritten(Exception):
    """A program that a peer does not have."""


def number(text):
    return int(text) if re.fullmatch(r"-?\d+", text) else float(text)


@dataclasses.dataclass
class Peer:
    """`missing`: the reason why it is not measured, empty if it is. `rounds`: the most processes for one program."""

    name: str
    missing: str = ""
    rounds: int = 1000
    repeat: int = 5
    all_doubles = False

    def prepare(self, program, folder):
        """Makes what a run needs; raises Unwritten where the peer cannot run the program."""

    def command(self, program, folder, paths):
        raise NotImplementedError

    def parse(self, done):
        result, seconds = done.stdout.split()[-2:]
        return number(result), float(seconds)

    def run(self, program, folder, paths):
        """Result and least seconds of the processor of one process."""
        command = list(map(str, self.command(program, folder, paths)))
        done = relayvm.run(*command, timeout=600)
        if done.returncode != 0:
            raise relayvm.ToolError(f"{self.name}: {program.name}: `{' '.join(command)}`:\n{done.stderr[-3000:]}")
        return self.parse(done)


class Relay(Peer):
    """RelayVM; `control` chooses between machine code and bytecode for control flow, where the runtime has the choice."""

    def __init__(self, control=None):
        super().__init__(f"RelayVM, {control}" if control else "RelayVM")
        self.control = ["--control", control] if control else []

    def prepare(self, program, folder):
        relayvm.compile_file(program.path("relay"), f"{folder}/{program.name}.rvm", 3,
                             extra=["--control", "native"] if self.control else [])

    def command(self, program, folder, paths):
        arrays = [f"@{path}.npy" for path in paths]
        return [relayvm.RUNTIME, f"{folder}/{program.name}.rvm", *self.control, "--repeat", self.repeat, program.size, *arrays]

    def parse(self, done):
        seconds = float(re.search(r"least of the processor ([0-9.]+) ms", done.stderr).group(1)) / 1e3
        return number(re.sub(r"(i|f)(32|64)?$", "", done.stdout.split()[0])), seconds


class Lua(Peer):
    def __init__(self, name, tool, all_doubles):
        super().__init__(name, "" if shutil.which(tool) else f"`{tool}` is not installed", repeat=3)
        self.tool, self.all_doubles = tool, all_doubles

    def command(self, program, folder, paths):
        texts = [f"{path}.txt" for path in paths]
        return [self.tool, f"{WORKLOADS}/main.lua", program.path("lua"), program.size, self.repeat, *texts]


class C(Peer):
    def __init__(self, name, flags=(), needs_pool=False):
        super().__init__(name, "" if shutil.which(CLANG) else f"`{CLANG}` is not installed")
        self.flags, self.needs_pool = flags, needs_pool

    def binary(self, program, folder):
        return f"{folder}/{program.name}{'-pool' if self.needs_pool else ''}"

    def prepare(self, program, folder):
        if self.needs_pool and not program.allocates():
            raise Unwritten
        relayvm.must(CLANG, *C_FLAGS, *self.flags, "-I", WORKLOADS, f"{WORKLOADS}/main.c", program.path("c"), "-lm",
                     "-o", self.binary(program, folder))

    def command(self, program, folder, paths):
        return [self.binary(program, folder), program.size, self.repeat, *(f"{path}.bin" for path in paths)]


class Python(Peer):
    """Python itself."""

    def __init__(self):
        super().__init__("Python", rounds=3, repeat=1)

    def command(self, program, folder, paths):
        arrays = [f"{path}.npy" for path in paths]
        return [sys.executable, f"{HERE}/run_python.py", "python", program.path("py"), program.size, self.repeat, *arrays]


class Framework(Peer):
    """A library that is called from Python and runs the programs that `source` names. The first of `repeat` runs compiles."""

    def __init__(self, name, kind, module, source, python=sys.executable, rounds=3, repeat=2):
        missing = ""
        if relayvm.run(python, "-c", f"import {module}").returncode != 0:
            missing = f"the Python that runs it has no `{module}`"
        super().__init__(name, missing, rounds=rounds, repeat=repeat)
        self.kind, self.python = kind, python
        with open(f"{HERE}/{source}", encoding="utf-8") as file:
            self.source = file.read()

    def prepare(self, program, folder):
        if not re.search(rf'"{program.name}":|^def {program.name}\(', self.source, re.M):
            raise Unwritten

    def command(self, program, folder, paths):
        arrays = [f"{path}.npy" for path in paths]
        return [self.python, f"{HERE}/run_python.py", self.kind, program.name, program.size, self.repeat, *arrays]


def relays():
    """A column for each kind of control flow that the runtime has, the fastest first."""
    if re.search(r"--control\b", relayvm.must(relayvm.RUNTIME, "--help")):
        return [Relay("native"), Relay("bytecode")]
    return [Relay()]


def all_peers():
    torch_python = os.environ.get(TORCH_PYTHON, sys.executable)
    jax_python = os.environ.get(JAX_PYTHON, sys.executable)
    return [*relays(), Lua("LuaJIT", "luajit", True), Lua("Lua 5.4", "lua5.4", False), C("C, malloc"),
            C("C, own pool", ["-DCONTROL_POOL"], needs_pool=True), Python(),
            Framework("ONNX Runtime", "onnxruntime", "onnxruntime", "onnx_loops.py"),
            Framework("PyTorch, eager", "torch", "torch", "torch_loops.py", torch_python),
            Framework("TorchScript", "torchscript", "torch", "torch_loops.py", torch_python),
            Framework("JAX", "jax", "jax", "jax_loops.py", jax_python),
            # Compiles before it runs; a step of a loop takes microseconds, so that one process takes up to a minute.
            Framework("IREE", "iree", "iree.runtime, iree.compiler, jax", "jax_loops.py", jax_python, rounds=1, repeat=1)]
