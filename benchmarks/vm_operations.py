"""What the operations of the VM cost: rounds of a loop with one of each, less a loop without."""

import os
import re
import shutil
import subprocess

import relayvm
import vm_programs

LOOP = """
def @loop(%n: int64, %a: int64) -> int64 { if (%n == 0i64) { %a } else { @loop(%n - 1i64, STEP) } }
def @main(%n: int64) -> int64 { @loop(%n, 1i64) }
"""
CALLED = "def @called(%x: int64) -> int64 { if (%x == -1i64) { @called(%x) * 2i64 } else { %x } }"
CLOSURE = """
def @loop(%f: fn (int64) -> int64, %n: int64, %a: int64) -> int64 {
  if (%n == 0i64) { %a } else { @loop(%f, %n - 1i64, %f(%a)) }
}
def @main(%n: int64) -> int64 {
  @loop(if (%n == 7i64) { fn (%x: int64) -> int64 { %x } } else { fn (%x: int64) -> int64 { %n } }, %n, 1i64)
}
"""
CELL = """
type Box { Box(int64, int64), Empty, }
def @loop(%n: int64, %box: Box) -> int64 {
  if (%n == 0i64) { match? (%box) { Box(%x, _) => %x } } else { @loop(%n - 1i64, Box(%n, %n)) }
}
def @main(%n: int64) -> int64 { @loop(%n, Empty) }
"""
TAIL = """
def @even(%n: int64) -> int64 { if (%n == 0i64) { 1i64 } else { @odd(%n - 1i64) } }
def @odd(%n: int64) -> int64 { if (%n == 0i64) { 0i64 } else { @even(%n - 1i64) } }
def @main(%n: int64) -> int64 { @even(%n) }
"""
STATE = """
def @loop(%n: int64, %pair: (int64, int64)) -> int64 {
  if (%n == 0i64) { %pair.0 + %pair.1 } else { @loop(%n - 1i64, (%pair.1, %n)) }
}
def @main(%n: int64) -> int64 { @loop(%n, (1i64, 2i64)) }
"""
RESULT = """
def @called(%x: int64) -> (int64, int64) {
  if (%x == -1i64) { let %pair = @called(%x * 2i64); (%pair.1, %pair.0) } else { (%x, %x) }
}
def @loop(%n: int64, %a: int64) -> int64 {
  if (%n == 0i64) { %a } else { let %pair = @called(%n); @loop(%n - 1i64, %pair.0 + %pair.1) }
}
def @main(%n: int64) -> int64 { @loop(%n, 1i64) }
"""
EMPTY = LOOP.replace("STEP", "%a")
# Operation, program of n rounds, and what the operation took in the predecessor (TVM 0.14's Relay VM, in nanoseconds, as
# it was measured once on two cores of a Zen 3; the machine here may be another), if it had it alone.
OPERATIONS = (
    ("a round of the loop: compare and branch, add, jump", EMPTY, None),
    ("multiply two integers", LOOP.replace("STEP", "%a * %n"), None),
    ("call, compare, return", LOOP.replace("STEP", "@called(%a)") + CALLED, 185),
    ("tail call, beside a jump", TAIL, None),
    ("call of a closure, its captures, return", CLOSURE, None),
    ("make a cell of two fields and drop it", CELL, 168),
    ("hand a pair on to the next round", STATE, None),
    ("call, compare, return a pair, add its fields", RESULT, None),
)
# Operation, loop of operations/operation_benchmark.cc and the one whose time is taken off, and the predecessor's time.
LOOPS = (
    ("move a register", "move", "loop", 25),
    ("load an integer", "load_int", "loop", 245),
    ("compare with a number, and branch", "branch", "loop", 98),
    ("tag of a constructor, and branch", "get_tag", "loop", 252 + 98),
    ("call of a kernel, 3 arguments, result planned", "call_kernel_planned", "loop", 291),
    ("call of a kernel, 3 arguments, result on the heap and dropped", "call_kernel", "loop", 291 + 653),
    ("of that the allocation", "call_kernel", "call_kernel_planned", 653),
    ("the same call, shapes known only then", "call_kernel_dynamic", "loop", None),
    ("the same, the result in place of an argument", "call_kernel_in_place", "loop", None),
)


def instructions(command, folder):
    """Host instructions of a run, as valgrind counts them."""
    done = subprocess.run(["valgrind", "--tool=callgrind", f"--callgrind-out-file={folder}/callgrind.out",
                           *map(str, command)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=True)
    return int(re.search(r"Collected : (\d+)", done.stderr).group(1))


def costs(model, folder):
    """Nanoseconds and, with valgrind, host instructions of a round."""
    rounds = 10_000_000
    _, seconds = vm_programs.ours(model, rounds, 7)
    if shutil.which("valgrind") is None:
        return seconds / rounds * 1e9, None
    few, many = (instructions([relayvm.RUNTIME, model, n], folder) for n in (100_000, 200_000))
    return seconds / rounds * 1e9, (many - few) / 100_000


def loop_costs(loop, folder):
    """As costs, of a loop in assembly."""
    tool = relayvm.built("//benchmarks/operations:operation_benchmark")
    ns = float(relayvm.must(tool, loop, 5_000_000))
    if shutil.which("valgrind") is None:
        return ns, None
    few, many = (instructions([tool, loop, n], folder) for n in (10_000, 20_000))
    return ns, (many - few) / (7 * 10_000)  # it runs seven times


def less(cost, other):
    return [None if a is None else a - b for a, b in zip(cost, other)]


def row(name, cost, before):
    ns, count = cost
    # What is below the noise of the clock is no basis for a ratio.
    ratio = "" if before is None else f"{before / max(ns, 0.1):.0f}x"
    return f"| {name} | {ns:.2f} | {'' if count is None else f'{count:.1f}'} | {before or ''} | {ratio} |"


def table(folder):
    lines = ["| Operation of the VM | ns | host instructions | predecessor, ns | faster |", "|---|---:|---:|---:|---:|"]
    empty = None
    for name, program, before in OPERATIONS:
        source = os.path.join(folder, "operation.relay")
        with open(source, "w", encoding="utf-8") as file:
            file.write('#[version = "0.0.5"]' + program)
        cost = costs(relayvm.compile_file(source, f"{folder}/operation.rvm", 3), folder)
        lines.append(row(name, cost if empty is None else less(cost, empty), before))
        empty = empty or cost
    measured = {loop: loop_costs(loop, folder) for loop in {part for row_ in LOOPS for part in row_[1:3]}}
    for name, loop, without, before in LOOPS:
        lines.append(row(name, less(measured[loop], measured[without]), before))
    return "\n".join(lines) + "\n"
