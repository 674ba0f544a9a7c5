"""Wherever memory runs out while the runtime loads, runs and ends, it says so; it never crashes."""

import os
import tempfile

import relayvm

FAILER = os.path.join(relayvm.ROOT, "bazel-bin/tests/libfail_allocation.so")

# Program of tests/programs, entry, arguments.
RUNS = [("recursion", None, ()),
        ("lists", "concat", ("Cons(1, Nil)", "Cons(2, Cons(3, Nil))")),
        ("reference_to_function", "main", ("5",)),
        ("matrices", "parts", ("[1, 2, 3, 4]",)),
        ("dynamic_shapes", "rows", ("[[1, 2], [3, 4], [5, 6]]", "[[1, 1]]"))]


def first_run(path):
    """Entry and arguments of a program's first `run:` line, if they are plain."""
    with open(path, encoding="utf-8") as file:
        call = next(line for line in file if line.startswith("// run: "))[len("// run: "):].split(" => ")[0]
    entry, arguments = call.rstrip(")").split("(", 1)
    return entry, tuple(part.strip() for part in arguments.split(",") if part.strip())


class Allocation(relayvm.TestCase):
    def run_failing(self, command, number, goes_on=False):
        environment = {**os.environ, "LD_PRELOAD": FAILER, "FAIL_ALLOCATION": str(number)}
        if goes_on:
            environment["FAIL_ALLOCATION_ON"] = "1"
        return relayvm.run(*command, env=environment)

    def sweep(self, name, entry, arguments):
        self.assertTrue(os.path.exists(FAILER), "bazel build //tests/... makes it")
        path = os.path.join(relayvm.ROOT, "tests/programs", name + ".relay")
        if entry is None:
            entry, arguments = first_run(path)
        with tempfile.TemporaryDirectory() as folder:
            model = relayvm.compile_file(path, os.path.join(folder, "m.rvm"))
            command = (relayvm.RUNTIME, model, "--entry", entry, *arguments)
            right = relayvm.must(*command)
            counted = self.run_failing(command, 0)
            self.assertEqual(counted.stdout, right)
            count = int(counted.stderr.split("allocations: ")[1])
            self.assertGreater(count, 100)
            refused, wrong = 0, []
            for goes_on in (False, True):
                # Load makes most of the allocations, many alike; what follows it is at the end.
                for number in range(1, count + 1, 1 if not goes_on else 5):
                    done = self.run_failing(command, number, goes_on)
                    if done.returncode == 0 and done.stdout == right:
                        continue
                    refused += 1
                    if done.returncode != 1 or "memory" not in done.stderr or done.stdout not in ("", right):
                        wrong.append(f"{number} of {count}: status {done.returncode}: {done.stderr[-200:]!r}")
            self.assert_none(wrong, f"{name}: failed allocations without an error that says so")
            self.assertGreater(refused, count / 2)


for case in RUNS:
    setattr(Allocation, f"test_{case[0]}", lambda self, case=case: self.sweep(*case))
