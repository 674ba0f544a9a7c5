"""Memory: results in place of arguments, and what `inspect --memory` foresees."""

import os
import re
import tempfile

import relayvm

CHAIN = """
def @main(%often: bool, %x: Tensor[(n, 64), float32], %y: Tensor[(n, 64), float32]) -> Tensor[(n, 64), float32] {
  let %a = if (%often) { tanh(%x) } else { negative(%x) };
  let %b = if (%often) { add(%a, %y) } else { subtract(%y, %a) };
  let %c = if (%often) { sigmoid(%b) } else { nn.softmax(%b) };
  if (%often) { multiply(%c, %c) } else { %c }
}
"""

LOOP = """
def @loop(%i: int32, %state: Tensor[(n, 100), float32], %step: Tensor[(n, 100), float32])
    -> Tensor[(n, 100), float32] {
  if (%i == 0) { %state } else { @loop(%i - 1, tanh(add(%state, %step)), %step) }
}
def @main(%i: int32, %x: Tensor[(n, 100), float32]) -> Tensor[(n, 100), float32] {
  @loop(%i, negative(%x), %x)
}
"""

MLP = """
def @main(%x: Tensor[(n, 32), float32], %w1: Tensor[(64, 32), float32], %w2: Tensor[(8, 64), float32])
    -> Tensor[(n, 8), float32] {
  nn.softmax(nn.dense(nn.relu(nn.dense(%x, %w1)), %w2))
}
"""

FEED_FORWARD = """
def @main(%x: Tensor[(1, n, 32), float32], %w1: Tensor[(64, 32), float32], %w2: Tensor[(32, 64), float32]) {
  let %rows = reshape(%x, newshape=[-1, 32]);
  let %hidden = sigmoid(nn.dense(%rows, %w1));
  let %out = add(nn.dense(%hidden, %w2), %rows);
  let %average = mean(%out, axis=[1], keepdims=True);
  let %centred = subtract(%out, %average);
  let %variance = mean(multiply(%centred, %centred), axis=[1], keepdims=True);
  divide(%centred, sqrt(add(%variance, 0.00001)))
}
"""

LSTM_CELL = """
def @main(%x: Tensor[(1, 16), float32], %h: Tensor[(1, 16), float32], %c: Tensor[(1, 16), float32],
          %wi: Tensor[(64, 16), float32], %wh: Tensor[(64, 16), float32]) {
  let %gates = split(add(nn.dense(%x, %wi), nn.dense(%h, %wh)), indices_or_sections=4, axis=1);
  let %next = add(multiply(sigmoid(%gates.1), %c), multiply(sigmoid(%gates.0), tanh(%gates.2)));
  (multiply(sigmoid(%gates.3), tanh(%next)), %next)
}
"""

RECURSION = """
type List[A] { Cons(A, List[A]), Nil }
def @fill(%i: int32) -> List[Tensor[(10), float32]] {
  if (%i == 0) { Nil } else { Cons(full(1.0, shape=[10], dtype="float32"), @fill(%i - 1)) }
}
def @main(%i: int32) -> List[Tensor[(10), float32]] { @fill(%i) }
"""

# The gradient of n * n steps, plain and in n segments of n.
STEPS = """
def @steps(%x: Tensor[(100), float32], %n: int32) -> Tensor[(100), float32] {
  if (%n == 0) { %x } else { @steps(tanh(%x), %n - 1) }
}
def @segments(%x: Tensor[(100), float32], %n: int32, %count: int32) -> Tensor[(100), float32] {
  if (%count == 0) { %x } else {
    let %segment = fn (%y: Tensor[(100), float32]) -> Tensor[(100), float32] { @steps(%y, %n) };
    @segments(checkpoint(%segment)(%x), %n, %count - 1)
  }
}
def @plain(%x: Tensor[(100), float32], %n: int32) {
  mean(grad(fn (%y: Tensor[(100), float32]) { sum(@steps(%y, %n * %n)) })(%x).1.0)
}
def @in_segments(%x: Tensor[(100), float32], %n: int32) {
  mean(grad(fn (%y: Tensor[(100), float32]) { sum(@segments(%y, %n, %n)) })(%x).1.0)
}
"""


# A cache of rows from an argument, which is copied once and then grows by a factor.
APPENDS = """
def @loop(%i: int32, %cache: Tensor[(?, 100), float32], %row: Tensor[(1, 100), float32]) -> Tensor[(?, 100), float32] {
  if (%i == 0) { %cache } else { @loop(%i - 1, concatenate((%cache, %row), axis=0), %row) }
}
def @main(%x: Tensor[(n, 100), float32], %row: Tensor[(1, 100), float32]) -> Tensor[(?, 100), float32] {
  @loop(ROUNDS, %x, %row)
}
"""


# A state over each of several lists; the number of its columns is UNITS, of its rows ROWS.
BATCHED = """
def @state(%list: List[int32], %h: Tensor[(ROWS, UNITS), float32]) -> Tensor[(ROWS, UNITS), float32] {
  match (%list) {
    Nil => %h,
    Cons(%x, %rest) => @state(%rest, nn.dense(%h, full(0.0078125f, shape=[UNITS, UNITS])) + cast(%x, dtype="float32")),
  }
}
def @main(%lists: List[List[int32]], %h: Tensor[(ROWS, UNITS), float32]) -> List[Tensor[(ROWS, 1), float32]] {
  @map(fn (%list: List[int32]) { max(@state(%list, %h), axis=[1], keepdims=True) }, %lists)
}
"""


def zeros(*shape):
    text = "1.0"
    for extent in reversed(shape):
        text = "[" + ", ".join([text] * extent) + "]"
    return text


class Memory(relayvm.TestCase):
    def run_program(self, text, *values, options=()):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "program.relay")
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            done = relayvm.run(relayvm.COMPILER, "run", "--stats", *options, path, *values)
            self.assertEqual(done.returncode, 0, done.stderr)
            made, peak = re.search(r"tensors: (\d+) made, at most (\d+) bytes", done.stderr).groups()
            return int(made), int(peak), done.stdout

    def run_file(self, text, *values, options=()):
        with tempfile.TemporaryDirectory() as folder:
            source, path = os.path.join(folder, "program.relay"), os.path.join(folder, "program.rvm")
            with open(source, "w", encoding="utf-8") as file:
                file.write(text)
            relayvm.must(relayvm.COMPILER, "compile", source, "-o", path, *options)
            done = relayvm.run(relayvm.RUNTIME, "--stats", path, *values)
            self.assertEqual(done.returncode, 0, done.stderr)
            return int(re.search(r"at most (\d+) bytes", done.stderr).group(1)), done.stdout

    def forecast(self, text, dims="", options=()):
        with tempfile.TemporaryDirectory() as folder:
            source, path = os.path.join(folder, "program.relay"), os.path.join(folder, "program.rvm")
            with open(source, "w", encoding="utf-8") as file:
                file.write(text)
            done = relayvm.run(relayvm.COMPILER, "compile", source, "-o", path, *options)
            self.assertEqual(done.returncode, 0, done.stderr)
            done = relayvm.run(relayvm.COMPILER, "inspect", path, "--memory", *(["--dims", dims] if dims else []))
            self.assertEqual(done.returncode, 0, done.stderr)
            return done.stdout

    def test_a_loop_over_a_tensor_allocates_nothing_per_round(self):
        x = zeros(2, 100)
        few, _, first = self.run_program(LOOP, "3", x)
        many, _, _ = self.run_program(LOOP, "3000", x)
        self.assertEqual(few, many)
        unoptimised, _, second = self.run_program(LOOP, "3", x, options=["-O0"])
        self.assertEqual(first, second)

    def test_appends_allocate_as_a_cache_grows(self):
        made = {}
        for rounds in (100, 200, 3200):
            made[rounds], peak, _ = self.run_program(APPENDS.replace("ROUNDS", str(rounds)), zeros(2, 100), zeros(1, 100))
            self.assertLess(peak, rounds * 400 * 3)
        # By half of the size each time: log(16) / log(1.5) is 6.8.
        self.assertLessEqual(made[3200] - made[200], 8)
        self.assertLess(made[200], 20)

    def test_a_chain_allocates_once(self):
        made, _, _ = self.run_program(CHAIN, "True", zeros(2, 64), zeros(2, 64))
        # Two arguments, and one tensor that all steps share.
        self.assertEqual(made, 3)

    def test_the_forecast_is_what_is_taken(self):
        cases = [
            ("chain", CHAIN, "n=3", ["True", zeros(3, 64), zeros(3, 64)]),
            ("perceptron", MLP, "n=5", [zeros(5, 32), zeros(64, 32), zeros(8, 64)]),
            ("feed forward", FEED_FORWARD, "n=7", [zeros(1, 7, 32), zeros(64, 32), zeros(32, 64)]),
            ("LSTM cell", LSTM_CELL, "", [zeros(1, 16)] * 3 + [zeros(64, 16)] * 2),
            ("loop", LOOP, "n=2", ["5", zeros(2, 100)]),
            *((f"{rounds} appends", APPENDS.replace("ROUNDS", str(rounds)), "n=2", [zeros(2, 100), zeros(1, 100)])
              for rounds in (1, 2, 3, 40)),
        ]
        for name, text, dims, values in cases:
            for level in ("-O0", "-O1", "-O2"):
                with self.subTest(f"{name} {level}"):
                    _, peak, _ = self.run_program(text, *values, options=[level])
                    shown = self.forecast(text, dims, [level])
                    self.assertNotIn("no bound", shown)
                    self.assertIn(f" {peak} bytes at a time", shown)

    def test_what_has_no_bound_is_named(self):
        appends = APPENDS.replace("@main(", "@main(%n: int32, ").replace("ROUNDS", "%n")
        self.assertIn("no bound: in `loop`: data decides how much is kept", self.forecast(appends, "n=2"))
        self.assertIn("no bound: in `fill`: data decides how often `fill` is called inside itself",
                      self.forecast(RECURSION))

    def test_calls_that_wait_have_a_bound(self):
        line = r"calls that wait    (at most|at least) (\d+) bytes more, of 4096 calls; or an eighth of the memory limit"
        lists = f"[{', '.join(str(list(range(n % 7))) for n in range(60))}]"
        for units in (96, 128):
            text = BATCHED.replace("UNITS", str(units)).replace("ROWS", "1")
            alone, expected = self.run_file(text, lists, zeros(1, units))
            together, result = self.run_file(text, lists, zeros(1, units), options=["--batch"])
            self.assertEqual(result, expected)
            self.assertNotIn("calls that wait", self.forecast(text))
            words, bound = re.search(line, self.forecast(text, options=["--batch"])).groups()
            self.assertEqual(words, "at most")  # though the lists have no bound
            self.assertLessEqual(together - alone, int(bound))
            self.assertLess(int(bound), 4096 * 3000)
        # Calls whose extents only a run knows are counted where they are followed.
        rows = BATCHED.replace("UNITS", "128").replace("ROWS", "n")
        words, _ = re.search(line, self.forecast(rows, "n=1", ["--batch"])).groups()
        self.assertEqual(words, "at least")

    def test_checkpoints_keep_the_square_root(self):
        x = zeros(100)
        for level in ("-O0", "-O3"):
            def measure(entry, n):
                _, peak, result = self.run_program(STEPS, x, n, options=[level, "--entry", entry])
                return peak, result

            with self.subTest(level):
                # A state of 100 numbers for each step is kept without.
                plain, expected = measure("plain", 100)
                self.assertGreater(plain, 10_000 * 400)
                few, result = measure("in_segments", 100)
                self.assertEqual(result, expected)
                self.assertLess(few, plain / 20)
                many, result = measure("in_segments", 300)
                self.assertLess(many, 3.2 * few)
                self.assertEqual(result, measure("plain", 300)[1])

    def test_a_missing_extent_is_named(self):
        with tempfile.TemporaryDirectory() as folder:
            source, path = os.path.join(folder, "program.relay"), os.path.join(folder, "program.rvm")
            with open(source, "w", encoding="utf-8") as file:
                file.write(CHAIN)
            relayvm.must(relayvm.COMPILER, "compile", source, "-o", path)
            done = relayvm.run(relayvm.COMPILER, "inspect", path, "--memory")
            self.assertIn("axis 0 of `%x` of `main` is not known; give --dims x.0=EXTENT", done.stderr)
            done = relayvm.run(relayvm.COMPILER, "inspect", path, "--memory", "--dims", "n=x")
            self.assertIn("saw `n=x` in --dims; expected NAME=EXTENT", done.stderr)
