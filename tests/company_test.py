"""Requests of a batch have the bits that they have alone, whatever runs beside them."""

import collections
import concurrent.futures
import ctypes
import heapq
import os
import random
import time

import numpy as np
import relayvm as tools
from python_test import packages

COMPANIES = tools.long_or(1000, 100)
REQUESTS = 64
ARRIVALS_SECONDS = tools.long_or(60, 4)

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
// Fails without a word.
def @strict(%first: int32, %most: int32) -> int32 { match? (@decode(%first, %most)) { Cons(%word, _) => %word } }
def @spin(%word: int32, %h: Tensor[(1, 96), float32]) -> int32 {
  if (%word < 0) { %word } else { let %next = @step(%word, %h); @spin(argmax(nn.dense(%next, %w_out)), %next) }
}
def @endless(%first: int32) -> int32 { @spin(%first, zeros(shape=[1, 96], dtype="float32")) }
"""
SHAPES = {"words": (40, 48), "w_x": (288, 48), "w_h": (288, 96), "w_out": (40, 96), "w_fork": (96, 192)}


def resident():
    """Bytes of this process in memory."""
    with open("/proc/self/statm", encoding="utf-8") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")


class Company(tools.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.relayvm = packages()
        numbers = np.random.default_rng(3)
        params = {name: (numbers.normal(size=shape) * 0.3).astype(np.float32) for name, shape in SHAPES.items()}
        entries = ["decode", "encode", "tree", "early", "strict", "endless"]
        cls.program = cls.relayvm.compile(PROGRAM, params=params, batch=True, entries=entries)

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

    def outcome(self, call):
        try:
            return self.bits(call())
        except self.relayvm.Error as error:
            return type(error).__name__, str(error)

    @staticmethod
    def submit(batch, entry, args, fuel=0, time_limit_ms=0):
        """batch.submit with limits of the request alone: rvm_run_options."""
        from relayvm_runtime import _batch, _library
        entry = batch._executable._entry(entry)
        handles = entry.handles(args, {})
        number, request = next(_batch._numbers), _batch.Request(batch._open(), handles)
        _batch._requests[number] = request
        options = _library.RunOptions(ctypes.sizeof(_library.RunOptions), 0, fuel, time_limit_ms, None, None)
        _batch.check(_batch.lib.rvm_batch_submit(request._batch, entry.encoded, _batch.pointers(handles), len(handles),
                                                 ctypes.byref(options), _batch._done, number, ctypes.byref(request._ticket)))
        return request

    def test_requests_that_arrive_at_random(self):
        dice = random.Random(7)
        kinds = [(*self.request(dice), 0) for _ in range(40)]
        kinds += [("strict", (word, word % 3), 0) for word in range(40)]
        kinds += [("decode", (word, 19), dice.randrange(1, 40)) for word in range(20)]
        alone, began = [], time.monotonic()
        for entry, args, fuel in kinds:
            program = self.program.with_limits(fuel=fuel) if fuel else self.program
            alone.append(self.outcome(lambda: program[entry](*args)))
        mean = (time.monotonic() - began) / len(kinds)
        errors = {result[0] for result in alone if isinstance(result[0], str)}
        self.assertEqual(errors, {"ProgramFailed", "ResourceExhausted"})

        waiting, cancels, ended, memory = collections.deque(), [], collections.Counter(), []
        now = began = time.monotonic()
        with self.program.batch(lanes=8) as batch:
            while now < began + ARRIVALS_SECONDS:
                now += dice.expovariate(0.8 / mean)
                while cancels and cancels[0][0] < now:
                    heapq.heappop(cancels)[2].cancel()
                time.sleep(max(0, now - time.monotonic()))
                while waiting and waiting[0][0].done():
                    self.check(*waiting.popleft(), alone, ended)
                if len(waiting) > 200:
                    continue  # the machine is busy with other work
                chance, kind = dice.random(), dice.randrange(len(kinds))
                if chance < 0.05:
                    request = self.submit(batch, "endless", (dice.randrange(40),), time_limit_ms=5)
                    kind = None
                else:
                    request = self.submit(batch, *kinds[kind])
                if chance > 0.9:
                    heapq.heappush(cancels, (now + dice.expovariate(1 / mean), len(memory), request))
                waiting.append((request, kind))
                memory.append(resident())
            for request, kind in waiting:
                self.check(request, kind, alone, ended)
        self.assertEqual(set(ended), {"value", "ProgramFailed", "ResourceExhausted", "DeadlineExceeded", "cancelled"})
        self.assertGreater(len(memory), 10)
        fifth = len(memory) // 5
        self.assertLess(max(memory[-fifth:]), max(memory[fifth:2 * fifth]) + (4 << 20), ended)

    def check(self, request, kind, alone, ended):
        """Compares the outcome of a request with that of its kind alone; None is one that never ends."""
        try:
            result = self.outcome(request.result)
        except concurrent.futures.CancelledError:
            ended["cancelled"] += 1
            return
        ended[result[0] if isinstance(result[0], str) else "value"] += 1
        self.assertEqual(result[0], "DeadlineExceeded") if kind is None else self.assertEqual(result, alone[kind])
