"""Times programs of control flow beside other languages and runtimes.

Results are compared first. Then all peers take turns, a process each, and the least time of the processor of each counts.
The sizes and the arrays are arguments that are read when a program runs.

RELAYVM_CONTROL_PROGRAMS: a regular expression that chooses programs, such as `fib|beam`. RELAYVM_ROUNDS: how many
processes each peer gets for each program, 10 unless given. RELAYVM_TORCH_PYTHON: a Python that has PyTorch.
RELAYVM_JAX_PYTHON: one that has JAX and IREE.
"""

import os
import re
import statistics
import sys

import relayvm
from control import peers
from control.programs import PROGRAMS

ROUNDS = 10


def measure(program, chosen, folder, rounds):
    """The least seconds of each peer, None for one that does not have the program. All results equal the first peer's."""
    paths = program.write(folder)
    least = dict.fromkeys((peer.name for peer in chosen), None)
    able, reference = [], None
    for peer in chosen:
        try:
            peer.prepare(program, folder)
        except peers.Unwritten:
            continue
        result, least[peer.name] = peer.run(program, folder, paths)
        reference = result if reference is None else reference
        if not program.agrees(result, reference, peer.all_doubles):
            sys.exit(f"{program.name} {program.size}: {peer.name} gives {result!r}, {chosen[0].name} {reference!r}")
        able.append(peer)
    for turn in range(1, rounds):
        for peer in able:
            if turn < peer.rounds:
                least[peer.name] = min(least[peer.name], peer.run(program, folder, paths)[1])
    return least


def with_malloc_for_pool(row):
    """A program without allocations counts alike for both kinds of C."""
    if row.get("C, own pool") is None and "C, own pool" in row:
        return {**row, "C, own pool": row["C, malloc"]}
    return row


def table_of(rows, names):
    """One table: milliseconds, and in brackets how many times as long as the first column."""
    first = names[0]
    text = "| Program | " + " | ".join(names) + " |\n|---|" + "---:|" * len(names) + "\n"
    for label, row in rows:
        cells = ["" if row[name] is None else f"{1e3 * row[name]:.2f}" + ("" if name == first else f" ({row[name] / row[first]:.2f})")
                 for name in names]
        text += f"| {label} | {' | '.join(cells)} |\n"
    means = []
    for name in names[1:]:
        ratios = [full[name] / full[first] for full in (with_malloc_for_pool(row) for _, row in rows) if full[name] is not None]
        means.append(f"{statistics.geometric_mean(ratios):.2f} of {len(ratios)}, least {min(ratios):.2f}" if ratios else "")
    return text + f"| geometric mean of the ratios | | {' | '.join(means)} |\n"


def stops():
    """How soon runs end after a cancel: another table."""
    done = relayvm.run(relayvm.built("//benchmarks/stop:stop_benchmark"), "--control", cwd=relayvm.ROOT, timeout=600)
    if done.returncode != 0:
        sys.exit(done.stderr)
    return ("From `Machine::Cancel` to the end of `Invoke`, with all memory given back: milliseconds of the processor that runs the "
            "program, 200 stops of each; by a hook, which a run calls every 50 ms, 20 stops.\n\n" + done.stdout)


def table(folder):
    rounds = int(os.environ.get("RELAYVM_ROUNDS", ROUNDS))
    chosen, text = [], ""
    for peer in peers.all_peers():
        if peer.missing:
            text += f"{peer.missing}: {peer.name} is not measured\n"
        else:
            chosen.append(peer)
    rows = []
    for program in PROGRAMS:
        if re.search(os.environ.get("RELAYVM_CONTROL_PROGRAMS", ""), program.name):
            row = measure(program, chosen, folder, rounds)
            rows.append((f"{program.name} {program.size}", row))
            print(program.name, {name: f"{1e3 * seconds:.2f}" for name, seconds in row.items() if seconds}, file=sys.stderr, flush=True)
    names = [peer.name for peer in chosen]
    return (f"{text}Control flow: milliseconds of the processor, the least of {rounds} processes (of 3 for what Python runs, of one for IREE); in brackets, divided by {names[0]}'s. "
            f"C: {peers.CLANG} {' '.join(peers.C_FLAGS)}; a program that does not allocate counts for both columns.\n\n" + table_of(rows, names) + "\n" + stops())
