#!/usr/bin/env python3
"""The executables that the compiler makes of the test programs today: mutated, and run for long.

  executables_test.py FOLDER             writes portable ones to FOLDER, to fuzz from
  executables_test.py --devices FOLDER   those with code for devices
"""

import glob
import os
import sys
import tempfile
import unittest

import relayvm


def write_executables(folder, *options):
    """Executables of the test programs, as plain and as optimised code."""
    os.makedirs(folder, exist_ok=True)
    files = []
    for source in sorted(glob.glob(os.path.join(relayvm.ROOT, "tests/programs/*.relay"))):
        name = os.path.basename(source).removesuffix(".relay")
        for level in (0, 3):
            output = os.path.join(folder, f"{name}_O{level}.rvm")
            # Programs that are refused on purpose have no executable.
            if relayvm.run(relayvm.COMPILER, "compile", source, "-o", output, f"-O{level}", *options).returncode == 0:
                files.append(output)
    return files


# Programs of which each kernel may run on a device, and the rules that place them.
ON_DEVICES = {
    "layers": ("opencl", "cuda", "gpu", "opencl:nn.*,cuda"), "loop": ("opencl", "gpu"), "static": ("cuda", "opencl"),
    "halves": ("cuda", "gpu"), "products": ("sim",), "quantised": ("sim:qnn.*,opencl", "cuda:tanh,sim,opencl"),
}
DEVICE_PROGRAMS = {
    "layers": """def @main(%x: Tensor[(?, 8), float32], %w: Tensor[(8, 8), float32]) {
  let %a = on_device(tanh(nn.dense(%x, %w)), virtual_device="gpu:0");
  let %b = on_device(nn.softmax(nn.dense(%a, %w)), virtual_device="gpu:1");
  (nn.dense(%b, %w), max(%b))
}
""",
    "loop": """def @loop(%i: int32, %x: Tensor[(?, 8), float32], %w: Tensor[(8, 8), float32]) -> Tensor[(?, 8), float32] {
  if (%i < 1) { %x } else { @loop(%i - 1, reshape(nn.dense(tanh(%x), %w), newshape=[-1, 8]), %w) }
}
def @main(%i: int32, %x: Tensor[(?, 8), float32], %w: Tensor[(8, 8), float32]) { @loop(%i, %x, %w) }
""",
    "halves": """def @main(%x: Tensor[(?, 32), float16], %w: Tensor[(48, 32), float16]) { tanh(nn.dense(%x, %w)) }
def @again(%x: Tensor[(64, 48), float16], %w: Tensor[(32, 48), float16]) { nn.dense(%x, %w) }
""",
    "static": """type List[A] { Cons(A, List[A]), Nil }
def @main(%x: Tensor[(3, 4), float32], %r: Ref[Tensor[(3, 4), float32]]) {
  let %y = exp(%x);
  ref_write(%r, %y + ref_read(%r));
  Cons(sum(%y, axis=[0]), Cons(ref_read(%r).shape, Nil))
}
""".replace("ref_read(%r).shape", "sum(ref_read(%r), axis=[0])"),
    "products": """def @dense(%a: Tensor[(?, 20), int8], %b: Tensor[(17, 20), uint8]) { nn.dense(%a, %b, out_dtype="int32") }
def @image(%a: Tensor[(?, 3, 9, 20), int8], %b: Tensor[(18, 3, 3, 4), int8]) {
  nn.conv2d(%a, %b, padding=[1, 0, 2, 3], strides=[2, 3], out_dtype="int32")
}
def @batches(%a: Tensor[(2, 4, 6), uint8], %b: Tensor[(2, 3, 6), int8]) {
  qnn.batch_matmul(%a, %b, 255, -128, 1f, 1f, transpose_b=True)
}
""",
    "quantised": """def @main(%x: Tensor[(?, 40), int8], %w: Tensor[(20, 40), int8], %v: Tensor[(20, 20), int8]) {
  let %sums = qnn.dense(%x, %w, 3, 0, 1f, 1f);
  let %bytes = cast(round(tanh(cast(%sums, dtype="float32") * 0.001f) * 100f), dtype="int8");
  (nn.softmax(cast(qnn.dense(%bytes, %v, 1, 0, 1f, 1f, out_dtype="int32"), dtype="float32") * 0.0001f), max(%sums, axis=[1]))
}
""",
}


# Kernels with variants for many calls: of static shape, of unknown rows, one that gives a number.
BATCHED = """def @steps(%list: List[int32], %h: Tensor[(1, 72), float32]) -> Tensor[(1, 72), float32] {
  match (%list) {
    Nil => %h,
    Cons(%x, %rest) => @steps(%rest, tanh(nn.dense(%h, full(0.01f, shape=[72, 72])) + cast(%x, dtype="float32"))),
  }
}
def @main(%lists: List[List[int32]]) {
  @map(fn (%list: List[int32]) { @steps(%list, zeros(shape=[1, 72], dtype="float32")) }, %lists)
}
def @rows(%x: Tensor[(?, 72), float32], %n: int32) -> Tensor[(?, 72), float32] {
  let %y = nn.dense(%x, full(0.01f, shape=[72, 72]));
  if (%n <= 0) { %y } else { @rows(%y, %n - 1) }
}
def @likeliest(%x: Tensor[(1, 72), float32], %n: int32) -> int32 {
  let %i = argmax(nn.dense(%x, full(0.01f, shape=[72, 72])));
  if (%n <= 0) { %i } else { @likeliest(%x * 2f, %n - 1 + %i) }
}
"""


def write_batched_executables(folder):
    """Portable ones with variants for batches."""
    os.makedirs(folder)
    source = os.path.join(folder, "batched.relay")
    with open(source, "w", encoding="utf-8") as file:
        file.write(BATCHED)
    output = os.path.join(folder, "batched.rvm")
    entries = [option for name in ("main", "rows", "likeliest") for option in ("--entry", name)]
    relayvm.must(relayvm.COMPILER, "compile", source, "-o", output, "--batch", "--target", "portable", *entries)
    return [output]


def write_device_executables(folder):
    """Executables with code for each kind of device, and for several."""
    os.makedirs(folder, exist_ok=True)
    files = []
    for name, text in DEVICE_PROGRAMS.items():
        source = os.path.join(folder, f"{name}.relay")
        with open(source, "w", encoding="utf-8") as file:
            file.write('#[version = "0.0.5"]\n' + text)
        for number, rules in enumerate(ON_DEVICES[name]):
            for level in (0, 2):
                output = os.path.join(folder, f"{name}_{number}_O{level}.rvm")
                relayvm.must(relayvm.COMPILER, "compile", source, "-o", output, f"-O{level}", "--device", rules)
                files.append(output)
        os.remove(source)
    return files


class Executables(relayvm.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.portable = write_executables(os.path.join(folder.name, "portable"), "--target", "portable")
        cls.native = write_executables(os.path.join(folder.name, "native"))
        cls.batched = write_batched_executables(os.path.join(folder.name, "batched"))
        cls.on_devices = write_device_executables(os.path.join(folder.name, "devices"))

    def replay(self, target, files, mutations=20):
        done = relayvm.run(relayvm.built(f"//tests/fuzz:{target}_replay"), f"--mutations={mutations}", *files, timeout=600)
        self.assertEqual(done.returncode, 0, (done.stdout + done.stderr)[-3000:])

    def test_the_decoder_fuzzer_begins_with_them(self):
        self.assertGreater(len(self.portable), 100)
        self.replay("decoder_fuzzer", self.portable + self.on_devices)

    def test_the_run_fuzzer_begins_with_them(self):
        self.replay("run_fuzzer", self.portable)

    def test_variants_for_batches_that_are_malformed(self):
        """Their tables, words and bytes changed: they are refused, or run within the rules."""
        self.assertRegex(relayvm.must(relayvm.COMPILER, "inspect", *self.batched), r"\b3 of \d+ kernels have")
        self.replay("decoder_fuzzer", self.batched, mutations=300)
        self.replay("run_fuzzer", self.batched, mutations=2000)

    def test_code_for_devices_that_is_malformed(self):
        """Its tables, words and bytes changed: it is refused, or runs within the rules of devices."""
        self.replay("device_fuzzer", self.on_devices, mutations=300)

    def test_soak(self):
        """A million runs with RELAYVM_SOAK=1000000, as `./run test --long` does."""
        self.assertGreater(len(self.native), 100)
        runs = os.environ.get("RELAYVM_SOAK", "20000")
        done = relayvm.run(relayvm.built("//tests/soak:soak"), "--runs", runs, *self.native, timeout=3600)
        self.assertEqual(done.returncode, 0, (done.stdout + done.stderr)[-3000:])
        print(done.stdout.strip())


if __name__ == "__main__":
    if sys.argv[1] == "--devices":
        print(len(write_device_executables(sys.argv[2])), "executables")
    else:
        print(len(write_executables(sys.argv[1], "--target", "portable")), "executables")
