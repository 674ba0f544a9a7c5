"""Requests of a batch have the bits that they have alone, whatever runs beside them."""

import random

import numpy as np
import relayvm as tools
from python_test import packages

COMPANIES = tools.long_or(1000, 100)
REQUESTS = 64

# A decoder that ends by its own numbers, a state over a list, and a tree; each with products of more than 16 KB of weights.
PROGRAM = """
type Tree { Leaf(int32), Fork(Tree, Tree), }
free_var %words: Tensor[(40, 48), float32];
free_var %w_x: Tensor[(288, 48), float32];
free_var %w_h: Tensor[(288, 96), float32];
free_var %w_out: Tensor[(40, 96), float32];
free_var %w_fork: Tensor[(96, 192), float32];

def @step(%word: int32, %h: Tensor[(1, 96), float32]) -> Tensor[(1, 96), float32] {
  let %x = expand_dims(take(%words, %word, axis=0), axis=0);
  let %g = split(nn.dense(%x, %w_x) + nn.dense(%h, %w_h), indices_or_sections=3, axis=1);
  sigmoid(%g.0) * %h + sigmoid(%g.1) * tanh(%g.2)
}
def @write(%word: int32, %h: Tensor[(1, 96), float32], %left: int32) -> List[int32] {
  if (%left == 0) { Nil } else {
    let %next = @step(%word, %h);
    let %likeliest = argmax(nn.dense(%next, %w_out));
    if (%likeliest == 0) { Nil } else { Cons(%likeliest, @write(%likeliest, %next, %left - 1)) }
  }
}
def @decode(%first: int32, %most: int32) -> List[int32] {
  @write(%first, zeros(shape=[1, 96], dtype="float32"), %most)
}
def @encode(%list: List[int32]) -> Tensor[(1, 96), float32] {
  @foldl(fn (%h: Tensor[(1, 96), float32], %word: int32) { @step(%word, %h) }, zeros(shape=[1, 96], dtype="float32"), %list)
}
def @tree(%tree: Tree) -> Tensor[(1, 96), float32] {
  match (%tree) {
    Leaf(%word) => @step(%word, zeros(shape=[1, 96], dtype="float32")),
    Fork(%left, %right) => tanh(nn.dense(concatenate((@tree(%left), @tree(%right)), axis=1), %w_fork)),
  }
}
// Control reads a number half way.
def @norm(%tree: Tree) -> float32 { sum(@tree(%tree) * @tree(%tree)) }
def @early(%tree: Tree) -> Tensor[(1, 96), float32] {
  match (%tree) {
    Leaf(_) => @tree(%tree),
    Fork(%left, %right) => if (@norm(%left) > 9f) { @tree(%left) } else { @early(%right) },
  }
}
"""
SHAPES = {"words": (40, 48), "w_x": (288, 48), "w_h": (288, 96), "w_out": (40, 96), "w_fork": (96, 192)}


class Company(tools.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.relayvm = packages()
        numbers = np.random.default_rng(3)
        params = {name: (numbers.normal(size=shape) * 0.3).astype(np.float32) for name, shape in SHAPES.items()}
        cls.program = cls.relayvm.compile(PROGRAM, params=params, batch=True, entries=["decode", "encode", "tree", "early"])

    def request(self, dice):
        def tree(leaves):
            if leaves == 1:
                return self.relayvm.adt("Leaf")(dice.randrange(40))
            left = dice.randrange(1, leaves)
            return self.relayvm.adt("Fork")(tree(left), tree(leaves - left))

        entry = dice.choice(["decode", "encode", "tree", "early"])
        if entry == "decode":
            return entry, (dice.randrange(40), dice.randrange(1, 20))
        return entry, ([dice.randrange(40) for _ in range(dice.randrange(12))] if entry == "encode" else tree(dice.randrange(1, 9)),)

    @staticmethod
    def bits(value):
        return tuple(map(int, value)) if isinstance(value, list) else np.asarray(value).tobytes()

    def test_bits_are_those_alone(self):
        dice = random.Random(11)
        requests = [self.request(dice) for _ in range(REQUESTS)]
        alone = [self.bits(self.program[entry](*args)) for entry, args in requests]
        together = 0
        for _ in range(COMPANIES):
            some = dice.sample(range(REQUESTS), dice.randrange(1, REQUESTS + 1))
            with self.program.batch(lanes=dice.choice([1, 2, 3, 4, 8, 16])) as batch:
                futures = [batch.submit(*requests[i][1], entry=requests[i][0]) for i in some]
                if dice.random() < 0.5:
                    batch.submit(dice.randrange(40), 100000, entry="decode").cancel()
                for i, future in zip(some, futures):
                    self.assertEqual(self.bits(future.result()), alone[i], requests[i])
                together += batch.stats.calls > batch.stats.groups
        self.assertGreater(together, COMPANIES // 2)
