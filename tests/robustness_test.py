"""Whatever it is given, the runtime says what is wrong and ends with 1; it never crashes."""

import os
import tempfile
import unittest

import numpy as np

import relayvm

SCALARS = """#[version = "0.0.5"]
def @main(%n: int32) -> int32 { if (%n < 2) { %n } else { @main(%n - 1) + @main(%n - 2) } }
"""
TENSORS = """#[version = "0.0.5"]
type List[A] { Cons(A, List[A]), Nil, }
free_var %weight: Tensor[(2, 3), float32];
def @main(%x: Tensor[(1, 3), float32]) -> Tensor[(1, 2), float32] { tanh(nn.dense(%x, %weight)) }
def @lists(%l: List[int32]) -> int32 { match (%l) { Nil => 0, Cons(%x, %r) => %x + @lists(%r) } }
def @pair(%p: (int32, bool)) -> int32 { %p.0 }
def @spin(%n: int32) -> int32 { if (%n == -1) { 0 } else { @spin(0) } }
def @deep(%n: int32) -> int32 { 1 - @deep(%n + 1) }
def @fill(%l: List[int32]) -> List[int32] { @fill(Cons(1, %l)) }
"""


class Robustness(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.scalars = cls.write("scalars.relay", SCALARS)
        cls.tensors = cls.write("tensors.relay", TENSORS)
        cls.weights = cls.path("weights.npz")
        np.savez(cls.weights, weight=np.ones((2, 3), np.float32))
        cls.fib = relayvm.compile_file(cls.scalars, cls.path("fib.rvm"))
        cls.model = relayvm.compile_file(cls.tensors, cls.path("model.rvm"), params=[cls.weights])

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    @classmethod
    def path(cls, name):
        return os.path.join(cls.folder.name, name)

    @classmethod
    def write(cls, name, text):
        with open(cls.path(name), "w", encoding="utf-8") as file:
            file.write(text)
        return cls.path(name)

    def refuses(self, *command, says=()):
        done = relayvm.run(*command)
        self.assertEqual(done.returncode, 1, f"{done.stdout[:500]}\n{done.stderr[:500]}")
        self.assertTrue(done.stderr.startswith("relayvm"), done.stderr)
        self.assertEqual(done.stdout, "")
        for text in [says] if isinstance(says, str) else says:
            self.assertIn(text, done.stderr)
        return done.stderr

    def run_damaged(self, damaged):
        broken = self.path("broken.rvm")
        with open(broken, "wb") as file:
            file.write(damaged)
        self.refuses(relayvm.RUNTIME, broken, 10)

    def test_each_byte_flipped(self):
        with open(self.fib, "rb") as file:
            good = file.read()
        self.assertEqual(relayvm.execute(self.fib, 10), "55")
        for i, byte in enumerate(good):
            with self.subTest(f"byte {i} of {len(good)}"):
                self.run_damaged(good[:i] + bytes([byte ^ 0xFF]) + good[i + 1:])

    def test_truncated(self):
        for model in (self.fib, self.model):
            with open(model, "rb") as file:
                good = file.read()
            for length in sorted({*range(0, min(len(good), 300), 7), *range(0, len(good), max(1, len(good) // 60))}):
                with self.subTest(f"the first {length} bytes of {len(good)}"):
                    self.run_damaged(good[:length])
            with self.subTest("bytes behind the end"):
                self.run_damaged(good + b"\0")

    def test_random_bytes(self):
        random = np.random.default_rng(3)
        with open(self.model, "rb") as file:
            good = file.read()
        for round_ in range(60):
            damaged = bytearray(good)
            for place in random.integers(len(good), size=int(random.integers(1, 6))):
                damaged[place] ^= int(random.integers(1, 256))
            with self.subTest(round_):
                self.run_damaged(bytes(damaged) if bytes(damaged) != good else b"")

    def test_no_such_file(self):
        self.refuses(relayvm.RUNTIME, self.path("nowhere.rvm"), 1, says="nowhere.rvm")
        self.refuses(relayvm.RUNTIME, self.folder.name, 1)
        self.refuses(relayvm.RUNTIME)
        self.refuses(relayvm.RUNTIME, self.scalars, 1)
        self.refuses(relayvm.COMPILER, "compile", self.path("nowhere.relay"), "-o", self.path("x.rvm"), says="nowhere.relay")
        self.refuses(relayvm.COMPILER, "compile", self.scalars, "-o", self.path("no/such/folder/x.rvm"))

    def test_number_of_arguments(self):
        self.refuses(relayvm.RUNTIME, self.fib, says="main")
        self.refuses(relayvm.RUNTIME, self.fib, 1, 2, says="main")

    def test_entry_that_is_not_there(self):
        self.refuses(relayvm.RUNTIME, self.fib, "--entry", "mian", 1, says=["mian", "main"])

    def test_flag_that_is_not_there(self):
        self.refuses(relayvm.RUNTIME, self.fib, "--entyr", "main", 1, says="--entyr")
        self.refuses(relayvm.COMPILER, "compile", self.scalars, "--optimise", says="--optimise")
        self.refuses(relayvm.COMPILER, "complie", self.scalars, says=["complie", "compile"])

    def test_arguments_of_another_type(self):
        for entry, argument in [("main", "[[1, 2, 3, 4]]"), ("main", "[1, 2, 3]"), ("main", "1"), ("main", "Nil"),
                                ("lists", "1"), ("lists", "Cons(True, Nil)"), ("lists", "Cons(1)"), ("lists", "Some(1)"),
                                ("pair", "(1, 2, 3)"), ("pair", "1"), ("pair", "(1, [True])")]:
            with self.subTest(f"{entry}({argument})"):
                self.refuses(relayvm.RUNTIME, self.model, "--entry", entry, argument)

    def test_arguments_that_do_not_parse(self):
        for argument in ("", "(", "Cons(1, ", "1 2", "[[1, 2], [3]]", "99999999999999999999", "@", "%x", "1e999999", "\t"):
            with self.subTest(argument):
                self.refuses(relayvm.RUNTIME, self.fib, argument)

    def test_files_as_arguments(self):
        def refuse(array, says):
            np.save(self.path("argument.npy"), array)
            self.refuses(relayvm.RUNTIME, self.model, "@" + self.path("argument.npy"), says=says)

        refuse(np.ones((1, 4), np.float32), ["4", "3"])
        refuse(np.ones((1, 3), np.float64), ["float64", "float32"])
        refuse(np.ones(3, np.float32), "float32")
        self.refuses(relayvm.RUNTIME, self.model, "@" + self.path("nowhere.npy"), says="nowhere.npy")
        self.refuses(relayvm.RUNTIME, self.model, "@" + self.weights)
        self.refuses(relayvm.RUNTIME, self.model, "@" + self.tensors)

    def test_weights(self):
        compile_ = (relayvm.COMPILER, "compile", self.tensors, "-o", self.path("x.rvm"))
        for name, arrays, says in [("nothing", {}, ["weight", "[missing-weight]"]),
                                   ("misspelt", {"wieght": np.ones((2, 3), np.float32)}, ["weight", "wieght"]),
                                   ("shape", {"weight": np.ones((2, 4), np.float32)}, ["weight", "4"]),
                                   ("dtype", {"weight": np.ones((2, 3), np.int64)}, ["weight", "int64"])]:
            with self.subTest(name):
                np.savez(self.path("bad.npz"), **arrays)
                done = relayvm.run(*compile_, "--params", self.path("bad.npz"))
                self.assertEqual(done.returncode, 1)
                for text in says:
                    self.assertIn(text, done.stderr)
        self.refuses(*compile_, "--params", self.path("nowhere.npz"), says="nowhere.npz")
        self.refuses(*compile_, "--params", self.tensors)

    def test_another_cpu(self):
        """Code for instructions that this CPU has not is refused before any of it runs."""
        self.refuses(relayvm.COMPILER, "compile", self.tensors, "--params", self.weights, "--target", "abacus",
                     "-o", self.path("other.rvm"), says="abacus")
        right = relayvm.execute(self.model, "[[1, 2, 3]]")
        refused = 0
        # No CPU has both the extensions of bdver4 and those of skylake-avx512.
        for cpu in ("x86-64", "bdver4", "haswell", "skylake-avx512", "znver4"):
            other = relayvm.compile_file(self.tensors, self.path("other.rvm"), params=[self.weights], extra=["--target", cpu])
            done = relayvm.run(relayvm.RUNTIME, other, "[[1, 2, 3]]")
            with self.subTest(cpu):
                if done.returncode == 0:
                    self.assertEqual(done.stdout.strip(), right)
                else:
                    refused += 1
                    self.assertEqual(done.returncode, 1)
                    self.assertIn("this CPU lacks", done.stderr)
        self.assertGreater(refused, 0)

    def test_native_code_only_if_allowed(self):
        self.refuses(relayvm.RUNTIME, "--no-allow-native", self.model, "[[1, 2, 3]]", says="machine code")
        self.assertEqual(relayvm.must(relayvm.RUNTIME, "--no-allow-native", self.fib, 10).strip(), "55")

    def test_limits(self):
        self.refuses(relayvm.RUNTIME, self.model, "--entry", "spin", "--fuel", 100000, 1, says="spin")
        self.refuses(relayvm.RUNTIME, self.model, "--entry", "deep", "--stack-limit", "10M", 1, says="deep")
        self.refuses(relayvm.RUNTIME, self.model, "--entry", "fill", "--memory-limit", 10000000, "Nil", says="fill")
        self.refuses(relayvm.RUNTIME, self.model, "--entry", "spin", "--time-limit", 20, 1, says=["20 ms", "spin"])
        for limit in ("M", "1Q", "-1", "9999999999G", ""):
            self.refuses(relayvm.RUNTIME, self.fib, f"--memory-limit={limit}", 1, says=["--memory-limit"])
        for threads in ("0", "99999999999"):
            self.refuses(relayvm.RUNTIME, self.fib, "--threads", threads, 1, says="threads")

    def test_threads(self):
        for threads in (1, 2, 5):
            self.assertEqual(relayvm.must(relayvm.RUNTIME, "--threads", threads, self.fib, 10).strip(), "55")

    def test_same_input_same_bytes(self):
        again = relayvm.compile_file(self.tensors, self.path("again.rvm"), params=[self.weights])
        with open(self.model, "rb") as a, open(again, "rb") as b:
            self.assertEqual(a.read(), b.read())
