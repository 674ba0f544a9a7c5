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
EMPTY = LOOP.replace("STEP", "%a")
# Operation, program of n rounds.
OPERATIONS = (
    ("a round of the loop: compare and branch, add, jump", EMPTY),
    ("multiply two integers", LOOP.replace("STEP", "%a * %n")),
    ("call, compare, return", LOOP.replace("STEP", "@called(%a)") + CALLED),
    ("tail call, beside a jump", TAIL),
    ("call of a closure, its captures, return", CLOSURE),
    ("make a cell of two fields and drop it", CELL),
)
# Operation, loop of operations/operation_benchmark.cc.
LOOPS = (
    ("tag of a constructor, and branch", "get_tag"),
    ("call of a kernel, 3 arguments, result planned", "call_kernel_planned"),
    ("call of a kernel, 3 arguments, result on the heap and dropped", "call_kernel"),
    ("the same, shapes known only then", "call_kernel_dynamic"),
    ("the same, the result in place of an argument", "call_kernel_in_place"),
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


def row(name, cost):
    return f"| {name} | {cost[0]:.2f} | {'' if cost[1] is None else f'{cost[1]:.1f}'} |"


def table(folder):
    lines = ["| Operation of the VM | ns | host instructions |", "|---|---:|---:|"]
    empty = None
    for name, program in OPERATIONS:
        source = os.path.join(folder, "operation.relay")
        with open(source, "w", encoding="utf-8") as file:
            file.write('#[version = "0.0.5"]' + program)
        cost = costs(relayvm.compile_file(source, f"{folder}/operation.rvm", 3), folder)
        shown = cost if empty is None else [None if a is None else a - b for a, b in zip(cost, empty)]
        empty = empty or cost
        lines.append(row(name, shown))
    empty = loop_costs("loop", folder)
    for name, loop in LOOPS:
        lines.append(row(name, [None if a is None else a - b for a, b in zip(loop_costs(loop, folder), empty)]))
    return "\n".join(lines) + "\n"
