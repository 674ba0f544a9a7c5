"""Random programs that append to tensors and keep some of them: the values of a model in numpy, at each level and in batches."""

import os
import random
import tempfile

import numpy as np

import relayvm

PROGRAMS = relayvm.long_or(1000, 60)
STEPS = 12
# The type of a tensor, one row of it, and the axis along which rows are joined.
LAYOUTS = (("(?, 3)", (1, 3), 0), ("(2, ?, 8)", (2, 1, 8), 1), ("(1, 2, ?, 9)", (1, 2, 1, 9), 2))


class Maker:
    """Makes a program of variables that each are a tensor of rows, and computes what they hold. `waits`: each row needs a product, which
    waits for others of its kind in a program with variants for batches."""

    def __init__(self, seed, layout, waits=False):
        self.dice = random.Random(seed)
        dims, self.row, self.axis = layout
        self.waits = waits
        self.type = f"Tensor[{dims}, int32]"
        self.lines, self.values, self.references = [], {}, {}

    def add(self, text, value):
        name = f"%v{len(self.values)}"
        self.lines.append(f"let {name} = {text};")
        self.values[name] = value
        return name

    def full(self, number):
        row = f"full({number}, shape={list(self.row)}, dtype=\"int32\")"
        return f"@late({row}, %zeros)" if self.waits else row

    def joined(self, *parts):
        return np.concatenate([part if isinstance(part, np.ndarray) else np.full(self.row, part) for part in parts], axis=self.axis)

    def pick(self):
        # Mostly the last one, which nobody has yet.
        names = list(self.values)
        return names[-1] if self.dice.random() < 0.6 else self.dice.choice(names)

    def step(self):
        dice, name = self.dice, self.pick()
        value, number = self.values[name], dice.randrange(100)
        kind = dice.randrange(8)
        if kind < 3:
            count = dice.randrange(1, 4)
            parts = f", {self.full(number)}" * count
            self.add(f"concatenate(({name}{parts}), axis={self.axis})", self.joined(value, *[number] * count))
        elif kind == 3:
            other = self.pick()
            self.add(f"concatenate(({name}, {other}), axis={self.axis})", self.joined(value, self.values[other]))
        elif kind == 4:
            count = dice.randrange(1, 40)
            self.add(f"@grow({name}, 0, {count}, %zeros)", self.joined(value, *range(count)))
        elif kind == 5 and self.axis == 0:
            changed = value.copy()
            changed[len(value) - 1] = number
            place = f"reshape(cast(extent({name}, axis=0), dtype=\"int32\") - 1, newshape=[1, 1])"
            self.add(f"scatter_nd({name}, {place}, {self.full(number)})", changed)
        elif kind in (5, 6):
            self.add(f"{name} + {number}", value + number)
        else:
            reference = f"%r{len(self.references)}"
            self.lines.append(f"let {reference} = ref({name});")
            self.references[reference] = value

    def program(self):
        first = self.dice.randrange(1, 3)
        dims = list(self.row)
        dims[self.axis] = first
        self.add(f"dyn.zeros(stack(({', '.join(map(str, dims))})), dtype=\"int32\")", np.zeros(dims, int))
        for _ in range(STEPS):
            self.step()
        kept = self.dice.sample(list(self.values), 3)
        results = kept + [f"!{reference}" for reference in self.references]
        values = [self.values[name] for name in kept] + list(self.references.values())
        body = "\n  ".join(self.lines + [f"({', '.join(results)})"])
        zeros, row = "Tensor[(1, 128), float32]", f"Tensor[{tuple(self.row)}, int32]"
        return f"""def @late(%row: {row}, %zeros: {zeros}) -> {row} {{
  let %zero = max(nn.dense(%zeros, full(0.5f, shape=[128, 128])), axis=[1], keepdims=True);
  %row + reshape(cast(%zero, dtype="int32"), newshape={[1] * len(self.row)})
}}
def @grow(%a: {self.type}, %i: int32, %n: int32, %zeros: {zeros}) -> {self.type} {{
  if (%i == %n) {{ %a }} else {{ @grow(concatenate((%a, {self.full("%i")}), axis={self.axis}), %i + 1, %n, %zeros) }}
}}
def @main(%zeros: {zeros}) {{
  {body}
}}
""", values


class Appends(relayvm.TestCase):
    def test_random_programs(self):
        wrong = []
        with tempfile.TemporaryDirectory() as folder:
            np.save(os.path.join(folder, "zeros.npy"), np.zeros((1, 128), "f4"))
            zeros = f"@{folder}/zeros.npy"
            for seed in range(PROGRAMS):
                waits = seed % 2 == 1
                text, values = Maker(seed, LAYOUTS[seed % 5 % 3], waits).program()
                source = os.path.join(folder, f"{seed}.relay")
                with open(source, "w", encoding="utf-8") as file:
                    file.write(text)
                level = seed % 4
                target = ("--target", "portable") if seed % 3 == 0 else ()
                done = relayvm.run(relayvm.COMPILER, "run", source, zeros, f"-O{level}", *target, *(("--batch",) if waits else ()))
                if done.returncode != 0:
                    wrong.append(f"{seed} at level {level}: {done.stderr[-300:]}")
                    continue
                for i, (got, value) in enumerate(zip(relayvm.parse_value(done.stdout), values, strict=True)):
                    if not np.array_equal(np.asarray(got).reshape(value.shape), value):
                        wrong.append(f"{seed} at level {level}: result {i} is\n{got}; expected\n{value}\n{text}")
                        break
        self.assert_none(wrong, "programs with other results")
