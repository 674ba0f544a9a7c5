"""The gradient rule of every operator that has one, in reverse and in forward mode, against finite differences in
float64.

The cases are those of operators_test.py. For a case `y = op(a, b)` the function is sum(y * w) with random weights `w`.
Its gradient by the floating-point arguments, times a random direction, is compared with its tangent along that
direction, and with the difference of its values. One program computes all three. For second derivatives the function is
that product of the gradient and the direction.
"""

import concurrent.futures
import os
import re
import tempfile
import unittest

import numpy as np

import gradient_cases
import operator_cases
import relayvm
from operator_cases import examples
from operators_test import BATCH, NAMES

STEP = 2e-7
TOLERANCE = 1e-5
PORTABLE = ("--target", "portable")
SAME = 1e-10  # forward and reverse mode: the same numbers in another order

# Operators whose value does not follow their inputs smoothly, or is not a function of them alone.
WITHOUT_DIFFERENCES = {
    "qnn.simulated_quantize": "its rounding passes the adjoint on; docs/gradients.md has an example",
    "relay.op.annotation.simulated_quantize": "its rounding passes the adjoint on; docs/gradients.md has an example",
    "stop_gradient": "hides the gradient that its value has",
    **dict.fromkeys(["arange", "arange_fill", "unique", "unique_fill"],
                    "a step changes how many elements there are; tests/programs/gradients_of_counts.relay has examples"),
}

# Inputs that say how many elements there are: differences are not taken along them.
EXTENTS = {"dyn.nn.upsampling": "bc", "dyn.nn.upsampling3d": "bcd"}

# Operands whose extents an operator needs.
KNOWN = {"gather_nd": "b", "scatter_nd": "b", "nn.deformable_conv2d": "c", "image.dilation2d": "b", "nn.contrib_conv2d_NCHWc": "b",
         "strided_set": "cde",
         **{f"nn.conv{axes}d{transposed}": "b" for axes in (1, 2, 3) for transposed in ("", "_transpose")}}


def with_rules():
    return set(relayvm.must(relayvm.built(examples.LISTER), "--gradients").split())


def inputs_of(case):
    """The inputs in float64, moved off the points where an operator has a kink or a tie."""
    generator = operator_cases.case.rng("gradient", case.op, case.expression)
    moved = []
    for name, array in zip(NAMES, case.inputs):
        if array.dtype.kind == "f" and name not in EXTENTS.get(case.op, ""):
            array = array.astype("float64")
            array = np.where(np.isfinite(array), array, 0.25)
            array = array * (1 - 1e-3 * generator.uniform(0.1, 1, array.shape))
            array = array + 1e-4 * generator.uniform(-1, 1, array.shape)
        moved.append(array)
    return moved


def directions(case, inputs):
    """The names and values of what the gradient is taken by."""
    return [(name, array) for name, array in zip(NAMES, inputs) if array.dtype.kind == "f" and name not in EXTENTS.get(case.op, "")]


def program(index, case, inputs, form, order):
    """`@caseN(inputs, weights, directions)`: the gradient along the directions, the tangent and the difference, of the
    weighted sum or (`order` 2) of its gradient along the directions."""
    def extents(name, array):
        if form == "static" or name in case.fixed or name in KNOWN.get(case.op, ""):
            return map(str, array.shape)
        return [f"{name}{axis}" if form == "named" else "?" for axis in range(array.ndim)]

    def kind(name, array, of=None):
        return f"%{name}: Tensor[({', '.join(extents(of or name, array))}), {array.dtype}]"

    floats = directions(case, inputs)
    params = [kind(name, array) for name, array in zip(NAMES, inputs)]
    params.append(f"%w: Tensor[({', '.join(map(str, case.expected.shape))}), float64]")
    params += [kind("v" + name, array, name) for name, array in floats]
    inner = ", ".join(kind(name, array) for name, array in floats)
    expression = re.sub(r"(?<=[0-9.])f\b", "f64", re.sub('"float(16|32)"', '"float64"', case.expression))
    names = ", ".join("%" + name for name, _ in floats)
    along = " + ".join(f"sum(%p.1.{i} * %v{name})" for i, (name, _) in enumerate(floats))
    moved = {sign: ", ".join(f"%{name} {sign} {STEP}f64 * %v{name}" for name, _ in floats) for sign in "+-"}
    text = f"def @case{index}({', '.join(params)}) {{\n  let %f = fn ({inner}) {{ sum(({expression}) * %w) }};\n"
    if order == 2:
        text += f"  let %g = fn ({inner}) {{ let %p = grad(%f)({names}); {along} }};\n"
    f = "%g" if order == 2 else "%f"
    return (text + f"  let %p = grad({f})({names});\n"
            f"  let %q = jvp({f})({names}, {', '.join('%v' + name for name, _ in floats)});\n"
            f"  ({along}, %q.1, ({f}({moved['+']}) - {f}({moved['-']})) / {2 * STEP}f64)\n"
            "}\n")


def is_case(case, rules):
    if case.op == "sort" and case.inputs[0].size > 60:
        return False  # a step changes the order
    if np.isinf(case.expected.astype("float64")).any():
        return False  # differences near a pole tell nothing
    return (case.op in rules and case.op not in WITHOUT_DIFFERENCES and case.expected.dtype.kind == "f" and
            case.expected.size > 0 and any(array.dtype.kind == "f" and array.size for array in case.inputs) and
            not any(array.dtype.kind == "f" and array.dtype != "float32" for array in case.inputs))


def one_of_each(cases, place):
    """A case of each operator, the one at `place` (from 0 to below 1) of its list: compiling them takes most of the time."""
    return [group[int(len(group) * place)] for group in operator_cases.by_operator(cases)]


def run_batch(folder, start, cases, form, order, flags):
    """A text for each program of `cases` whose numbers differ."""
    folder = os.path.join(folder, str(start))
    os.mkdir(folder)
    source, model = os.path.join(folder, "batch.relay"), os.path.join(folder, "batch.rvm")
    inputs = [inputs_of(case) for case in cases]
    texts = [program(index, case, arrays, form, order) for index, (case, arrays) in enumerate(zip(cases, inputs))]
    with open(source, "w", encoding="utf-8") as file:
        file.writelines(texts)
    entries = [flag for index in range(len(cases)) for flag in ("--entry", f"case{index}")]
    relayvm.must(relayvm.COMPILER, "compile", source, "-o", model, "--verify-passes", *flags, *entries)
    wrong = []
    for index, (case, arrays, text) in enumerate(zip(cases, inputs, texts)):
        generator = operator_cases.case.rng("direction", case.op, case.expression)
        args = [*arrays, generator.uniform(0.5, 1.5, case.expected.shape)]
        args += [generator.uniform(-1, 1, array.shape) for _, array in directions(case, arrays)]
        paths = [os.path.join(folder, f"{number}.npy") for number in range(len(args))]
        for path, array in zip(paths, args):
            np.save(path, array)
        done = relayvm.run(relayvm.RUNTIME, model, "--entry", f"case{index}", *("@" + path for path in paths))
        if done.returncode != 0:
            wrong.append(f"{text}    {done.stderr.strip()[-400:]}")
            continue
        along, tangent, difference = (float(x) for x in examples.leaves(done.stdout))
        if not abs(along - difference) <= TOLERANCE * (1 + abs(difference)):
            wrong.append(f"{text}    saw {along}; expected {difference}")
        if not abs(tangent - along) <= SAME * (1 + abs(along)):
            wrong.append(f"{text}    saw the tangent {tangent}; expected {along}")
    return wrong


class Gradients(unittest.TestCase):
    RUNS_FIRST = True

    def check(self, form, *flags, place=None, every=1, order=1):
        rules = with_rules()
        cases = [case for case in operator_cases.all_cases() if is_case(case, rules)]
        if place is not None:
            cases = one_of_each(cases, place)
        cases = operator_cases.one_in(every, cases)
        with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(2) as pool:
            batches = [pool.submit(run_batch, folder, start, cases[start:start + BATCH], form, order, flags)
                       for start in range(0, len(cases), BATCH)]
            wrong = [text for batch in batches for text in batch.result()]
        self.assertEqual(len(wrong), 0, f"{len(wrong)} of {len(cases)} gradients differ:\n" + "\n".join(wrong[:40]))
        print(f"        {len(cases)} gradients of order {order}, {form} shapes {' '.join(flags)}")
        return {case.op for case in cases}

    # Portable executables need no machine code, whose making takes most of the time; the rules are the same.
    def test_static_shapes(self):
        """Every second case of each operator; each with --long."""
        tested = self.check("static", *PORTABLE, every=relayvm.long_or(1, 2))
        self.assertEqual(sorted(with_rules() - tested - set(WITHOUT_DIFFERENCES)), [], "rules without a case")

    def test_machine_code(self):
        self.check("static", place=0.5)

    def test_named_shapes(self):
        self.check("named", "-O3", *PORTABLE, place=0.5)

    def test_unknown_shapes(self):
        self.check("unknown", *PORTABLE, place=0)

    def test_second_derivatives(self):
        self.check("static", *PORTABLE, place=0, order=2)

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
        if not known:  # convolutions need the extents of their filters
            cases = [case for case in cases if "conv" not in case.relay]
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
