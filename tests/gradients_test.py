"""The gradient rule of every operator that has one, in reverse and in forward mode, against finite differences in
float64.

The cases are those of operators_test.py. For a case `y = op(a, b)` the function is sum(y * w) with random weights `w`.
Its gradient by the floating-point arguments, times a random direction, is compared with its tangent along that
direction, and with the difference of its values. One program computes all three.
"""

import collections
import os
import re
import tempfile
import unittest

import numpy as np

import gradient_cases
import operator_cases
import relayvm
from operator_cases import examples
from operators_test import BATCH, NAMES, NEEDS_STATIC

STEP = 2e-7
TOLERANCE = 1e-5
SAME = 1e-10  # forward and reverse mode: the same numbers in another order

# Operators whose value does not follow their inputs smoothly, or is not a function of them alone.
WITHOUT_DIFFERENCES = {
    "qnn.simulated_quantize": "its rounding passes the adjoint on; docs/gradients.md has an example",
    "relay.op.annotation.simulated_quantize": "its rounding passes the adjoint on; docs/gradients.md has an example",
    "stop_gradient": "hides the gradient that its value has",
}

# Operators whose rule does not cover all attributes.
PARTIAL = {"nn.adaptive_max_pool1d", "nn.adaptive_max_pool2d", "nn.adaptive_max_pool3d", "scatter_elements", "scatter_nd"}


def with_rules():
    return set(relayvm.must(examples.LISTER, "--gradients").split())


def inputs_of(case):
    """The inputs in float64, moved off the points where an operator has a kink or a tie."""
    generator = operator_cases.case.rng("gradient", case.op, case.expression)
    moved = []
    for array in case.inputs:
        if array.dtype.kind == "f":
            array = array.astype("float64")
            array = np.where(np.isfinite(array), array, 0.25)
            array = array * (1 - 1e-3 * generator.uniform(0.1, 1, array.shape))
            array = array + 1e-4 * generator.uniform(-1, 1, array.shape)
        moved.append(array)
    return moved


def program(index, case, inputs, form):
    """`@caseN(inputs, weights, directions)`: the gradient along the directions, the tangent and the difference."""
    def kind(name, array, extents):
        return f"%{name}: Tensor[({', '.join(extents)}), {array.dtype}]"

    def extents(name, array, named):
        if form == "static" or name in case.fixed:
            return [str(n) for n in array.shape]
        return [f"{name}{axis}" for axis in range(array.ndim)] if named else ["?"] * array.ndim

    floats = [(name, array) for name, array in zip(NAMES, inputs) if array.dtype.kind == "f"]
    params = [kind(name, array, extents(name, array, True)) for name, array in zip(NAMES, inputs)]
    params.append(f"%w: Tensor[({', '.join(map(str, case.expected.shape))}), float64]")
    params += [kind("v" + name, array, extents(name, array, True)) for name, array in floats]
    inner = [kind(name, array, extents(name, array, True)) for name, array in floats]
    expression = re.sub(r"(?<=[0-9.])f\b", "f64", re.sub('"float(16|32)"', '"float64"', case.expression))
    moved = {sign: ", ".join(f"%{name} {sign} {STEP}f64 * %v{name}" for name, _ in floats) for sign in "+-"}
    along = " + ".join(f"sum(%p.1.{i} * %v{name})" for i, (name, _) in enumerate(floats))
    return (f"def @case{index}({', '.join(params)}) {{\n"
            f"  let %f = fn ({', '.join(inner)}) {{ sum(({expression}) * %w) }};\n"
            f"  let %p = grad(%f)({', '.join('%' + name for name, _ in floats)});\n"
            f"  let %q = jvp(%f)({', '.join(['%' + name for name, _ in floats] + ['%v' + name for name, _ in floats])});\n"
            f"  ({along}, %q.1, (%f({moved['+']}) - %f({moved['-']})) / {2 * STEP}f64)\n"
            "}\n")


def is_case(case, rules):
    if case.op == "sort" and case.inputs[0].size > 60:
        return False  # a step changes the order
    return (case.op in rules and case.op not in WITHOUT_DIFFERENCES and case.expected.dtype.kind == "f" and
            case.expected.size > 0 and any(array.dtype.kind == "f" and array.size for array in case.inputs) and
            not any(array.dtype.kind == "f" and array.dtype != "float32" for array in case.inputs))


def a_few_of_each(cases):
    """Up to two cases of each operator, spread over its list: compiling them takes most of the time."""
    by_op = collections.defaultdict(list)
    for case in cases:
        by_op[case.op].append(case)
    return [of_op[i * len(of_op) // 2] for of_op in by_op.values() for i in range(min(2, len(of_op)))]


class Gradients(unittest.TestCase):
    def check(self, form, *flags):
        rules = with_rules()
        cases = [case for case in operator_cases.all_cases()
                 if is_case(case, rules) and (form == "static" or case.op not in NEEDS_STATIC)]
        if form != "static":
            cases = a_few_of_each(cases)
        wrong = []
        with tempfile.TemporaryDirectory() as folder:
            for start in range(0, len(cases), BATCH):
                batch = list(enumerate(cases[start:start + BATCH], start))
                wrong += self.run_batch(folder, batch, form, flags)
        self.assertEqual(len(wrong), 0, f"{len(wrong)} of {len(cases)} gradients differ:\n" + "\n".join(wrong[:40]))
        print(f"        {len(cases)} gradients, {form} shapes {' '.join(flags)}")
        return {case.op for case in cases}

    def run_batch(self, folder, batch, form, flags):
        source, model = os.path.join(folder, "batch.relay"), os.path.join(folder, "batch.rvm")
        inputs = {index: inputs_of(case) for index, case in batch}
        batch = self.without_refused(source, batch, inputs, form)
        entries = [flag for index, _ in batch for flag in ("--entry", f"case{index}")]
        relayvm.must(relayvm.COMPILER, "compile", source, "-o", model, *flags, *entries)
        for index, case in batch:
            generator = operator_cases.case.rng("direction", case.op, case.expression)
            arrays = [*inputs[index], generator.uniform(0.5, 1.5, case.expected.shape)]
            arrays += [generator.uniform(-1, 1, array.shape) for array in inputs[index] if array.dtype.kind == "f"]
            args = []
            for number, array in enumerate(arrays):
                path = os.path.join(folder, f"{number}.npy")
                np.save(path, array)
                args.append("@" + path)
            done = relayvm.run(relayvm.RUNTIME, model, "--entry", f"case{index}", *args)
            if done.returncode != 0:
                yield f"{program(index, case, inputs[index], form)}    {done.stderr.strip()[-400:]}"
                continue
            along, tangent, difference = (float(x) for x in examples.leaves(done.stdout))
            if not abs(along - difference) <= TOLERANCE * (1 + abs(difference)):
                yield f"{program(index, case, inputs[index], form)}    saw {along}; expected {difference}"
            if not abs(tangent - along) <= SAME * (1 + abs(along)):
                yield f"{program(index, case, inputs[index], form)}    saw the tangent {tangent}; expected {along}"

    def without_refused(self, source, batch, inputs, form):
        """Writes the programs of the cases whose attributes their rule covers, and returns these."""
        def write(cases):
            lines = []
            with open(source, "w", encoding="utf-8") as file:
                for index, case in cases:
                    text = program(index, case, inputs[index], form)
                    file.write(text)
                    lines += [index] * text.count("\n")
            return lines

        # Until no error is left: a run of the checker reports only so many.
        while True:
            lines = write(batch)
            checked = relayvm.run(relayvm.COMPILER, "check", source).stderr
            errors = re.findall(r":(\d+):\d+: error: `([^`]*)` has no gradient here", checked)
            if not errors:
                return batch
            self.refused |= {op for _, op in errors}
            refused = {lines[int(line) - 1] for line, _ in errors}
            batch = [(index, case) for index, case in batch if index not in refused]

    def setUp(self):
        self.refused = set()

    def test_static_shapes(self):
        tested = self.check("static")
        self.assertEqual(sorted(with_rules() - tested - set(WITHOUT_DIFFERENCES)), [], "rules without a case")
        self.assertEqual(self.refused, PARTIAL)

    def test_named_shapes(self):
        self.check("named", "-O3")

    def test_operators_without_a_rule_are_documented(self):
        """Those that give floating-point numbers of others."""
        rules = with_rules()
        without = {case.op for case in operator_cases.all_cases()
                   if case.op not in rules and case.expected.dtype.kind == "f" and any(a.dtype.kind == "f" for a in case.inputs)}
        with open(os.path.join(relayvm.ROOT, "docs/gradients.md"), encoding="utf-8") as file:
            section = file.read().split("## Operators without a gradient\n")[1].split("\n## ")[0]
        self.assertEqual(without - set(re.findall("`([^`]*)`", section)), set(), "not named there")
        self.assertEqual(rules & set(re.findall("`([^`]*)`", section.split("Rules that cover")[0])) - {"nn.conv2d"}, set(), "named there, but have a rule")


class PyTorch(unittest.TestCase):
    """Kinks, ties and second derivatives, beside what PyTorch gives for the same inputs (tests/gradient_cases/pytorch.npz)."""

    TOLERANCE = {"float64": 1e-9, "float32": 2e-5, "float16": 2e-2, "bfloat16": 1.5e-1}

    @classmethod
    def setUpClass(cls):
        cls.stored = np.load(os.path.join(relayvm.ROOT, "tests/gradient_cases/pytorch.npz"))

    def program(self, index, case, dtype, known, order):
        """`@caseN(inputs, weights)`: the gradients of the weighted sum, or those of their products with the inputs."""
        names = NAMES[:len(case.shapes)]
        weights = self.stored[f"{case.name}.weights"]

        def dims(shape):
            return f"({', '.join(map(str, shape) if known else '?' * len(shape))}{',' if len(shape) == 1 else ''})"

        def cast(name):
            return f'cast(%{name}, dtype="{dtype}")'

        params = ", ".join(f"%{name}: Tensor[{dims(shape)}, float64]" for name, shape in [*zip(names, case.shapes), ("w", weights.shape)])
        inner = ", ".join(f"%{name}: Tensor[{dims(shape)}, {dtype}]" for name, shape in zip(names, case.shapes))
        given = ", ".join(map(cast, names))
        text = (f"def @case{index}({params}) {{\n  let %v = {cast('w')};\n"
                f"  let %f = fn ({inner}) {{ sum(({case.relay.replace('{dtype}', dtype)}) * %v) }};\n")
        if order == "second":
            text += "".join(f"  let %{name}0 = {cast(name)};\n" for name in names)
            along = " + ".join(f"sum(%p.{i} * %{name}0)" for i, name in enumerate(names))
            passed = ", ".join(f"%{name}" for name in names)
            text += (f"  let %h = grad(%f);\n"
                     f"  let %g = fn ({inner}) {{ let %p = %h({passed}).1; {along} }};\n")
        function = "%g" if order == "second" else "%f"
        wide = "".join(f'cast(%r.{i}, dtype="float64"), ' for i in range(len(names)))
        return f"{text}  let %r = grad({function})({given}).1;\n  ({wide})\n}}\n"

    def check(self, dtype, known, order):
        cases = [case for case in gradient_cases.CASES if order == "first" or case.is_smooth]
        if not known:  # these rules need known extents
            cases = [case for case in cases if not re.search("conv|adaptive_max", case.relay)]
        wrong = []
        with tempfile.TemporaryDirectory() as folder:
            source, model = os.path.join(folder, "cases.relay"), os.path.join(folder, "cases.rvm")
            texts = [self.program(index, case, dtype, known, order) for index, case in enumerate(cases)]
            with open(source, "w", encoding="utf-8") as file:
                file.write("".join(texts))
            entries = [flag for index in range(len(cases)) for flag in ("--entry", f"case{index}")]
            relayvm.must(relayvm.COMPILER, "compile", source, "-o", model, *entries)
            for index, case in enumerate(cases):
                args = []
                for number, array in enumerate([*gradient_cases.inputs(case), self.stored[f"{case.name}.weights"]]):
                    args.append(f"@{folder}/{number}.npy")
                    np.save(args[-1][1:], np.asarray(array, "float64"))
                seen = examples.leaves(relayvm.must(relayvm.RUNTIME, model, "--entry", f"case{index}", *args))
                for number, array in enumerate(seen):
                    expected = self.stored[f"{case.name}.{order}.{number}"]
                    error = np.abs(array.reshape(expected.shape) - expected).max() / max(1, np.abs(expected).max())
                    if not error <= self.TOLERANCE[dtype]:
                        wrong.append(f"{texts[index]}    input {number}: error {error}; saw {array.ravel()[:8]}; "
                                     f"PyTorch has {expected.ravel()[:8]}")
        self.assertEqual(len(wrong), 0, f"{len(wrong)} gradients differ:\n" + "\n".join(wrong[:20]))

    def test_every_dtype(self):
        for dtype in self.TOLERANCE:
            self.check(dtype, True, "first")

    def test_unknown_shapes(self):
        self.check("float64", False, "first")

    def test_second_derivatives(self):
        self.check("float64", True, "second")


if __name__ == "__main__":
    unittest.main()
