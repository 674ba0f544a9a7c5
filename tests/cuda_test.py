"""Kernels on NVIDIA's GPUs, on a driver that interprets their PTX: operators, programs, faults; ptxas, where it is."""

import concurrent.futures
import ctypes.util
import glob
import os
import re
import shutil
import subprocess
import sys
import unittest
import unittest.mock

import numpy as np

import device_test
import examples_test
import g2p_test
import operator_cases
import operators_test
import relayvm

sys.path.insert(0, os.path.join(relayvm.ROOT, "benchmarks"))

from gpu import programs  # pylint: disable=wrong-import-position

FAKE = os.path.join(relayvm.ROOT, "bazel-bin/tests/cuda")
PTXAS = shutil.which("ptxas") or next(iter(glob.glob("/usr/local/cuda*/bin/ptxas")), None)


# What compiles for compute capability 8.0 alone.
LATER = ["--target", "host,sm_80"]


class OnFakeDriver(device_test.Device):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.enterClassContext(unittest.mock.patch.dict(os.environ, {"LD_LIBRARY_PATH": FAKE}))


@unittest.skipUnless(os.path.exists(relayvm.COMPILER), "the compiler is not built")
class Cuda(device_test.WithAccelerator, device_test.OnGrid, OnFakeDriver):
    KIND, TARGET = "cuda", "ptx"
    RANDOM_PROGRAMS = relayvm.long_or(500, 60)

    def test_it_is_listed(self):
        self.assertRegex(relayvm.must(relayvm.COMPILER, "devices"),
                         r"(?m)^cuda:0 +interpreter of PTX: runs ptx with \+sm_75, 1\.0 GiB of memory; library of products: cuBLASLt 13\.4\.25 \(libcublasLt\.so\.13\)$")

    def later(self):
        """A GPU of compute capability 9.0, which runs the code for 8.0."""
        return unittest.mock.patch.dict(os.environ, {"FAKE_CUDA_CAPABILITY": "90"})

    def test_operators_static(self):
        """As compiled for 8.0: what GPUs from there on run where a product is of 16 bits."""
        with self.later():
            self.check_operators("static", 0, flags=LATER)

    def test_halves_on_later_gpus(self):
        """Maxima and minima of float16 have instructions there, which keep NaNs."""
        halves = lambda group: [case for case in group if any(word in case.op for word in ("max", "min", "pool", "clip", "relu")) and
                                any(array.dtype == "float16" for array in case.inputs)][:1]
        with self.later():
            self.check_operators("erased", 0, flags=LATER, choose=halves)
            model = self.compile(self.write("nan.relay", "def @main(%x: Tensor[(3), float16], %y: Tensor[(3), float16]) { (maximum(%x, %y), minimum(%x, %y)) }\n"),
                                 "nan.rvm", *LATER)
            self.assertIn("max.NaN.f16", texts_of(model)[80])
            self.assertEqual(relayvm.execute(model, "[nanf16, 1f16, -2f16]", "[2f16, nanf16, 3f16]").strip(),
                             "([nanf16, nanf16, 3f16], [nanf16, nanf16, -2f16])")

    @unittest.skipUnless(os.environ.get("RELAYVM_SOAK"), "only with --long")
    def test_all_types_on_later_gpus(self):
        """One case of each operator and types."""
        types = lambda case: (str(case.expected.dtype), *(str(array.dtype) for array in case.inputs))
        with self.later():
            self.check_operators("static", 0, flags=LATER, choose=lambda group: {types(case): case for case in reversed(group)}.values())

    def test_one_file_for_either_gpu(self):
        """CUDA comes first."""
        model = self.compile(self.write("chain.relay", device_test.CHAIN), "gpu.rvm", device="gpu")
        np.save(self.path("ones.npy"), np.ones((8, 8), "float32"))
        for flags in [], ["--device", "gpu"], ["--device", "gpu:0"], ["--device", "cuda"]:
            done = relayvm.run(relayvm.RUNTIME, model, *flags, *["@" + self.path("ones.npy")] * 2, "--stats")
            self.assertRegex(done.stderr, r"^device cuda:0: \d+ launches.*\ncells")

    def test_a_scalar_beside_constants(self):
        """A kernel that reads either has no memory for the scalar."""
        text = "def @main(%n: int64) { where(Constant([True, True], (2), bool), concatenate((Constant([1i64], (1), int64), stack((%n,), axis=0)), axis=0), Constant([3i64, 3i64], (2), int64)) }\n"
        model = self.compile(self.write("scalar.relay", text), "scalar.rvm", device="cuda")
        self.assertEqual(relayvm.execute(model, "5").strip(), "[1i64, 5i64]")
        self.assertNotIn(".local", "".join(texts_of(model).values()))

    def test_a_scan_of_one_element(self):
        """It reads no other, but is a scan all the same."""
        model = self.compile(self.write("one.relay", "def @main(%x: Tensor[(1), int32]) { cumprod(%x * 3, axis=0, exclusive=True) + %x }\n"), "one.rvm", device="cuda")
        self.assertEqual(relayvm.execute(model, "[5]").strip(), "[6]")

    def test_a_scan_stays_on_the_host(self):
        """The compiler says which kernel stays and why; the rest of the program runs on the device."""
        source = self.write("scan.relay", """#[version = "0.0.5"]
def @main(%x: Tensor[(?, 8), float32], %w: Tensor[(8, 8), float32]) {
  let %sums = cumsum(nn.dense(%x, %w), axis=0);
  let %sorted = sort(tanh(%sums), axis=1);
  nn.dense(%sorted, %w)
}
""")
        model = self.path("scan.rvm")
        said = relayvm.run(relayvm.COMPILER, "compile", source, "-o", model, "--device", "cuda", "--verbose").stderr
        self.assertRegex(said, r"device\.cuda\.rvm_k\d+_\w*cumsum\w*: on the host: it computes elements one after the other")
        self.assertRegex(said, r"device\.cuda\.rvm_k\d+_\w*sort\w*: on the host: it sorts")
        random = np.random.default_rng(6)
        x, w = random.standard_normal((5, 8)).astype("float32"), random.standard_normal((8, 8)).astype("float32")
        for name, array in ("x", x), ("w", w):
            np.save(self.path(f"{name}.npy"), array)
        done = relayvm.run(relayvm.RUNTIME, model, "@" + self.path("x.npy"), "@" + self.path("w.npy"), "--out",
                           self.path("y.npy"), "--stats")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertGreaterEqual(int(re.search(r"device cuda:0: (\d+) launches", done.stderr).group(1)), 2)
        right = np.sort(np.tanh(np.cumsum(x @ w.T, axis=0)), axis=1) @ w.T
        np.testing.assert_allclose(np.load(self.path("y.npy")), right, rtol=1e-4, atol=1e-5)

    def test_orders_of_work(self):
        """Streams, blocks and threads may run in any order."""
        model = self.compile(self.write("chain.relay", device_test.CHAIN), "orders.rvm")
        random = np.random.default_rng(3)
        for name, shape in ("x", (37, 8)), ("w", (8, 8)):
            np.save(self.path(f"{name}.npy"), random.standard_normal(shape).astype("float32"))
        arguments = ["@" + self.path("x.npy"), "@" + self.path("w.npy")]
        results = {relayvm.must(relayvm.RUNTIME, model, *arguments, env={**os.environ, "FAKE_CUDA_SEED": str(seed)}) for seed in range(6)}
        self.assertEqual(len(results), 1)


    def test_reductions_in_blocks(self):
        """By a thread, a warp, a block and four warps, of sizes that do not fit; the order of threads changes no bit."""
        random = np.random.default_rng(4)
        sizes = ((3, 16), (5, 100), (1030, 40), (3, 2000), (2000, 3), (70, 33), (4, 0), (1, 1))
        cases, text = [], ["#[version = \"0.0.5\"]"]
        for shape in sizes:
            for dtype in ("float32", "int8", "float64", "bool"):
                names = ("all", "any") if dtype == "bool" else ("sum", "prod", "max", "min", "argmax", "argmin") if 0 not in shape else ("sum",)
                for axis in (0, 1):
                    name, last = names[len(cases) % len(names)], ""
                    if name.startswith("arg") and len(cases) % 3:
                        last = ", select_last_index=True"
                    dims = ", ".join("?" if len(cases) % 2 else str(n) for n in shape)
                    text.append(f"def @case{len(cases)}(%x: Tensor[({dims}), {dtype}]) {{ {name}(%x, axis=[{axis}]{last}) }}")
                    cases.append((shape, dtype))
        entries = [flag for i in range(len(cases)) for flag in ("--entry", f"case{i}")]
        model = self.compile(self.write("reductions.relay", "\n".join(text) + "\n"), "reductions.rvm", *entries, device="cuda")
        for i, (shape, dtype) in enumerate(cases):
            values = random.integers(-3, 4, shape).astype(dtype)  # many are equal
            if dtype == "float32" and values.size > 100:
                values.flat[[50, 90]] = np.nan
            np.save(self.path("x.npy"), values)
            outcomes = []
            for flags, seed in (["--device", "host"], 0), ([], 1), ([], 2), ([], 3):
                relayvm.must(relayvm.RUNTIME, model, "--entry", f"case{i}", *flags, "@" + self.path("x.npy"), "--out", self.path("out.npy"),
                             env={**os.environ, "FAKE_CUDA_SEED": str(seed)})
                outcomes.append(np.load(self.path("out.npy")))
            with self.subTest(text[i + 1], shape=shape):
                np.testing.assert_allclose(outcomes[1], outcomes[0], rtol=1e-5)
                for other in outcomes[2:]:
                    np.testing.assert_array_equal(other, outcomes[1])


    def test_reductions_in_parts(self):
        """Of long reductions with few results; odd extents repeat no element in a sum, and the order of blocks changes no bit."""
        random = np.random.default_rng(5)
        cases = (("sum(%x)", "float32", (1 << 10, 1 << 10)), ("sum(%x, axis=[1])", "float64", (3, 40009)), ("prod(%x, axis=[0])", "int32", (9973, 3)), ("max(%x)", "float32", (40009,)),
                 ("min(%x, axis=[0])", "int8", (5003, 7)), ("all(%x)", "bool", (33000,)), ("any(%x, axis=[0])", "bool", (4999, 5)), ("sum(%x * %x, axis=[0, 2]) / 2f", "float32", (7, 2, 9000)),
                 ("sum(cast(%x, dtype=\"float32\"))", "float16", (40000,)), ("nn.softmax(%x)", "float32", (1, 70001)))
        text = "".join(f"def @case{i}(%x: Tensor[({', '.join(map(str, shape))},), {dtype}]) {{ {call} }}\n" for i, (call, dtype, shape) in enumerate(cases))
        entries = [flag for i in range(len(cases)) for flag in ("--entry", f"case{i}")]
        model = self.compile(self.write("parts.relay", text), "parts.rvm", *entries, device="cuda")
        for i, (call, dtype, shape) in enumerate(cases):
            x = random.integers(0, 2, shape) * 2 - 1 if "prod" in call else random.standard_normal(shape) * 4 if dtype != "bool" else random.random(shape) < 0.9999
            np.save(self.path("x.npy"), x.astype(dtype))
            outcomes = []
            for flags, seed in (["--device", "host"], 0), ([], 1), ([], 2):
                done = relayvm.run(relayvm.RUNTIME, model, "--entry", f"case{i}", *flags, "@" + self.path("x.npy"), "--out", self.path("out.npy"),
                                   env={**os.environ, "FAKE_CUDA_SEED": str(seed), "FAKE_CUDA_COUNT": "1"})
                self.assertEqual(done.returncode, 0, done.stderr)
                outcomes.append(np.load(self.path("out.npy")))
            with self.subTest(call, dtype=dtype, shape=shape):
                np.testing.assert_allclose(outcomes[1], outcomes[0], rtol=1e-4, atol=1e-3 * np.sqrt(x.size / 1000) if "sum" in call else 1e-6)
                np.testing.assert_array_equal(outcomes[2], outcomes[1])
                blocks = max(map(int, re.findall(r"sectors, (\d+) blocks", done.stderr)))
                self.assertGreaterEqual(blocks, 64 if i == 0 else 4)


# (operator with its attributes, dtype and shape of both factors, multiply-adds); `?` stands for an unknown extent.
PRODUCTS = [
    ("nn.dense({}, {})", ("float32", "33 17"), ("float32", "35 17"), 33 * 35 * 17),
    ("nn.dense({}, {})", ("float32", "?70 40"), ("float32", "64 40"), 70 * 64 * 40),
    ("nn.dense({}, {})", ("float32", "?41 ?19"), ("float32", "?37 ?19"), 41 * 37 * 19),
    ("nn.dense({}, {})", ("float32", "?40 ?0"), ("float32", "33 ?0"), 0),
    ("tanh(nn.dense({}, {}))", ("float32", "64 8"), ("float32", "64 8"), 64 * 64 * 8),
    ("nn.dense({}, {})", ("float16", "40 36"), ("float16", "64 36"), 40 * 64 * 36),
    ("nn.dense({}, {})", ("bfloat16", "32 32"), ("bfloat16", "48 32"), 32 * 48 * 32),
    ("nn.dense({}, {})", ("float64", "40 12"), ("float64", "33 12"), 40 * 33 * 12),
    ("nn.dense({}, {}, out_dtype=\"int32\")", ("int8", "33 20"), ("int8", "64 20"), 33 * 64 * 20),
    ("nn.dense({}, {}, out_dtype=\"int32\")", ("uint8", "64 21"), ("int8", "35 21"), 64 * 35 * 21),
    ("qnn.dense({}, {}, 3, -5, 1f, 1f)", ("int8", "34 40"), ("int8", "40 40"), 34 * 40 * 40),
    ("nn.matmul({}, {}, transpose_a=True)", ("float32", "24 33"), ("float32", "24 65"), 24 * 33 * 65),
    ("nn.matmul(nn.relu({}), {} + 1f)", ("float32", "64 64"), ("float32", "64 64"), 64 * 64 * 64),
    ("nn.batch_matmul({}, {}, transpose_b=True)", ("float32", "3 33 18"), ("float32", "3 34 18"), 3 * 33 * 34 * 18),
    ("nn.batch_matmul({}, {}, transpose_a=True, transpose_b=False)", ("float32", "?2 20 ?48"), ("float32", "?2 20 36"), 2 * 20 * 48 * 36),
    ("nn.batch_matmul({}, {}, transpose_b=False)", ("float32", "1 32 20"), ("float32", "4 20 64"), 4 * 32 * 20 * 64),
    ("nn.conv1d({}, {}, padding=[2, 1], dilation=[2])", ("float32", "2 5 19"), ("float32", "32 5 3"), 2 * 18 * 32 * 15),
    ("nn.conv2d({}, {}, padding=[1, 1])", ("float32", "1 5 9 11"), ("float32", "33 5 3 3"), 99 * 33 * 45),
    ("nn.conv2d({}, {}, padding=[1, 0, 2, 3], strides=[2, 3])", ("float32", "?2 3 13 20"), ("float32", "34 3 3 4"), 2 * 7 * 7 * 34 * 36),
    ("nn.conv2d({}, {}, padding=[2, 2], dilation=[2, 2])", ("float32", "1 4 ?9 ?10"), ("float32", "32 4 3 3"), 90 * 32 * 36),
    ("nn.conv2d({}, {}, data_layout=\"NHWC\", kernel_layout=\"HWIO\", padding=[1, 1], out_dtype=\"int32\")",
     ("uint8", "1 6 6 20"), ("int8", "3 3 20 35"), 36 * 180 * 35),
    ("nn.conv2d({}, {}, groups=2, padding=[1, 1])", ("float32", "2 6 6 7"), ("float32", "64 3 3 3"), 2 * 42 * 64 * 27),
    ("nn.conv2d({}, {})", ("float32", "1 20 8 8"), ("float32", "36 20 1 1"), 64 * 36 * 20),
    ("nn.conv3d({}, {}, padding=[1, 1, 0])", ("float32", "1 3 4 5 6"), ("float32", "32 3 2 3 2"), 5 * 5 * 5 * 32 * 36),
    ("nn.conv2d_transpose({}, {}, strides=[2, 2], padding=[1, 1])", ("float32", "1 8 6 6"), ("float32", "8 32 4 4"), 144 * 32 * 32),
]


# Likewise, with the instructions of compute capability 7.5 and 8.0 that multiply; none: each thread multiplies for itself.
F16, BF16 = ("m16n8k8.row.col.f32.f16.f16", "m16n8k16.row.col.f32.f16.f16"), (None, "m16n8k16.row.col.f32.bf16.bf16")
TENSOR_CORE_PRODUCTS = [
    ("nn.dense({}, {})", ("float16", "64 64"), ("float16", "96 64"), 64 * 96 * 64, F16),
    ("nn.dense({}, {})", ("float16", "33 17"), ("float16", "35 17"), 33 * 35 * 17, F16),
    ("nn.dense({}, {})", ("float16", "?41 ?19"), ("float16", "?37 ?19"), 41 * 37 * 19, F16),
    ("nn.dense({}, {})", ("float16", "?40 ?0"), ("float16", "33 ?0"), 0, F16),
    ("nn.dense(nn.relu({}), {})", ("float16", "40 36"), ("float16", "64 36"), 40 * 64 * 36, F16),
    ("nn.matmul({}, {})", ("float16", "70 40"), ("float16", "40 264"), 70 * 40 * 264, F16),
    ("nn.matmul({}, {}, transpose_a=True)", ("float16", "24 33"), ("float16", "24 65"), 24 * 33 * 65, F16),
    ("nn.matmul({}, {})", ("float16", "1024 16"), ("float16", "16 1024"), 1024 * 16 * 1024, F16),
    ("nn.dense({}, {})", ("float16", "?512 40"), ("float16", "1000 40"), 512 * 1000 * 40, F16),
    ("nn.dense({}, {})", ("bfloat16", "128 80"), ("bfloat16", "72 80"), 128 * 72 * 80, BF16),
    ("nn.matmul({}, {}, transpose_a=True)", ("bfloat16", "24 64"), ("bfloat16", "24 68"), 24 * 64 * 68, BF16),
    ("nn.batch_matmul({}, {}, transpose_a=True, transpose_b=False)", ("float16", "?2 20 ?48"), ("float16", "?2 20 36"), 2 * 20 * 48 * 36, F16),
    ("nn.conv2d({}, {}, padding=[1, 1])", ("float16", "1 5 9 11"), ("float16", "33 5 3 3"), 99 * 33 * 45, F16),
    ("nn.conv2d({}, {}, padding=[1, 0, 2, 3], strides=[2, 3])", ("bfloat16", "?2 3 13 20"), ("bfloat16", "34 3 3 4"), 2 * 7 * 7 * 34 * 36, BF16),
    ("nn.conv2d({}, {}, data_layout=\"NHWC\", kernel_layout=\"HWIO\", padding=[1, 1])",
     ("float16", "1 6 6 20"), ("float16", "3 3 20 35"), 36 * 180 * 35, F16),
    ("nn.conv2d({}, {}, groups=2, padding=[1, 1])", ("float16", "2 6 6 7"), ("float16", "64 3 3 3"), 2 * 42 * 64 * 27, F16),
    ("nn.dense({}, {}, out_dtype=\"int32\")", ("int8", "33 20"), ("int8", "64 20"), 33 * 64 * 20,
     ("m8n8k16.row.col.s32.s8.s8", "m16n8k32.row.col.s32.s8.s8")),
    ("nn.dense({}, {}, out_dtype=\"int32\")", ("uint8", "128 128"), ("int8", "64 128"), 128 * 64 * 128,
     ("m8n8k16.row.col.s32.u8.s8", "m16n8k32.row.col.s32.u8.s8")),
    ("nn.matmul({}, {}, out_dtype=\"int32\")", ("int8", "64 48"), ("uint8", "48 96"), 64 * 48 * 96,
     ("m8n8k16.row.col.s32.s8.u8", "m16n8k32.row.col.s32.s8.u8")),
    ("nn.conv2d({}, {}, data_layout=\"NHWC\", kernel_layout=\"HWIO\", padding=[1, 1], out_dtype=\"int32\")",
     ("uint8", "1 6 6 20"), ("uint8", "3 3 20 35"), 36 * 180 * 35, ("m8n8k16.row.col.s32.u8.u8", "m16n8k32.row.col.s32.u8.u8")),
    ("qnn.dense({}, {}, 3, -5, 1f, 1f)", ("int8", "34 40"), ("int8", "40 40"), 34 * 40 * 40, (None, None)),
    ("nn.dense({}, {})", ("float32", "64 64"), ("float32", "64 64"), 64 * 64 * 64, (None, None)),
]


def texts_of(model):
    """The texts of PTX in an executable, by compute capability."""
    with open(model, "rb") as file:
        data = file.read()
    texts = {}
    for begin in re.finditer(rb"//\n// Generated by LLVM NVPTX Back-End", data):
        text = re.match(rb"[\t\n -~]*", data[begin.start():]).group().decode()
        texts[int(re.search(r"\.target sm_(\d+)", text).group(1))] = text[:text.rindex("}") + 1] + "\n"
    return texts


class Products(OnFakeDriver):
    @staticmethod
    def source(products):
        text, arrays, random = "#[version = \"0.0.5\"]\n", [], np.random.default_rng(2)
        for i, (call, *factors) in enumerate(products):
            params, values = [], []
            for name, (dtype, shape) in zip("ab", factors[:2]):
                dims = ", ".join("?" if extent.startswith("?") else extent for extent in shape.split())
                extents = [int(extent.lstrip("?")) for extent in shape.split()]
                params.append(f"%{name}: Tensor[({dims}), {dtype}]")
                if "int" in dtype:
                    values.append(random.integers(np.iinfo(dtype).min, np.iinfo(dtype).max + 1, extents).astype(dtype))
                else:
                    values.append(random.standard_normal(extents).astype("float32" if dtype == "bfloat16" else dtype))
            result = call.format("%a", "%b")
            if "bfloat16" in str(factors[:2]):  # numpy has none
                params = [param.replace("bfloat16", "float32") for param in params]
                result = call.format('cast(%a, dtype="bfloat16")', 'cast(%b, dtype="bfloat16")')
                result = f'cast({result}, dtype="float32")'
            text += f"def @case{i}({', '.join(params)}) {{ {result} }}\n"
            arrays.append(values)
        return text, arrays

    def outcome(self, model, entry, arrays, *flags, seed=1, capability=75):
        """The result, and the elements that each launch loaded."""
        for name, array in zip("ab", arrays):
            np.save(self.path(f"{name}.npy"), array)
        done = relayvm.run(relayvm.RUNTIME, model, "--entry", entry, *flags, "--out", self.path("out.npy"),
                           *[f"@{self.path(name + '.npy')}" for name in "ab"],
                           env={**os.environ, "FAKE_CUDA_SEED": str(seed), "FAKE_CUDA_COUNT": "1",
                                "FAKE_CUDA_CAPABILITY": str(capability)})
        self.assertEqual(done.returncode, 0, done.stderr)
        return np.load(self.path("out.npy")), list(map(int, re.findall(r"`: (\d+) elements loaded", done.stderr)))

    def work(self, model, entry, arrays, capability):
        """What the threads of each launch do: elements or words that they load, and instructions."""
        for name, array in zip("ab", arrays):
            np.save(self.path(f"{name}.npy"), array)
        done = relayvm.run(relayvm.RUNTIME, model, "--entry", entry, *[f"@{self.path(name + '.npy')}" for name in "ab"],
                           "--out", self.path("out.npy"),
                           env={**os.environ, "FAKE_CUDA_COUNT": "1", "FAKE_CUDA_CAPABILITY": str(capability)})
        self.assertEqual(done.returncode, 0, done.stderr)
        return [tuple(map(int, counts)) for counts in re.findall(r"`: (\d+) elements loaded, (\d+) instructions", done.stderr)]

    def build(self, products, *flags):
        text, arrays = self.source(products)
        entries = [flag for i in range(len(products)) for flag in ("--entry", f"case{i}")]
        return self.compile(self.write("products.relay", text), "products.rvm", *entries, *flags, device="cuda"), arrays


# Of one launch each, whose rows blocks take: reductions and what reads them.
ROWS = {
    "softmax": ("nn.softmax(%x)", "(12, 40, 50)"),
    "softmax_of_any": ("nn.softmax(%x)", "(?, ?)", (40, 300), (1, 7), (33, 1), (0, 5)),
    "layer_norm": ("nn.layer_norm(%x + 1f, full(2f, shape=[96], dtype=\"float32\"), full(3f, shape=[96], dtype=\"float32\"))", "(?, 96)", (9, 96), (1, 96)),
    "log_softmax": ("nn.log_softmax(%x)", "(30, 50)"),
    "unit": ("let %z = %x * %x; %z / sqrt(sum(%z * %z, axis=[1], keepdims=True) + 1f)", "(30, 200)"),
    "long_rows": ("nn.softmax(%x)", "(2, 8191)"),
    "many_rows": ("nn.log_softmax(%x)", "(1030, 33)"),
    "masked": ("nn.softmax(%x + sum(%x, axis=[2], keepdims=True), axis=-1)", "(3, 5, 64)"),
    "largest": ("cast(argmax(%x, axis=1, keepdims=True), dtype=\"float32\") + %x", "(30, 200)"),
}

# Sectors of 32 bytes that a kernel needs to read its arguments and write its result, in the layout that they have.
LAYOUTS = {
    "transpose": ("transpose(%x)", "(700, 450)"),
    "batches": ("tanh(transpose(%x, axes=[0, 2, 1]))", "(3, 170, 145)"),
    "any": ("transpose(%x, axes=[2, 1, 0])", "(?, ?, ?)", (140, 3, 150), (1, 3, 5), (33, 1, 2), (2, 0, 3)),
    "bytes": ("transpose(%x) > 0f", "(140, 145)"),
    "channels_last": ("transpose(%x, axes=[0, 2, 3, 1])", "(2, 100, 19, 17)"),
    "vectors": ("nn.relu(%x)", "(64, 64, 64)"),
    "rows_in_vectors": ("nn.softmax(%x)", "(40, 768)"),
    "short_rows_in_vectors": ("nn.softmax(%x)", "(203, 128)"),
    "rows_of_a_sum": ("nn.log_softmax(%x * %x + %x)", "(61, 300)"),
    "reduced_vectors": ("max(%x, axis=[1])", "(40, 5000)"),
    "vectors_of_any": ("nn.gelu(%x)", "(?, ?)", (1, 262147), (513, 512), (3, 5)),
    "vectors_of_rows": ("tanh(%x + Constant([1f], (1), float32)) * %x", "(1024, 516)"),
}


@unittest.skipUnless(os.path.exists(relayvm.COMPILER), "the compiler is not built")
class Forms(Products):
    """Rows in blocks, transpositions and vectors: results of the host, however threads run, and what it takes."""

    def check_each(self, cases, check):
        text = "".join(f"def @{name}(%x: Tensor[{dims}, float32]) {{ {call} }}\n" for name, (call, dims, *_) in cases.items())
        entries = [flag for name in cases for flag in ("--entry", name)]
        model = self.compile(self.write("forms.relay", text), "forms.rvm", *entries, device="cuda", verify=False)
        random = np.random.default_rng(5)
        for name, (call, dims, *shapes) in cases.items():
            for shape in shapes or [tuple(map(int, dims.strip("()").split(", ")))]:
                x = random.standard_normal(shape).astype("float32")
                np.save(self.path("x.npy"), x)
                run = lambda *flags, **environment: relayvm.run(relayvm.RUNTIME, model, "--entry", name, *flags, "--stats", "@" + self.path("x.npy"), "--out",
                                                                self.path("out.npy"), env={**os.environ, **environment})
                self.assertEqual(run("--device", "host").returncode, 0)
                right = np.load(self.path("out.npy"))
                for seed in range(3):
                    with self.subTest(name, call=call, shape=shape, seed=seed):
                        done = run(FAKE_CUDA_SEED=str(seed), FAKE_CUDA_COUNT="1")
                        self.assertEqual(done.returncode, 0, done.stderr)
                        got = np.load(self.path("out.npy"))
                        np.testing.assert_allclose(got.astype("float64"), right.astype("float64"), rtol=1e-5, atol=1e-5)
                        check(name, x, got, done.stderr)

    def test_rows_are_one_launch(self):
        def check(name, x, got, said):
            launches = int(re.search(r"device cuda:0: (\d+) launches", said).group(1))
            self.assertEqual(launches, 1 if x.size else 0)
        self.check_each(ROWS, check)

    def test_sectors(self):
        """Neighbouring threads read and write what lies side by side."""
        def check(name, x, got, said):
            needed = (x.nbytes + got.nbytes) / 32
            sectors = sum(map(int, re.findall(r"(\d+) sectors", said)))
            slack = 1.05 if "vectors" in name else 1.4  # lines begin within sectors
            if needed > 100:
                self.assertLessEqual(sectors, slack * needed)
        self.check_each(LAYOUTS, check)

    def test_vectors(self):
        """A thread of a full grid loads and stores 16 bytes at once."""
        model = self.compile(self.write("wide.relay", "def @main(%x: Tensor[(1024, 512), float32], %b: Tensor[(512), float32]) { tanh(%x + %b) }\n"), "wide.rvm", device="cuda")
        for text in texts_of(model).values():
            self.assertEqual(len(re.findall(r"ld\.global\.v4\.f32", text)), 2)
            self.assertEqual(len(re.findall(r"st\.global\.v4\.f32", text)), 1)
            self.assertNotRegex(text, r"(ld|st)\.global\.f32")


    def test_a_recurrent_step_is_one_launch(self):
        """Blocks compute all gates of their units, and then the cell."""
        for kind, launches in ("LSTM", 1), ("GRU", 2):
            program = programs.recurrent(kind, 6, 40, 5)
            np.savez(self.path("weights.npz"), **program.weights)
            model = self.compile(self.write("step.relay", program.text), "step.rvm", device="cuda", params=[self.path("weights.npz")], verify=False)
            np.save(self.path("xs.npy"), program.runs[0][1][0])
            outcomes = []
            for flags, seed in (["--device", "host"], 0), ([], 1), ([], 2):
                done = relayvm.run(relayvm.RUNTIME, model, "@" + self.path("xs.npy"), "5", "--stats", "--out", self.path("out.npy"), *flags,
                                   env={**os.environ, "FAKE_CUDA_SEED": str(seed)})
                self.assertEqual(done.returncode, 0, done.stderr)
                outcomes.append(np.load(self.path("out.npy")))
            with self.subTest(kind):
                np.testing.assert_allclose(outcomes[1], outcomes[0], rtol=1e-5, atol=1e-6)
                np.testing.assert_array_equal(outcomes[2], outcomes[1])
                made = int(re.search(r"device cuda:0: (\d+) launches", done.stderr).group(1))
                self.assertLessEqual(made, 5 * launches + 2)


@unittest.skipUnless(os.path.exists(relayvm.COMPILER), "the compiler is not built")
class Tiles(Products):
    """Products and convolutions in tiles of shared memory."""

    def test_products(self):
        """What the host gives, whatever the order of threads; each element is loaded once for several products."""
        model, arrays = self.build(PRODUCTS)
        for i, (call, *factors, products) in enumerate(PRODUCTS):
            with self.subTest(call, factors=factors):
                right, _ = self.outcome(model, f"case{i}", arrays[i], "--device", "host")
                value, loaded = self.outcome(model, f"case{i}", arrays[i])
                tolerance = 1e-2 if "float16" in str(factors) else 1e-4
                np.testing.assert_allclose(value, right, rtol=tolerance, atol=tolerance)
                for seed in 2, 3:
                    np.testing.assert_array_equal(self.outcome(model, f"case{i}", arrays[i], seed=seed)[0], value)
                self.assertLessEqual(sum(loaded), 0.5 * products, "it is not computed in tiles")

    def test_few_rows(self):
        """Where extents are unknown, few rows or columns are left to warps."""
        products = [("nn.dense({}, {})", ("float32", shape), ("float32", "?64 40"), 0) for shape in ("?1 40", "?15 40", "?16 40")]
        products += [("nn.matmul({}, {})", ("float32", "?64 ?40"), ("float32", f"?40 ?{columns}"), 0) for columns in (3, 16)]
        model, arrays = self.build(products)
        for i, (a, b) in enumerate(arrays):
            right, _ = self.outcome(model, f"case{i}", (a, b), "--device", "host")
            value, loaded = self.outcome(model, f"case{i}", (a, b))
            rows, columns = right.shape
            with self.subTest(rows=rows, columns=columns):
                np.testing.assert_allclose(value, right, rtol=1e-4, atol=1e-4)
                in_tiles = min(rows, columns) >= 16
                self.assertEqual(sum(loaded) == 2 * 40 * right.size, not in_tiles)

    def test_planted_faults(self):
        """What goes wrong among the threads of a tile, or at an edge, shows in any order of threads."""
        products = [("nn.dense({}, {})", ("float32", "40 72"), ("float32", "64 72"), 0)]
        model, arrays = self.build(products)
        value, _ = self.outcome(model, "case0", arrays[0])
        one_block = "1:%nctaid.x=1"  # each block computes all tiles from its own on
        with unittest.mock.patch.dict(os.environ, {"FAKE_CUDA_PLANT": one_block}):
            np.testing.assert_array_equal(self.outcome(model, "case0", arrays[0])[0], value)
        plants = [(f"{one_block}|{i}:bar.sync=//", "shared memory that") for i in range(1, 5)]
        for plant, says in [*plants, ("1:min.u64=max.u64", "a load from byte")]:
            for seed in range(3):
                with self.subTest(plant, seed=seed):
                    with self.assertRaisesRegex(AssertionError, says), \
                            unittest.mock.patch.dict(os.environ, {"FAKE_CUDA_PLANT": plant}):
                        self.outcome(model, "case0", arrays[0], seed=seed)

    def test_loads(self):
        """At most so many elements are loaded from global memory for each multiply-add."""
        products = [
            ("nn.dense({}, {})", ("float32", "256 256"), ("float32", "256 256"), 1 / 16),
            ("nn.dense({}, {})", ("float32", "?192 64"), ("float32", "1024 64"), 1 / 32),
            ("nn.matmul({}, {})", ("float32", "1024 16"), ("float32", "16 1024"), 1 / 40),
            ("nn.conv2d({}, {}, padding=[1, 1])", ("float32", "1 8 32 32"), ("float32", "64 8 3 3"), 1 / 15),  # and the padded copy
        ]
        model, arrays = self.build(products)
        for i, (call, (_, a), (_, b), most) in enumerate(products):
            _, loaded = self.outcome(model, f"case{i}", arrays[i])
            extents = [int(extent.lstrip("?")) for extent in f"{a} {b}".split()]
            count = 32 * 32 * 64 * 72 if "conv" in call else np.prod(extents) // (extents[1])
            with self.subTest(call, a=a, b=b):
                self.assertLessEqual(sum(loaded) / count, most)


@unittest.skipUnless(os.path.exists(relayvm.COMPILER), "the compiler is not built")
class TensorCores(Products):
    """Products and convolutions by `mma.sync`."""

    @staticmethod
    def instructions(text):
        return set(re.findall(r"mma\.sync\.aligned\.(\S+)\.[fs]32\s", text))

    def test_products(self):
        """What the host gives, for either capability; integers are exact, and the order of threads changes no bit."""
        for case in TENSOR_CORE_PRODUCTS:
            call, *factors, products, instructions = case
            model, (arrays,) = self.build([case])
            texts = texts_of(model)
            self.assertEqual(set(texts), {75} if instructions[1] is None else {75, 80}, case)
            right, _ = self.outcome(model, "case0", arrays, "--device", "host")
            for capability, instruction in zip((75, 80), instructions):
                with self.subTest(call, factors=factors, capability=capability):
                    used = self.instructions(texts.get(capability, texts[75]))
                    self.assertEqual(used, {instruction} - {None})
                    value, loaded = self.outcome(model, "case0", arrays, capability=capability)
                    tolerance = 0 if value.dtype == "int32" else 1e-2 if "float16" in str(factors) else 1e-4
                    np.testing.assert_allclose(value, right, rtol=tolerance, atol=tolerance)
                    other, _ = self.outcome(model, "case0", arrays, seed=2, capability=capability)
                    np.testing.assert_array_equal(other, value)
                    self.assertLessEqual(sum(loaded), 0.5 * products)

    def test_tf32_if_it_is_asked_for(self):
        product = [("nn.dense({}, {})", ("float32", "64 256"), ("float32", "72 256"), 64 * 72 * 256)]
        exact, (arrays,) = self.build(product)
        right, _ = self.outcome(exact, "case0", arrays, "--device", "host")
        np.testing.assert_allclose(self.outcome(exact, "case0", arrays, capability=80)[0], right, rtol=1e-5, atol=1e-5)
        rounded, _ = self.build(product, "--target", "host,sm_80+tf32")
        self.assertEqual(self.instructions(texts_of(rounded)[80]), {"m16n8k8.row.col.f32.tf32.tf32"})
        value, _ = self.outcome(rounded, "case0", arrays, capability=80)
        np.testing.assert_allclose(value, right, rtol=2e-2, atol=2e-2)
        self.assertGreater(np.abs(value - right).max(), 1e-4)  # of 11 significant bits

    def test_targets(self):
        """Code for named capabilities, of which a device runs the latest that it can."""
        text, (arrays,) = self.source([("nn.dense({}, {})", ("float16", "64 64"), ("float16", "64 64"), 0)])
        source = self.write("product.relay", text)
        for target, capabilities in ("sm_80", {80}), ("sm_75", {75}), ("host,sm_75,sm_80", {75, 80}), ("sm_80,x86-64-v2,sm_75", {75, 80}):
            with self.subTest(target):
                self.assertEqual(set(texts_of(self.compile(source, "product.rvm", "--target", target, device="cuda"))), capabilities)
        model = self.compile(source, "product.rvm", "--target", "sm_80", device="cuda")
        for name, array in zip("ab", arrays):
            np.save(self.path(f"{name}.npy"), array)
        done = relayvm.run(relayvm.RUNTIME, model, *[f"@{self.path(name + '.npy')}" for name in "ab"])
        self.assertEqual(done.returncode, 1)
        self.assertIn("needs a device for ptx with +sm_80, and this machine has none:\n  cuda:0 (interpreter of PTX) lacks +sm_80", done.stderr)
        for target, device, says in (("sm_70", "cuda", "unknown compute capability `sm_70`; expected `sm_75`, `sm_80` or `sm_80+tf32`"),
                                     ("sm_75+tf32", "cuda", "unknown compute capability `sm_75+tf32`"),
                                     ("sm_80,sm_80+tf32", "cuda", "names `sm_80` twice"),
                                     ("host,sm_80", "opencl", "`sm_80` is for kernels on NVIDIA's GPUs; expected `--device cuda`, too")):
            with self.subTest(target):
                done = relayvm.run(relayvm.COMPILER, "compile", source, "-o", self.path("wrong.rvm"), "--device", device, "--target", target)
                self.assertEqual(done.returncode, 1)
                self.assertIn(says, done.stderr)

    def test_planted_faults(self):
        """Missing barriers show in any order of threads."""
        model, (arrays,) = self.build([("nn.dense({}, {})", ("float16", "64 128"), ("float16", "64 128"), 0)])
        one_block = "1:%nctaid.x=1"
        plants = [(f"{one_block}|{i}:bar.sync=//", "shared memory that") for i in range(1, 5)]
        for plant, says in plants:
            for seed in range(3):
                with self.subTest(plant, seed=seed):
                    with self.assertRaisesRegex(AssertionError, says), \
                            unittest.mock.patch.dict(os.environ, {"FAKE_CUDA_PLANT": plant}):
                        self.outcome(model, "case0", arrays, seed=seed, capability=80)

    def test_work(self):
        """Words loaded from global memory, and instructions of threads, are few for each multiply-add."""
        for dtype, capability, words, instructions in (("float16", 75, 1 / 32, 0.27), ("float16", 80, 1 / 32, 0.26),
                                                       ("bfloat16", 80, 1 / 32, 0.31), ("int8", 80, 1 / 64, 0.17)):
            out = ', out_dtype="int32"' if dtype == "int8" else ""
            model, (arrays,) = self.build([("nn.dense({}, {}" + out + ")", (dtype, "256 256"), (dtype, "256 256"), 0)])
            with self.subTest(dtype, capability=capability):
                work = max(self.work(model, "case0", arrays, capability))  # of the product, not of a cast
                self.assertLessEqual(work[0], words * 256 ** 3)
                self.assertLessEqual(work[1], instructions * 256 ** 3)


@unittest.skipUnless(os.path.exists(relayvm.COMPILER), "the compiler is not built")
class Faults(OnFakeDriver):
    def outcome(self, **environment):
        model = self.compile(self.write("chain.relay", device_test.CHAIN), "faults.rvm", device="cuda")
        ones = {"x": np.ones((5, 8), "float32"), "w": np.ones((8, 8), "float32")}
        for name, array in ones.items():
            np.save(self.path(f"{name}.npy"), array)
        return relayvm.run(relayvm.RUNTIME, model, "@" + self.path("x.npy"), "@" + self.path("w.npy"), env={**os.environ, **environment})

    def test_each_call_may_fail(self):
        """A clean error that names the device; the fake driver aborts if anything is left."""
        for call, says in (("alloc:0", "out of memory"), ("copy_in:1", "cuMemcpyHtoDAsync"),
                           ("copy_in:2", "cuMemcpyHtoDAsync"), ("copy_out:1", "cuMemcpyDtoHAsync"),
                           ("launch:1", "cuLaunchKernel"), ("launch:3", "cuLaunchKernel"), ("stream:1", "cuStreamCreate"),
                           ("wait:1", "cuStreamQuery"), ("run:1", "is lost"), ("run:4", "is lost"),
                           ("load:1", "does not accept the code")):
            with self.subTest(call):
                done = self.outcome(FAKE_CUDA_FAIL=call)
                self.assertEqual(done.returncode, 1, done.stderr)
                self.assertIn("cuda:0", done.stderr)
                self.assertIn(says, done.stderr)
                self.assertNotIn("misuse", done.stderr)

    def test_a_wait_of_a_large_result_may_fail(self):
        model = self.compile(self.write("large.relay", "def @main(%x: Tensor[(20000), float32]) { %x + 1f }\n"), "large.rvm", device="cuda")
        np.save(self.path("long.npy"), np.ones(20000, "float32"))
        done = relayvm.run(relayvm.RUNTIME, model, "@" + self.path("long.npy"), env={**os.environ, "FAKE_CUDA_FAIL": "finish:1"})
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r"device cuda:0 .*cuStreamSynchronize")
        self.assertNotIn("misuse", done.stderr)

    def test_without_pinned_memory(self):
        """Results are copied to other memory, in a wait of its own."""
        right = self.outcome()
        for seed in range(3):
            done = self.outcome(FAKE_CUDA_FAIL="pin:0", FAKE_CUDA_SEED=str(seed))
            self.assertEqual((done.returncode, done.stdout), (0, right.stdout), done.stderr)

    def test_a_driver_that_compiles_with_one_thread(self):
        done = self.outcome(FAKE_CUDA_FAIL="split_compile:0")
        self.assertEqual((done.returncode, done.stdout), (0, self.outcome().stdout), done.stderr)

    def test_memory_is_asked_for_again(self):
        """After the pool has given back what it kept."""
        done = self.outcome(FAKE_CUDA_FAIL="alloc:2")
        self.assertEqual(done.returncode, 0, done.stderr)

    def python(self, *lines, **environment):
        """What a program says that uses the Python package on this driver."""
        for name, target in ("RELAYVM_LIBRARY", "//capi:librelayvm.so.1"), ("RELAYVM_COMPILER_LIBRARY", "//capi/compiler:librelayvm_compiler.so.1"):
            environment[name] = relayvm.built(target)
        environment["PYTHONPATH"] = ":".join(os.path.join(relayvm.ROOT, "python", folder) for folder in ("runtime", "compiler"))
        head = ["import numpy, pickle, relayvm", "x = numpy.ones((5, 8), 'float32')",
                f"text = {device_test.CHAIN!r}"]
        return relayvm.must(sys.executable, "-c", "\n".join([*head, *lines]), env={**os.environ, **environment})

    def test_python_chooses_devices(self):
        """By kind and number; results are those of the host; a device that is not here is an error or the host's work."""
        said = self.python(
            "program = relayvm.compile(text, entries=['main'], device='cuda')",
            "host = relayvm.load(program.tobytes(), allow_native=True, device='host')",
            "for name in 'cuda', 'cuda:0', 'gpu', 'gpu:0', None:",
            "    loaded = relayvm.load(program.tobytes(), allow_native=True, device=name)",
            "    session = loaded.session(profile=True)",
            "    numpy.testing.assert_allclose(session(x, x[:1].repeat(8, 0)), host(x, x[:1].repeat(8, 0)), 1e-5)",
            "    print(name, [d['device'] for d in session.profile.data()['devices']])",
            "print(host.session(profile=True).profile.data()['devices'])",
            "try: relayvm.load(program.tobytes(), allow_native=True, device='cuda:7')",
            "except relayvm.UnsupportedFile as error: print(error.message.splitlines()[0])",
            "away = relayvm.load(program.tobytes(), allow_native=True, device='cuda:7', host_fallback=True)",
            "print(away.session(profile=True).profile.data()['devices'])",
            "print(pickle.loads(pickle.dumps(host)).session(profile=True).profile.data()['devices'])",
            "try: relayvm.compile(text, device='tpu')",
            "except relayvm.CompileError as error: print(error.message)")
        self.assertEqual(said.splitlines()[:8],
                         [f"{name} ['cuda:0']" for name in ("cuda", "cuda:0", "gpu", "gpu:0", None)]
                         + ["[]", "no device `cuda:7`; this machine has " + said.splitlines()[6].partition("has ")[2], "[]"])
        self.assertIn("`cuda:0`", said.splitlines()[6])
        self.assertEqual(said.splitlines()[8], "[]")
        self.assertIn("saw the device `tpu`", said)

    def test_python_tells_failures_of_the_device(self):
        """The fault of a kernel shows when the result is read; a launch that fails at its line of the program."""
        for call, backtrace in ("run:2", "  in `main` at "), ("launch:2", "  in `main` at <text>:5:"):
            said = self.python(
                "program = relayvm.compile(text, entries=['main', 'count'], device='cuda')",
                "try: program(x, x[:1].repeat(8, 0))",
                "except relayvm.DeviceFailed as error: print(error.code, error.message, error.backtrace, sep='\\n')",
                "print(program['count'](3))", FAKE_CUDA_FAIL=call)
            with self.subTest(call):
                self.assertEqual(said.splitlines()[0], "device-failed")
                self.assertIn("device cuda:0", said)
                self.assertIn(backtrace, said)
                self.assertEqual(said.splitlines()[-1], "3")

    def test_without_a_driver(self):
        with unittest.mock.patch.dict(os.environ):
            del os.environ["LD_LIBRARY_PATH"]
            if re.search("(?m)^cuda:", relayvm.must(relayvm.COMPILER, "devices")):
                self.skipTest("this machine has an NVIDIA GPU")
            done = self.outcome()
            self.assertIn("the executable needs a device for ptx with +sm_75, and this machine has none", done.stderr)
            self.assertIn("cuda: NVIDIA's driver is not installed", done.stderr)
            model = self.compile(self.write("chain.relay", device_test.CHAIN), "host.rvm", "--host-fallback", device="cuda")
            self.assertEqual(relayvm.execute(model, "[0, 0, 0, 0, 0, 0, 0, 0]", entry="sorted").strip(),
                             "[1f, 1f, 1f, 1f, 1f, 1f, 1f, 1f]")


LOOPS = """#[version = "0.0.5"]
def @step(%h: Tensor[(1, 8), float32], %w: Tensor[(8, 8), float32]) {
  let %a = nn.softmax(nn.dense(%h, %w));
  nn.softmax(tanh(nn.dense(%a + %h, %w)))
}
def @decode(%h: Tensor[(1, 8), float32], %w: Tensor[(8, 8), float32], %i: int32, %sum: float32) -> float32 {
  if (%i == 0) { %sum } else {
    let %next = @step(%h + cast(%i, dtype="float32"), %w);
    @decode(%next, %w, %i - 1, %sum + max(%next))
  }
}
def @main(%x: Tensor[(1, 8), float32], %w: Tensor[(8, 8), float32], %n: int32) { @decode(%x, %w, %n, 0f) }
def @endless(%h: Tensor[(1, 8), float32], %w: Tensor[(8, 8), float32]) -> Tensor[(1, 8), float32] { @endless(@step(%h, %w), %w) }
def @ends(%x: Tensor[(1, 8), float32], %w: Tensor[(8, 8), float32]) { @endless(%x, %w) }
def @sizes(%x: Tensor[(?,), float32]) {
  let %a = annotation.stop_fusion(%x + 1f);
  let %b = annotation.stop_fusion(%a * 3f);
  let %c = annotation.stop_fusion(%b - 2f);
  let %d = annotation.stop_fusion(%c / 2f);
  let %e = annotation.stop_fusion(concatenate((%d, %d), axis=0));
  let %f = annotation.stop_fusion(concatenate((%e, %e), axis=0));
  let %g = annotation.stop_fusion(concatenate((%f, %f), axis=0));
  sum(%g)
}
"""


@unittest.skipUnless(os.path.exists(relayvm.COMPILER), "the compiler is not built")
class Graphs(OnFakeDriver):
    """Launches that come again go to the driver as graphs."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        random = np.random.default_rng(8)
        for name, shape in ("x", (1, 8)), ("w", (8, 8)), ("long", (3000,)):
            np.save(cls.path(f"{name}.npy"), random.standard_normal(shape).astype("float32"))
        with open(cls.path("loops.relay"), "w", encoding="utf-8") as file:
            file.write(LOOPS)
        entries = [flag for entry in ("main", "ends", "sizes") for flag in ("--entry", entry)]
        cls.model = relayvm.compile_file(cls.path("loops.relay"), cls.path("loops.rvm"), extra=["--device", "cuda", *entries])

    def run_model(self, model, *arguments, **environment):
        return relayvm.run(relayvm.RUNTIME, model, *arguments, "--stats", env={**os.environ, **environment})

    def decode(self, n=12, **environment):
        return self.run_model(self.model, "@" + self.path("x.npy"), "@" + self.path("w.npy"), str(n), **environment)

    def uses(self, done):
        """Launches, and how many of them in how many graphs."""
        self.assertEqual(done.returncode, 0, done.stderr)
        found = re.search(r"device cuda:0: (\d+) launches(?: \((\d+) in (\d+) graphs\))?, ", done.stderr)
        return tuple(int(number or 0) for number in found.groups())

    def test_a_network_that_runs_again(self):
        """All that it launches is in graphs from the fourth run on at the latest; results are those without graphs."""
        for kind in "LSTM", "GRU":
            program = programs.recurrent(kind, 6, 8, 9)
            np.savez(self.path("weights.npz"), **program.weights)
            model = self.compile(self.write("network.relay", program.text), "network.rvm", device="cuda", params=[self.path("weights.npz")])
            np.save(self.path("tokens.npy"), program.runs[0][1][0])
            arguments = ["@" + self.path("tokens.npy"), program.runs[0][1][1], "--repeat"]
            plain = self.run_model(model, *arguments, "8", RELAYVM_CUDA_GRAPHS="off")
            launches, in_graphs, graphs = self.uses(plain)
            self.assertEqual((launches % 8, in_graphs, graphs), (0, 0, 0))
            for seed in range(4):
                with self.subTest(kind, seed=seed):
                    done = self.run_model(model, *arguments, "8", FAKE_CUDA_SEED=str(seed))
                    self.assertEqual(done.stdout, plain.stdout)
                    all_launches, in_graphs, graphs = self.uses(done)
                    self.assertEqual(all_launches, launches)
                    self.assertGreaterEqual(in_graphs, launches * 5 // 8 - 5 * 3)  # less than 4 at an end may be left
                    self.assertLessEqual(graphs, in_graphs // 4)

    def test_sequences_of_different_lengths(self):
        """Each comes once; results are those without graphs."""
        program = programs.recurrent("LSTM", 6, 8, 23)
        np.savez(self.path("weights.npz"), **program.weights)
        text = program.text + """def @all(%lengths: List[int32], %xs: Tensor[(23, 6), float32]) -> List[Tensor[(1, 8), float32]] {
  match (%lengths) {
    Nil => Nil,
    Cons(%n, %more) => {
      let %h = @main(%xs, %n);
      if (sum(%h) < 1000f) { Cons(%h, @all(%more, %xs)) } else { Nil }
    }
  }
}
"""
        model = self.compile(self.write("lengths.relay", text), "lengths.rvm", "--entry", "all", device="cuda", params=[self.path("weights.npz")])
        np.save(self.path("tokens.npy"), program.runs[0][1][0])
        lengths = list(range(8, 24))
        for seed in range(3):
            np.random.default_rng(seed).shuffle(lengths)
            arguments = ["--entry", "all", "".join(f"Cons({n}, " for n in lengths) + "Nil" + ")" * len(lengths), "@" + self.path("tokens.npy")]
            plain = self.run_model(model, *arguments, RELAYVM_CUDA_GRAPHS="off")
            done = self.run_model(model, *arguments, FAKE_CUDA_SEED=str(seed))
            self.assertEqual(done.stdout, plain.stdout)
            launches, in_graphs, graphs = self.uses(done)
            self.assertEqual(launches, self.uses(plain)[0])
            self.assertGreaterEqual(in_graphs, launches * 8 // 10)
            self.assertLessEqual(graphs, in_graphs // 4)

    def test_a_loop_with_decisions_of_the_host(self):
        """Each turn ends with a wait, and only one of its launches differs from the turn before."""
        right = self.decode(RELAYVM_CUDA_GRAPHS="off").stdout
        for seed in range(4):
            done = self.decode(FAKE_CUDA_SEED=str(seed))
            self.assertEqual(done.stdout, right)
            launches, in_graphs, graphs = self.uses(done)
            self.assertGreaterEqual(in_graphs, launches // 2)
            self.assertLessEqual(graphs, in_graphs // 4)

    def test_profiles_do_without(self):
        done = relayvm.run(relayvm.COMPILER, "profile", self.model, "@" + self.path("x.npy"), "@" + self.path("w.npy"), "12")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"on cuda:0")

    def test_each_call_may_fail(self):
        """Without graphs the program goes on; what fails for good is an error. Nothing is left either way."""
        right = self.decode().stdout
        for call in "graph_create:1", "graph_node:3", "graph_instantiate:1", "graph_set:1", "graph_set:3", "graph_launch:1", "graph_launch:2":
            for error, says in ("2", None), ("719", "is lost"):
                with self.subTest(call, error=error):
                    done = self.decode(FAKE_CUDA_FAIL=call, FAKE_CUDA_ERROR=error)
                    self.assertNotIn("misuse", done.stderr)
                    if says is None:
                        self.assertEqual(done.stdout, right)
                        self.assertLess(self.uses(done)[2], 3)
                    else:
                        self.assertEqual(done.returncode, 1)
                        self.assertRegex(done.stderr, rf"device cuda:0 \(interpreter of PTX\) {says}: cuGraph(?s:.*)in `decode`")
        done = self.decode(FAKE_CUDA_FAIL="graph_launch:2")
        self.assertRegex(done.stderr, r"device cuda:0 \(interpreter of PTX\): cuGraphLaunch")

    def test_faults_of_kernels_in_graphs(self):
        launches = self.uses(self.decode())[0]
        for number in range(launches // 2, launches, 3):
            with self.subTest(number):
                done = self.decode(FAKE_CUDA_FAIL=f"run:{number}")
                self.assertEqual(done.returncode, 1, done.stderr)
                self.assertIn("is lost", done.stderr)
                self.assertNotIn("misuse", done.stderr)

    def test_memory_goes_after_what_uses_it(self):
        """Under a limit, free memory is given back while launches that use it are kept back."""
        arguments = ["--entry", "sizes", "@" + self.path("long.npy"), "--repeat", "6"]
        plain = self.run_model(self.model, *arguments, RELAYVM_CUDA_GRAPHS="off")
        peak = int(re.search(r"at most (\d+) bytes(?:;.*)?\ncells", plain.stderr).group(1))
        self.assertGreater(self.uses(self.run_model(self.model, *arguments))[1], 0)
        smallest = None
        for limit in range(peak, 0, -peak // 24):
            done = self.run_model(self.model, *arguments, "--memory-limit", str(limit))
            self.assertNotIn("misuse", done.stderr)
            self.assertNotIn("a fault", done.stderr)
            if done.returncode == 0:
                self.assertEqual(done.stdout, plain.stdout)
                smallest = limit
        self.assertLess(smallest, peak)

    def test_the_time_limit(self):
        """It ends a run of graphs."""
        done = self.run_model(self.model, "--entry", "ends", "@" + self.path("x.npy"), "@" + self.path("w.npy"), "--time-limit", "300")
        self.assertEqual(done.returncode, 1)
        self.assertIn("--time-limit", done.stderr)
        self.assertNotIn("misuse", done.stderr)


class SharedFunctions(OnFakeDriver):
    """Launches that do the same with other tensors run one function."""

    def functions(self, program, *flags, run=True):
        """How many functions the code of the program has. Its results are those of the host."""
        self.assertIn(program.dtype, ("float32", "bfloat16"))
        weights = self.path("weights.safetensors" if program.dtype == "bfloat16" else "weights.npz")
        programs.write_safetensors(weights, program.weights) if program.dtype == "bfloat16" else np.savez(weights, **program.weights)
        model = self.compile(self.write("shared.relay", program.text), "shared.rvm", *flags, device="cuda", params=[weights])
        for number, (_, arguments) in enumerate(program.runs if run else []):
            np.save(self.path(f"x{number}.npy"), arguments[0])
            results = []
            for device in "cuda", "host":
                relayvm.must(relayvm.RUNTIME, model, "--device", device, "--out", self.path("y.npy"), "@" + self.path(f"x{number}.npy"))
                results.append(np.load(self.path("y.npy")))
            np.testing.assert_allclose(*results, rtol=0, atol=3e-2 if program.dtype == "bfloat16" else 1e-5)
        return {capability: text.count(".entry") for capability, text in texts_of(model).items()}, os.path.getsize(model)

    def test_layers_of_a_network(self):
        """However the layers are divided among kernels, and wherever their tensors lie: a layer has about ten launches; where
        kernels begin and end a few are others."""
        with unittest.mock.patch.dict(os.environ, {"FAKE_CUDA_CAPABILITY": "90"}):
            for dtype, flags in ("float32", []), ("bfloat16", LATER):
                for length in 8, None:
                    with self.subTest(dtype, length=length):
                        make = lambda layers: programs.bert(layers, 32, 2, (8,) if length else (8, 11), dtype, length)  # pylint: disable=cell-var-from-loop
                        found, size = self.functions(make(relayvm.long_or(6, 3)), *flags)
                        self.assertLessEqual(max(found.values()), 28, found)
                        more, larger = self.functions(make(relayvm.long_or(12, 6)), *flags, run=False)
                        self.assertEqual(more.keys(), found.keys())
                        self.assertLessEqual(max(more.values()), 28, more)
                        self.assertLess(larger, 2 * size)

    def test_extents_that_nothing_reads(self):
        """An extent that only divides the work is an argument, also within a broadcast one."""
        text = """#[version = "0.0.5"]
def @main(%a: Tensor[(?), int32], %b: Tensor[(?), int32]) { where(False, %a, %b) }
def @other(%a: Tensor[(?, ?), int32], %b: Tensor[(?, ?), int32]) { where(True, %a, %b) }
"""
        model = self.compile(self.write("extents.relay", text), "extents.rvm", "--entry", "main", "--entry", "other", device="cuda")
        for entry, a, b, expected in (("main", "[7, 8]", "[4, 5]", "[4, 5]"), ("main", "[7, 8]", "[4]", "[4, 4]"), ("main", "[7]", "[4, 5, 6]", "[4, 5, 6]"),
                                      ("other", "[[7], [8]]", "[[4, 5]]", "[[7, 7], [8, 8]]")):
            self.assertEqual(relayvm.must(relayvm.RUNTIME, model, "--entry", entry, "--device", "cuda", a, b).strip(), expected)

    def test_what_differs(self):
        """Launches that compute something else, of other extents, of scalars or tensors, have functions of their own."""
        body = "".join(f"  let %y{i} = annotation.stop_fusion({call});\n" for i, call in enumerate([
            "%x + %x", "%x + 1f", "%x + %s", "%s + %x", "%x * %s", "take(%x, 0, axis=0) + %s", "%x - %x", "%x - copy(%x)", "%x - %z", "%z - %x", "%x + 2f", "%x + 1f"]))
        text = f"#[version = \"0.0.5\"]\ndef @main(%x: Tensor[(4, 5), float32], %z: Tensor[(4, 5), float32], %s: float32) {{\n{body}  ({', '.join(f'%y{i}' for i in range(12))})\n}}\n"
        model = self.compile(self.write("differs.relay", text), "differs.rvm", "--without-pass", "eliminate_common_subexpressions", device="cuda")
        arguments = "[" + ", ".join(f"[{i}f, 1f, 2f, 3f, 4f]" for i in range(4)) + "]", "[" + "[9f, 8f, 7f, 6f, 5f], " * 3 + "[1f, 1f, 2f, 2f, 3f]]", "0.5f"
        results = [relayvm.must(relayvm.RUNTIME, model, "--device", device, *arguments) for device in ("cuda", "host")]
        self.assertEqual(*results)
        # x + x, x + 1, x + s, s + x, x * s, a row, x - x, x - z, x + 2
        self.assertEqual(texts_of(model)[75].count(".entry"), 9)

    def test_marks_are_no_launches(self):
        model = self.compile(self.write("launches.relay", programs.launches(7).text), "launches.rvm", device="cuda")
        done = relayvm.run(relayvm.RUNTIME, model, "[2f]", "--stats")
        self.assertEqual(done.stdout.strip(), "[9f]")
        self.assertIn("device cuda:0: 7 launches", done.stderr)
        self.assertEqual(texts_of(model)[75].count(".entry"), 1)


# Calls of @a and @b, then @c and @d if there are; the matrices; what numpy gives.
LIBRARY_PRODUCTS = [
    *((f"nn.matmul(%a, %b, transpose_a={left}, transpose_b={right})", {"a": (45, 37) if left else (37, 45), "b": (51, 45) if right else (45, 51)},
       (lambda left, right: lambda a, b: (a.T if left else a) @ (b.T if right else b))(left, right))
      for left in (False, True) for right in (False, True)),
    *((f"nn.batch_matmul(%a, %b, transpose_a={left}, transpose_b={right})", {"a": (3, 35, 33) if left else (3, 33, 35), "b": (3, 34, 35) if right else (3, 35, 34)},
       (lambda left, right: lambda a, b: (a.swapaxes(1, 2) if left else a) @ (b.swapaxes(1, 2) if right else b))(left, right))
      for left in (False, True) for right in (False, True)),
    ("nn.batch_matmul(%a, %b, transpose_b=False)", {"a": (1, 33, 35), "b": (4, 35, 34)}, lambda a, b: a @ b),
    ("nn.batch_matmul(%a, %b, transpose_b=False)", {"a": (4, 33, 35), "b": (1, 35, 34)}, lambda a, b: a @ b),
    ("nn.bias_add(nn.dense(%a, %b), %c)", {"a": (40, 70), "b": (33, 70), "c": (33,)}, lambda a, b, c: a @ b.T + c),
    ("%d + (nn.dense(%a, %b) * 0.5f + %c)", {"a": (40, 70), "b": (33, 70), "c": (33,), "d": (40, 33)}, lambda a, b, c, d: a @ b.T / 2 + c + d),
    ("(nn.dense(%a, %b) + %c) + %d", {"a": (40, 70), "b": (33, 70), "c": (40, 33), "d": (33,)}, lambda a, b, c, d: a @ b.T + c + d),
    ("nn.dense(%a, %b) / 8f", {"a": (5, 40, 70), "b": (33, 70)}, lambda a, b: a @ b.T / 8),
    ("transpose(nn.batch_matmul(%a, %b, transpose_b=False) * 2f, axes=[1, 0, 2])", {"a": (3, 33, 35), "b": (3, 35, 34)}, lambda a, b: (a @ b).swapaxes(0, 1) * 2),
    ("transpose(nn.batch_matmul(%a, %b, transpose_b=True), axes=[0, 2, 1])", {"a": (3, 33, 35), "b": (3, 34, 35)}, lambda a, b: b @ a.swapaxes(1, 2)),
    ("nn.batch_matmul(transpose(%a, axes=[1, 0, 2]), transpose(%b, axes=[1, 0, 2]))", {"a": (33, 3, 35), "b": (35, 3, 34)},
     lambda a, b: np.einsum("nhk,khm->hnm", a, b)),
    ("nn.conv2d(%a, %b, kernel_size=[1, 1], channels=34)", {"a": (2, 35, 6, 7), "b": (34, 35, 1, 1)}, lambda a, b: np.einsum("ncyx,oc->noyx", a, b[:, :, 0, 0])),
    ("nn.conv2d(%a, %b, kernel_size=[1, 1], channels=34, data_layout=\"NHWC\", kernel_layout=\"HWIO\")", {"a": (2, 6, 7, 35), "b": (1, 1, 35, 34)},
     lambda a, b: np.einsum("nyxc,co->nyxo", a, b[0, 0])),
]

# Those that keep their own functions: for what is done with the sums, the types, or what the library lacks.
OWN_PRODUCTS = [
    ("tanh(nn.dense(%a, %b))", "float32", {"a": (40, 70), "b": (33, 70)}, lambda a, b: np.tanh(a @ b.T)),
    ("(nn.dense(%a, %b) + %c) * 2f", "float32", {"a": (40, 70), "b": (33, 70), "c": (33,)}, lambda a, b, c: (a @ b.T + c) * 2),
    ("nn.dense(%a, %b) / 0f", "float32", {"a": (40, 70), "b": (33, 70)}, lambda a, b: np.copysign(np.inf, a @ b.T)),
    ("nn.dense(%a, %b) * 0f", "float32", {"a": (40, 70), "b": (33, 70)}, lambda a, b: a @ b.T * 0),
    ("nn.dense(%a, %b) * %c", "float32", {"a": (40, 70), "b": (33, 70), "c": (33,)}, lambda a, b, c: (a @ b.T) * c),
    ("nn.dense(%a, %b) + %c + %d", "float32", {"a": (40, 70), "b": (33, 70), "c": (33,), "d": (33,)}, lambda a, b, c, d: a @ b.T + c + d),
    ("nn.dense(%a, %b) + %c", "float32", {"a": (40, 70), "b": (33, 70), "c": (40, 1)}, lambda a, b, c: a @ b.T + c),
    ("nn.dense(%a, %b) + %c", "float64", {"a": (40, 70), "b": (33, 70), "c": (33,)}, lambda a, b, c: a @ b.T + c),
    ("nn.dense(%a, %b)", "int32", {"a": (40, 70), "b": (33, 70)}, lambda a, b: a @ b.T),
    ("cast(cast(nn.dense(%a, %b), dtype=\"float16\"), dtype=\"float32\")", "float32", {"a": (40, 70), "b": (33, 70)},
     lambda a, b: (a @ b.T).astype("float16").astype("float32")),
]


@unittest.skipUnless(os.path.exists(relayvm.COMPILER), "the compiler is not built")
class LibraryProducts(OnFakeDriver):
    """Products of matrices by a library with the functions of cuBLASLt, strictly checked."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.enterClassContext(unittest.mock.patch.dict(os.environ, {"RELAYVM_CUBLASLT": "always"}))
        cls.random = np.random.default_rng(12)

    def build(self, cases, *flags):
        """Of (call, dtype, shapes) in a file: one entry each, of known and of unknown extents."""
        text = "#[version = \"0.0.5\"]\n"
        for i, (call, dtype, shapes) in enumerate(cases):
            for kind in "known", "unknown":
                dims = {name: ["?" if kind == "unknown" and "conv" not in call else str(extent) for extent in shape] for name, shape in shapes.items()}
                params = [f"%{name}: Tensor[({', '.join(extents)}), {dtype}]" for name, extents in dims.items()]
                if dtype != "float32":
                    call = re.sub(r"(\d)f\b", r"\1f" + dtype.removeprefix("float"), call)
                text += f"def @{kind}{i}({', '.join(params)}) {{ {call} }}\n"
        entries = [flag for i in range(len(cases)) for kind in ("known", "unknown") for flag in ("--entry", f"{kind}{i}")]
        return self.compile(self.write("library.relay", text), "library.rvm", *entries, *flags, device="cuda", verify=False)

    def arrays(self, dtype, shapes):
        if dtype.startswith("int"):
            return [self.random.integers(-9, 9, shape).astype(dtype) for shape in shapes.values()]
        return [self.random.standard_normal(shape).astype(dtype) for shape in shapes.values()]

    def outcome(self, model, entry, arrays, *flags, **environment):
        names = []
        for i, array in enumerate(arrays):
            np.save(self.path(f"{i}.npy"), array)
            names.append("@" + self.path(f"{i}.npy"))
        done = relayvm.run(relayvm.RUNTIME, model, "--entry", entry, *flags, "--stats", "--out", self.path("out.npy"), *names, env={**os.environ, **environment})
        self.assertNotIn("misuse", done.stderr)
        return done

    def result(self, model, entry, arrays, *flags, is_on_device=True, **environment):
        """It, and how many launches and products there were."""
        done = self.outcome(model, entry, arrays, *flags, **environment)
        self.assertEqual(done.returncode, 0, done.stderr)
        if not is_on_device:
            return np.load(self.path("out.npy")), 0, 0
        launches, products = re.search(r"device cuda:0: (\d+) launches(?: \(.*?\))?(?:, (\d+) products? by its library(?: \(.*?\))?)?, ", done.stderr).groups()
        return np.load(self.path("out.npy")), int(launches), int(products or 0)

    def check(self, got, right, dtype):
        bits = {"float64": 52, "float32": 23, "float16": 10}.get(dtype, 52)
        np.testing.assert_allclose(got, right, rtol=0, atol=2.0 ** -bits * 8 * np.abs(right).max(initial=1))

    def test_products(self):
        """Of all transpositions, batches, biases and types; the file says so of known and unknown extents."""
        for first, dtype in enumerate(("float32", "float64", "float16")):
            chosen = LIBRARY_PRODUCTS if dtype == "float32" else LIBRARY_PRODUCTS[relayvm.long_or(0, first)::relayvm.long_or(1, 3)]
            cases = [(call, dtype, shapes) for call, shapes, _ in chosen]
            model = self.build(cases)
            for i, (call, shapes, right) in enumerate(chosen):
                arrays = self.arrays(dtype, shapes)
                for kind in "known", "unknown":
                    with self.subTest(call, dtype=dtype, kind=kind):
                        got, launches, products = self.result(model, f"{kind}{i}", arrays, FAKE_CUDA_SEED=str(i))
                        self.check(got, right(*(array.astype("float64") for array in arrays)), dtype)
                        if kind == "unknown" and "%c" in call:
                            continue  # whether it is a bias is not known: it has a launch of its own, or the product has
                        # The library has no biases of float64.
                        self.assertEqual((launches, products), (1, 0) if dtype == "float64" and "c" in shapes and (33,) in shapes.values() else (0, 1))

    def test_transformers(self):
        """A layer: queries, keys and values are one product, and transpositions are strides of products."""
        for known, make in (("one length", lambda **how: programs.bert(1, 64, 2, [32], length=32, **how)), ("any length", lambda **how: programs.bert(1, 64, 2, [20, 33], **how))):
            for dtype, target, tolerance in ("float32", "sm_75", 1e-6), ("float32", "sm_80+tf32", 1e-3), ("bfloat16", "sm_80", 3e-2):
                program = make(dtype=dtype, weights=programs.RepeatedWeights(dtype))
                weights = self.path("weights" + (".npz" if dtype == "float32" else ".safetensors"))
                (programs.write_safetensors if dtype == "bfloat16" else lambda path, arrays: np.savez(path, **arrays))(weights, program.weights)
                model = self.compile(self.write("bert.relay", program.text), "bert.rvm", "--params", weights, "--target", "host," + target, device="cuda", verify=False)
                for label, arguments in program.runs:
                    with self.subTest(known, dtype=dtype, target=target, length=label):
                        right = self.result(model, "main", arguments, "--device", "host", is_on_device=False)[0]
                        casts = 1 if dtype == "bfloat16" else 0
                        # The product before the GELU goes to the library where that is faster, and its size is not known to be too small.
                        products = 6 if known == "any length" and target != "sm_75" else 5
                        for wanted, work in ("off", (9 + casts, 0)), ("always", (4 + casts, products)):
                            got, *seen = self.result(model, "main", arguments, RELAYVM_CUBLASLT=wanted, FAKE_CUDA_CAPABILITY="90")
                            np.testing.assert_allclose(got, right, rtol=0, atol=tolerance * np.abs(right).max())
                            self.assertEqual(tuple(seen), work)

    def test_bfloat16(self):
        text = """def @main(%a: Tensor[(40, 48), float32], %b: Tensor[(33, 48), float32]) {
  cast(nn.dense(cast(%a, dtype="bfloat16"), cast(%b, dtype="bfloat16"), out_dtype="bfloat16"), dtype="float32")
}
"""
        model = self.compile(self.write("b.relay", text), "b.rvm", device="host:cast,cuda", verify=False)
        a, b = ((self.random.integers(-8, 8, shape) / 8).astype("float32") for shape in ((40, 48), (33, 48)))
        got, _, products = self.result(model, "main", [a, b])
        right = (a.astype("float64") @ b.T.astype("float64"))
        self.assertEqual(products, 1)
        np.testing.assert_allclose(got, right, rtol=2.0 ** -8, atol=1e-6)

    def test_tf32_only_if_asked(self):
        shapes = {"a": (64, 64), "b": (64, 64)}
        arrays = self.arrays("float32", shapes)
        right = arrays[0].astype("float64") @ arrays[1].T.astype("float64")
        errors = []
        for target in "sm_80", "sm_80+tf32":
            model = self.build([("nn.dense(%a, %b)", "float32", shapes)], "--target", target)
            got, launches, products = self.result(model, "known0", arrays, FAKE_CUDA_CAPABILITY="80")
            self.assertEqual((launches, products), (0, 1))
            errors.append(np.abs(got - right).max())
            model = self.build([("nn.dense(%a, %b)", "float16", shapes)], "--target", target)
            got, launches, products = self.result(model, "known0", self.arrays("float16", shapes), FAKE_CUDA_CAPABILITY="80")
            self.assertEqual((launches, products), (0, 1))
        self.assertLess(errors[0], 1e-5)
        self.assertGreater(errors[1], 1e-4)
        self.assertLess(errors[1], 0.1)

    def test_what_keeps_its_own_functions(self):
        model = self.build([(call, dtype, shapes) for call, dtype, shapes, _ in OWN_PRODUCTS])
        for i, (call, dtype, shapes, right) in enumerate(OWN_PRODUCTS):
            arrays = self.arrays(dtype, shapes)
            with self.subTest(call, dtype=dtype):
                got, launches, products = self.result(model, f"known{i}", arrays)
                self.assertEqual((launches, products), (1, 0))
                np.testing.assert_allclose(got, right(*(array.astype("float64") for array in arrays)), rtol=1e-3 if "float16" in call else 0, atol=1e-4)

    def test_tails(self):
        """The library multiplies, and a launch finishes in place; without the library the product's own function does both."""
        shapes = {"a": (40, 70), "b": (33, 70), "d": (40, 33)}
        sigmoid = lambda x: 1 / (1 + np.exp(-x))
        cases = [("nn.relu(nn.dense(%a, %b))", "ab", lambda y, d: np.maximum(y, 0)),
                 ("tanh(nn.dense(%a, %b) * 0.5f + %d)", "abd", lambda y, d: np.tanh(y / 2 + d)),
                 ("nn.dense(%a, %b) * %d", "abd", lambda y, d: y * d),
                 ("sigmoid(nn.dense(%a, %b)) * nn.dense(%a, %b)", "ab", lambda y, d: sigmoid(y) * y),
                 ("exp(nn.dense(%a, %b) - 3f) + %d", "abd", lambda y, d: np.exp(y - 3) + d)]
        for dtype, target in ("float16", "sm_75"), ("float32", "sm_80+tf32"), ("float32", "sm_80"):
            text = "#[version = \"0.0.5\"]\n"
            for i, (call, names, _) in enumerate(cases):
                call = re.sub(r"(\d)f\b", r"\1f16", call) if dtype == "float16" else call
                for kind, rows, own in ("known", "40", ""), ("unknown", "n", "[n: ShapeVar]"):
                    dims = {"a": f"{rows}, 70", "b": "33, 70", "d": f"{rows}, 33"}
                    text += f"def @{kind}{i}{own}({', '.join(f'%{name}: Tensor[({dims[name]}), {dtype}]' for name in names)}) {{ {call} }}\n"
            entries = [flag for i in range(len(cases)) for kind in ("known", "unknown") for flag in ("--entry", f"{kind}{i}")]
            model = self.compile(self.write("tails.relay", text), "tails.rvm", *entries, "--target", target, device="cuda", verify=False)
            for i, (call, names, right) in enumerate(cases):
                arrays = self.arrays(dtype, {name: shapes[name] for name in names})
                arrays[0] = (arrays[0] / 8).astype(dtype)
                values = {name: array.astype("float64") for name, array in zip(names, arrays)}
                for kind, wanted, products in ("known", "always", 0), ("unknown", "always", int(target != "sm_80")), ("unknown", "off", 0):
                    with self.subTest(call, dtype=dtype, target=target, kind=kind, wanted=wanted):
                        got, *work = self.result(model, f"{kind}{i}", arrays, RELAYVM_CUBLASLT=wanted, FAKE_CUDA_CAPABILITY="90")
                        np.testing.assert_allclose(got, right(values["a"] @ values["b"].T, values.get("d")), rtol=0.01, atol=0.02)
                        self.assertEqual(tuple(work), (1, products))

    def test_small_products_keep_them_too(self):
        shapes = {"a": (40, 70), "b": (33, 70)}
        model = self.build([("nn.dense(%a, %b)", "float32", shapes)])
        arrays = self.arrays("float32", shapes)
        for wanted in "", "off":
            self.assertEqual(self.result(model, "known0", arrays, RELAYVM_CUBLASLT=wanted)[1:], (1, 0))
        large = {"a": (256, 512), "b": (512, 512)}  # 2^26 multiplications
        arrays = self.arrays("float32", large)
        got, launches, products = self.result(model, "unknown0", arrays, RELAYVM_CUBLASLT="")
        self.assertEqual((launches, products), (0, 1))
        self.check(got, arrays[0].astype("float64") @ arrays[1].T, "float32")

    def test_the_library_is_named(self):
        """Or why there is none; a program that asks for no product names none."""
        shapes = {"a": (40, 70), "b": (33, 70)}
        model = self.build([("nn.dense(%a, %b)", "float32", shapes)])
        arrays = self.arrays("float32", shapes)
        named = lambda **environment: re.search(r"(?:library of products: (.*))?\ncells", self.outcome(model, "known0", arrays, **environment).stderr).group(1)
        self.assertEqual(named(), "cuBLASLt 13.4.25 (libcublasLt.so.13)")
        self.assertIsNone(named(RELAYVM_CUBLASLT="off"))
        self.assertEqual(named(FAKE_CUDA_FAIL="product_create:1", FAKE_CUDA_ERROR="1"),
                         "cuBLASLt 13.4.25 (libcublasLt.so.13), which is not used: cublasLtCreate gives status 1")
        os.symlink(os.path.join(FAKE, "libcuda.so.1"), self.path("libcuda.so.1"))
        without = {"LD_LIBRARY_PATH": self.folder}
        if ctypes.util.find_library("cublasLt") is None:
            self.assertRegex(named(**without), r"^cuBLASLt is not installed: libcublasLt\.so\.13: .*; libcublasLt\.so\.12: ")
            self.assertRegex(relayvm.must(relayvm.COMPILER, "devices", env={**os.environ, **without}), r"(?m)^cuda:0 .*; library of products: cuBLASLt is not installed: ")

    def test_empty_products(self):
        model = self.build([("nn.dense(%a, %b)", "float32", {"a": (40, 70), "b": (33, 70)})])
        for rows, columns, depth in (0, 3, 5), (3, 0, 5), (3, 4, 0), (1, 1, 1), (17, 1, 1), (1, 17, 9):
            arrays = self.arrays("float32", {"a": (rows, depth), "b": (columns, depth)})
            with self.subTest(rows=rows, columns=columns, depth=depth):
                done = self.outcome(model, "unknown0", arrays)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.check(np.load(self.path("out.npy")), arrays[0].astype("float64") @ arrays[1].T, "float32")

    def test_each_call_may_fail(self):
        """Without the library the code's own functions do; what fails for good is an error. Nothing is left."""
        shapes = {"a": (40, 70), "b": (33, 70)}
        model = self.build([("nn.dense(%a, %b)", "float32", shapes)])
        arrays = self.arrays("float32", shapes)
        right = arrays[0].astype("float64") @ arrays[1].T
        for call, error in ("product_create:1", "1"), ("product_plan:1", "15"), ("product_plan:1", "7"), ("product:1", "15"), ("product:1", "7"):
            with self.subTest(call, error=error):
                got, launches, products = self.result(model, "known0", arrays, "--repeat", "3", FAKE_CUDA_FAIL=call, FAKE_CUDA_ERROR=error)
                self.check(got, right, "float32")
                self.assertEqual((launches, products), (3, 0))  # it is not asked again
        for call, error, says in ("product:1", "13", "cublasLtMatmul gives status 13"), ("product:2", "14", "cublasLtMatmul gives status 14"), ("run:1", "13", "is lost"):
            with self.subTest(call, error=error):
                done = self.outcome(model, "known0", arrays, "--repeat", "3", FAKE_CUDA_FAIL=call, FAKE_CUDA_ERROR=error)
                self.assertEqual(done.returncode, 1, done.stderr)
                self.assertRegex(done.stderr, rf"device cuda:0 \(interpreter of PTX\).*{says}(?s:.*)in `known0`")

    def test_memory(self):
        """The library's workspace is foreseen, and not needed."""
        shapes = {"a": (40, 70), "b": (33, 70)}
        text = "def @main(%a: Tensor[(40, 70), float32], %b: Tensor[(33, 70), float32]) { nn.dense(%a, %b) }\n"
        model = self.compile(self.write("one.relay", text), "one.rvm", device="cuda", verify=False)
        arrays = self.arrays("float32", shapes)
        for i, array in enumerate(arrays):
            np.save(self.path(f"{i}.npy"), array)
        needed = self.check_forecast(model, ["@" + self.path("0.npy"), "@" + self.path("1.npy")])["cuda:0"]
        right = arrays[0].astype("float64") @ arrays[1].T
        self.assertLess(needed, 1 << 20)
        for limit, workspace in (1 << 20, 0), (5 << 20, 8 * 40 * 33):
            flags = ["--memory-limit", str(limit), "--repeat", "4"]
            got, launches, products = self.result(model, "main", arrays, *flags)
            self.assertEqual((launches, products), (0, 4))
            self.check(got, right, "float32")
            said = self.outcome(model, "main", arrays, *flags, FAKE_CUDA_COUNT="1").stderr
            self.assertEqual(set(re.findall(r"workspace (\d+)", said)), {str(workspace)})

    def test_memory_of_large_products(self):
        """Those of float32 may take 32 MiB; with less, 4 MiB."""
        shapes = {"a": (768, 128), "b": (768, 128)}
        text = "def @main(%a: Tensor[(768, 128), float32], %b: Tensor[(768, 128), float32]) { nn.dense(%a, %b) }\n"
        arrays = self.arrays("float32", shapes)
        for i, array in enumerate(arrays):
            np.save(self.path(f"{i}.npy"), array)
        model = self.compile(self.write("large.relay", text), "large.rvm", device="cuda", verify=False)
        self.check_forecast(model, ["@" + self.path("0.npy"), "@" + self.path("1.npy")])
        for limit, workspace in (64 << 20, 8 * 768 * 768), (24 << 20, 0):
            done = self.outcome(model, "main", arrays, "--memory-limit", str(limit), FAKE_CUDA_COUNT="1")
            self.assertEqual(set(re.findall(r"workspace (\d+)", done.stderr)), {str(workspace)})
            self.check(np.load(self.path("out.npy")), arrays[0].astype("float64") @ arrays[1].T, "float32")

    def test_among_other_work(self):
        """Between launches that are graphs, in profiles, and with several machines' streams in any order."""
        text = """def @main(%a: Tensor[(40, 40), float32], %b: Tensor[(40, 40), float32], %n: int32) {
  let %go = fn (%i: int32, %x: Tensor[(40, 40), float32]) -> Tensor[(40, 40), float32] {
    if (%i < %n) {
      let %y = nn.softmax(nn.dense(%x, %b) / 4f);
      let %z = nn.softmax(%y + transpose(%y));
      %go(%i + 1, sort(nn.dense(tanh(%z), %a), axis=0))
    } else { %x }
  };
  %go(0, %a)
}
"""
        model = self.compile(self.write("loop.relay", text), "loop.rvm", device="cuda", verify=False)
        arrays = self.arrays("float32", {"a": (40, 40), "b": (40, 40)})
        for i, array in enumerate(arrays):
            np.save(self.path(f"{i}.npy"), array)
        arguments = ["@" + self.path("0.npy"), "@" + self.path("1.npy"), "5"]
        run = lambda **environment: relayvm.run(relayvm.RUNTIME, model, *arguments, "--repeat", "4", "--stats", "--out", self.path("out.npy"),
                                                env={**os.environ, **environment})
        self.assertEqual(run(RELAYVM_CUBLASLT="off").returncode, 0)
        right = np.load(self.path("out.npy"))
        for seed in range(4):
            done = run(FAKE_CUDA_SEED=str(seed))
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertNotIn("misuse", done.stderr)
            self.assertRegex(done.stderr, ", 40 products by its library[ ,]")
            np.testing.assert_allclose(np.load(self.path("out.npy")), right, atol=1e-5)
        done = relayvm.run(relayvm.COMPILER, "profile", model, *arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"on cuda:0")

    def test_random_programs(self):
        self.check_random_programs("cuda", relayvm.long_or(150, 60))

    def bert(self, length):
        """BERT of two layers: the model, its arguments, and a function that runs it so many times and gives result, work, and work in graphs."""
        program = programs.bert(2, 64, 2, [length], length=length)
        np.savez(self.path("weights.npz"), **program.weights)
        model = self.compile(self.write("bert.relay", program.text), "bert.rvm", device="cuda", params=[self.path("weights.npz")], verify=False)
        np.save(self.path("input.npy"), program.runs[0][1][0])

        def run(repeat, **environment):
            done = relayvm.run(relayvm.RUNTIME, model, "@" + self.path("input.npy"), "--repeat", repeat, "--stats", "--out", self.path("out.npy"), env={**os.environ, **environment})
            self.assertNotIn("misuse", done.stderr)
            if done.returncode != 0:
                return done.stderr, 0, 0
            found = re.search(r"device cuda:0: (\d+) launches(?: \((\d+) in \d+ graphs\))?(?:, (\d+) products by its library(?: \((\d+) in graphs\))?)?, ", done.stderr)
            launches, launches_in, products, products_in = (int(number or 0) for number in found.groups())
            self.assertGreater(products, repeat)
            return np.load(self.path("out.npy")), launches + products, launches_in + products_in
        return run

    def test_products_in_graphs(self):
        """The first run copies the weights; from the third on, nearly all goes to the device in graphs."""
        run = self.bert(24)
        right, work, _ = run(1, RELAYVM_CUDA_GRAPHS="off")
        for seed in range(3):
            got, work2, in_graphs2 = run(2, FAKE_CUDA_SEED=str(seed))
            got, work4, in_graphs4 = run(4, FAKE_CUDA_SEED=str(seed))
            np.testing.assert_array_equal(got, right)
            self.assertEqual((work2, work4), (2 * work, 4 * work))
            self.assertGreaterEqual(in_graphs4 - in_graphs2, 2 * work * 9 // 10)

    def test_captures_may_fail(self):
        """Products are queued then as without graphs, and launches stay in graphs; what fails for good is an error."""
        run = self.bert(24)
        right, work, _ = run(1)
        for call in "capture_begin:1", "capture_end:2", "graph_child:1", "graph_instantiate:2":
            for error in "2", "719":
                with self.subTest(call, error=error):
                    got, work4, _ = run(4, FAKE_CUDA_FAIL=call, FAKE_CUDA_ERROR=error)
                    if error == "2":
                        np.testing.assert_array_equal(got, right)
                        self.assertEqual(work4, 4 * work)
                    else:
                        self.assertIn("is lost", got)
        for number in 11, 17, 25:  # within captures, too
            with self.subTest(product=number):
                got, _, _ = run(4, FAKE_CUDA_FAIL=f"product:{number}", FAKE_CUDA_ERROR="15")
                if not isinstance(got, str):
                    np.testing.assert_allclose(got, right, rtol=0, atol=1e-4)
        for number in work // 2, 2 * work, 3 * work + 1:  # when graphs run, too
            with self.subTest(run=number):
                got, _, _ = run(4, FAKE_CUDA_FAIL=f"run:{number}")
                self.assertIn("is lost", got)

    def test_products_whose_addresses_change(self):
        """Of arguments that other values take the place of, in runs under a limit of memory that gives blocks back, and in loops."""
        text = """def @main(%a: Tensor[(40, 40), float32], %b: Tensor[(40, 40), float32], %n: int32) {
  let %go = fn (%i: int32, %x: Tensor[(40, 40), float32], %kept: List[Tensor[(40, 40), float32]]) -> Tensor[(40, 40), float32] {
    if (%i < %n) {
      let %y = nn.softmax(nn.dense(tanh(%x), %b) / 4f);
      let %z = nn.softmax(tanh(%y) + transpose(%y)) + tanh(nn.softmax(%x));
      %go(%i + 1, nn.dense(nn.softmax(tanh(%z)), %a), Cons(%z, %kept))
    } else { match (%kept) { Nil => %x, Cons(%first, _) => %x + %first } }
  };
  %go(0, %a, Nil)
}
"""
        model = self.compile(self.write("kept.relay", text), "kept.rvm", device="cuda", verify=False)
        arrays = self.arrays("float32", {"a": (40, 40), "b": (40, 40)})
        for i, array in enumerate(arrays):
            np.save(self.path(f"{i}.npy"), array)
        names = ["@" + self.path("0.npy"), "@" + self.path("1.npy"), "12"]
        outcome = lambda *flags, **environment: relayvm.run(relayvm.RUNTIME, model, *names, *flags, "--repeat", "3", "--stats", "--out", self.path("out.npy"),
                                                            env={**os.environ, **environment})
        self.assertEqual(outcome(RELAYVM_CUDA_GRAPHS="off").returncode, 0)
        right = np.load(self.path("out.npy"))
        smallest = None
        for limit in None, *range(4_600_000, 60_000, relayvm.long_or(-300_000, -1_500_000)):
            done = outcome(*(["--memory-limit", str(limit)] if limit else []))
            self.assertNotIn("misuse", done.stderr)
            self.assertNotIn("a fault", done.stderr)
            if done.returncode == 0:
                np.testing.assert_allclose(np.load(self.path("out.npy")), right, rtol=0, atol=1e-5)
                smallest = limit
            if limit is None:
                self.assertGreater(int(re.search(r"products by its library \((\d+) in graphs\)", done.stderr).group(1)), 0)
        self.assertLess(smallest, 4_000_000)

    def test_a_network(self):
        """BERT: products of a layer by the library, but for those that a tail follows which it does not compute."""
        program = programs.bert(2, 64, 2, [24])
        np.savez(self.path("weights.npz"), **program.weights)
        model = self.compile(self.write("bert.relay", program.text), "bert.rvm", device="cuda", params=[self.path("weights.npz")], verify=False)
        arguments = []
        for i, value in enumerate(program.runs[0][1]):
            if isinstance(value, np.ndarray):
                np.save(self.path(f"{i}.npy"), value)
                value = "@" + self.path(f"{i}.npy")
            arguments.append(value)
        results = []
        for wanted in "off", "always":
            done = relayvm.run(relayvm.RUNTIME, model, *arguments, "--stats", "--out", self.path("out.npy"), env={**os.environ, "RELAYVM_CUBLASLT": wanted})
            self.assertEqual(done.returncode, 0, done.stderr)
            results.append((np.load(self.path("out.npy")), int((re.search(r"(\d+) products by its", done.stderr) or [0, 0])[1])))
        np.testing.assert_allclose(results[1][0], results[0][0], rtol=0, atol=1e-4)
        self.assertEqual(results[0][1], 0)
        self.assertGreaterEqual(results[1][1], 2 * 4)


@unittest.skipUnless(PTXAS, "ptxas, of the CUDA toolkit, is not installed")
class Ptxas(device_test.Device):
    RUNS_FIRST = True

    def test_examples(self):
        """NVIDIA's assembler takes the code of whole programs."""
        for name in ("tree_lstm", "char_rnn", "list_lstm"):
            with self.subTest(name):
                np.savez(self.path("weights.npz"), **examples_test.load_reference(name).make_weights())
                source = os.path.join(relayvm.ROOT, "examples", name, f"{name}.relay")
                self.assemble(self.compile(source, "example.rvm", device="cuda", params=[self.path("weights.npz")], verify=False))

    def test_operators(self):
        """And that of every ninth operator case; of every third with --long."""
        cases = [case for case in operator_cases.all_cases() if operators_test.keeps_meaning(case, "erased")][::relayvm.long_or(3, 9)]
        source = self.write("operators.relay", "".join(operators_test.signature(i, case, "erased") for i, case in enumerate(cases)))
        entries = [flag for i in range(len(cases)) for flag in ("--entry", f"case{i}")]
        self.assemble(self.compile(source, "operators.rvm", *entries, device="cuda", verify=False), targets=[75])

    def test_tiles(self):
        """And that of products in tiles, whose sums all have registers."""
        text, _ = Tiles.source(PRODUCTS)
        entries = [flag for i in range(len(PRODUCTS)) for flag in ("--entry", f"case{i}")]
        said = self.assemble(self.compile(self.write("tiles.relay", text), "tiles.rvm", *entries, device="cuda", verify=False))
        spills = re.findall(r"(\d+) bytes spill stores, (\d+) bytes spill loads", said)
        self.assertGreaterEqual(len(spills), 3 * len(PRODUCTS))
        self.assertEqual(set(spills), {("0", "0")})

    def test_rows(self):
        """And that of rows in registers, the longest among them."""
        cases = [("nn.softmax(%x)", "256, 8192"), ("nn.layer_norm(%x, %y, %y)", "256, 8192"), ("nn.layer_norm(%x + %z, %y, %y)", "128, 768"),
                 ("nn.log_softmax(%x)", "16384, 1024"), ("argmax(%x, axis=1)", "16384, 1024"), ("sum(%x)", "16384, 1024")]
        text = "".join(f"def @case{i}(%x: Tensor[({dims}), {dtype}], %y: Tensor[({dims.split(', ')[1]}), {dtype}], %z: Tensor[({dims}), {dtype}]) {{ ({call}, %y + %y, %z + %z) }}\n"
                       for dtype in ("float32", "float16") for i, (call, dims) in enumerate(cases, 100 * (dtype == "float16")))
        entries = [flag for name in re.findall(r"@(case\d+)", text) for flag in ("--entry", name)]
        said = self.assemble(self.compile(self.write("rows.relay", text), "rows.rvm", *entries, device="cuda", verify=False))
        spills = re.findall(r"(\d+) bytes spill stores, (\d+) bytes spill loads", said)
        self.assertGreaterEqual(len(spills), 3 * 2 * len(cases))
        self.assertEqual(set(spills), {("0", "0")})

    def test_tensor_cores(self):
        """And that of tensor cores, of which no GPU spills more than it trades for a further block."""
        text, _ = Products.source(TENSOR_CORE_PRODUCTS)
        entries = [flag for i in range(len(TENSOR_CORE_PRODUCTS)) for flag in ("--entry", f"case{i}")]
        source = self.write("products.relay", text)
        for target in "sm_75,sm_80", "sm_80+tf32":
            said = self.assemble(self.compile(source, "products.rvm", *entries, "--target", target, device="cuda", verify=False))
            spills = re.findall(r"(\d+) bytes spill stores, (\d+) bytes spill loads", said)
            self.assertGreaterEqual(len(spills), 2 * len(TENSOR_CORE_PRODUCTS))
            self.assertLessEqual(max(int(bytes) for pair in spills for bytes in pair), 16)

    def assemble_network(self, source, params):
        """As many functions as the network has, for each target; none spills more than it trades for a further block."""
        model = self.compile(source, "network.rvm", device="cuda", params=params, verify=False)
        functions = sum(text.count(".entry") for text in texts_of(model).values())
        self.assertGreater(functions, 0)
        spills = re.findall(r"(\d+) bytes spill stores, (\d+) bytes spill loads", self.assemble(model))
        self.assertEqual(len(spills), 3 * functions)
        self.assertLessEqual(max(int(bytes) for pair in spills for bytes in pair), 16)

    def test_networks(self):
        """And that of the networks that `./run bench gpu` times, with all their kernels."""
        for program in (programs.recurrent("LSTM", 300, 512, 2), programs.recurrent("GRU", 300, 512, 2), programs.tree_lstm(3),
                        programs.bert(1, 256, 4, [8]), programs.resnet18(self.folder, 224)):
            with self.subTest(program.name):
                source = program.path or self.write("network.relay", program.text)
                params = []
                if program.weights:
                    np.savez(self.path("weights.npz"), **program.weights)
                    params = [self.path("weights.npz")]
                self.assemble_network(source, params)

    @unittest.skipUnless(os.path.exists(g2p_test.WEIGHTS), "the weights of g2p-en are not in build/g2p: ./run test fetches them")
    def test_g2p(self):
        self.assemble_network(os.path.join(g2p_test.EXAMPLE, "g2p.relay"), [g2p_test.WEIGHTS])

    def assemble(self, model, targets=(75, 80, 90)):
        """What ptxas says of each function, for all targets that can run the code."""
        jobs = []
        for capability, text in texts_of(model).items():
            path = self.path(f"code{capability}.ptx")
            with open(path, "w", encoding="ascii") as file:
                file.write(text)
            jobs += [[PTXAS, "-v", f"-arch=sm_{target}", path, "-o", "/dev/null"] for target in targets if target >= capability]
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            outcomes = list(pool.map(lambda job: subprocess.run(job, capture_output=True, text=True, check=False), jobs))
        for done in outcomes:
            self.assertEqual(done.returncode, 0, done.stderr[-2000:])
        return "".join(done.stderr for done in outcomes)


if __name__ == "__main__":
    unittest.main()
