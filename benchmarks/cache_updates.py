"""Caches that a loop updates or extends row by row: microseconds of an update, by its operator and the length of the cache.

    .venv/bin/python benchmarks/cache_updates.py [COMPILER]

`owned`: the loop has the cache alone. `held`: the cache before the update is needed afterwards, so it is copied.
"""

import os
import re
import sys
import tempfile

import relayvm

CACHE = {"tokens first": ("(n, 512)", "(1, 512)"), "heads first": ("(8, n, 64)", "(8, 1, 64)")}
# Operator, layout of the cache, the cache after a row of %v was written at %i.
UPDATES = (
    ("strided_set", "tokens first", "strided_set(%c, %v, stack((%i, 0)), stack((%i + 1, 512)), Constant([1, 1], (2), int32))"),
    ("strided_set", "heads first",
     "strided_set(%c, %v, stack((0, %i, 0)), stack((8, %i + 1, 64)), Constant([1, 1, 1], (3), int32))"),
    ("scatter_nd", "tokens first", "scatter_nd(%c, reshape(%i, newshape=[1, 1]), %v)"),
    ("scatter_elements", "heads first", 'scatter_elements(%c, full(%i, shape=[8, 1, 64], dtype="int32"), %v, axis=1)'),
)
PROGRAM = """
def @main(%rounds: int32) -> float32 {
  let %go = fn (%k: int32, %c: Tensor[CACHE, float32], %v: Tensor[ROW, float32]) -> Tensor[CACHE, float32] {
    if (%k == %rounds) { %c } else {
      let %i = floor_mod(%k, LENGTH);
      BODY
    }
  };
  sum(%go(0, zeros(shape=DIMS, dtype="float32"), ones(shape=ONES, dtype="float32")))
}
"""
# A cache that grows by a row; its first row is the result, so that the length of the cache costs nothing at the end.
APPENDS = """
def @main(%rounds: int32) -> float32 {
  let %go = fn (%k: int32, %c: Tensor[CACHE, float32], %v: Tensor[ROW, float32]) -> Tensor[CACHE, float32] {
    if (%k == %rounds) { %c } else { BODY }
  };
  let %c = %go(0, dyn.zeros(stack(DIMS), dtype="float32"), ones(shape=ONES, dtype="float32"));
  sum(strided_slice(%c, begin=[0], end=[1], axes=[AXIS]))
}
"""
OWNED = "%go(%k + 1, UPDATE, %v)"
HELD = "let %kept = ref(%c); let %d = UPDATE; if (%k == -1) { !%kept } else { %go(%k + 1, %d, %v) }"


def microseconds(compiler, folder, update, layout, length, held):
    cache, row = CACHE[layout]
    dims = cache.replace("n", str(length))
    text = PROGRAM.replace("BODY", (HELD if held else OWNED).replace("UPDATE", update))
    for name, value in (("CACHE", dims), ("ROW", row), ("LENGTH", str(length)), ("DIMS", f"[{dims[1:-1]}]"), ("ONES", f"[{row[1:-1]}]")):
        text = text.replace(name, value)
    source = os.path.join(folder, "cache.relay")
    with open(source, "w", encoding="utf-8") as file:
        file.write(text)
    relayvm.must(compiler, "compile", source, "-o", f"{folder}/cache.rvm")

    def least(rounds):
        done = relayvm.run(compiler, "run", f"{folder}/cache.rvm", "--repeat", 5, rounds, timeout=600)
        return float(re.search(r"least of the processor ([0-9.]+) ms", done.stderr).group(1))

    few, rounds = 10, 20
    base = least(few)
    while True:  # until an update can be told from making and adding up the cache
        spent = least(few + rounds) - base
        if spent > 50 or rounds > 1_000_000:
            return max(spent, 0) / rounds * 1e3
        rounds *= 8


def microseconds_of_appends(compiler, folder, layout, length, held, count=1000):
    """The mean of so many appends to a cache of `length` rows."""
    cache, row = CACHE[layout]
    axis = cache[1:-1].split(", ").index("n")
    update = f"concatenate((%c, %v), axis={axis})"
    text = APPENDS.replace("BODY", (HELD if held else OWNED).replace("UPDATE", update))
    for name, value in (("CACHE", cache.replace("n", "?")), ("ROW", row), ("DIMS", cache.replace("n", str(length))),
                        ("ONES", f"[{row[1:-1]}]"), ("AXIS", str(axis))):
        text = text.replace(name, value)
    source = os.path.join(folder, "appends.relay")
    with open(source, "w", encoding="utf-8") as file:
        file.write(text)
    relayvm.must(compiler, "compile", source, "-o", f"{folder}/appends.rvm")
    times = []
    for rounds in (1, 1 + count):
        done = relayvm.run(compiler, "run", f"{folder}/appends.rvm", "--repeat", 5, rounds, timeout=600)
        times.append(float(re.search(r"least of the processor ([0-9.]+) ms", done.stderr).group(1)))
    return (times[1] - times[0]) / count * 1e3


def table(compiler):
    lines = ["| operator | layout | cache | 512 | 2048 | 8192 |", "|---|---|---|---:|---:|---:|"]
    with tempfile.TemporaryDirectory() as folder:
        for name, layout, update in UPDATES:
            for held in (False, True):
                cells = [f"{microseconds(compiler, folder, update, layout, n, held):.2f}" for n in (512, 2048, 8192)]
                lines.append(f"| `{name}` | {layout} | {'held' if held else 'owned'} | {' | '.join(cells)} |")
        for layout in CACHE:
            for held in (False, True):
                cells = [f"{microseconds_of_appends(compiler, folder, layout, n, held, 100 if held else 1000):.2f}"
                         for n in (512, 2048, 8192)]
                lines.append(f"| `concatenate` | {layout} | {'held' if held else 'owned'} | {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(table(sys.argv[1] if len(sys.argv) > 1 else relayvm.COMPILER))
