"""Kernels on an OpenCL device give what they give on the host: operators, programs, examples; missing devices."""

import concurrent.futures
import hashlib
import json
import os
import re
import sys
import tempfile
import unittest
import unittest.mock

import numpy as np

import examples_test
import g2p_test
import in_process
import operator_cases
import operators_test
import programs_test
import relayvm

OCLGRIND = "/usr/lib/oclgrind/liboclgrind-rt-icd.so"
# The loader of OpenCL drivers finds none.
NO_DRIVERS = {"OCL_ICD_VENDORS": "/nowhere"}
CHAIN = """#[version = "0.0.5"]
def @main(%x: Tensor[(?, 8), float32], %w: Tensor[(8, 8), float32]) {
  let %a = tanh(nn.dense(%x, %w));
  let %b = nn.softmax(nn.dense(%a, %w));
  nn.dense(%b, %w)
}
def @sorted(%x: Tensor[(8), float32]) { sort(exp(%x)) }
def @count(%n: int32) -> int32 { if (%n == 0) { 0 } else { 1 + @count(%n - 1) } }
"""


if not os.path.exists("/sys/devices/system/cpu"):
    # PoCL asks hwloc for the machine, which reads it there. Without it PoCL sees no memory and aborts the process.
    os.environ.setdefault("HWLOC_SYNTHETIC", f"NUMANode:1(memory={4 << 30}) core:2 pu:1")


def opencl_devices():
    return [line for line in relayvm.must(relayvm.COMPILER, "devices").splitlines() if line.startswith("opencl:")]


class Device(relayvm.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = folder.name
        os.environ.setdefault("POCL_CACHE_DIR", cls.path("cache"))
        os.environ.setdefault("XDG_CACHE_HOME", cls.path("cache"))

    @classmethod
    def path(cls, name):
        return os.path.join(cls.folder, name)

    def write(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)
        return self.path(name)

    def compile(self, source, name, *extra, device="opencl", **options):
        return relayvm.compile_file(source, self.path(name), extra=["--device", device, *extra], **options)

    def check_forecast(self, model, arguments, dims="", entry="main", exact=True):
        """What is foreseen for each device is what it takes, or no less if data decides. Gives what each needs."""
        shown = relayvm.run(relayvm.COMPILER, "inspect", model, "--memory", *(["--dims", dims] if dims else []))
        part = shown.stdout.partition(f"\n  @{entry}\n    cells")[2].partition("\n  @")[0]
        if not exact and (shown.returncode or "no bound" in part):
            return None
        foreseen = {device: tuple(map(int, numbers)) for device, *numbers in re.findall(
            r"(?m)^    device (\S+)  (\d+) bytes at a time; (\d+) with", part)}
        done = relayvm.run(relayvm.RUNTIME, model, "--entry", entry, *arguments, "--stats")
        taken = {device: int(peak) for device, peak in re.findall(r"(?m)^device (\S+): .* at most (\d+) bytes(?:;.*)?$", done.stderr)}
        self.assertEqual(set(foreseen), set(taken), part + done.stderr)
        for device, peak in taken.items():
            (self.assertEqual if exact else self.assertGreaterEqual)(foreseen[device][1], peak, device)
        return {device: needed for device, (needed, _) in foreseen.items()}

    def check_limit(self, model, arguments, device, needed):
        """A call succeeds within what it needs, and says what is missing otherwise."""
        done = relayvm.run(relayvm.RUNTIME, model, *arguments, "--memory-limit", needed)
        self.assertEqual(done.returncode, 0, done.stderr)
        done = relayvm.run(relayvm.RUNTIME, model, *arguments, "--memory-limit", needed - 1)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, rf"out of memory on device {device}: \d+ bytes were asked for, \d+ bytes are in use; the memory "
                                      rf"limit is {needed - 1} bytes \(--memory-limit sets another\)")

    # Whether operators run in this process: it costs less than a start of a driver for each case.
    RUNS_IN_PROCESS = False

    def check_operators(self, form, part, step=2, flags=(), choose=None):
        """One case of every operator, beginning with number `part`, in steps: that many are left out. `choose`: which cases of an operator, instead."""
        groups = operator_cases.by_operator(case for case in operator_cases.all_cases() if operators_test.keeps_meaning(case, form))
        chosen = [group[part % len(group)] for group in groups[part::step]]
        if choose is not None:
            chosen = [case for group in groups for case in choose(group)]
        if os.environ.get("RELAYVM_ALL_ON_DEVICE"):
            chosen = [case for group in groups for case in group]
        wrong, on_device, kernels = [], 0, 0
        for start in range(0, len(chosen), 40):
            batch = list(enumerate(chosen[start:start + 40], start))
            source = self.write("operators.relay", "".join(operators_test.signature(i, case, form) for i, case in batch))
            entries = [flag for i, _ in batch for flag in ("--entry", f"case{i}")]
            model = self.path("operators.rvm")
            said = relayvm.run(relayvm.COMPILER, "compile", source, "-o", model, "--device", self.KIND, "--verbose", *flags, *entries).stderr
            found = re.search(re.escape(self.TARGET) + r": (\d+) of (\d+) kernels", said)
            if found is not None:  # else all of them stay on the host
                on_device, kernels = on_device + int(found.group(1)), kernels + int(found.group(2))
            executable = in_process.load(model) if self.RUNS_IN_PROCESS else None
            with concurrent.futures.ThreadPoolExecutor(1 if executable else 2) as pool:
                run = lambda item: (operators_test.run_entry(executable, f"case{item[0]}", item[1]) if executable else
                                    operators_test.run_case(self.folder, model, *item))
                for (i, case), problem in zip(batch, pool.map(run, batch)):
                    if problem:
                        wrong.append(f"{operators_test.signature(i, case, form).strip()}\n    {problem}")
        self.assertEqual(len(wrong), 0, f"{len(wrong)} of {len(chosen)} cases differ:\n" + "\n".join(wrong[:40]))
        print(f"        {len(chosen)} operator cases on {self.KIND}, {form} shapes; {on_device} of {kernels} kernels on the device")
        self.assertGreater(on_device, 0.8 * kernels)

    def check_random_programs(self, kind, count):
        """All operators that the device accepts are there, or a part of them; results are the reference evaluator's."""
        tool = os.path.join(relayvm.ROOT, "bazel-bin/tests/random/random_programs")
        done = relayvm.run(tool, "--device", kind, "--count", count, "--seed", 5000)
        self.assertEqual(done.returncode, 0, done.stdout[-4000:])
        skipped = int(re.search(rf"(?m)^{count} programs, (\d+) skipped, 0 failed", done.stdout).group(1))
        self.assertLess(skipped, 0.5 * count, "too few programs launch anything")
        print(f"        {count} programs, {count - skipped} of them launched kernels on {kind}")


class WithoutDevice(Device):
    """What needs no driver."""

    def fails(self, *command):
        done = relayvm.run(*command, env={**os.environ, **NO_DRIVERS})
        self.assertEqual(done.returncode, 1, done.stdout)
        return done.stderr

    def test_missing_device(self):
        source = self.write("chain.relay", CHAIN)
        model = self.compile(source, "needs.rvm", "--entry", "sorted")
        message = self.fails(relayvm.RUNTIME, model, "--entry", "sorted", "[3, 2, 1, 0, 7, 6, 5, 4]")
        self.assertIn("needs a device for opencl-c-1.2 with +groups128, and this machine has none", message)
        self.assertIn("opencl: ", message)
        self.assertIn("--device host", message)

    def test_missing_gpu(self):
        """Code for either kind is there; the message says why neither device is."""
        source = self.write("chain.relay", CHAIN)
        model = self.compile(source, "gpu.rvm", "--entry", "sorted", device="gpu")
        message = self.fails(relayvm.RUNTIME, model, "--entry", "sorted", "[3, 2, 1, 0, 7, 6, 5, 4]")
        self.assertIn("needs a device for ptx with +sm_75 or opencl-c-1.2 with +groups128, and this machine has none", message)
        self.assertIn("opencl: ", message)
        self.assertIn("cuda: ", message)
        out = relayvm.must(relayvm.RUNTIME, model, "--entry", "sorted", "--host-fallback", "[0, 0, 0, 0, 0, 0, 0, 0]", env={**os.environ, **NO_DRIVERS})
        self.assertEqual(out.strip(), "[1f, 1f, 1f, 1f, 1f, 1f, 1f, 1f]")

    def test_fallback_to_the_host(self):
        source = self.write("chain.relay", CHAIN)
        for flags, run_flags in (["--host-fallback"], []), ([], ["--device", "host"]), ([], ["--host-fallback"]):
            with self.subTest(flags=flags, run_flags=run_flags):
                model = self.compile(source, "fallback.rvm", *flags, "--entry", "sorted")
                out = relayvm.must(relayvm.RUNTIME, model, "--entry", "sorted", *run_flags, "[0, 0, 0, 0, 0, 0, 0, 0]",
                                   env={**os.environ, **NO_DRIVERS})
                self.assertEqual(out.strip(), "[1f, 1f, 1f, 1f, 1f, 1f, 1f, 1f]")

    def test_wrong_options(self):
        source = self.write("chain.relay", CHAIN)
        out = self.path("wrong.rvm")
        for flags, says in ((["--device", "tpu"], "saw the device `tpu`; kernels can be compiled for `host`, `cuda`, `opencl`, `gpu`, `sim`"),
                            (["--device", "opencl:nn.denze"], "no operator is named `nn.denze`"),
                            (["--device", "opencl", "--target", "portable"], "a portable executable has no code for devices"),
                            (["--host-fallback"], "`--device` names it")):
            with self.subTest(flags=flags):
                self.assertIn(says, self.fails(relayvm.COMPILER, "compile", source, "-o", out, *flags))
        model = self.compile(source, "needs.rvm")
        self.assertIn("no device `opencl:77`", self.fails(relayvm.RUNTIME, model, "--device", "opencl:77", "--entry", "count", 1))

    def test_no_drivers_are_listed(self):
        listed = relayvm.must(relayvm.COMPILER, "devices", env={**os.environ, **NO_DRIVERS})
        self.assertRegex(listed, "(?m)^none of opencl: ")
        self.assertRegex(listed, "(?m)^sim:0 .* int8-tiles-16")

    def test_the_file_says_what_runs_where(self):
        source = self.write("chain.relay", CHAIN)
        done = relayvm.run(relayvm.COMPILER, "compile", source, "-o", self.path("said.rvm"), "--device", "opencl", "--verbose")
        self.assertRegex(done.stderr, r"opencl-c-1\.2: \d+ of \d+ kernels")
        self.assertRegex(done.stderr, r"device\.opencl\.rvm_k\d+_.*sort.*: on the host: it sorts")
        text = relayvm.must(relayvm.COMPILER, "inspect", self.path("said.rvm"))
        self.assertRegex(text, r"device     opencl-c-1\.2, \d+ of \d+ kernels, \d+ bytes.*, required")
        code = relayvm.must(relayvm.COMPILER, "inspect", self.path("said.rvm"), "--code")
        self.assertRegex(code, r'device "opencl-c-1\.2" ".*" required \{')

    def test_a_program_without_kernels_needs_no_device(self):
        source = self.write("count.relay", "#[version = \"0.0.5\"]\ndef @main(%x: int32) -> int32 { %x + 1 }\n")
        model = self.compile(source, "count.rvm")
        self.assertEqual(relayvm.execute(model, 2, env={**os.environ, **NO_DRIVERS}), "3")


class Simulated(Device):
    """The simulated accelerator gives what the host gives, bit by bit."""

    KIND = "sim"

    def compile(self, source, name, *extra, **options):
        return super().compile(source, name, *extra, **{"device": self.KIND, **options})

    def save(self, arrays):
        for i, array in enumerate(arrays):
            np.save(self.path(f"arg{i}.npy"), array)
        return ["@" + self.path(f"arg{i}.npy") for i in range(len(arrays))]

    def outcome(self, model, entry, arrays, *flags):
        out = self.path("out.npy")
        done = relayvm.run(relayvm.RUNTIME, model, "--entry", entry, "--out", out, "--stats", *flags, *self.save(arrays))
        self.assertEqual(done.returncode, 0, done.stderr)
        return np.load(out), done.stderr

    def check(self, model, entry, arrays, launches):
        on_host, _ = self.outcome(model, entry, arrays, "--device", "host")
        value, said = self.outcome(model, entry, arrays)
        self.assertEqual(int(re.search(rf"device {self.KIND}:0: (\d+) launches", said).group(1)), launches, entry)
        np.testing.assert_array_equal(value, on_host, entry)
        return value

    def multiply_adds(self, source, shapes):
        """Of one image: those that are placed on the accelerator, and all; other operators count as one per element.

        `shapes`: of the weights by name."""
        placed = everything = 0
        printed = relayvm.must(relayvm.COMPILER, "compile", source, "-o", self.path("count.rvm"), "--device", self.KIND,
                               "--print-types", "--print-after", "place_ops")
        for dims, operator, weight, rest in re.findall(
                r"let %\w+: Tensor\[\(([^)]*)\), \w+\] = ([\w.]+)\(%\w+(?:, %(\w+))?(.*)", printed):
            count = int(np.prod([int(d) for d in dims.replace("?", "1").split(",") if d.strip()]))
            if operator in ("qnn.conv2d", "qnn.dense"):
                count *= int(np.prod(shapes[weight][1:]))
            everything += count
            placed += count if f'device="{self.KIND}"' in rest else 0
        return placed, everything

    def test_quantized_resnet8(self):
        source = os.path.join(relayvm.ROOT, "tests/devices/resnet8.relay")
        with open(source, encoding="utf-8") as file:
            params = re.findall(r"%([wb]\w+): Tensor\[\(([\d, ]+)\), (\w+)\]", file.read())
        random = np.random.default_rng(5)
        weights, products = {}, []
        for name, dims, dtype in params:
            shape = [int(d) for d in dims.split(",")]
            limit = 2000 if dtype == "int32" else int(300 / np.sqrt(np.prod(shape[1:])) + 3)
            weights[name] = random.integers(-limit, limit, shape).astype(dtype)
        np.savez(self.path("resnet8.npz"), **weights)
        flags = ["--params", self.path("resnet8.npz"), "--device", self.KIND, "--verbose"]
        model = self.path("resnet8.rvm")
        said = relayvm.run(relayvm.COMPILER, "compile", source, "-o", model, *flags).stderr
        placed, all_operators = map(int, re.search(rf"device\.{self.KIND}: (\d+) of (\d+) operators", said).groups())
        self.assertEqual((placed, all_operators), (44, 44))
        logits = []
        for batch in (1, 3):
            x = random.integers(-128, 128, (batch, 3, 32, 32)).astype("int8")
            # Every convolution with what follows it, the mean, and the dense layer: no host between them.
            value = self.check(model, "main", [x], launches=11)
            _, said = self.outcome(model, "main", [x])
            self.assertRegex(said, r"and 1 from it")
            self.assertEqual(value.shape, (batch, 10))
            logits += value.tolist()
        self.assertGreater(len(set(map(tuple, logits))), 2, "the network does not look at its input")
        self.check_forecast(model, self.save([np.zeros((2, 3, 32, 32), "int8")]), "x.0=2")
        there, everywhere = self.multiply_adds(source, {name: array.shape for name, array in weights.items()})
        share = there / everywhere
        print(f"        ResNet-8: {placed} of {all_operators} operators on the accelerator, with {share:.1%} of "
              f"{everywhere / 1e6:.1f} million multiply-adds")
        self.assertGreater(there, 12_501_632)  # the 12.5 million of its products
        self.assertGreater(share, 0.9999)  # all but the view of the mean

    # (operator with its attributes, dtype and shape of both factors); `?` stands for an unknown extent.
    PRODUCTS = [
        ("nn.dense({}, {}, out_dtype=\"int32\")", ("int8", "5 7"), ("int8", "3 7")),
        ("nn.dense({}, {}, out_dtype=\"int32\")", ("int8", "?33 ?50"), ("uint8", "?17 ?50")),
        ("nn.dense({}, {}, out_dtype=\"int32\")", ("int8", "2 3 16"), ("int8", "32 16")),
        ("nn.dense({}, {}, out_dtype=\"int32\")", ("int8", "?4 0"), ("int8", "3 0")),
        ("nn.batch_matmul({}, {}, out_dtype=\"int32\")", ("uint8", "4 5 6"), ("int8", "4 6 20")),
        ("nn.batch_matmul({}, {}, out_dtype=\"int32\")", ("int8", "?3 2 4"), ("int8", "?1 4 20")),
        ("nn.batch_matmul({}, {}, out_dtype=\"int32\", transpose_a=True, transpose_b=False)", ("int8", "1 6 5"), ("int8", "3 6 20")),
        ("qnn.dense({}, {}, 3, -5, 1f, 1f)", ("int8", "?6 40"), ("int8", "21 40")),
        ("qnn.batch_matmul({}, {}, 255, -128, 1f, 1f, transpose_b=True)", ("uint8", "2 4 18"), ("int8", "2 3 18")),
        ("nn.conv1d({}, {}, padding=[2, 1], dilation=[2], out_dtype=\"int32\")", ("int8", "2 5 19"), ("int8", "4 5 3")),
        ("nn.conv2d({}, {}, padding=[1, 0, 2, 3], strides=[2, 3], out_dtype=\"int32\")", ("int8", "?2 3 9 20"), ("int8", "18 3 3 4")),
        ("nn.conv2d({}, {}, data_layout=\"NHWC\", kernel_layout=\"HWIO\", padding=[1, 1], out_dtype=\"int32\")",
         ("uint8", "1 6 6 20"), ("int8", "3 3 20 5")),
        ("nn.conv2d({}, {}, groups=2, out_dtype=\"int32\")", ("int8", "1 6 7 7"), ("int8", "8 3 2 2")),
        ("nn.conv2d({}, {}, groups=6, padding=[1, 1], out_dtype=\"int32\")", ("int8", "1 6 7 7"), ("int8", "12 1 3 3")),
        ("nn.conv2d({}, {}, out_layout=\"NHWC\", out_dtype=\"int32\")", ("int8", "1 4 5 5"), ("int8", "3 4 2 2")),
        ("nn.conv3d({}, {}, padding=[1, 1, 0], out_dtype=\"int32\")", ("int8", "1 3 4 5 6"), ("int8", "4 3 2 3 2")),
        ("qnn.conv2d({}, {}, -7, 4, 1f, 1f, padding=[2, 2], channels=5, kernel_size=[3, 3])", ("int8", "1 4 8 8"), ("int8", "5 4 3 3")),
        ("qnn.conv2d({}, {}, 200, 0, 1f, 1f, channels=5, kernel_size=[1, 1], data_layout=\"NHWC\", kernel_layout=\"OHWI\")",
         ("uint8", "3 4 4 17"), ("int8", "5 1 1 17")),
    ]

    def test_products(self):
        text, arrays = '#[version = "0.0.5"]\n', []
        random = np.random.default_rng(1)
        for i, (call, *factors) in enumerate(self.PRODUCTS):
            params, values = [], []
            for name, (dtype, shape) in zip("ab", factors):
                dims = ", ".join("?" if d.startswith("?") else d for d in shape.split())
                params.append(f"%{name}: Tensor[({dims}), {dtype}]")
                info = np.iinfo(dtype)
                values.append(random.integers(info.min, info.max + 1, [int(d.lstrip("?")) for d in shape.split()]).astype(dtype))
            text += f"def @case{i}({', '.join(params)}) {{ {call.format('%a', '%b')} }}\n"
            arrays.append(values)
        model = self.compile(self.write("products.relay", text), "products.rvm")
        for i, values in enumerate(arrays):
            with self.subTest(self.PRODUCTS[i][0]):
                self.check(model, f"case{i}", values, launches=1)

    def test_the_forecast_is_what_is_taken(self):
        source = self.write("foreseen.relay", """#[version = "0.0.5"]
def @main(%x: Tensor[(?, 400), int8], %w: Tensor[(300, 400), int8], %v: Tensor[(20, 300), int8]) {
  let %sums = qnn.dense(%x, %w, 3, 0, 1f, 1f);
  let %bytes = cast(right_shift(%sums, 9), dtype="int8");
  (qnn.dense(%bytes, %v, 1, 0, 1f, 1f, out_dtype="int32"), %sums)
}
""")
        for level in ("-O0", "-O2"):
            model = self.compile(source, "foreseen.rvm", level)
            arguments = self.save([np.ones(shape, "int8") for shape in ((2000, 400), (300, 400), (20, 300))])
            needed = self.check_forecast(model, arguments, "x.0=2000")
            # Factors of a byte, sums of 4 bytes.
            self.assertGreaterEqual(needed[f"{self.KIND}:0"], 2000 * 400 + 300 * 400 + 4 * 2000 * 300)
        done = relayvm.run(relayvm.RUNTIME, model, *arguments, "--memory-limit", needed[f"{self.KIND}:0"] // 2)
        self.assertRegex(done.stderr, rf"out of memory on device {self.KIND}:0: .*--memory-limit sets another")

    def test_a_list_of_tensors_has_no_bound(self):
        model = self.compile(self.write("list.relay", """#[version = "0.0.5"]
type List[A] { Cons(A, List[A]), Nil }
def @main(%l: List[Tensor[(4, 4), int8]]) {
  match (%l) { Nil => zeros(shape=[4, 4], dtype="int32"), Cons(%x, %rest) => nn.dense(%x, %x, out_dtype="int32") }
}
"""), "list.rvm")
        self.assertIn("no bound: in `main`: data decides which tensors are copied to a device",
                      relayvm.must(relayvm.COMPILER, "inspect", model, "--memory"))

    def test_random_programs(self):
        self.check_random_programs(self.KIND, relayvm.long_or(200, 80))

    # Bodies of functions of %x: Tensor[(?, 4, 6, 6), int8], %w: Tensor[(4, 4, 3, 3), int8], %b: Tensor[(4), int32],
    # %r: Tensor[(?, 4, 6, 6), int8], %d: Tensor[(5, 4), int8] and %e: Tensor[(5), int32], each one function of the device.
    CONV = "qnn.conv2d(%x, %w, -3, 5, 0.05f, 0.01f, padding=[1, 1], channels=4, kernel_size=[3, 3])"
    COMPOSITES = [
        "nn.bias_add({conv}, %b)",
        "{conv} + 7",
        "{conv} + 2000000000",
        "qnn.requantize({conv}, 0.0005f, 0, 0.05f, -3)",
        "qnn.requantize(nn.bias_add({conv}, %b), 0.0005f, 11, 0.03f, 7, rounding=\"TONEAREST\", out_dtype=\"uint8\")",
        "qnn.requantize({conv}, 3f, 0, 0.001f, 0, out_dtype=\"int32\")",
        "maximum(qnn.requantize(nn.bias_add({conv}, %b), 0.0005f, 0, 0.05f, -3), -3i8)",
        "minimum(9i8, maximum(-3i8, qnn.requantize({conv}, 0.0005f, 0, 0.05f, -3)))",
        "clip(qnn.requantize({conv}, 0.0005f, 0, 0.05f, -3), a_min=-20f, a_max=30f)",
        "nn.relu(nn.bias_add({conv}, %b))",
        "qnn.add(qnn.requantize({conv}, 0.0005f, 0, 0.05f, -3), %r, 0.05f, -3, 0.02f, 4, 0.04f, 1)",
        "nn.relu(qnn.add(%r, qnn.requantize({conv}, 0.0005f, 0, 0.05f, -3), 0.05f, -3, 0.02f, 4, 0.04f, 1))",
        "qnn.dequantize(nn.bias_add({conv}, %b), 0.0005f, 3)",
        "cast(nn.global_avg_pool2d(cast(%x, dtype=\"int32\")), dtype=\"int8\")",
        "nn.batch_flatten(nn.global_avg_pool2d(cast(%x, dtype=\"int32\")))",
        "qnn.requantize(nn.batch_flatten(nn.global_avg_pool2d(cast(%x, dtype=\"int32\"))), 0.5f, 1, 0.7f, -2)",
        "nn.global_avg_pool2d(cast(%x, dtype=\"int32\"), layout=\"NHWC\")",
        "nn.dense(squeeze(nn.max_pool2d(%x, pool_size=[6, 6]), axis=[2, 3]), %d, out_dtype=\"int32\") + %e",
    ]

    def test_composites(self):
        """What follows a product is part of its function, at each level."""
        params = ("%x: Tensor[(?, 4, 6, 6), int8], %w: Tensor[(4, 4, 3, 3), int8], %b: Tensor[(4), int32], "
                  "%r: Tensor[(?, 4, 6, 6), int8], %d: Tensor[(5, 4), int8], %e: Tensor[(5), int32]")
        bodies = [body.format(conv=self.CONV) for body in self.COMPOSITES]
        source = self.write("composites.relay", '#[version = "0.0.5"]\n' + "".join(
            f"def @case{i}({params}) {{ {body} }}\n" for i, body in enumerate(bodies)))
        random = np.random.default_rng(3)
        def arrays(batch, other):
            byte = lambda *shape: random.integers(-128, 128, shape).astype("int8")
            return [byte(batch, 4, 6, 6), byte(4, 4, 3, 3), random.integers(-9000, 9000, 4).astype("int32"),
                    byte(other, 4, 6, 6), byte(5, 4), random.integers(-9000, 9000, 5).astype("int32")]
        for level in ("-O0", "-O2"):
            model = self.compile(source, "composites.rvm", level)
            for i, body in enumerate(bodies):
                # Batches that broadcast, where the program leaves that open.
                for batches in [(2, 2), (1, 3), (3, 1)] if "qnn.add" in body else [(2, 2)]:
                    with self.subTest(level=level, body=body, batches=batches):
                        self.check(model, f"case{i}", arrays(*batches), launches=1)

    def test_results_with_other_uses_end_a_composite(self):
        """So does a mark, a rule for another device, and another block."""
        source = self.write("uses.relay", f"""#[version = "0.0.5"]
def @twice(%x: Tensor[(1, 4, 6, 6), int8], %w: Tensor[(4, 4, 3, 3), int8], %b: Tensor[(4), int32]) {{
  let %sums = {self.CONV};
  let %biased = nn.bias_add(%sums, %b);
  (%sums, qnn.requantize(%biased, 0.0005f, 0, 0.05f, -3))
}}
def @branch(%x: Tensor[(1, 4, 6, 6), int8], %w: Tensor[(4, 4, 3, 3), int8], %b: Tensor[(4), int32], %n: int32) {{
  let %sums = {self.CONV};
  if (%n > 0) {{ nn.bias_add(%sums, %b) }} else {{ zeros(shape=[1, 4, 6, 6], dtype="int32") }}
}}
def @marked(%x: Tensor[(1, 4, 6, 6), int8], %w: Tensor[(4, 4, 3, 3), int8], %b: Tensor[(4), int32]) {{
  let %sums = {self.CONV};
  nn.relu(on_device(nn.bias_add(%sums, %b), virtual_device="cpu"))
}}
def @square(%x: Tensor[(1, 4, 6, 6), int8], %w: Tensor[(4, 4, 3, 3), int8], %b: Tensor[(4), int32]) {{
  let %sums = {self.CONV};
  %sums + %sums
}}
""")
        random = np.random.default_rng(4)
        arrays = [random.integers(-128, 128, (1, 4, 6, 6)).astype("int8"), random.integers(-128, 128, (4, 4, 3, 3)).astype("int8"),
                  random.integers(-9000, 9000, 4).astype("int32")]
        model = self.compile(source, "uses.rvm", "-O1")
        arguments = self.save(arrays)
        for entry, more in (("twice", []), ("branch", [1]), ("branch", [-1]), ("marked", []), ("square", [])):
            with self.subTest(entry, more=more):
                done = relayvm.run(relayvm.RUNTIME, model, "--entry", entry, *arguments, *more, "--stats")
                self.assertIn(f"device {self.KIND}:0: 1 launches", done.stderr)
                self.assertEqual(done.stdout, relayvm.must(relayvm.RUNTIME, model, "--entry", entry, *arguments, *more, "--device", "host"))

    def test_what_does_not_fit_stays(self):
        """Other dtypes, zero points that are arguments or one per output, windows along unknown extents."""
        source = self.write("stay.relay", """#[version = "0.0.5"]
def @f32(%a: Tensor[(2, 4), float32], %b: Tensor[(3, 4), float32]) { nn.dense(%a, %b) }
def @narrow(%a: Tensor[(2, 4), int8], %b: Tensor[(3, 4), int8]) { nn.dense(%a, %b) }
def @zero(%a: Tensor[(2, 4), int8], %b: Tensor[(3, 4), int8], %z: int32) { qnn.dense(%a, %b, %z, 0, 1f, 1f) }
def @zeros(%a: Tensor[(2, 4), int8], %b: Tensor[(3, 4), int8], %z: Tensor[(3), int32], %s: Tensor[(3), float32]) {
  qnn.dense(%a, %b, 0, %z, 1f, %s)
}
def @window(%a: Tensor[(1, 2, ?, 4), int8], %b: Tensor[(3, 2, 1, 1), int8]) { nn.conv2d(%a, %b, out_dtype="int32") }
""")
        done = relayvm.run(relayvm.COMPILER, "compile", source, "-o", self.path("stay.rvm"), "--device", self.KIND, "--verbose")
        self.assertIn(f"device.{self.KIND}: 0 of 5 operators", done.stderr)

    def test_rules(self):
        source = self.write("rules.relay", """#[version = "0.0.5"]
def @main(%a: Tensor[(4, 4), int8], %b: Tensor[(4, 4), int8]) {
  nn.dense(%a, %b, out_dtype="int32") + qnn.dense(%a, %b, 1, 2, 1f, 1f)
}
""")
        kind = self.KIND
        for rules, placed in ((kind, 3), (f"{kind}:nn.*", 1), (f"host:qnn.*,{kind}", 2), (f"{kind}:*dense", 2), (f"host,{kind}", 0)):
            with self.subTest(rules):
                model = self.path("rules.rvm")
                done = relayvm.run(relayvm.COMPILER, "compile", source, "-o", model, "--device", rules, "--verbose")
                self.assertIn(f"device.{kind}: {placed} of 3 operators", done.stderr)
                ones = np.ones((4, 4), "int8")
                on_host, _ = self.outcome(model, "main", [ones, ones], "--device", "host")
                np.testing.assert_array_equal(on_host, np.full((4, 4), 4))
                np.testing.assert_array_equal(self.outcome(model, "main", [ones, ones])[0], on_host)


class Plugin(Simulated):
    """The simulated accelerator as a library of another maker (relayvm/accelerator.h): the same programs on it."""

    KIND = "sim_plugin"
    LIBRARY = os.path.join(relayvm.ROOT, "bazel-bin/devices/sim/libsim_accelerator.so")

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        patch = unittest.mock.patch.dict(os.environ, {"RELAYVM_DEVICE_LIBRARIES": cls.LIBRARY})
        patch.start()
        cls.addClassCleanup(patch.stop)

    def test_options_name_the_library(self):
        """An executable alone opens no library."""
        without = {name: value for name, value in os.environ.items() if name != "RELAYVM_DEVICE_LIBRARIES"}
        source = self.write("dense.relay", """#[version = "0.0.5"]
def @main(%a: Tensor[(2, 4), int8], %b: Tensor[(3, 4), int8]) { nn.dense(%a, %b, out_dtype="int32") }
""")
        model, flags = self.path("dense.rvm"), ["--device-library", self.LIBRARY]
        compiling = [relayvm.COMPILER, "compile", source, "-o", model, "--device", self.KIND]
        done = relayvm.run(*compiling, env=without)
        self.assertRegex(done.stderr, "saw the device `sim_plugin`; kernels can be compiled for .*`sim`")
        done = relayvm.run(*compiling, *flags, env=without)
        self.assertEqual(done.returncode, 0, done.stderr)
        running = [relayvm.RUNTIME, model, *self.save([np.ones((2, 4), "int8"), np.ones((3, 4), "int8")])]
        done = relayvm.run(*running, env=without)
        self.assertRegex(done.stderr, "needs a device for int8-tiles-16-plugin, and this machine has none")
        done = relayvm.run(*running, *flags, "--stats", env=without)
        self.assertEqual((done.returncode, done.stdout), (0, "[[4, 4, 4], [4, 4, 4]]\n"), done.stderr)
        self.assertIn("device sim_plugin:0: 1 launches", done.stderr)
        listed = relayvm.run(relayvm.COMPILER, "devices", *flags, env=without).stdout
        self.assertRegex(listed, "(?m)^sim_plugin:0 .* int8-tiles-16-plugin")

    def test_the_option_of_c(self):
        script = """import ctypes, sys
library = ctypes.CDLL(sys.argv[1])
library.rvm_error_message.restype = ctypes.c_char_p
class LoadOptions(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_uint32), ("allow_native", ctypes.c_uint32), ("trusted_keys", ctypes.c_void_p),
                ("key_count", ctypes.c_size_t), ("device", ctypes.c_char_p), ("host_fallback", ctypes.c_uint32),
                ("reserved", ctypes.c_uint32), ("device_libraries", ctypes.c_char_p)]
library.rvm_error_message.argtypes = [ctypes.c_void_p]
library.rvm_program_load_file.restype = ctypes.c_void_p
for paths in sys.argv[3:]:
    options = LoadOptions(ctypes.sizeof(LoadOptions), 1, device_libraries=paths.encode())
    error = library.rvm_program_load_file(sys.argv[2].encode(), ctypes.byref(options), ctypes.byref(ctypes.c_void_p()))
    print(library.rvm_error_message(error).decode() if error else "loaded")
"""
        model = self.compile(self.write("dense.relay", """#[version = "0.0.5"]
def @main(%a: Tensor[(2, 4), int8], %b: Tensor[(3, 4), int8]) { nn.dense(%a, %b, out_dtype="int32") }
"""), "dense.rvm")
        without = {name: value for name, value in os.environ.items() if name != "RELAYVM_DEVICE_LIBRARIES"}
        shared = os.path.join(relayvm.ROOT, "bazel-bin/capi/librelayvm.so.1")
        done = relayvm.run(sys.executable, "-c", script, shared, model, "", "/nowhere/libnpu.so", self.LIBRARY, env=without)
        lines = done.stdout.splitlines()
        self.assertRegex(lines[0], "needs a device for int8-tiles-16-plugin")
        self.assertIn("the accelerator library cannot be opened: /nowhere/libnpu.so", done.stdout)
        self.assertEqual(lines[-1], "loaded", done.stderr)

    def test_libraries_that_are_none(self):
        source = self.write("one.relay", '#[version = "0.0.5"]\ndef @main(%x: int32) { %x }\n')
        def fails(path, said):
            done = relayvm.run(relayvm.COMPILER, "compile", source, "-o", self.path("one.rvm"), "--device-library", path)
            self.assertEqual(done.returncode, 1)
            self.assertRegex(done.stderr, said)
        fails("/nowhere/libnpu.so", "the accelerator library cannot be opened: .*/nowhere/libnpu.so")
        fails(source, "cannot be opened")
        fails("libc.so.6", "libc.so.6 has no function `rvm_accelerator_get`")
        with unittest.mock.patch.dict(os.environ, {"RELAYVM_DEVICE_LIBRARIES": "/nowhere/libnpu.so"}):
            self.assertRegex(relayvm.must(relayvm.COMPILER, "devices"), "(?m)^none of RELAYVM_DEVICE_LIBRARIES: the accelerator library cannot be opened")

    # These say nothing new of a library.
    test_random_programs = None


class OnGrid:
    """What every device with a grid of work items must do; KIND and TARGET are those of the device."""

    RANDOM_PROGRAMS = relayvm.long_or(80, 10)
    OPERATORS_STEP = relayvm.long_or(2, 6)
    RUNS_FIRST = True

    def compile(self, source, name, *extra, **options):
        return super().compile(source, name, *extra, **{"device": self.KIND, **options})

    def test_copies_and_launches(self):
        """The argument and the weights are copied once, the result once: nothing else crosses."""
        model = self.compile(self.write("chain.relay", CHAIN), "chain.rvm")
        random = np.random.default_rng(3)
        x, w = random.standard_normal((5, 8)).astype("float32"), random.standard_normal((8, 8)).astype("float32")
        np.save(self.path("x.npy"), x)
        np.save(self.path("w.npy"), w)
        done = relayvm.run(relayvm.RUNTIME, model, "@" + self.path("x.npy"), "@" + self.path("w.npy"), "--out",
                           self.path("y.npy"), "--stats")
        self.assertEqual(done.returncode, 0, done.stderr)
        launches, copied_in, copied_out = map(int, re.search(rf"device {self.KIND}:0: (\d+) launches, (\d+) .* and (\d+) from it", done.stderr).groups())
        self.assertGreaterEqual(launches, 3)
        self.assertEqual((copied_in, copied_out), (2, 1))
        e = np.exp(np.tanh(x @ w.T) @ w.T)
        np.testing.assert_allclose(np.load(self.path("y.npy")), e / e.sum(-1, keepdims=True) @ w.T, rtol=1e-4, atol=1e-5)

    def test_a_profile_has_times_of_the_device(self):
        """Work of the device belongs to kernels and functions, the wait to the one that needs the result."""
        source = self.write("waits.relay", """#[version = "0.0.5"]
def @layer(%x: Tensor[(?, 8), float32], %w: Tensor[(8, 8), float32], %n: int32) -> Tensor[(?, 8), float32] {
  if (%n == 0) { %x } else { @layer(tanh(nn.dense(%x, %w)), %w, %n - 1) }
}
def @main(%x: Tensor[(?, 8), float32], %w: Tensor[(8, 8), float32]) { sort(@layer(%x, %w, 5), axis=1) }
""")
        model = self.compile(source, "waits.rvm")
        for name, shape in ("x", (5, 8)), ("w", (8, 8)):
            np.save(self.path(f"{name}.npy"), np.ones(shape, "float32"))
        text = relayvm.must(relayvm.COMPILER, "profile", model, "@" + self.path("x.npy"), "@" + self.path("w.npy"), "--repeat", "2",
                            "--json", self.path("p.json"), "--trace", self.path("t.json"))
        with open(self.path("p.json"), encoding="utf-8") as file:
            profile = json.load(file)
        device, = profile["devices"]
        self.assertEqual(device["device"], f"{self.KIND}:0")
        # Weights that are arguments are copied for each run. The host sorts.
        self.assertEqual((device["copies_in"]["count"], device["copies_in"]["bytes"]), (2, 4 * (5 * 8 + 8 * 8)))
        self.assertEqual((device["copies_out"]["count"], device["copies_out"]["bytes"]), (1, 4 * 5 * 8))
        self.assertEqual(device["waits"]["count"], 1)
        self.assertGreater(device["launches"]["ns"], 0)
        kernels = {kernel["device"]: kernel for kernel in profile["kernels"]}
        self.assertEqual(kernels[f"{self.KIND}:0"]["devices"]["launches"], device["launches"])
        self.assertEqual(kernels[""]["devices"]["waits"]["count"], 1)
        functions = {function["name"]: function["devices"] for function in profile["functions"]}
        self.assertEqual(functions["layer"]["launches"], device["launches"])
        self.assertEqual((functions["layer"]["waits"]["count"], functions["main"]["waits"]["count"]), (0, 1))
        self.assertGreater(profile["split_ns"]["launches"], 0)
        self.assertRegex(text, rf"on device {self.KIND}:0, while the host went on or waited")
        self.assertRegex(text, r"waits for devices")
        with open(self.path("t.json"), encoding="utf-8") as file:
            events = json.load(file)["traceEvents"]
        self.assertEqual([e["args"]["name"] for e in events if e["ph"] == "M"], ["host", f"{self.KIND}:0"])
        on_device = [e for e in events if e["ph"] == "X" and e["tid"] == 2]
        self.assertEqual(len(on_device), device["launches"]["count"] + 3)
        waits = [e for e in events if e.get("cat") == "wait"]
        self.assertEqual([e["name"] for e in waits], [f"wait for {self.KIND}:0"])

    def test_an_annotated_program_uses_both(self):
        """The embedding stays on the host: its table is not copied."""
        source = self.write("embedding.relay", """#[version = "0.0.5"]
def @main(%words: Tensor[(?), int32], %table: Tensor[(100, 6), float32], %w: Tensor[(5, 6), float32]) {
  let %rows = on_device(take(%table, %words, axis=0), virtual_device="cpu");
  nn.softmax(nn.dense(tanh(%rows), %w))
}
""")
        model = self.compile(source, "embedding.rvm")
        random = np.random.default_rng(3)
        words, table = np.array([7, 99, 0], "int32"), random.standard_normal((100, 6)).astype("float32")
        w = random.standard_normal((5, 6)).astype("float32")
        for name, array in ("words", words), ("table", table), ("w", w):
            np.save(self.path(f"{name}.npy"), array)
        done = relayvm.run(relayvm.RUNTIME, model, *("@" + self.path(f"{name}.npy") for name in ("words", "table", "w")),
                           "--out", self.path("y.npy"), "--stats")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stderr, r"launches, 2 tensors copied to it and 1 from it")
        e = np.exp(np.tanh(table[words]) @ w.T)
        np.testing.assert_allclose(np.load(self.path("y.npy")), e / e.sum(-1, keepdims=True), rtol=1e-4, atol=1e-5)

    FORESEEN = """#[version = "0.0.5"]
def @chain(%x: Tensor[(?, 8), float32], %w: Tensor[(8, 8), float32]) {
  let %a = tanh(nn.dense(%x, %w));
  let %b = nn.softmax(nn.dense(%a, %w));
  nn.dense(%b, %w)
}
def @loop(%i: int32, %x: Tensor[(?, 8), float32], %w: Tensor[(8, 8), float32]) -> Tensor[(?, 8), float32] {
  if (%i == 0) { %x } else { @loop(%i - 1, nn.dense(tanh(%x), %w), %w) }
}
def @mixed(%x: Tensor[(?, 8), float32], %w: Tensor[(8, 8), float32]) {
  let %a = exp(%x);
  let %largest = max(%a);
  let %rows = sort(nn.dense(%a, %w) + %largest, axis=1);
  if (%largest > 2f) { (%rows, nn.softmax(%rows)) } else { (%a, reshape(%rows, newshape=[-1, 8])) }
}
"""

    def test_the_forecast_is_what_is_taken(self):
        entries = ("chain", "loop", "mixed")
        source = self.write("foreseen.relay", self.FORESEEN)
        for level in ("-O0", "-O2"):
            model = self.compile(source, "foreseen.rvm", level, *(flag for entry in entries for flag in ("--entry", entry)))
            for rows in (0, 7, 3000):
                np.save(self.path("x.npy"), np.ones((rows, 8), "float32"))
                np.save(self.path("w.npy"), np.ones((8, 8), "float32"))
                for entry in entries:
                    arguments = [*(["4"] if entry == "loop" else []), "@" + self.path("x.npy"), "@" + self.path("w.npy")]
                    with self.subTest(f"{level} {entry} of {rows} rows"):
                        self.check_forecast(model, arguments, f"x.0={rows}", entry)

    def test_a_limit_of_what_is_needed(self):
        model = self.compile(self.write("chain.relay", CHAIN), "chain.rvm", "--entry", "main")
        np.save(self.path("x.npy"), np.ones((20_000, 8), "float32"))
        np.save(self.path("w.npy"), np.ones((8, 8), "float32"))
        arguments = ["@" + self.path("x.npy"), "@" + self.path("w.npy"), "--out", self.path("y.npy")]
        needed = self.check_forecast(model, arguments, "x.0=20000")
        self.assertEqual(list(needed), [f"{self.KIND}:0"])
        self.check_limit(model, arguments, f"{self.KIND}:0", needed[f"{self.KIND}:0"])
        report = self.path("chain.html")
        relayvm.must(relayvm.COMPILER, "report", model, "--dims", "x.0=20000", "-o", report)
        with open(report, encoding="utf-8") as file:
            self.assertIn(f"device {self.KIND}:0  {needed[f'{self.KIND}:0']} bytes at a time", file.read())
        on_host = relayvm.must(relayvm.COMPILER, "inspect", model, "--memory", "--dims", "x.0=20000", "--device", "host")
        self.assertNotIn("device opencl:0", on_host)

    def test_run_compiles_for_the_device(self):
        source = self.write("chain.relay", CHAIN)
        for device in (self.KIND, f"{self.KIND}:0", "host"):
            out = relayvm.must(relayvm.COMPILER, "run", source, "--device", device, "--entry", "sorted", "[0, 0, 0, 0, 0, 0, 0, 0]")
            self.assertEqual(out.strip(), "[1f, 1f, 1f, 1f, 1f, 1f, 1f, 1f]")

    def test_operators_erased(self):
        self.check_operators("erased", relayvm.long_or(1, 2), self.OPERATORS_STEP)

    def test_operators_static(self):
        self.check_operators("static", 0, self.OPERATORS_STEP)

    def test_random_programs(self):
        self.check_random_programs(self.KIND, self.RANDOM_PROGRAMS)

    def test_programs(self):
        """One call of every second program with --long, else of every eighth."""
        names, bounded = sorted(name for name in os.listdir(programs_test.PROGRAMS) if name.endswith(".relay")), 0
        names = names[::relayvm.long_or(2, 8)]
        for name in names:
            source = os.path.join(programs_test.PROGRAMS, name)
            kind, entry, arguments, expected = next(programs_test.cases(source))
            model = self.compile(source, "program.rvm", "--entry", entry, verify=False)
            with self.subTest(f"{name}: {entry}({', '.join(arguments)})"):
                done = relayvm.run(relayvm.RUNTIME, model, "--entry", entry, *arguments)
                programs_test.Programs.check(self, kind, expected, done)
                if done.returncode == 0:
                    bounded += self.check_forecast(model, arguments, "", entry, exact=False) is not None
        print(f"        the memory of {bounded} of {len(names)} programs on {self.KIND} has a bound")
        self.assertGreater(bounded, 0)

    def example(self, name, calls, check):
        source = os.path.join(relayvm.ROOT, "examples", name, f"{name}.relay")
        weights = self.path(f"{name}.npz")
        np.savez(weights, **examples_test.load_reference(name).make_weights())
        model = self.compile(source, f"{name}.rvm", params=[weights])
        for arguments, expected in calls:
            check(relayvm.parse_value(relayvm.execute(model, *arguments)), expected)

    def test_tree_lstm(self):
        reference = examples_test.load_reference("tree_lstm")
        random = np.random.default_rng(7)
        trees = [reference.make_tree(nodes, random) for nodes in (1, 9)]
        self.example("tree_lstm", [([reference.tree_text(tree)], reference.predict(reference.make_weights(), tree))
                                   for tree in trees],
                     lambda value, expected: np.testing.assert_allclose(np.array(value, np.float32), expected, 1e-4, 1e-5))

    def test_char_rnn(self):
        reference = examples_test.load_reference("char_rnn")
        weights = reference.make_weights()
        self.example("char_rnn", [([7, 10], reference.predict(weights, 7, 10))],
                     lambda value, expected: self.assertEqual(relayvm.list_of(value), expected))

    @unittest.skipUnless(os.path.exists(g2p_test.WEIGHTS), "the weights of g2p-en are not in build/g2p: ./run test fetches them")
    def test_g2p(self):
        words = ["hello", "relay", "world", "café", "4ever", ""]
        source = os.path.join(g2p_test.EXAMPLE, "g2p.relay")
        right = g2p_test.spell.say(words, relayvm.RUNTIME, relayvm.compile_file(source, self.path("host.rvm"), params=[g2p_test.WEIGHTS]))
        model = self.compile(source, "g2p.rvm", params=[g2p_test.WEIGHTS])
        self.assertEqual(g2p_test.spell.say(words, relayvm.RUNTIME, model), right)


class WithAccelerator:
    """A device with a grid, and the accelerator, in one program."""

    SOURCE = """#[version = "0.0.5"]
def @main(%x: Tensor[(?, 40), int8], %w: Tensor[(20, 40), int8], %b: Tensor[(20), float32],
          %v: Tensor[(20, 20), int8]) {
  let %sums = qnn.dense(%x, %w, 3, 0, 1f, 1f);
  let %scaled = tanh(cast(%sums, dtype="float32") * 0.001f + %b);
  let %bytes = cast(round(%scaled * 100f), dtype="int8");
  let %again = qnn.dense(%bytes, %v, 1, 0, 1f, 1f, out_dtype="int32");
  (nn.softmax(cast(%again, dtype="float32") * 0.0001f), max(%sums, axis=[1]))
}
"""

    def test_two_kinds_of_device(self):
        """Results are those of the host; each kind runs what is placed on it; tensors cross once in each direction."""
        source = self.write("two.relay", self.SOURCE)
        random = np.random.default_rng(11)
        for name, array in (("x", random.integers(-128, 128, (7, 40)).astype("int8")),
                            ("w", random.integers(-128, 128, (20, 40)).astype("int8")),
                            ("b", random.standard_normal(20).astype("float32")),
                            ("v", random.integers(-128, 128, (20, 20)).astype("int8"))):
            np.save(self.path(f"{name}.npy"), array)
        arguments = ["@" + self.path(f"{name}.npy") for name in "xwbv"]
        rules = f"sim:qnn.*,{self.KIND}"
        host = relayvm.parse_value(relayvm.execute(relayvm.compile_file(source, self.path("host.rvm")), *arguments))
        model = self.compile(source, "two.rvm", device=rules)
        for flags in ([], ["--device", f"{self.KIND}:0,sim"]):
            done = relayvm.run(relayvm.RUNTIME, model, *flags, *arguments, "--stats")
            self.assertEqual(done.returncode, 0, done.stderr)
            for seen, right in zip(relayvm.parse_value(done.stdout), host):
                np.testing.assert_allclose(np.array(seen), np.array(right), 1e-4, 1e-5)
            self.assertRegex(done.stderr, r"device sim:0: 2 launches, 4 tensors copied to it and 2 from it")
            uses = re.search(rf"device {self.KIND}:0: (\d+) launches, (\d+) .* and (\d+) from it", done.stderr)
            self.assertGreaterEqual(int(uses.group(1)), 2)
            # In: the sums, the bias, the sums of the second layer. Out: the bytes and both results.
            self.assertEqual((uses.group(2), uses.group(3)), ("3", "3"))
        on_host = relayvm.must(relayvm.RUNTIME, model, "--device", "host", *arguments)
        self.assertEqual(relayvm.parse_value(on_host)[1], host[1])
        self.assertEqual(set(self.check_forecast(model, arguments, "x.0=7")), {"sim:0", f"{self.KIND}:0"})
        missing = relayvm.run(relayvm.RUNTIME, model, "--device", "sim", *arguments)
        self.assertEqual(missing.returncode, 1)
        self.assertIn(f"needs a device for {self.TARGET}", missing.stderr)


@unittest.skipUnless(os.path.exists(relayvm.COMPILER) and opencl_devices(),
                     "there is no OpenCL device: Debian's package pocl-opencl-icd has one")
class OpenCl(WithAccelerator, OnGrid, Device):
    KIND, TARGET = "opencl", "opencl-c-1.2"
    RUNS_IN_PROCESS = True

    TWO = """#[version = "0.0.5"]
def @main(%x: Tensor[(?, 8), float32], %w: Tensor[(8, 8), float32]) {
  let %a = on_device(tanh(nn.dense(%x, %w)), virtual_device="gpu:0");
  let %b = on_device(nn.softmax(nn.dense(%a, %w)), virtual_device="gpu:1");
  nn.dense(%b, %w)
}
"""

    def test_two_devices(self):
        """Each runs what the program places there, whether it is compiled for OpenCL or for any GPU."""
        source = self.write("two_devices.relay", self.TWO)
        random = np.random.default_rng(8)
        arrays = {"x": random.standard_normal((5, 8)).astype("float32"), "w": random.standard_normal((8, 8)).astype("float32")}
        for name, array in arrays.items():
            np.save(self.path(f"{name}.npy"), array)
        arguments = ["@" + self.path(f"{name}.npy") for name in "xw"]
        e = np.exp(np.tanh(arrays["x"] @ arrays["w"].T) @ arrays["w"].T)
        right = e / e.sum(-1, keepdims=True) @ arrays["w"].T
        two = {**os.environ, "POCL_DEVICES": "pthread pthread"}
        for kind in "opencl", "gpu":
            model = self.compile(source, "two_devices.rvm", device=kind)
            done = relayvm.run(relayvm.RUNTIME, model, "--device", "opencl", *arguments, "--out", self.path("y.npy"), "--stats", env=two)
            self.assertEqual(done.returncode, 0, done.stderr)
            np.testing.assert_allclose(np.load(self.path("y.npy")), right, rtol=1e-4, atol=1e-5)
            uses = {device: tuple(map(int, counts)) for device, *counts in re.findall(
                r"device (opencl:\d): (\d+) launches, (\d+) .* and (\d+) from it", done.stderr)}
            self.assertEqual(sorted(uses), ["opencl:0", "opencl:1"])
            self.assertGreaterEqual(min(launches for launches, _, _ in uses.values()), 1)
            # The first sends its tensor to the second, and gets one back.
            self.assertEqual((uses["opencl:1"][1:], uses["opencl:0"][1:]), ((1, 1), (3, 2)))
            chosen = relayvm.run(relayvm.RUNTIME, model, "--device", "opencl:1", *arguments, env=two)
            self.assertEqual(chosen.returncode, 1)
            self.assertIn("expected a number 1, too", chosen.stderr)

    def test_barriers_in_loops(self):
        """Threads of a row wait for one another before the next reduction reads what the last one stored."""
        programs = {
            "let %d = %a - mean(%a, axis=[1], keepdims=True); mean(%d * %d, axis=[1])": lambda a: a.var(1),
            "mean(%a * mean(%a, axis=[1], keepdims=True), axis=[1])": lambda a: a.mean(1) ** 2,
            "sum(%a - max(%a, axis=[1], keepdims=True), axis=[1])": lambda a: (a - a.max(1, keepdims=True)).sum(1),
            "nn.dense(%a, %a)": lambda a: a @ a.T,
        }
        for body, expected in programs.items():
            model = self.compile(self.write("barriers.relay", f"def @main(%a: Tensor[(n, c), float32]) {{ {body} }}"), "barriers.rvm")
            for shape in (1, 2), (3, 7), (2, 300), (70, 40):
                a = np.arange(np.prod(shape)).reshape(shape).astype("float32") % 11
                np.save(self.path("a.npy"), a)
                done = relayvm.run(relayvm.RUNTIME, model, "@" + self.path("a.npy"), "--out", self.path("y.npy"), "--stats")
                self.assertIn("device opencl:0: ", done.stderr)
                np.testing.assert_allclose(np.load(self.path("y.npy")), expected(a), rtol=1e-5, atol=1e-5, err_msg=f"{body} {shape}")

    def test_one_file_for_either_gpu(self):
        source = self.write("chain.relay", CHAIN)
        model = self.path("gpu.rvm")
        said = relayvm.run(relayvm.COMPILER, "compile", source, "-o", model, "--device", "gpu", "--verbose").stderr
        self.assertRegex(said, r"opencl-c-1\.2: \d+ of \d+ kernels")
        self.assertRegex(said, r"ptx: \d+ of \d+ kernels")
        self.assertRegex(said, r"device\.gpu: \d+ of \d+ operators")
        np.save(self.path("ones.npy"), np.ones((8, 8), "float32"))
        for flags in ["--device", "opencl"], ["--device", "opencl:0"]:
            done = relayvm.run(relayvm.RUNTIME, model, *flags, *["@" + self.path("ones.npy")] * 2, "--stats")
            self.assertIn("device opencl:0: ", done.stderr)

    def test_code_is_compiled_once(self):
        """Its binary serves until it is damaged; without a place for it, there is none."""
        model = self.compile(self.write("chain.relay", CHAIN), "chain.rvm", "--entry", "sorted")
        home = self.path("home")
        folder = os.path.join(home, "relayvm/opencl")

        def origin(**environment):
            done = relayvm.run(relayvm.RUNTIME, model, "--entry", "sorted", "[0, 0, 0, 0, 0, 0, 0, 0]", "--stats",
                               env={**os.environ, "XDG_CACHE_HOME": home, **environment})
            self.assertEqual((done.returncode, done.stdout.strip()), (0, "[1f, 1f, 1f, 1f, 1f, 1f, 1f, 1f]"), done.stderr)
            return re.search(r"bytes; code (.*)", done.stderr).group(1)

        self.assertEqual(origin(RELAYVM_DEVICE_CACHE="off"), "compiled")
        self.assertFalse(os.path.exists(home))
        self.assertEqual([origin(), origin(), origin()], ["compiled", "from the cache", "from the cache"])
        self.assertEqual(origin(RELAYVM_DEVICE_CACHE="off"), "compiled")
        name, = os.listdir(folder)
        path = os.path.join(folder, name)
        with open(path, "rb") as file:
            whole = file.read()
        # The driver refuses this one.
        key, wrong = bytes.fromhex(name.removesuffix(".bin")), b"no binary" * 20
        digest = hashlib.blake2b(b"".join(len(part).to_bytes(8, "little") + part for part in (key, wrong)), digest_size=32,
                                 key=b"relayvm device binary 1").digest()
        for damaged in whole[:-1], whole[:40], b"", whole[:999] + bytes([whole[999] ^ 4]) + whole[1000:], digest + wrong:
            with open(path, "wb") as file:
                file.write(damaged)
            self.assertEqual([origin(), origin()], ["compiled", "from the cache"], len(damaged))
        for nowhere in {"XDG_CACHE_HOME": "/dev/null/none"}, {"XDG_CACHE_HOME": "", "HOME": "/proc/none"}, {"XDG_CACHE_HOME": "", "HOME": ""}:
            self.assertEqual(origin(**nowhere), "compiled")
        os.remove(path)
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            self.assertLessEqual({job.result() for job in [pool.submit(origin) for _ in range(8)]}, {"compiled", "from the cache"})
        self.assertEqual((os.listdir(folder), origin()), ([name], "from the cache"))

    def test_random_programs_with_an_accelerator(self):
        self.check_random_programs("sim,opencl", relayvm.long_or(20, 5))


@unittest.skipUnless(os.path.exists(relayvm.COMPILER), "the compiler is not built")
@unittest.skipUnless(os.path.exists(OCLGRIND), "oclgrind, Debian's package, is not installed")
class Oclgrind(Device):
    """No kernel leaves its tensors, races, or diverges at a barrier: oclgrind interprets them, and looks."""

    KIND, TARGET = "opencl", "opencl-c-1.2"

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        drivers = cls.path("drivers")
        os.mkdir(drivers)
        with open(os.path.join(drivers, "oclgrind.icd"), "w", encoding="utf-8") as file:
            file.write(OCLGRIND + "\n")
        # Its interpreter lacks what its optimiser makes of rotations: llvm.fshl.
        cls.enterClassContext(unittest.mock.patch.dict(os.environ, {
            "OCL_ICD_VENDORS": drivers + "/", "OCLGRIND_DATA_RACES": "1", "OCLGRIND_CHECK_API": "1",
            "OCLGRIND_BUILD_OPTIONS": "-cl-opt-disable"}))
        plain = relayvm.run

        def checked(*args, **options):
            done = plain(*args, **options)
            if "Oclgrind" in done.stderr or "\tEntity:" in done.stderr:
                raise AssertionError(f"{' '.join(map(str, args))}\n{done.stderr[-3000:]}")
            return done
        cls.enterClassContext(unittest.mock.patch.object(relayvm, "run", checked))

    def test_it_is_the_device(self):
        self.assertEqual([line.split(":")[1:2] for line in opencl_devices()], [["0   Oclgrind Simulator"]])

    def test_some_operators(self):
        self.check_operators("erased", 3, 25)

    @unittest.skipUnless(os.environ.get("RELAYVM_SOAK"), "only with --long")
    def test_operators_erased(self):
        self.check_operators("erased", 0, 1)

    @unittest.skipUnless(os.environ.get("RELAYVM_SOAK"), "only with --long")
    def test_operators_static(self):
        self.check_operators("static", 0, 1)


if __name__ == "__main__":
    unittest.main()
