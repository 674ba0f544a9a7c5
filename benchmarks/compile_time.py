#!/usr/bin/env python3
"""Measures how long large programs take to check and to compile; prints a table.

The processor's time of the whole tool, least of three. Programs: tests/big_programs.py.
"""

import os
import resource
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "tests"))
import big_programs  # noqa: E402
import relayvm  # noqa: E402

PROGRAMS = [
    ("1,000 ordinary lines", big_programs.ordinary(1_000)),
    ("10,000 ordinary lines", big_programs.ordinary(10_000)),
    ("100,000 ordinary lines", big_programs.ordinary(100_000)),
    ("a chain of 100,000 lets", big_programs.lets(100_000)),
    ("a chain of 100,000 `else if`", big_programs.arms(100_000)),
    ("a tuple type 10,000 deep", big_programs.nested_tuple(10_000)),
    ("5,000 functions that call one another", big_programs.mutual(5_000)),
]


def processor_seconds():
    """Of all processes started from here that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def seconds_of(*command):
    began = processor_seconds()
    relayvm.must(*command)
    return processor_seconds() - began


def least(*command):
    return min(seconds_of(*command) for _ in range(3))


def main():
    print("| Program | lines | check | microseconds per line | compile -O2 |")
    print("|---|---:|---:|---:|---:|")
    with tempfile.TemporaryDirectory() as folder:
        source, model = os.path.join(folder, "big.relay"), os.path.join(folder, "big.rvm")
        for name, text in PROGRAMS:
            with open(source, "w", encoding="utf-8") as file:
                file.write(text)
            lines = text.count("\n")
            check = least(relayvm.COMPILER, "check", source)
            # The ordinary lines are fused into thousands of kernels: LLVM is what that would measure.
            compiled = "" if "ordinary" in name else f"{least(relayvm.COMPILER, 'compile', source, '-o', model):.2f} s"
            print(f"| {name} | {lines:,} | {check:.3f} s | {check / lines * 1e6:.1f} | {compiled} |", flush=True)


if __name__ == "__main__":
    main()
