"""Every operator against numpy: with static shapes, with all extents erased to `?`, and with named ones.

The forms of many cases are compiled together, an entry each, because they share most kernels, and run by the library in
this process.
"""

import os
import tempfile
import unittest

import numpy as np

import in_process
import operator_cases
import relayvm

BATCH = 60
NAMES = "abcdefgh"
FORMS = ("static", "erased", "named")


def signature(index, case, form, entry="case"):
    params = []
    for name, array in zip(NAMES, case.inputs):
        extents = {
            "static": [str(n) for n in array.shape],
            "erased": ["?"] * array.ndim,
            "named": [f"{name}{axis}" for axis in range(array.ndim)],
        }["static" if name in case.fixed else form]
        params.append(f"%{name}: Tensor[({', '.join(extents)}), {array.dtype}]")
    return f"def @{entry}{index}({', '.join(params)}) {{ {case.expression} }}\n"


def keeps_meaning(case, form):
    """Whether the case still types when extents are not known: some operators need them."""
    if form == "static":
        return True
    return bool(case.inputs) and any(array.ndim for array in case.inputs) and (
        case.op not in NEEDS_STATIC or case.op in FILTERS_ARE_STATIC and (case.fixed == "b" or len(case.inputs) == 1))


# Operators whose result's rank or number of parts hangs on an extent.
NEEDS_STATIC = {"gather_nd", "scatter_nd", "nn.conv1d", "nn.conv2d", "nn.conv3d", "nn.conv1d_transpose", "nn.conv2d_transpose",
                "nn.conv3d_transpose", "nn.contrib_conv2d_NCHWc",
                "qnn.conv2d", "qnn.conv2d_transpose", "nn.deformable_conv2d", "image.dilation2d", "nn.bitserial_conv2d"}

# Convolutions need only the extents of their filters.
FILTERS_ARE_STATIC = {f"nn.conv{axes}d{transposed}" for axes in (1, 2, 3) for transposed in ("", "_transpose")}


def difference(case, seen):
    expected = case.expected
    if seen.dtype != expected.dtype or seen.shape != expected.shape:
        return f"saw {seen.dtype}{seen.shape}; expected {expected.dtype}{expected.shape}"
    if case.tolerance == 0:
        same = np.array_equal(seen, expected, equal_nan=expected.dtype.kind == "f")
    else:
        with np.errstate(invalid="ignore"):
            same = np.allclose(seen.astype("float64"), expected.astype("float64"), rtol=case.tolerance, atol=case.tolerance, equal_nan=True)
    if same:
        return ""
    return f"saw {seen.ravel()[:8]}; expected {expected.ravel()[:8]}"


def same_text(seen, expected):
    """Equal numbers of equal dtypes in the same tuples and lists."""
    seen, expected = (operator_cases.examples.leaves(text) for text in (seen, expected))
    return len(seen) == len(expected) and all(difference(operator_cases.Case("", "", [], b, 1e-5), a) == "" for a, b in zip(seen, expected))


def run_case(folder, model, index, case):
    args = []
    for name, array in zip(NAMES, case.inputs):
        path = os.path.join(folder, f"{index}{name}.npy")
        np.save(path, np.ascontiguousarray(array) if array.ndim else array)
        args.append("@" + path)
    out = os.path.join(folder, f"{index}.npy")
    done = relayvm.run(relayvm.RUNTIME, model, "--entry", f"case{index}", "--out", out, *args)
    if done.returncode != 0:
        return done.stderr.strip()[-600:]
    return difference(case, np.load(out))


def runs_here(folder, *targets):
    """Whether this CPU runs code for one of the targets."""
    source, model = os.path.join(folder, "probe.relay"), os.path.join(folder, "probe.rvm")
    with open(source, "w", encoding="utf-8") as file:
        file.write("def @main(%a: Tensor[(3), float32]) { exp(%a) }\n")
    relayvm.must(relayvm.COMPILER, "compile", source, "-o", model, "--target", ",".join(targets))
    done = relayvm.run(relayvm.RUNTIME, model, "[1, 2, 3]")
    if done.returncode != 0 and "supports none of the executable's" not in done.stderr:
        raise relayvm.ToolError(done.stderr)
    return done.returncode == 0


def run_entry(executable, entry, case):
    """How the result of this entry differs from that of the case; empty if it does not."""
    try:
        seen = executable[entry](*case.inputs)
    except Exception as error:  # whatever the library raises is a difference
        return str(error)[-600:]
    return difference(case, np.asarray(seen))


class Cases(unittest.TestCase):
    """The check that the classes below share; each class is a process of its own."""

    def check(self, forms, *flags, part=slice(None), every=1, runs=True):
        """Compiles the forms of these cases in batches, or of one in `every` of each operator; runs them if this CPU can."""
        cases = list(enumerate(operator_cases.one_in(every, operator_cases.all_cases()[part])))
        wrong, count = [], 0
        with tempfile.TemporaryDirectory() as folder:
            for start in range(0, len(cases), BATCH):
                batch = [(form, index, case) for form in forms for index, case in cases[start:start + BATCH] if keeps_meaning(case, form)]
                if not batch:
                    continue
                source, model = os.path.join(folder, "cases.relay"), os.path.join(folder, "cases.rvm")
                with open(source, "w", encoding="utf-8") as file:
                    file.writelines(signature(index, case, form, form) for form, index, case in batch)
                entries = [flag for form, index, _ in batch for flag in ("--entry", f"{form}{index}")]
                count += len(batch)
                compiled = relayvm.run(relayvm.COMPILER, "compile", source, "-o", model, "--verify-passes", *flags, *entries)
                if compiled.returncode != 0:
                    wrong.append(compiled.stderr[-3000:])
                    continue
                executable = in_process.load(model) if runs else None
                for form, index, case in batch if runs else ():
                    problem = run_entry(executable, f"{form}{index}", case)
                    if problem:
                        wrong.append(f"{signature(index, case, form).strip()}\n    {problem}")
        self.assertEqual(len(wrong), 0, f"{len(wrong)} of {count} cases differ:\n" + "\n".join(wrong[:40]))
        self.assertGreater(count, 0)
        print(f"        {count} operator cases, {' '.join(forms)} shapes {' '.join(flags)}")


class DefaultLevel(Cases):
    RUNS_FIRST = True

    def test_all_forms(self):
        """Every third case of each operator with known extents, and one in twelve in each other form; all in all of them with --long."""
        self.check(FORMS[:1], every=relayvm.long_or(1, 3))
        for number, form in enumerate(FORMS[1:]):
            self.check([form], part=relayvm.long_or(slice(None), slice(number, None, 12)))


class HighestLevel(Cases):
    """Machine code differs from the default level's by LLVM's pipeline and by vectors of straight code."""

    RUNS_FIRST = True

    def test_static_shapes(self):
        """One case in six; all of them with --long."""
        self.check(["static"], "-O3", part=slice(0, None, relayvm.long_or(1, 6)))

    def test_named_shapes(self):
        """One case in sixteen, others than above; all of them with --long."""
        self.check(["named"], "-O3", part=relayvm.long_or(slice(None), slice(2, None, 16)))


class Targets(Cases):
    RUNS_FIRST = True
    TARGETS = ("x86-64", "x86-64-v3", "x86-64-v4")

    def test_portable(self):
        self.check(["erased"], "--target", "portable")

    def test_each_target(self):
        """One case in six, each on one of the targets; every second one with --long. Where this CPU does not run it, its code is made."""
        for number, target in enumerate(self.TARGETS):
            with self.subTest(target), tempfile.TemporaryDirectory() as folder:
                part = slice(number, None, relayvm.long_or(2, 6) * len(self.TARGETS))
                self.check(["static"], "--target", target, part=part, runs=runs_here(folder, target))

    def test_several_targets_in_one_file(self):
        """Few cases, because each target's code is the same as in a file of its own."""
        self.check(["erased"], "--target", ",".join(self.TARGETS), part=slice(0, None, relayvm.long_or(32, 96)))
        with tempfile.TemporaryDirectory() as folder:
            self.assertTrue(runs_here(folder, *self.TARGETS))
            shown = relayvm.must(relayvm.COMPILER, "inspect", os.path.join(folder, "probe.rvm"))
            self.assertEqual([line.split()[1] for line in shown.splitlines() if line.startswith("  target ")], list(self.TARGETS))


class Examples(unittest.TestCase):
    def test_each_level(self):
        """The higher levels are compared as cases."""
        examples = operator_cases.examples.all_examples()
        with tempfile.TemporaryDirectory() as folder:
            source = os.path.join(folder, "examples.relay")
            with open(source, "w", encoding="utf-8") as file:
                for index, example in enumerate(examples):
                    inputs = [operator_cases.examples.array(text) for text in example.arguments]
                    file.write(signature(index, operator_cases.Case(example.op, example.expression, inputs, 0), "static"))
            entries = [flag for index in range(len(examples)) for flag in ("--entry", f"case{index}")]
            runs = {"eval": lambda *args: relayvm.run(relayvm.COMPILER, "eval", source, *args)}
            for level in (0, 1):
                model = os.path.join(folder, f"O{level}.rvm")
                relayvm.must(relayvm.COMPILER, "compile", source, "-o", model, "--verify-passes", f"-O{level}", *entries)
                runs[f"-O{level}"] = lambda *args, model=model: relayvm.run(relayvm.RUNTIME, model, *args)
            wrong = []
            for index, example in enumerate(examples):
                for how, run in runs.items():
                    done = run("--entry", f"case{index}", *example.arguments)
                    if done.returncode != 0 or not same_text(done.stdout, example.result):
                        wrong.append(f"{how}: {example.call}\n    saw {(done.stdout or done.stderr).strip()}; expected {example.result}")
        self.assertEqual(len(wrong), 0, f"{len(wrong)} examples of operators differ:\n" + "\n".join(wrong[:40]))
        print(f"        {len(examples)} examples of operators, {' '.join(runs)}")

    def test_there_are_many_cases(self):
        total = sum(keeps_meaning(case, form) for case in operator_cases.all_cases() for form in FORMS)
        self.assertGreaterEqual(total, 1500)


if __name__ == "__main__":
    unittest.main()
