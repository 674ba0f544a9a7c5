"""The tools as a newcomer uses them: arguments in files, limits, wrong paths, closed pipes."""

import os
import re
import subprocess
import tempfile

import numpy as np

import big_programs
import relayvm

PROGRAM = """type List[A] { Cons(A, List[A]), Nil, }
def @main(%l: List[int32], %x: Tensor[(2), float32]) -> (int32, Tensor[(2), float32]) { (@sum(%l), %x) }
def @sum(%l: List[int32]) -> int32 { match (%l) { Nil => 0, Cons(%h, %t) => %h + @sum(%t) } }
def @deep(%n: int32) -> int32 { 1 - @deep(%n + 1) }
def @fill(%l: List[int32]) -> List[int32] { @fill(Cons(1, %l)) }
def @spin(%n: int32) -> int32 { if (%n == -1) { 0 } else { @spin(0) } }
def @big(%n: int32) -> Tensor[(1000000), float32] { zeros(shape=[1000000], dtype="float32") }
def @waves(%x: Tensor[(100), float32]) -> Tensor[(100), float32] { sin(%x) + cos(%x) }
"""
ENTRIES = ("main", "sum", "deep", "fill", "spin", "big", "waves")
RESULT = "(6, [1f, 2f])"

LOSSES = """def @loss(%w: Tensor[(n), float32], %x: Tensor[(n), float32], %k: int32) {
  let %p = %w * %x;
  sum(%p * %p)
}
def @dot(%xs: List[float32], %w: float32) -> float32 {
  match (%xs) { Nil => 0f, Cons(%x, %rest) => %x * %w + @dot(%rest, %w) }
}
def @twice[A](%x: A) -> (A, A) { (%x, %x) }
def @count(%n: int32) { %n }
"""


class Tools(relayvm.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.source = cls.path("program.relay", PROGRAM)
        cls.model = relayvm.compile_file(cls.source, cls.path("program.rvm"),
                                         extra=[part for entry in ENTRIES for part in ("--entry", entry)])
        # Every tool that takes arguments, up to the file.
        cls.runners = ([relayvm.RUNTIME, cls.model], [relayvm.COMPILER, "run", cls.model],
                       [relayvm.COMPILER, "run", cls.source], [relayvm.COMPILER, "eval", cls.source])

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    @classmethod
    def path(cls, name, text=None):
        path = os.path.join(cls.folder.name, name)
        if text is not None:
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
        return path

    def error(self, *command, **options):
        done = relayvm.run(*command, **options)
        self.assertEqual(done.returncode, 1, f"{command}: {done.stdout[:300]} {done.stderr[:300]}")
        self.assertEqual(done.stdout, "")
        self.assertRegex(done.stderr, "^relayvm(-run)?: error: ")
        return done.stderr

    # ---- arguments

    def test_inspect_names_results(self):
        with tempfile.TemporaryDirectory() as folder:
            source = f"{folder}/named.relay"
            with open(source, "w", encoding="utf-8") as file:
                file.write('def @main(%x: int32, result_names=["label", "total"]) { (%x, %x + 1) }\n')
            relayvm.must(relayvm.COMPILER, "compile", source, "-o", f"{folder}/named.rvm", "--target", "portable")
            text = relayvm.must(relayvm.COMPILER, "inspect", f"{folder}/named.rvm")
            self.assertRegex(text, r"\n  results\.main +label, total\n")

    def test_all_values_in_a_file(self):
        values = self.path("values.txt", "// a list, and a tensor\n[1, 2,\n 3]\n[1, 2]\n")
        for runner in self.runners:
            self.assertEqual(relayvm.must(*runner, "--args", values).strip(), RESULT)
            self.assertEqual(relayvm.must(*runner, "--args", "-", input="[1, 2, 3] [1, 2]").strip(), RESULT)
        for verb in ("bench", "profile"):
            self.assertIn("main", relayvm.must(relayvm.COMPILER, verb, self.model, "--args", values))

    def test_one_value_in_a_file(self):
        numbers = self.path("numbers.relay", "[1,\n 2, 3]\n")
        np.save(self.path("x.npy"), np.array([1, 2], np.float32))
        tensor = "@" + self.path("x.npy")
        for runner in self.runners:
            self.assertEqual(relayvm.must(*runner, f"@{numbers}", tensor).strip(), RESULT)
            self.assertEqual(relayvm.must(*runner, "-", tensor, input="[1, 2, 3]").strip(), RESULT)

    def test_a_list_too_long_for_a_command_line(self):
        words = self.path("words.txt", "[" + ", ".join(["1"] * 200_000) + "]")
        for runner in self.runners:
            self.assertEqual(relayvm.must(*runner, "--entry", "sum", f"@{words}").strip(), "200000")

    def test_wrong_values_in_files(self):
        short = self.path("short.txt", "[1]\n")
        wrong = self.path("wrong.txt", "[1]\n[1, x]\n")
        for runner in self.runners:
            self.assertIn(f"{short}: value 2 of 2, at column 4: saw the end; expected `[`\n  [1]\n     ^",
                          self.error(*runner, "--args", short))
            self.assertIn(f"{wrong}: value 2 of 2, at line 2, column 5: saw `x`; expected float32\n  [1, x]\n      ^",
                          self.error(*runner, "--args", wrong))
            self.assertIn(f"argument 1, {wrong}: at line 2, column 1: saw `[`; expected the end",
                          self.error(*runner, f"@{wrong}", "[1, 2]"))
            self.assertIn("cannot read `/nowhere`: No such file", self.error(*runner, "--args", "/nowhere"))
            self.assertIn("cannot read `/nowhere`: No such file", self.error(*runner, "@/nowhere", "[1, 2]"))
            self.assertIn(f"\n  {short}\n  ^\n  the value in that file is `@{short}`\n",
                          self.error(*runner, short, "[1, 2]"))
            self.assertIn("standard input has only one value", self.error(*runner, "-", "-", input="[1]"))
            self.assertIn("--args has the values", self.error(*runner, "--args", short, "[1]"))

    # ---- limits

    def test_limits_name_the_option_that_changes_them(self):
        for runner in self.runners[:3]:
            text = self.error(*runner, "--entry", "deep", "1")
            self.assertIn("calls are nested too deeply: the stack limit is 512 MiB (--stack-limit sets another)\n", text)
            text = self.error(*runner, "--entry", "fill", "--memory-limit", "2M", "Nil")
            self.assertRegex(text, r"out of memory: \d+ bytes were asked for, \d+ bytes are in use; "
                                   r"the memory limit is 2 MiB \(--memory-limit sets another\)\n")
            text = self.error(*runner, "--entry", "big", "--memory-limit", "1.5M", "1")
            self.assertRegex(text, r"out of memory: 4000\d\d\d bytes were asked for, .* limit is 1536 KiB")
            self.assertIn("(--fuel sets another)", self.error(*runner, "--entry", "spin", "--fuel", "10", "1"))
            self.assertIn("the time limit of 0.5 ms is over (--time-limit sets another)",
                          self.error(*runner, "--entry", "spin", "--time-limit", "0.5", "1"))

    def test_wrong_options(self):
        for runner in self.runners[:3]:
            self.assertIn("unknown option `--fule`; did you mean `--fuel`?", self.error(*runner, "--fule", "3"))
            self.assertIn("option `--fuel` needs a value: `--fuel N`", self.error(*runner, "--fuel"))
            self.assertIn("saw `0` for --time-limit; expected a number above 0",
                          self.error(*runner, "--time-limit", "0"))
        self.assertIn("excludes", self.error(relayvm.RUNTIME, self.model, "--allow-native", "--no-allow-native"))

    def test_passes_by_name(self):
        compiler = [relayvm.COMPILER, "compile", self.source, "-o", self.path("passes.rvm"), "--target", "portable"]
        for option in ("--with-pass", "--without-pass", "--print-after"):
            self.assertIn("there is no pass `lamda-lift`; did you mean `lambda_lift`?", self.error(*compiler, option, "lamda-lift"))
            self.assertIn("there is no pass `frobnicate`; the passes are specialize ", self.error(*compiler, option, "frobnicate"))
        required = self.error(*compiler, "--without-pass", "to_anf")
        self.assertIn("the pass `to_anf` runs at every level", required)
        optional = required.strip().split("those that may be left out are ")[1].split()
        self.assertIn("inline", optional)
        self.assertNotIn("fuse_ops", optional)
        self.assertIn("expected one of them", self.error(*compiler, "--with-pass", "inline", "--without-pass", "inline"))
        for verb in ("run", "bench"):
            self.assertIn("runs at every level",
                          self.error(relayvm.COMPILER, verb, self.source, "--without-pass", "fuse_ops", "[1]", "[1, 2]"))
            self.assertIn("is for compiling", self.error(relayvm.COMPILER, verb, self.model, "--without-pass", "inline"))
        for level in ("-O0", "-O3"):
            printed = relayvm.run(*compiler, level, "--print-after", "specialize_calls", "--without-pass", "specialize_calls")
            self.assertEqual((printed.returncode, printed.stdout), (0, ""))
            self.assertIn("note: the pass `specialize_calls` did not run", printed.stderr)

    def test_results_without_each_pass(self):
        required = self.error(relayvm.COMPILER, "compile", self.source, "--without-pass", "to_anf")
        for name in required.strip().split("those that may be left out are ")[1].split():
            with self.subTest(name):
                model = relayvm.compile_file(self.source, self.path("without.rvm"), level=3,
                                             extra=["--without-pass", name, "--target", "portable"])
                self.assertEqual(relayvm.execute(model, "[1, 2, 3]", "[1, 2]"), RESULT)

    def test_times_of_passes(self):
        said = relayvm.run(relayvm.COMPILER, "compile", self.source, "-o", self.path("timed.rvm"), "--verbose").stderr
        times = dict(re.findall(r"^(.*\S) +([0-9.]+) ms$", said, re.MULTILINE))
        passes = {name: float(time) for name, time in times.items() if name.startswith("pass ")}
        self.assertIn("pass specialize", passes)
        self.assertTrue([name for name in passes if re.fullmatch(r"pass inline, \d runs", name)], said)
        self.assertAlmostEqual(sum(passes.values()), float(times["all passes"]), delta=0.01 * (len(passes) + 1))
        self.assertGreater(float(times["the whole compilation, with kernels"]), float(times["all passes"]))

    def test_options_are_checked_before_passes_run(self):
        for options, why in ((["--target", "nonsense"], "nonsense"), (["--target", "sm_80"], "expected `--device cuda`, too"),
                             (["--host-fallback"], "`--device` names it"), (["--device", "frob"], "frob")):
            done = relayvm.run(relayvm.COMPILER, "compile", self.source, "-o", self.path("no.rvm"), "--print-after=all", *options)
            self.assertEqual((done.returncode, done.stdout), (1, ""))
            self.assertIn(why, done.stderr)

    def test_help_has_every_option(self):
        texts = [relayvm.must(relayvm.COMPILER, "help", verb) for verb in ("run", "bench", "profile")]
        for text in [*texts, relayvm.must(relayvm.RUNTIME, "--help")]:
            for option in ("--args FILE", "--stack-limit BYTES", "--time-limit MS", "@FILE", "standard input"):
                self.assertIn(option, text)

    def test_memory_that_is_not_there(self):
        source = self.path("big.relay", big_programs.lets(300_000))
        error = self.error("/bin/sh", "-c", f"ulimit -v {600 << 10}; exec {relayvm.COMPILER} check {source}")
        self.assertEqual(error, "relayvm: error: out of memory\n")

    # ---- files

    def test_paths_that_are_wrong(self):
        empty = self.path("empty", "")
        folder = self.folder.name
        for command in ([relayvm.RUNTIME], [relayvm.COMPILER, "run"], [relayvm.COMPILER, "inspect"],
                        [relayvm.COMPILER, "verify"], [relayvm.COMPILER, "check"], [relayvm.COMPILER, "fmt"]):
            with self.subTest(command[-1]):
                self.assertIn("No such file", self.error(*command, "/nowhere"))
                self.assertRegex(self.error(*command, folder), "Is a directory|is not a regular file")
        for command in ([relayvm.RUNTIME], *([relayvm.COMPILER, verb] for verb in ("run", "inspect", "verify"))):
            self.assertIn(f"{empty}: at offset 0x0 (header): saw the end of the file", self.error(*command, empty))
        self.assertIn("is a program; `relayvm compile` makes an executable", self.error(relayvm.RUNTIME, self.source))
        for path in (folder, "/nowhere/out", "/proc/out"):
            self.assertIn("cannot write", self.error(relayvm.COMPILER, "compile", self.source, "-o", path))
            self.assertIn("cannot write", self.error(relayvm.RUNTIME, self.model, "--entry", "big", "--out", path, "1"))
        self.assertEqual([name for name in os.listdir(folder) if name.endswith(".part")], [])

    def test_output_that_cannot_be_written(self):
        for runner in self.runners:
            with open("/dev/full", "w", encoding="utf-8") as full:
                done = subprocess.run([*runner, "[1]", "[1, 2]"], stdout=full, stderr=subprocess.PIPE, text=True,
                                      check=False)
            self.assertEqual(done.returncode, 1)
            self.assertIn("cannot write to standard output", done.stderr)

    def test_the_gradient_as_a_program(self):
        grad = [relayvm.COMPILER, "grad", self.path("loss.relay", LOSSES)]
        printed = relayvm.must(*grad, "--of", "loss", "--wrt", "%x,w")
        self.assertNotRegex(printed, r"grad\(|ref|fn")
        output = self.path("loss_grad.relay")
        for flags, arguments, expected in (
                (["--of", "@loss", "--wrt", "%x,w"], ["[1, 2]", "[3, 4]", 1], "(73f, ([6f, 32f], [18f, 64f]))"),
                (["--of", "loss"], ["[1, 2]", "[3, 4]", 1], "(73f, ([18f, 64f], [6f, 32f]))"),
                (["--of", "dot"], ["Cons(2, Cons(3, Nil))", 4], "(20f, (Cons(4f, Cons(4f, Nil)), 5f))")):
            with self.subTest(flags=flags):
                relayvm.must(*grad, *flags, "-o", output)
                relayvm.must(relayvm.COMPILER, "check", output)
                name = flags[1].strip("@") + "_grad"
                self.assertEqual(relayvm.must(relayvm.COMPILER, "run", output, "--entry", name, *arguments).strip(), expected)
                # What is printed reads back to an equal program.
                self.assertEqual(relayvm.must(relayvm.COMPILER, "fmt", output), open(output, encoding="utf-8").read())
        for flags, says in ((["--of", "los"], "no function `@los`; it has @loss, @dot, @twice, @count"),
                            (["--of", "loss", "--wrt", "%v"], "no parameter `%v`; it has %w, %x, %k"),
                            (["--of", "loss", "--wrt", "%w,w"], "`%w` is named twice"),
                            (["--of", "loss", "--wrt", "k"], "`%k` of type `int32` has no gradient"),
                            (["--of", "count"], "no parameter of `@count` has floating-point numbers"),
                            (["--of", "twice"], "`@twice` is polymorphic"),
                            ([], "no function `@main`")):
            with self.subTest(flags=flags):
                self.assertIn(says, self.error(*grad, *flags))

    def test_any_locale(self):
        for locale in ("de_DE.UTF-8", "tr_TR.UTF-8", "C", "xx"):
            environment = {**os.environ, "LC_ALL": locale, "LANG": locale}
            self.assertEqual(relayvm.must(*self.runners[0], "[6]", "[1.5, 2]", env=environment).strip(),
                             "(6, [1.5f, 2f])")

    # ---- kernels

    def test_sine_and_cosine_of_one_operand(self):
        x = np.linspace(-3, 3, 100, dtype=np.float32)
        np.save(self.path("waves.npy"), x)
        for level in range(4):
            model = relayvm.compile_file(self.source, self.path("waves.rvm"), level, extra=["--entry", "waves"])
            relayvm.must(relayvm.RUNTIME, model, "--entry", "waves", "@" + self.path("waves.npy"), "--out",
                         self.path("y.npy"))
            np.testing.assert_allclose(np.load(self.path("y.npy")), np.sin(x) + np.cos(x), atol=1e-6)
