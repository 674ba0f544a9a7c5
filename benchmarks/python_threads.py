"""Two threads of Python, each with a session of its own, beside one: the interpreter's lock is free while a program runs."""

import os
import sys
import threading
import time

import relayvm as tools

PROGRAMS = {
    "a loop of 2,000,000 calls": ("def @main(%n: int32, %i: int32) -> int32 { if (%n <= 0) { %i } else { @main(%n - 1, %i + 1) } }",
                                  (2_000_000, 0)),
    "a list of 200,000 cells, made and added up": (
        "type List[A] { Cons(A, List[A]), Nil, }\n"
        "def @make(%n: int32, %l: List[int32]) -> List[int32] { if (%n <= 0) { %l } else { @make(%n - 1, Cons(%n, %l)) } }\n"
        "def @total(%l: List[int32], %t: int32) -> int32 { match (%l) { Nil => %t, Cons(%x, %r) => @total(%r, %t + %x) } }\n"
        "def @main(%n: int32) -> int32 { @total(@make(%n, Nil), 0) }", (200_000,)),
    "a product of 700 x 700 matrices": ("def @main(%x: Tensor[(n, n), float32]) -> Tensor[(n, n), float32] { nn.matmul(%x, %x) }",
                                        ("matrix",)),
}


def runs_per_second(sessions, args, seconds=2.0):
    """Of all sessions together, each in a thread, from when all have begun until the first would end."""
    counts, barrier = [0] * len(sessions), threading.Barrier(len(sessions) + 1)

    def work(number):
        sessions[number](*args)
        barrier.wait()
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            sessions[number](*args)
            counts[number] += 1

    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(sessions))]
    for thread in threads:
        thread.start()
    barrier.wait()
    began = time.perf_counter()
    for thread in threads:
        thread.join()
    return sum(counts) / (time.perf_counter() - began)


def package():
    """The package `relayvm` on this tree's libraries. The tests' own relayvm.py has the same name."""
    os.environ.setdefault("RELAYVM_LIBRARY", tools.built("//capi:librelayvm.so.1"))
    os.environ.setdefault("RELAYVM_COMPILER_LIBRARY", tools.built("//capi/compiler:librelayvm_compiler.so.1"))
    tools.built("//capi:librelayvm_python_signals.so")
    own = sys.modules.pop("relayvm")
    sys.path[:0] = [os.path.join(tools.ROOT, "python", part) for part in ("runtime", "compiler")]
    try:
        import relayvm as vm
    finally:
        sys.modules["relayvm"] = own
    return vm


def table(_folder):
    vm = package()
    import numpy as np
    matrix = np.random.default_rng(0).normal(size=(700, 700)).astype("float32")
    lines = ["| Program | Runs a second, one thread | Two threads | Ratio |", "|---|---:|---:|---:|"]
    for name, (text, args) in PROGRAMS.items():
        program = vm.compile(text)
        args = tuple(matrix if arg == "matrix" else arg for arg in args)
        one = two = 0
        for _ in range(5):  # in turns, the most of each
            one = max(one, runs_per_second([program.session()], args))
            two = max(two, runs_per_second([program.session(), program.session()], args))
        lines.append(f"| {name} | {one:.1f} | {two:.1f} | {two / one:.2f} |")
    return "\n".join(lines) + "\n"
