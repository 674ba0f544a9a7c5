"""Kernels of programs that are compiled with `--batch` have variants for many calls at once."""

import os
import re
import tempfile

import numpy as np
import relayvm

# A state over a list of words: the input's product does not wait for the state's.
RECURRENT = """
type List[A] { Cons(A, List[A]), Nil, }
free_var %words: Tensor[(9, 60), float32];
free_var %w_ih: Tensor[(72, 60), float32];
free_var %w_hh: Tensor[(72, 72), float32];
free_var %bias: Tensor[(72), float32];
def @last(%list: List[int32], %h: Tensor[(1, 72), float32]) -> Tensor[(1, 72), float32] {
  match (%list) {
    Nil => %h,
    Cons(%word, %rest) => {
      let %x = expand_dims(take(%words, %word, axis=0), axis=0);
      @last(%rest, tanh(nn.dense(%x, %w_ih) + nn.dense(%h, %w_hh) + %bias))
    },
  }
}
def @main(%list: List[int32]) -> Tensor[(1, 72), float32] { @last(%list, zeros(shape=[1, 72], dtype="float32")) }
def @each(%lists: List[List[int32]]) -> List[Tensor[(1, 72), float32]] {
  match (%lists) { Nil => Nil, Cons(%list, %rest) => { let %h = @main(%list); Cons(%h, @each(%rest)) } }
}
"""
RECURRENT_WEIGHTS = {"words": (9, 60), "w_ih": (72, 60), "w_hh": (72, 72), "bias": (72,)}

# Rows whose number is not known, a softmax behind the product, and a matrix that is an argument.
ROWS = """
free_var %w: Tensor[(90, 70), float32];
def @main(%x: Tensor[(n, 70), float32]) -> Tensor[(n, 90), float32] { nn.softmax(nn.dense(%x, %w)) }
def @times(%x: Tensor[(1, 70), float32], %m: Tensor[(70, 90), float32]) -> Tensor[(1, 90), float32] {
  nn.matmul(%x, %m)
}
"""

# The gradient of a loss over lists with respect to the weights of a cell, which are arguments. @kept hands a sum of gradients out
# while it is being added to.
TRAINING = """
type Model { Model(Tensor[(72, 60), float32], Tensor[(72, 72), float32], Tensor[(72), float32]), }
free_var %words: Tensor[(9, 60), float32];
def @last(%model: Model, %list: List[int32], %h: Tensor[(1, 72), float32]) -> Tensor[(1, 72), float32] {
  match (%list) {
    Nil => %h,
    Cons(%word, %rest) => {
      let Model(%w, %u, %b) = %model;
      let %x = expand_dims(take(%words, %word, axis=0), axis=0);
      @last(%model, %rest, tanh(nn.dense(%x, %w) + nn.dense(%h, %u) + %b))
    },
  }
}
def @squares(%model: Model, %lists: List[List[int32]], %sum: Tensor[(1, 72), float32]) -> Tensor[(1, 72), float32] {
  match (%lists) {
    Nil => %sum,
    Cons(%list, %rest) => {
      let %h = @last(%model, %list, full(0.5f, shape=[1, 72]));
      @squares(%model, %rest, %sum + %h * %h)
    },
  }
}
def @main(%model: Model, %lists: List[List[int32]]) -> (float32, (Model,)) {
  let %loss = fn (%m: Model) { sum(@squares(%m, %lists, zeros(shape=[1, 72], dtype="float32"))) };
  grad(%loss)(%model)
}
def @kept(%x: Tensor[(72, 1), float32], %y: Tensor[(1, 72), float32], %n: int32, %sum: Ref[Tensor[(72, 72), float32]])
    -> List[Tensor[(72, 72), float32]] {
  if (%n == 0) { Nil } else {
    let %old = ref_read(%sum);
    ref_write(%sum, %old + %x * tanh(%y));
    let %rest = @kept(%x, tanh(nn.dense(%y, %x * %y)), %n - 1, %sum);
    if (mod(%n, 3) == 0) { Cons(%old, %rest) } else { %rest }
  }
}
def @each(%x: Tensor[(72, 1), float32], %y: Tensor[(1, 72), float32], %n: int32) {
  let %sum = ref(%x * %y);
  (@kept(%x, %y, %n, %sum), ref_read(%sum))
}
"""

NONE = """
free_var %w: Tensor[(16, 70), float32];
def @main(%x: Tensor[(1, 70), float32]) -> Tensor[(1, 16), float32] { tanh(nn.dense(tanh(%x), %w)) }
def @sum(%n: int32, %x: Tensor[(1, 70), float32]) -> Tensor[(1, 70), float32] {
  if (%n == 0) { %x } else { @sum(%n - 1, tanh(%x) + %x) }
}
"""


class BatchVariants(relayvm.TestCase):
    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory())

    def path(self, name):
        return os.path.join(self.folder, name)

    def test_memory_of_waiting_calls_is_told(self):
        self.write(RECURRENT, RECURRENT_WEIGHTS)
        for flags in ((), ("--batch",)):
            model = relayvm.compile_file(self.path("p.relay"), self.path("p.rvm"), 2, [self.path("w.npz")], flags)
            told = "calls that wait" in relayvm.must(relayvm.COMPILER, "inspect", model, "--memory")
            self.assertEqual(told, bool(flags))

    def write(self, text, shapes):
        random = np.random.default_rng(1)
        np.savez(self.path("w.npz"), **{name: random.normal(size=shape).astype(np.float32) * 0.2 for name, shape in shapes.items()})
        with open(self.path("p.relay"), "w", encoding="utf-8") as file:
            file.write(text)

    def compile(self, name, *extra):
        return relayvm.compile_file(self.path("p.relay"), self.path(name), 2, [self.path("w.npz")], extra)

    def variants(self, model):
        found = re.search(r"batch +(\d+) of \d+ kernels", relayvm.must(relayvm.COMPILER, "inspect", model))
        return int(found.group(1)) if found else 0

    def test_recurrent(self):
        self.write(RECURRENT, RECURRENT_WEIGHTS)
        lists = [relayvm.relay_list(list(range(length))) for length in (0, 1, 3, 9)]
        plain = self.compile("plain.rvm")
        self.assertEqual(self.variants(plain), 0)
        for target in ((), ("--target", "x86-64,x86-64-v3"), ("--target", "portable")):
            model = self.compile("batch.rvm", "--batch", *target)
            self.assertEqual(self.variants(model), 2, target)
            alone = [relayvm.execute(model, text) for text in lists]
            for text, result in zip(lists, alone):
                expected = relayvm.parse_value(relayvm.execute(plain, text))
                np.testing.assert_allclose(relayvm.parse_value(result), expected, atol=1e-5)
            together = relayvm.must(relayvm.RUNTIME, model, "--entry", "each", relayvm.relay_list(lists))
            self.assertEqual(relayvm.list_of(relayvm.parse_value(together)), [relayvm.parse_value(text) for text in alone])

    def test_weights_are_stored_once(self):
        self.write(RECURRENT, RECURRENT_WEIGHTS)
        plain, batch = self.compile("plain.rvm"), self.compile("batch.rvm", "--batch")
        weights = sum(4 * np.prod(shape) for shape in RECURRENT_WEIGHTS.values())
        self.assertLess(os.path.getsize(batch) - os.path.getsize(plain), weights // 2)

    def test_rows_and_arguments(self):
        self.write(ROWS, {"w": (90, 70)})
        plain, batch = self.compile("plain.rvm"), self.compile("batch.rvm", "--batch")
        self.assertEqual(self.variants(batch), 2)
        random = np.random.default_rng(2)
        np.save(self.path("m.npy"), random.normal(size=(70, 90)).astype(np.float32))
        for rows in (1, 3, 17):
            np.save(self.path("x.npy"), random.normal(size=(rows, 70)).astype(np.float32))
            calls = [("main", [f"@{self.path('x.npy')}"])]
            if rows == 1:
                calls.append(("times", [f"@{self.path('x.npy')}", f"@{self.path('m.npy')}"]))
            for entry, args in calls:
                ours, expected = (relayvm.parse_value(relayvm.execute(model, *args, entry=entry)) for model in (batch, plain))
                np.testing.assert_allclose(ours, expected, atol=1e-5)

    def flat(self, value):
        if isinstance(value, (list, tuple)):
            return [number for item in value for number in self.flat(item)]
        return [value] if isinstance(value, float) else []

    def test_training(self):
        self.write(TRAINING, {"words": (9, 60)})
        random = np.random.default_rng(3)
        weights = [(random.normal(size=shape) * 0.2).astype(np.float32).tolist() for shape in ((72, 60), (72, 72), (72,))]
        lists = [[int(word) for word in random.integers(9, size=length)] for length in (7, 1, 0, 12, 5)]
        column, row = (random.normal(size=shape).astype(np.float32).tolist() for shape in ((72, 1), (1, 72)))
        with open(self.path("model.txt"), "w", encoding="utf-8") as file:
            file.write(f"Model({', '.join(map(str, weights))})")
        calls = [("main", [f"@{self.path('model.txt')}", relayvm.relay_list([relayvm.relay_list(words) for words in lists])])]
        calls += [("each", [str(column), str(row), str(count)]) for count in (0, 3, 14)]
        plain = self.compile("plain.rvm")
        for target, has_chains in (((), True), (("--target", "x86-64-v3"), True), (("--target", "portable"), False)):
            batch = self.compile("batch.rvm", "--batch", *target)
            # Results of recipes do not take the memory of arguments.
            code = relayvm.must(relayvm.COMPILER, "inspect", batch, "--code")
            self.assertEqual("other_sums adds_to" in code, has_chains)
            self.assertEqual("other_sums arranged (" in code, has_chains)  # recipes read no panels
            for entry, args in calls:
                ours, expected = (self.flat(relayvm.parse_value(relayvm.execute(model, *args, entry=entry))) for model in (batch, plain))
                np.testing.assert_allclose(ours, expected, atol=2e-4)

    def test_without_variants_nothing_changes(self):
        self.write(NONE, {"w": (16, 70)})
        with open(self.compile("plain.rvm"), "rb") as plain, open(self.compile("batch.rvm", "--batch"), "rb") as batch:
            self.assertEqual(plain.read(), batch.read())

    def test_refusals(self):
        self.write(RECURRENT, RECURRENT_WEIGHTS)

        def refused(*command):
            done = relayvm.run(relayvm.COMPILER, *command)
            self.assertEqual((done.returncode, done.stdout), (1, ""))
            return done.stderr

        given = ("compile", self.path("p.relay"), "--params", self.path("w.npz"), "-o", self.path("m.rvm"), "--batch")
        self.assertIn("`--batch` is for kernels on the host, and `--device` is given, too; expected one of them",
                      refused(*given, "--device", "sim"))
        why = "functions of a program with batched kernels have no machine code yet; "
        self.assertIn(why + "`--control` asks for it", refused(*given, "--control", "native"))
        self.assertIn(why, refused("native", self.compile("batch.rvm", "--batch"), "-o", self.path("both.rvm")))
