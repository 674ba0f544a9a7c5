"""Reads, types and runs the programs of make_programs.py, and compares their results: see README.md."""

import collections
import os
import sys
import tempfile

import numpy

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tests"))
import relayvm  # noqa: E402

TOLERANCE = {"rtol": 1e-3, "atol": 1e-4}


def leaves(value):
    """The tensors of a value, tuples in order."""
    if isinstance(value, tuple):
        return [leaf for field in value for leaf in leaves(field)]
    return [numpy.array(value)]


def reason(message):
    """One line of an error, without its place."""
    lines = [line for line in message.splitlines() if "error:" in line] or message.splitlines() or ["no message"]
    return lines[0].split("error:", 1)[-1].strip()[:150]


def save_arguments(path, folder):
    """(arguments for the command line, expected results)"""
    tensors = numpy.load(path)
    arguments = []
    for i in range(sum(name.startswith("a") for name in tensors)):
        arguments.append("@" + os.path.join(folder, f"a{i}.npy"))
        numpy.save(arguments[-1][1:], tensors[f"a{i}"])
    return arguments, [tensors[f"r{i}"] for i in range(sum(name.startswith("r") for name in tensors))]


def outcome(source, params, arguments, expected, folder):
    """(the last stage reached, why no further)"""
    weights = [flag for file in params for flag in ("--params", file)]
    checked = relayvm.run(relayvm.COMPILER, "check", source, *weights)
    if checked.returncode != 0:
        parsed = relayvm.run(relayvm.COMPILER, "fmt", source)
        return "parsed" if parsed.returncode == 0 else "none", reason(checked.stderr)
    model = os.path.join(folder, "model.rvm")
    compiled = relayvm.run(relayvm.COMPILER, "compile", source, "-o", model, *weights, timeout=600)
    if compiled.returncode != 0:
        return "typed", reason(compiled.stderr)
    done = relayvm.run(relayvm.RUNTIME, model, *arguments, timeout=600)
    if done.returncode != 0:
        return "typed", reason(done.stderr)
    results = leaves(relayvm.parse_value(done.stdout))
    if len(results) != len(expected):
        return "run", f"{len(results)} results; expected {len(expected)}"
    for result, wanted in zip(results, expected):
        if result.size != wanted.size:
            return "run", f"{result.size} elements; expected {wanted.size}"
        if not numpy.allclose(result.reshape(wanted.shape).astype("float64"), wanted.astype("float64"), equal_nan=True,
                              **TOLERANCE):
            worst = numpy.nanmax(numpy.abs(result.reshape(wanted.shape).astype("float64") - wanted))
            return "run", f"another number, by at most {worst:.3g}"
    return "equal", ""


def main():
    if len(sys.argv) < 2:
        sys.exit("usage: run_programs.py FOLDER [PART-OF-NAME...]")
    root, parts = sys.argv[1], sys.argv[2:]
    stages = ["none", "parsed", "typed", "run", "equal"]
    reached = collections.Counter()
    failures = []
    sources = [f for f in sorted(os.listdir(root)) if f.endswith((".relay", ".json")) and (
        not parts or any(part in f for part in parts))]
    for file in sources:
        stem = os.path.join(root, os.path.splitext(file)[0])
        params = [f"{stem}.params"] if os.path.exists(f"{stem}.params") else []
        with tempfile.TemporaryDirectory() as folder:
            arguments, expected = save_arguments(f"{stem}.npz", folder)
            stage, why = outcome(os.path.join(root, file), params, arguments, expected, folder)
        for passed in stages[1:stages.index(stage) + 1]:
            reached[passed] += 1
        if stage != "equal":
            failures.append((stage, file, why))
    print(f"{len(sources)} programs: " + ", ".join(f"{reached[stage]} {stage}" for stage in stages[1:]))
    for stage, file, why in failures:
        print(f"  {file}, got to `{stage}`: {why}")


main()
