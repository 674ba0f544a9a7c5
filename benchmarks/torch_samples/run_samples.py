"""Imports and runs what make_samples.py exported, and compares with PyTorch's results: see README.md."""

import argparse
import collections
import concurrent.futures
import glob
import os
import re
import subprocess
import sys
import tempfile

import numpy

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tests"))
import relayvm  # noqa: E402

TOLERANCE = {"rtol": 1e-3, "atol": 1e-4}
OUTCOMES = ("equal", "refused", "failed", "different", "not exported")


def leaves(value):
    """The tensors of a value, tuples in order."""
    if isinstance(value, relayvm.Adt) and value[0] == "Constant":
        return [numpy.zeros(value[2] if isinstance(value[2], tuple) else (value[2],))]  # an empty tensor, and its shape
    if isinstance(value, tuple):
        return [leaf for field in value for leaf in leaves(field)]
    return [numpy.array(value)]


def difference(results, expected, is_random):
    """How the results differ from PyTorch's; "" if they do not."""
    if len(results) != len(expected):
        return f"{len(results)} results; expected {len(expected)}"
    for i, (result, wanted) in enumerate(zip(results, expected)):
        if result.shape != wanted.shape:
            return f"result {i} has the shape {result.shape}; expected {wanted.shape}"
        if wanted.size == 0 or is_random:
            continue
        result, wanted = result.astype("float64"), wanted.astype("float64")
        if not numpy.allclose(result, wanted, equal_nan=True, **TOLERANCE):
            at = numpy.unravel_index(numpy.argmax(~numpy.isclose(result, wanted, equal_nan=True, **TOLERANCE)), wanted.shape)
            return f"result {i} has {result[at]:.6g} at {list(map(int, at))}; expected {wanted[at]:.6g}"
    return ""


def refusals(message):
    """The reasons of a refusal, without the names of nodes."""
    lines = message.split(": cannot be imported\n", 1)[-1].splitlines()
    return [re.sub(r" \([^()]*`[^()]*\)$", "", line) for line in lines if re.match(r"\S+: ", line)] or [message[:150]]


def run_program(sample, form, seconds):
    """(the outcome, reasons)"""
    if not os.path.exists(f"{sample}.{form}.pt2"):
        reason = f"{sample}.{form}.reason"
        if not os.path.exists(reason):
            return "not exported", ["its trace is not exported"]
        with open(reason, encoding="utf-8") as file:
            return "not exported", [file.readline().strip()[:150]]
    with tempfile.TemporaryDirectory() as folder, numpy.load(sample + ".npz") as tensors:
        arguments = []
        for i in range(sum(name.startswith("in.") for name in tensors)):
            arguments.append("@" + os.path.join(folder, f"{i}.npy"))
            numpy.save(arguments[-1][1:], tensors[f"in.{i}"])
        expected = [tensors[f"out.{i}"] for i in range(sum(name.startswith("out.") for name in tensors))]
        is_random = bool(tensors["random"])
        command = (relayvm.COMPILER, "run", f"{sample}.{form}.pt2", *arguments)
        try:
            done = relayvm.run(*command, "--target", "portable", timeout=seconds)
            if done.returncode != 0 and "%seed: int64)`" in done.stderr:  # the last argument of programs that draw
                done = relayvm.run(*command, "1i64", "--target", "portable", timeout=seconds)
        except subprocess.TimeoutExpired:
            return "failed", [f"it takes more than {seconds} s"]
    if ": cannot be imported" in done.stderr:
        return "refused", refusals(done.stderr)
    if done.returncode != 0:
        lines = [line.split("error: ", 1)[1] for line in done.stderr.splitlines() if "error: " in line]
        return "failed", (lines or [f"exit status {done.returncode}: {done.stderr[-150:]}"])[:1]
    results = leaves(relayvm.parse_value(done.stdout))[:len(expected)]  # behind them: new values of arguments
    differs = difference(results, expected, is_random)
    return ("different", [differs]) if differs else ("equal", [])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--names", default="", help="a regular expression that chooses operators")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--limit", type=int, default=60, help="seconds for a program")
    parser.add_argument("--each", action="store_true", help="print each program that is not equal")
    options = parser.parse_args()
    programs = []
    for path in sorted(glob.glob(os.path.join(options.folder, "*", "*.npz"))):
        if os.path.dirname(path).endswith(".part"):
            continue  # is being made
        if re.search(options.names, os.path.basename(os.path.dirname(path))):
            programs += [(path.removesuffix(".npz"), form) for form in ("traced", "core")]
    counts = collections.Counter()
    reasons = collections.defaultdict(collections.Counter)
    operators = collections.defaultdict(collections.Counter)
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        outcomes = pool.map(lambda program: run_program(*program, options.limit), programs)
        for (sample, form), (outcome, why) in zip(programs, outcomes):
            operator = os.path.basename(os.path.dirname(sample))
            counts[outcome] += 1
            operators[operator][outcome] += 1
            for reason in sorted(set(why)):
                reasons[outcome][reason if outcome in ("refused", "not exported") else f"{operator} {reason}"] += 1
            if options.each and outcome not in ("equal", "not exported"):
                print(f"{outcome}: {os.path.relpath(sample, options.folder)}.{form}: {'; '.join(why)}")
    for outcome in OUTCOMES[1:]:
        print(f"\n{outcome}: {counts[outcome]} programs")
        for reason, count in reasons[outcome].most_common():
            print(f"{count:5} {reason}")
        those = [f"{name} {count[outcome]}" for name, count in sorted(operators.items()) if count[outcome]]
        print(f"operators: {', '.join(those)}")
    exported = sum(counts.values()) - counts["not exported"]
    print(f"\n{exported} exported programs of {len(operators)} operators: "
          + ", ".join(f"{counts[outcome]} {outcome} ({counts[outcome] / max(exported, 1):.1%})" for outcome in OUTCOMES[:4]))


if __name__ == "__main__":
    main()
