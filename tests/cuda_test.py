"""Kernels on NVIDIA's GPUs, on a driver that interprets their PTX: operators, programs, faults; ptxas, where it is."""

import glob
import os
import re
import shutil
import subprocess
import unittest
import unittest.mock

import numpy as np

import device_test
import examples_test
import operator_cases
import operators_test
import relayvm

FAKE = os.path.join(relayvm.ROOT, "bazel-bin/tests/cuda")
PTXAS = shutil.which("ptxas") or next(iter(glob.glob("/usr/local/cuda*/bin/ptxas")), None)


class OnFakeDriver(device_test.Device):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.enterClassContext(unittest.mock.patch.dict(os.environ, {"LD_LIBRARY_PATH": FAKE}))


@unittest.skipUnless(os.path.exists(relayvm.COMPILER), "the compiler is not built")
class Cuda(device_test.OnGrid, OnFakeDriver):
    KIND, TARGET = "cuda", "ptx-6.4"
    RANDOM_PROGRAMS = 500

    def test_it_is_listed(self):
        self.assertRegex(relayvm.must(relayvm.COMPILER, "devices"),
                         r"(?m)^cuda:0 +interpreter of PTX: runs ptx-6\.4 with \+sm_75, 1\.0 GiB of memory")

    def test_orders_of_work(self):
        """Streams, blocks and threads may run in any order."""
        model = self.compile(self.write("chain.relay", device_test.CHAIN), "orders.rvm")
        random = np.random.default_rng(3)
        for name, shape in ("x", (37, 8)), ("w", (8, 8)):
            np.save(self.path(f"{name}.npy"), random.standard_normal(shape).astype("float32"))
        arguments = ["@" + self.path("x.npy"), "@" + self.path("w.npy")]
        results = {relayvm.must(relayvm.RUNTIME, model, *arguments, env={**os.environ, "FAKE_CUDA_SEED": str(seed)}) for seed in range(6)}
        self.assertEqual(len(results), 1)


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
                           ("wait:1", "cuStreamSynchronize"), ("run:1", "is lost"), ("run:4", "is lost"),
                           ("load:1", "does not accept the code")):
            with self.subTest(call):
                done = self.outcome(FAKE_CUDA_FAIL=call)
                self.assertEqual(done.returncode, 1, done.stderr)
                self.assertIn("cuda:0", done.stderr)
                self.assertIn(says, done.stderr)
                self.assertNotIn("misuse", done.stderr)

    def test_memory_is_asked_for_again(self):
        """After the pool has given back what it kept."""
        done = self.outcome(FAKE_CUDA_FAIL="alloc:2")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_without_a_driver(self):
        with unittest.mock.patch.dict(os.environ):
            del os.environ["LD_LIBRARY_PATH"]
            if re.search("(?m)^cuda:", relayvm.must(relayvm.COMPILER, "devices")):
                self.skipTest("this machine has an NVIDIA GPU")
            done = self.outcome()
            self.assertIn("the executable needs a device for ptx-6.4 with +sm_75, and this machine has none", done.stderr)
            self.assertIn("cuda: NVIDIA's driver is not installed", done.stderr)
            model = self.compile(self.write("chain.relay", device_test.CHAIN), "host.rvm", "--host-fallback", device="cuda")
            self.assertEqual(relayvm.execute(model, "[0, 0, 0, 0, 0, 0, 0, 0]", entry="sorted").strip(),
                             "[1f, 1f, 1f, 1f, 1f, 1f, 1f, 1f]")


@unittest.skipUnless(PTXAS, "ptxas, of the CUDA toolkit, is not installed")
class Ptxas(device_test.Device):
    def test_examples(self):
        """NVIDIA's assembler takes the code of whole programs."""
        for name in ("tree_lstm", "char_rnn", "list_lstm"):
            with self.subTest(name):
                np.savez(self.path("weights.npz"), **examples_test.load_reference(name).make_weights())
                source = os.path.join(relayvm.ROOT, "examples", name, f"{name}.relay")
                self.assemble(self.compile(source, "example.rvm", device="cuda", params=[self.path("weights.npz")], verify=False))

    def test_operators(self):
        """And that of every third operator case."""
        cases = [case for case in operator_cases.all_cases() if operators_test.keeps_meaning(case, "erased")][::3]
        source = self.write("operators.relay", "".join(operators_test.signature(i, case, "erased") for i, case in enumerate(cases)))
        entries = [flag for i in range(len(cases)) for flag in ("--entry", f"case{i}")]
        self.assemble(self.compile(source, "operators.rvm", *entries, device="cuda", verify=False), targets=["sm_75"])

    def assemble(self, model, targets=("sm_75", "sm_80", "sm_90")):
        with open(model, "rb") as file:
            data = file.read()
        begin = data.find(b"//\n// Generated by LLVM NVPTX Back-End")
        self.assertGreater(begin, 0)
        text = re.match(rb"[\t\n -~]*", data[begin:]).group()
        text = text[:text.rindex(b"}") + 1] + b"\n"
        with open(self.path("code.ptx"), "wb") as file:
            file.write(text)
        for target in targets:
            done = subprocess.run([PTXAS, f"-arch={target}", self.path("code.ptx"), "-o", "/dev/null"],
                                  capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 0, done.stderr[-2000:])


if __name__ == "__main__":
    unittest.main()
