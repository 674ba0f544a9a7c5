"""The programs of benchmarks/vm/ on RelayVM, Lua and Python: same algorithm, same result."""

import math
import os
import re
import shutil
import sys

import relayvm

FOLDER = os.path.join(relayvm.ROOT, "benchmarks", "vm")
# Name and argument: each runs for about a tenth of a second.
PROGRAMS = (("fib", 32), ("counter", 10_000_000), ("sieve", 8000), ("nbody", 50_000), ("ackermann", 8),
            ("binary_trees", 16))
LUA = """
local run, n = dofile(arg[1]), math.tointeger(arg[2])
local least = math.huge
for _ = 1, %d do
  local began = os.clock(); local result = run(n); least = math.min(least, os.clock() - began)
  if type(result) == "float" then result = string.format("%%.17g", result) end
  print(result, least)
end
"""
PYTHON = """
import sys, time
module, n, least = {}, int(sys.argv[2]), 1e9
exec(compile(open(sys.argv[1]).read(), sys.argv[1], "exec"), module)
for _ in range(%d):
    began = time.process_time()
    result = module["run"](n)
    least = min(least, time.process_time() - began)
print(repr(result), least)
"""


def peer(command, script, path, n):
    """Result and least seconds (of the processor) of another language."""
    text = relayvm.must(*command, script, path, n, timeout=600)
    result, seconds = text.strip().splitlines()[-1].split()
    return result, float(seconds)


def ours(model, n, repeat):
    done = relayvm.run(relayvm.RUNTIME, model, "--repeat", repeat, n, timeout=600)
    if done.returncode != 0:
        sys.exit(done.stderr)
    return done.stdout.split()[0], float(re.search(r"least of the processor ([0-9.]+) ms", done.stderr).group(1)) / 1e3


def same(a, b):
    a, b = (float(re.sub(r"[if](32|64)$", "", text)) for text in (a, b))
    return math.isclose(a, b, rel_tol=1e-6)


def rows(folder, names=None, with_python=True, repeat=7):
    """Per program: name, argument, seconds of RelayVM, of Lua and of Python (None if not there)."""
    for name, n in PROGRAMS:
        if names and name not in names:
            continue
        model = relayvm.compile_file(f"{FOLDER}/{name}.relay", f"{folder}/{name}.rvm", 3)
        result, seconds = ours(model, n, repeat)
        lua = python = None
        if shutil.which("lua5.4"):
            script = f"{folder}/peer.lua"
            with open(script, "w", encoding="utf-8") as file:
                file.write(LUA % repeat)
            theirs, lua = peer(["lua5.4"], script, f"{FOLDER}/{name}.lua", n)
            if not same(result, theirs):
                sys.exit(f"{name} {n}: RelayVM says {result}, Lua {theirs}")
        if with_python:
            script = f"{folder}/peer.py"
            with open(script, "w", encoding="utf-8") as file:
                file.write(PYTHON % 2)
            theirs, python = peer([sys.executable], script, f"{FOLDER}/{name}.py", n)
            if not same(result, theirs):
                sys.exit(f"{name} {n}: RelayVM says {result}, Python {theirs}")
        yield name, n, seconds, lua, python


def table(measured):
    lines = ["| Program | RelayVM | Lua 5.4 | Python 3 | RelayVM is, beside Lua |", "|---|---:|---:|---:|---:|"]
    ratios = []
    for name, n, seconds, lua, python in measured:
        cells = [f"{1e3 * t:.1f} ms" if t else "" for t in (seconds, lua, python)]
        if lua:
            ratios.append(lua / seconds)
        lines.append(f"| {name} {n} | {' | '.join(cells)} | {f'{lua / seconds:.2f}x' if lua else ''} |")
    if ratios:
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        lines.append(f"| geometric mean | | | | {mean:.2f}x |")
    return "\n".join(lines) + "\n"
