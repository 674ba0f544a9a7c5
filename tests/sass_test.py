"""Machine code that NVIDIA's tools make of kernels: where ptxas places the loads of tile kernels. Needs ptxas and nvdisasm."""

import concurrent.futures
import glob
import os
import re
import shutil
import site
import subprocess
import sys
import unittest

import numpy as np

import cuda_test
import device_test
import relayvm

sys.path.insert(0, os.path.join(relayvm.ROOT, "benchmarks"))

from gpu import programs  # pylint: disable=wrong-import-position

ARITHMETIC = {"FFMA", "DFMA", "HMMA", "IMMA", "HFMA2", "IDP", "IDP4A"}


def find_tool(name):
    """A tool of the CUDA toolkit: on PATH, in its own folder, or in that of a Python package (nvidia-cuda-nvdisasm); else None."""
    folders = ["/usr/local/cuda*/bin", *(f"{path}/nvidia/*/bin" for path in [*site.getsitepackages(), site.getusersitepackages()])]
    return shutil.which(name) or next((path for folder in folders for path in sorted(glob.glob(f"{folder}/{name}"))), None)


NVDISASM = find_tool("nvdisasm")


def functions(text):
    """The instructions of each function in nvdisasm's output: (label or None, opcode, target of a branch or None)."""
    found, code, label = {}, None, None
    for line in text.splitlines():
        if section := re.match(r"\.text\.(\w+):", line):
            code = found[section.group(1)] = []
        elif named := re.match(r"(\.L_x_\d+):", line):
            label = named.group(1)
        elif (made := re.match(r"\s+/\*[0-9a-f]+\*/\s+(?:@!?U?P\w+\s+)?([A-Z0-9_]+)(\S*)\s*(.*?);", line)) and code is not None:
            target = re.search(r"\((\.L_x_\d+)\)", made.group(3)) if made.group(1) == "BRA" else None
            code.append((label, made.group(1), target and target.group(1)))
            label = None
    return found


def main_loop(code):
    """The opcodes of the loop over the steps of a tile, which stores only to shared memory; None if there is none."""
    places, loops = {label: place for place, (label, _, _) in enumerate(code) if label}, []
    for end, (_, _, target) in enumerate(code):
        if target in places and places[target] <= end:
            body = [opcode for _, opcode, _ in code[places[target]:end + 1]]
            if {"BAR", "LDS", "STS"} <= set(body) and "STG" not in body and sum(opcode in ARITHMETIC for opcode in body) >= 8:
                loops.append(body)
    return min(loops, key=len, default=None)


def loads_around(body):
    """Loads from global memory before 30% of the arithmetic of a loop, and those after."""
    total, seen, early, late = sum(opcode in ARITHMETIC for opcode in body), 0, 0, 0
    for opcode in body:
        seen += opcode in ARITHMETIC
        if opcode == "LDG":
            early, late = early + (seen <= 0.3 * total), late + (seen > 0.3 * total)
    return early, late


# Products of many steps, as in cuda_test.PRODUCTS.
STEPS = [
    ("nn.dense({}, {})", ("float32", "128 768"), ("float32", "768 768")),
    ("nn.dense({}, {})", ("float32", "?40 128"), ("float32", "64 128")),
    ("nn.dense({}, {})", ("float64", "64 128"), ("float64", "64 128")),
    ("nn.matmul({}, {}, transpose_a=True)", ("float32", "256 1024"), ("float32", "256 1024")),
    ("nn.batch_matmul({}, {}, transpose_b=False)", ("float32", "3 64 ?100"), ("float32", "3 ?100 64")),
    ("nn.conv2d({}, {}, padding=[1, 1])", ("float32", "1 16 32 32"), ("float32", "64 16 3 3")),
    ("nn.dense({}, {})", ("float16", "256 256"), ("float16", "256 256")),
    ("nn.dense({}, {})", ("bfloat16", "64 768"), ("bfloat16", "768 768")),
    ("nn.matmul({}, {})", ("float16", "70 ?128"), ("float16", "?128 264")),
    ("nn.dense({}, {}, out_dtype=\"int32\")", ("int8", "128 512"), ("uint8", "128 512")),
]


class Reader(unittest.TestCase):
    """What the functions above make of a listing."""

    def listing(self, *body):
        lines = [f"        /*{i:04x}*/  {opcode} ;" for i, opcode in enumerate(body)]
        return "\n".join(["\t.section\t.text.k0", ".text.k0:", "        /*0000*/  LDG.E R0, [R2] ;", ".L_x_1:", *lines,
                          "        /*0f00*/  @!P2 BRA `(.L_x_1) ;", ".text.k1:", "        /*0000*/  EXIT ;"])

    def test_places_of_loads(self):
        load, sums, barrier = ["@P0 LDG.E.128 R4, desc[UR4][R2.64]"] * 3, ["FFMA R8, R4, R5, R8"] * 20, ["BAR.SYNC.DEFER_BLOCKING 0x0", "LDS R4, [R2]", "STS [R2], R4"]
        for body, expected in ((load + barrier + sums, (3, 0)), (barrier + sums + load, (0, 3)), (barrier + sums[:5] + load + sums[5:], (3, 0)),
                               (load[:1] + barrier + sums[:10] + load[1:] + sums[10:], (1, 2))):
            found = functions(self.listing(*body))
            self.assertEqual(set(found), {"k0", "k1"})
            self.assertEqual(loads_around(main_loop(found["k0"])), expected)
            self.assertIsNone(main_loop(found["k1"]))
        # A loop over tiles of one step stores results.
        self.assertIsNone(main_loop(functions(self.listing(*load, *barrier, *sums, "STG.E [R2], R4"))["k0"]))


@unittest.skipUnless(cuda_test.PTXAS and NVDISASM, "ptxas or nvdisasm, of the CUDA toolkit, is not installed: the places of loads are not checked")
class Loads(device_test.Device):
    """In tile kernels the loads of the next step run ahead of the arithmetic of this one."""

    def functions_of(self, model, arch):
        texts = cuda_test.texts_of(model)
        path = self.path(f"code.{arch}")
        with open(f"{path}.ptx", "w", encoding="ascii") as file:
            file.write(texts[max(capability for capability in texts if capability <= int(arch[3:]))])
        subprocess.run([cuda_test.PTXAS, f"-arch={arch}", f"{path}.ptx", "-o", f"{path}.cubin"], check=True, capture_output=True)
        listing = subprocess.run([NVDISASM, "-c", f"{path}.cubin"], check=True, capture_output=True, text=True).stdout
        return functions(listing)

    def loops(self, model, arch):
        """(loads before, loads after) of the main loop of each tile kernel."""
        bodies = {name: main_loop(code) for name, code in self.functions_of(model, arch).items()}
        return {name: loads_around(body) for name, body in bodies.items() if body is not None}

    def check_loads(self, model, least, archs=("sm_75", "sm_80", "sm_90")):
        """`least`: of the kernels, so many are in tiles."""
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            for arch, loops in zip(archs, pool.map(lambda arch: self.loops(model, arch), archs)):
                with self.subTest(arch):
                    self.assertGreaterEqual(len(loops), least)
                    late = {name: loads for name, loads in loops.items() if loads[1] > loads[0]}
                    self.assertEqual(late, {}, f"loads before and after 30% of the arithmetic, in {len(loops)} kernels")

    def test_products(self):
        """Products and convolutions of several steps, for each type and size of tile."""
        for flags, archs in ([], ("sm_75", "sm_80", "sm_90")), (["--target", "sm_80+tf32"], ("sm_80", "sm_90")):
            text, _ = cuda_test.Products.source(STEPS)
            entries = [flag for i in range(len(STEPS)) for flag in ("--entry", f"case{i}")]
            model = self.compile(self.write("products.relay", text), "products.rvm", *entries, *flags, device="cuda", verify=False)
            self.check_loads(model, len(STEPS) - 2, archs)

    def test_rows_are_loaded_at_once(self):
        """All that a row needs is underway before threads exchange results: weights of all gates, and what a norm is scaled by."""
        lstm = programs.recurrent("LSTM", 300, 512, 2)
        np.savez(self.path("weights.npz"), **lstm.weights)
        step = self.compile(self.write("step.relay", lstm.text), "step.rvm", device="cuda", params=[self.path("weights.npz")], verify=False)
        rows = "Tensor[(128, 768), float32]"
        norm = self.compile(self.write("norm.relay", f"def @main(%x: {rows}, %y: {rows}, %g: Tensor[(768), float32]) {{ nn.layer_norm(%x + %y, %g, %g) }}\n"), "norm.rvm",
                            device="cuda", verify=False)
        for model, kernel, least in (step, "k1_0", 20), (norm, "k0_0", 9):
            for arch in "sm_75", "sm_90":
                opcodes = [opcode for _, opcode, _ in self.functions_of(model, arch)[kernel]]
                first = opcodes.index("SHFL")
                with self.subTest(kernel, arch=arch):
                    self.assertGreaterEqual(opcodes[:first].count("LDG"), least)
                    self.assertEqual(opcodes[first:].count("LDG"), 0)

    def test_networks(self):
        for program, least in ((programs.recurrent("LSTM", 300, 512, 2), 1), (programs.bert(1, 256, 4, [8]), 6)):
            np.savez(self.path("weights.npz"), **program.weights)
            self.check_loads(self.compile(self.write("network.relay", program.text), "network.rvm", device="cuda", params=[self.path("weights.npz")], verify=False), least)


if __name__ == "__main__":
    unittest.main()
