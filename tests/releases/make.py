"""Keeps what a release promises: make.py VERSION, with the tools of that release built.

Writes tests/releases/VERSION: executables of some test programs, with calls and their results; the exported functions
of the C interface; the public names of the Python packages; the commands and options of `relayvm` and `relayvm-run`.
"""

import json
import os
import sys

FOLDER = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(FOLDER))

import programs_test  # noqa: E402
import relayvm  # noqa: E402
import releases_test  # noqa: E402

# Programs that use most of the language and of the format between them.
PROGRAMS = ["tuples_in_registers", "perfect_trees", "nested_match", "polymorphic_values_in_data", "data_dependent_shapes",
            "literal_patterns", "values_of_any_type", "declared_extents", "list_literals", "prelude_names"]
TARGETS = {"portable": "portable", "native": "x86-64"}


def write(path, lines):
    with open(path, "w", encoding="utf-8") as file:
        file.write("".join(f"{line}\n" for line in lines))


def main():
    folder = os.path.join(FOLDER, sys.argv[1])
    os.makedirs(folder)
    lines = []
    for program in PROGRAMS:
        source = os.path.join(relayvm.ROOT, f"tests/programs/{program}.relay")
        cases = [case for case in programs_test.cases(source) if case[0] == "run"]
        entries = [flag for entry in dict.fromkeys(case[1] for case in cases) for flag in ("--entry", entry)]
        for kind, target in TARGETS.items():
            file = f"{program}.{kind}.rvm"
            relayvm.must(relayvm.COMPILER, "compile", source, "-o", os.path.join(folder, file), "--target", target, *entries)
            for _, entry, arguments, _ in cases:
                expected = relayvm.must(relayvm.RUNTIME, os.path.join(folder, file), "--entry", entry, *arguments).strip()
                lines.append(json.dumps([file, entry, arguments, expected]))
    write(os.path.join(folder, "calls.jsonl"), lines)
    for name, found in releases_test.surfaces().items():
        write(os.path.join(folder, f"{name}.txt"), found)
    print(f"{len(lines)} calls; commit tests/releases/{sys.argv[1]}")


if __name__ == "__main__":
    main()
