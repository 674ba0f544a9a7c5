"""The ONNX backend suite (onnx 1.22): every case is equal or stands in tests/onnx_cases.tsv with its reason.

`UPDATE_GOLDENS=1 .venv/bin/python tests/run_python_tests.py onnx` rewrites the table; read the difference.
`./run test --long` also runs machine code; the quick run takes recipes.
"""

import glob
import os
import subprocess
import tempfile
import unittest

import relayvm

TABLE = os.path.join(relayvm.ROOT, "tests/onnx_cases.tsv")
GROUPS = ("node", "simple", "pytorch-converted", "pytorch-operator")
CORPUS = os.path.join(relayvm.ROOT, "tests/fuzz/corpus/onnx")
HEAD = """# Cases of the ONNX backend suite that are not equal: where, the case, what came of it, why.
# `known`: extents as the models have them, parameters frozen; `unknown`: the same with every extent `?`.
"""


def suite():
    """The folder of the suite's cases, or None where onnx is not installed."""
    try:
        import onnx  # pylint: disable=import-outside-toplevel
    except ImportError:
        return None
    return os.path.join(os.path.dirname(onnx.__file__), "backend/test/data")


def folders(groups=GROUPS):
    return [folder for group in groups for folder in sorted(glob.glob(os.path.join(suite(), group, "*")))]


def outcomes(cases, *options):
    """{name: (word, why)}; a crash is an outcome of the case that it happened in."""
    found = {}
    while len(found) < len(cases):
        rest = cases[len(found):]
        done = subprocess.run([relayvm.built("//tests:run_onnx_cases"), *options], input="\n".join(rest) + "\n",
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=3600, check=False)
        for line in done.stdout.splitlines():
            name, word, why = line.split("\t")
            found[name] = (word, why)
        if len(found) < len(cases) and done.returncode != 0:
            found[os.path.basename(cases[len(found)])] = ("crash", done.stderr.strip().replace("\n", " ")[-200:])
    return found


def is_equal(outcome):
    return outcome[0] in ("equal", "frozen")


def read_table():
    rows = {}
    with open(TABLE, encoding="utf-8") as file:
        for line in file:
            if not line.startswith("#"):
                where, name, word, why = line.rstrip("\n").split("\t")
                rows[where, name] = (word, why)
    return rows


@unittest.skipIf(suite() is None, "the Python package onnx is not installed")
class Suite(relayvm.TestCase):
    def compare(self, where, found):
        if os.environ.get("UPDATE_GOLDENS"):
            self.rewrite(where, found)
        rows = read_table()
        wrong = [f"{name}: {' '.join(outcome)}; the table does not list it" for name, outcome in found.items()
                 if not is_equal(outcome) and (where, name) not in rows]
        wrong += [f"{name}: equal, but the table lists it" for name, outcome in found.items()
                  if is_equal(outcome) and (where, name) in rows]
        wrong += [f"{name}: the table lists it, and there is no such case" for at, name in rows
                  if at == where and name not in found]
        self.assert_none(wrong)

    def rewrite(self, where, found):
        rows = {key: row for key, row in read_table().items() if key[0] != where} if os.path.exists(TABLE) else {}
        for name, outcome in found.items():
            if not is_equal(outcome):
                rows[where, name] = (outcome[0], outcome[1].split(" (")[0][:110])
        with open(TABLE, "w", encoding="utf-8") as file:
            file.write(HEAD)
            for (at, name), row in sorted(rows.items()):
                file.write("\t".join([at, name, *row]) + "\n")

    def test_cases(self):
        found = outcomes(folders())
        self.compare("known", found)
        nodes = {os.path.basename(folder) for folder in folders(("node",))}
        equal = sum(is_equal(outcome) for name, outcome in found.items() if name in nodes)
        self.assertGreaterEqual(equal, 1530, "node cases that are equal")

    def test_unknown_extents(self):
        found = outcomes(folders(("node",)), "--unknown")
        self.compare("unknown", found)
        self.assertGreaterEqual(sum(map(is_equal, found.values())), 1300)

    @unittest.skipUnless(os.environ.get("RELAYVM_SOAK"), "only with --long")
    def test_machine_code(self):
        self.compare("known", outcomes(folders(), "--target", "host"))


class Tools(relayvm.TestCase):
    """`relayvm import`, and .onnx files where the other verbs take programs."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.model = os.path.join(folder.name, "model.onnx")
        with open(os.path.join(CORPUS, "mlp"), "rb") as source, open(self.model, "wb") as target:
            target.write(source.read())
        self.place = folder.name

    def test_import_and_run(self):
        value = relayvm.must(relayvm.COMPILER, "run", self.model, "[[1.0, 2.0, 3.0]]")
        self.assertEqual(value, "[[7f, 8f]]\n")
        program = os.path.join(self.place, "program.relay")
        relayvm.must(relayvm.COMPILER, "import", self.model, "-o", program)
        self.assertEqual(relayvm.must(relayvm.COMPILER, "run", program, "[[1.0, 2.0, 3.0]]"), value)
        executable = os.path.join(self.place, "model.rvm")
        relayvm.must(relayvm.COMPILER, "import", self.model, "-o", executable)
        self.assertEqual(relayvm.must(relayvm.RUNTIME, executable, "[[1.0, 2.0, 3.0]]"), value)

    def test_shape_and_freeze(self):
        types = relayvm.must(relayvm.COMPILER, "check", self.model, "--types", "--shape", "x=4,3")
        self.assertIn("@main: fn (Tensor[(4, 3), float32]) -> Tensor[(4, 2), float32]", types)
        types = relayvm.must(relayvm.COMPILER, "check", self.model, "--types", "--shape", "x=rows,3")
        self.assertIn("Tensor[(rows, 3), float32]", types)
        done = relayvm.run(relayvm.COMPILER, "check", self.model, "--freeze", "y=3")
        self.assertIn("the model has no input `y` to freeze", done.stderr)

    def test_refuses_what_is_no_model(self):
        with open(self.model, "wb") as file:
            file.write(b"\x0a\xff\xff")
        done = relayvm.run(relayvm.COMPILER, "check", self.model)
        self.assertEqual(done.returncode, 1)
        self.assertIn("this is no ONNX model, or it is cut off", done.stderr)
