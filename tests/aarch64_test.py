"""The runtime for aarch64, run by qemu: executables, native and portable, give what they give on this machine."""

import concurrent.futures
import glob
import os
import re
import shutil
import stat
import sys
import tempfile
import unittest
import zipfile
from unittest import mock

import numpy as np

import examples_test
import g2p_test
import operator_cases
import operators_test
import programs_test
import relayvm

SYSROOT = os.path.join(relayvm.ROOT, "build/aarch64/sysroot")
RUNTIME = os.path.join(relayvm.ROOT, "build/aarch64/relayvm-run")
QEMU = shutil.which("qemu-aarch64")
# The Raspberry Pi 4's: what is compiled for every aarch64 CPU uses nothing newer.
CPU = "cortex-a72"
NATIVE = ["--target", "aarch64"]
PORTABLE = ["--target", "portable"]

needs_runtime = unittest.skipUnless(
    os.path.exists(RUNTIME), "there is no build/aarch64/relayvm-run: `./run build --cpu aarch64` makes it")
LIBRARY = os.path.join(relayvm.ROOT, "build/aarch64/librelayvm.so.1")
needs_qemu = unittest.skipUnless(QEMU, "there is no qemu-aarch64: it is in Debian's package qemu-user")


@needs_runtime
class Files(relayvm.TestCase):
    def test_size_and_libraries(self):
        self.assertLess(os.path.getsize(RUNTIME), 3_000_000)
        dynamic = relayvm.must("llvm-readelf-19", "-d", RUNTIME)
        libraries = {line.split("[")[1].rstrip("]") for line in dynamic.splitlines() if "NEEDED" in line}
        # All of glibc, whose older versions had threads and `dlopen` in libraries of their own.
        self.assertLessEqual(libraries, {"libm.so.6", "libgcc_s.so.1", "libc.so.6", "libpthread.so.0", "libdl.so.2", "ld-linux-aarch64.so.1"})
        print(f"        relayvm-run: {os.path.getsize(RUNTIME)} bytes for aarch64, "
              f"{os.path.getsize(relayvm.RUNTIME)} for this machine (with symbols)")


@needs_runtime
class Wheel(relayvm.TestCase):
    """The wheel of the runtime that `./run build --cpu aarch64` makes."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        with open(os.path.join(relayvm.ROOT, "build/aarch64/wheel"), encoding="utf-8") as file:
            self.wheel = os.path.join(relayvm.ROOT, file.read().strip())
        self.site = os.path.join(self.folder, "site")
        with zipfile.ZipFile(self.wheel) as archive:
            archive.extractall(self.site)

    def test_it_needs_glibc_alone(self):
        self.assertRegex(os.path.basename(self.wheel), r"^relayvm_runtime-[\d.]+-py3-none-manylinux_2_27_aarch64\.whl$")
        package = os.path.join(self.site, "relayvm_runtime")
        libraries = [name for name in os.listdir(package) if ".so" in name]
        self.assertIn("librelayvm.so.1", libraries)
        for library in libraries:
            described = relayvm.must("llvm-readelf-19", "-h", "-d", os.path.join(package, library))
            self.assertIn("AArch64", described)
            needed = set(re.findall(r"NEEDED.*\[(.*)\]", described))
            self.assertLessEqual(needed, {"libgcc_s.so.1", "libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2", "ld-linux-aarch64.so.1"})

    @needs_qemu
    @unittest.skipUnless(os.environ.get("RELAYVM_SOAK"), "without --long no Python for aarch64 is fetched")
    def test_python_runs_an_executable(self):
        root = os.path.join(self.folder, "root")
        relayvm.must(os.path.join(relayvm.ROOT, "third_party/aarch64/fetch_sysroot"), root, "python3.11-minimal", "libpython3.11-minimal",
                     "libpython3.11-stdlib", "libexpat1", "zlib1g", "libffi8", "libbz2-1.0", "liblzma5", "libssl3", "libc6",
                     "libgcc-s1", "libstdc++6")
        relayvm.must(sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary", ":all:", "--platform",
                     "manylinux2014_aarch64", "--platform", "manylinux_2_28_aarch64", "--python-version", "3.11", "numpy", "-d", self.folder)
        for path in glob.glob(os.path.join(self.folder, "numpy-*.whl")):
            with zipfile.ZipFile(path) as archive:
                archive.extractall(self.site)
        source = os.path.join(self.folder, "walk.relay")
        with open(source, "w", encoding="utf-8") as file:
            file.write("def @main(%x: Tensor[(n), float32], %k: int32) -> Tensor[(n), float32] "
                       "{ if (%k <= 0) { %x } else { @main(%x * %x, %k - 1) } }")
        program = os.path.join(self.folder, "walk.py")
        with open(program, "w", encoding="utf-8") as file:
            file.write("import sys, numpy, platform, relayvm_runtime\n"
                       "program = relayvm_runtime.load(sys.argv[1])\n"
                       "print(platform.machine(), program(numpy.array([1, 2, 3], numpy.float32), 2).tolist())\n")
        for options in NATIVE, PORTABLE:
            model = relayvm.compile_file(source, os.path.join(self.folder, "walk.rvm"), extra=options)
            self.assertEqual(relayvm.must(QEMU, "-cpu", CPU, "-L", root, "-E", f"PYTHONPATH={self.site}",
                                          os.path.join(root, "usr/bin/python3.11"), program, model), "aarch64 [1.0, 16.0, 81.0]\n")


@needs_runtime
@needs_qemu
class AArch64(relayvm.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = folder.name
        cls.emulated = cls.path("relayvm-run")
        with open(cls.emulated, "w", encoding="utf-8") as file:
            file.write(f'#!/bin/sh\nexec "{QEMU}" -cpu "${{RVM_CPU:-{CPU}}}" -L "{SYSROOT}" "{RUNTIME}" "$@"\n')
        os.chmod(cls.emulated, stat.S_IRWXU)

    @classmethod
    def path(cls, name):
        return os.path.join(cls.folder, name)

    def setUp(self):
        """From here on, what the other tests run by relayvm.RUNTIME is emulated."""
        self.native_runtime = relayvm.RUNTIME
        patch = mock.patch.object(relayvm, "RUNTIME", self.emulated)
        patch.start()
        self.addCleanup(patch.stop)

    def compile(self, source, name, *extra, **options):
        return relayvm.compile_file(source, self.path(name), extra=extra, **options)

    def write(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)
        return self.path(name)

    def example(self, name, calls, check):
        """Each of `calls` (arguments, expected) of an example, whose weights are made anew."""
        source = os.path.join(relayvm.ROOT, "examples", name, f"{name}.relay")
        weights = self.path(f"{name}.npz")
        np.savez(weights, **examples_test.load_reference(name).make_weights())
        for target in (NATIVE, PORTABLE):
            model = self.compile(source, f"{name}.rvm", *target, params=[weights])
            for arguments, expected in calls:
                with self.subTest(f"{target[1]}, {str(arguments)[:60]}"):
                    check(relayvm.parse_value(relayvm.execute(model, *arguments)), expected)

    def test_tree_lstm(self):
        reference = examples_test.load_reference("tree_lstm")
        random = np.random.default_rng(7)
        trees = [reference.make_tree(nodes, random) for nodes in (1, 9, 30)]
        self.example("tree_lstm", [([reference.tree_text(tree)], reference.predict(reference.make_weights(), tree))
                                   for tree in trees],
                     lambda value, expected: np.testing.assert_allclose(np.array(value, np.float32), expected, 1e-4, 1e-5))

    def test_char_rnn(self):
        reference = examples_test.load_reference("char_rnn")
        weights = reference.make_weights()
        self.example("char_rnn", [([first, n], reference.predict(weights, first, n)) for first, n in ((7, 20), (39, 1))],
                     lambda value, expected: self.assertEqual(relayvm.list_of(value), expected))

    def build_c(self, source):
        """A C program for aarch64 with librelayvm, and the command that runs it."""
        self.assertTrue(os.path.exists(LIBRARY), "`./run build --cpu aarch64` makes librelayvm.so.1")
        program = self.path(os.path.basename(source) + ".out")
        relayvm.must("clang-19", "--target=aarch64-linux-gnu", f"--sysroot={SYSROOT}", "-fuse-ld=lld", "-Wall", "-Werror",
                     f"-I{relayvm.ROOT}/include", source, LIBRARY, "-o", program)
        return [QEMU, "-cpu", CPU, "-L", SYSROOT, "-E", f"LD_LIBRARY_PATH={os.path.dirname(LIBRARY)}", program]

    @unittest.skipUnless(os.path.exists(g2p_test.WEIGHTS), "the weights of g2p-en are not in build/g2p: ./run test fetches them")
    def test_a_c_program_with_the_library(self):
        """examples/embed/spell.c says words as g2p does on this machine."""
        spell = self.build_c(os.path.join(relayvm.ROOT, "examples/embed/spell.c"))
        source = os.path.join(g2p_test.EXAMPLE, "g2p.relay")
        words = ["hello", "relay", "world"]
        right = g2p_test.spell.say(words, self.native_runtime, self.compile(source, "here.rvm", params=[g2p_test.WEIGHTS]))
        for target in (NATIVE, PORTABLE):
            model = self.compile(source, "g2p.rvm", *target, params=[g2p_test.WEIGHTS])
            for word, phonemes in zip(words, right):
                with self.subTest(f"{target[1]}, {word}"):
                    self.assertEqual(relayvm.must(*spell, model, word), g2p_test.spell.phonemes(phonemes) + "\n")
        missing = relayvm.run(*spell, self.path("none.rvm"), "hello")
        self.assertEqual(missing.returncode, 1, missing.stderr)
        self.assertIn("none.rvm", missing.stderr)

    @unittest.skipUnless(os.path.exists(g2p_test.WEIGHTS), "the weights of g2p-en are not in build/g2p: ./run test fetches them")
    def test_g2p(self):
        words = ["hello", "relay", "world", "café", "4ever", "", "x" * 20,
                 *g2p_test.made_words(5, np.random.default_rng(12))]
        source = os.path.join(g2p_test.EXAMPLE, "g2p.relay")
        right = g2p_test.spell.say(words, self.native_runtime, self.compile(source, "g2p.rvm", params=[g2p_test.WEIGHTS]))
        for target in (NATIVE, PORTABLE):
            with self.subTest(target[1]):
                model = self.compile(source, "g2p.rvm", *target, params=[g2p_test.WEIGHTS])
                self.assertEqual(g2p_test.spell.say(words, relayvm.RUNTIME, model), right)

    def test_programs(self):
        """Two calls of every third program, by turns native at -O3 and portable."""
        names = sorted(name for name in os.listdir(programs_test.PROGRAMS) if name.endswith(".relay"))
        for number, name in enumerate(names[::3]):
            source = os.path.join(programs_test.PROGRAMS, name)
            found = list(programs_test.cases(source))
            entries = [flag for entry in dict.fromkeys(case[1] for case in found) for flag in ("--entry", entry)]
            level, target = (3, NATIVE) if number % 2 == 0 else (2, PORTABLE)
            model = self.compile(source, "program.rvm", *entries, *target, level=level, verify=False)
            for kind, entry, arguments, expected in found[:2]:
                with self.subTest(f"{name}: {entry}({', '.join(arguments)})"):
                    done = relayvm.run(relayvm.RUNTIME, model, "--entry", entry, *arguments)
                    programs_test.Programs.check(self, kind, expected, done)

    def check_operators(self, form, flags, part):
        """A case of every third operator."""
        cases = [case for case in operator_cases.all_cases() if operators_test.keeps_meaning(case, form)]
        chosen = [group[part % len(group)] for group in operator_cases.by_operator(cases)[part::relayvm.long_or(3, 6)]]
        source = self.write("operators.relay", "".join(operators_test.signature(i, case, form) for i, case in enumerate(chosen)))
        entries = [flag for i in range(len(chosen)) for flag in ("--entry", f"case{i}")]
        model = self.compile(source, "operators.rvm", *flags, *entries, verify=False)
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            problems = pool.map(lambda item: operators_test.run_case(self.folder, model, *item), enumerate(chosen))
            wrong = [f"{operators_test.signature(index, case, form).strip()}\n    {problem}"
                     for index, (case, problem) in enumerate(zip(chosen, problems)) if problem]
        self.assertEqual(len(wrong), 0, f"{len(wrong)} of {len(chosen)} cases differ:\n" + "\n".join(wrong[:40]))
        print(f"        {len(chosen)} operator cases, {form} shapes, {' '.join(flags)}")

    def test_operators_native(self):
        self.check_operators("erased", NATIVE, 0)

    def test_operators_native_static(self):
        self.check_operators("static", ["--target", "cortex-a72"], 1)

    def test_operators_portable(self):
        self.check_operators("static", PORTABLE, 2)

    def test_large_tiles_and_threads(self):
        """A product of many tiles, its edges too, on several threads."""
        source = self.write("product.relay", """#[version = "0.0.5"]
def @main(%x: Tensor[(?, 203), float32], %y: Tensor[(131, 203), float32]) { nn.relu(nn.dense(%x, %y)) }
""")
        random = np.random.default_rng(4)
        x, y = (random.standard_normal((n, 203)).astype("float32") for n in (67, 131))
        np.save(self.path("x.npy"), x)
        np.save(self.path("y.npy"), y)
        for target in (NATIVE, ["--target", "neoverse-n1"]):
            model = self.compile(source, "product.rvm", *target)
            done = relayvm.run(relayvm.RUNTIME, "--threads", 3, model, "@" + self.path("x.npy"), "@" + self.path("y.npy"),
                               "--out", self.path("out.npy"), env={**os.environ, "RVM_CPU": "neoverse-n1"})
            self.assertEqual(done.returncode, 0, done.stderr)
            np.testing.assert_allclose(np.load(self.path("out.npy")), np.maximum(x @ y.T, 0), rtol=1e-4, atol=1e-4)

    SMALL = """#[version = "0.0.5"]
def @main(%x: Tensor[(3), float32]) -> Tensor[(3), float32] { exp(%x) + sin(%x) }
def @spin(%n: int32) -> int32 { if (%n == -1) { 0 } else { @spin(0) } }
def @deep(%n: int32) -> int32 { 1 - @deep(%n + 1) }
"""

    def test_other_targets_are_named(self):
        source = self.write("small.relay", self.SMALL)
        for runtime, target, says in [
                (relayvm.RUNTIME, "x86-64", ["this machine (aarch64)", "native code is for `x86-64`", "--target aarch64"]),
                (relayvm.RUNTIME, "neoverse-v1", ["this CPU lacks: lse, fullfp16, rdm", "--target portable"]),
                (self.native_runtime, "aarch64", ["this machine (", "target aarch64 (", "native code is for `aarch64`"])]:
            with self.subTest(target):
                done = relayvm.run(runtime, self.compile(source, "other.rvm", "--target", target), "[1, 2, 3]")
                self.assertEqual(done.returncode, 1)
                for text in says:
                    self.assertIn(text, done.stderr)

    def test_damaged_files_and_limits(self):
        model = self.compile(self.write("small.relay", self.SMALL), "small.rvm", *NATIVE)
        with open(model, "rb") as file:
            good = file.read()
        broken = self.path("broken.rvm")
        for place in range(3, len(good), max(1, len(good) // 60)):
            with open(broken, "wb") as file:
                file.write(good[:place] + bytes([good[place] ^ 0x55]) + good[place + 1:])
            with self.subTest(f"byte {place} of {len(good)}"):
                done = relayvm.run(relayvm.RUNTIME, broken, "[1, 2, 3]")
                self.assertEqual(done.returncode, 1, done.stderr)
                self.assertTrue(done.stderr.startswith("relayvm-run: error"), done.stderr)
        for entry, flags, says in [("spin", ["--fuel", 100000], "spin"), ("spin", ["--time-limit", 50], "50 ms"),
                                   ("deep", ["--stack-limit", "1M"], "deep")]:
            with self.subTest(entry, flags=flags):
                done = relayvm.run(relayvm.RUNTIME, model, "--entry", entry, *flags, 1)
                self.assertEqual(done.returncode, 1, done.stderr)
                self.assertIn(says, done.stderr)

    def test_needs_leave_or_a_signature(self):
        model = self.compile(self.write("small.relay", self.SMALL), "signed.rvm", *NATIVE)
        self.assertIn("has machine code", relayvm.run(relayvm.RUNTIME, model, "--no-allow-native", "[1, 2, 3]").stderr)
        relayvm.must(relayvm.COMPILER, "keygen", self.path("mine"))
        relayvm.must(relayvm.COMPILER, "sign", model, "--key", self.path("mine.key"))
        relayvm.must(relayvm.RUNTIME, model, "--key", self.path("mine.pub"), "[1, 2, 3]")


if __name__ == "__main__":
    unittest.main()
