"""Exported functions of JAX: StableHLO where tools take programs, equal to what JAX computed.

The fixtures and the script that made them are in tests/jax. No test needs JAX, but for those of `--long`.
"""

import glob
import os
import subprocess
import tempfile
import unittest

import numpy as np

import in_process
import relayvm

FIXTURES = os.path.join(relayvm.ROOT, "tests/jax")
LEVELS = (["-O0"], ["-O2"], ["--target", "portable"])
TOLERANCE = {"float64": 1e-9, "float32": 2e-5, "float16": 2e-3}
LIVE_PYTHON = os.path.join(relayvm.ROOT, "build/jaxenv/bin/python")


def fixture(name):
    return os.path.join(FIXTURES, name)


def programs():
    return sorted(path for ending in ("stablehlo", "mlirbc") for path in glob.glob(fixture(f"*.{ending}")) if "refused" not in path)


class Models(relayvm.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.place = folder.name

    def save(self, data, name="model.mlirbc"):
        path = os.path.join(self.place, name)
        with open(path, "wb") as file:
            file.write(data)
        return path

    def cases(self, path):
        arrays = np.load(os.path.splitext(path)[0] + ".npz")
        for number in range(len({name.split(".")[0] for name in arrays.files})):
            of = lambda kind: [arrays[f"{number}.{kind}.{i}"] for i in range(sum(name.startswith(f"{number}.{kind}.") for name in arrays.files))]  # noqa: B023
            yield of("in"), of("out")

    def compare(self, path, *options):
        executable = os.path.join(self.place, "model.rvm")
        relayvm.must(relayvm.COMPILER, "compile", path, "-o", executable, *options)
        loaded = in_process.load(executable)
        for number, (inputs, expected) in enumerate(self.cases(path)):
            got = loaded["main"](*inputs)
            got = list(got) if isinstance(got, tuple) else [got]
            self.assertEqual(len(got), len(expected))
            for i, (a, b) in enumerate(zip(map(np.asarray, got), expected)):
                with self.subTest(program=os.path.basename(path), options=options, case=number, output=i):
                    self.assertEqual((a.shape, a.dtype), (b.shape, b.dtype))
                    near = TOLERANCE.get(str(b.dtype), 0)
                    np.testing.assert_allclose(a, b, rtol=near, atol=near)

    def fails(self, path, message, *options):
        done = relayvm.run(relayvm.COMPILER, "check", path, *options)
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn(message, done.stderr)


class Fixtures(Models):
    """Each fixture at each level, at the shapes of all of its cases."""

    def test_programs(self):
        self.assertGreater(len(programs()), 12)
        for path in programs():
            for level in LEVELS:
                self.compare(path, *level)

    def test_extents_keep_their_names(self):
        types = relayvm.must(relayvm.COMPILER, "check", fixture("lstm.stablehlo"), "--types")
        self.assertIn("Tensor[(time, batch, 5), float32]", types)
        # An artifact alone has the names as those of arguments of a function.
        self.assertIn("Tensor[(time, batch, 5), float32]", relayvm.must(relayvm.COMPILER, "check", fixture("lstm.mlirbc"), "--types"))
        types = relayvm.must(relayvm.COMPILER, "check", fixture("dense.mlirbc"), "--types")
        self.assertIn("Tensor[(batch, 4), float32]) -> Tensor[(batch, 3), float32]", types)

    def test_shape_and_freeze(self):
        types = relayvm.must(relayvm.COMPILER, "check", fixture("dense.stablehlo"), "--types", "--shape", "x=7,4")
        self.assertIn("Tensor[(7, 4), float32]) -> Tensor[(7, 3), float32]", types)
        self.fails(fixture("dense.stablehlo"), "the shape given to input `x`: saw `5`; expected 4, which the program was exported for", "--shape", "x=b,5")
        self.fails(fixture("dense.stablehlo"), "the model has no input `y` to give a shape", "--shape", "y=1,4")
        inputs, expected = next(self.cases(fixture("loops.stablehlo")))
        executable = os.path.join(self.place, "frozen.rvm")
        relayvm.must(relayvm.COMPILER, "compile", fixture("loops.stablehlo"), "-o", executable, "--freeze", f"n={int(inputs[1])}")
        got = in_process.load(executable)["main"](inputs[0], inputs[2])
        np.testing.assert_allclose(np.asarray(got[0]), expected[0], rtol=1e-5)


class Refusals(Models):
    def test_all_at_once(self):
        path = fixture("refused.stablehlo")
        for line in ("reduce: complex numbers in a body that does not add", "custom_call: `lapack_sgeev_ffi`, a routine of LAPACK", "rng_bit_generator: "):
            self.fails(path, line)

    def test_text(self):
        self.fails(self.save(b"module @jit_f {\n}\n"), "this is the text of MLIR, which differs between versions; expected a portable artifact")

    def test_other_bytes(self):
        self.fails(self.save(b"nothing of a program"), "no StableHLO: expected a portable artifact")
        self.fails(self.save(b"ML\xefR"), "offset 4 of the bytecode: saw 0 bytes before the end of this part; expected 1")
        self.fails(self.save(b"ML\xefR\x81\x00StableHLO_v9.9.9\x00"), "saw version 64 of the bytecode; expected 6 or less")

    def test_malformed_files(self):
        """Each prefix, and bytes changed, give a program or an error."""
        random = np.random.default_rng(5)
        for name in ("dense.mlirbc", "loops.stablehlo"):
            with open(fixture(name), "rb") as file:
                data = file.read()
            for size in random.choice(len(data), 12, replace=False):
                self.assertEqual(relayvm.run(relayvm.COMPILER, "check", self.save(data[:size])).returncode, 1, size)
            for at in random.choice(len(data), 25, replace=False):
                changed = bytearray(data)
                changed[at] ^= 0x95
                done = relayvm.run(relayvm.COMPILER, "check", self.save(bytes(changed)))
                self.assertIn(done.returncode, (0, 1), (at, done.stderr))


class Live(relayvm.TestCase):
    @unittest.skipUnless(os.environ.get("RELAYVM_SOAK") and os.path.exists(LIVE_PYTHON), "runs with --long, beside JAX in build/jaxenv")
    def test_suites(self):
        for arguments in (["functions"], ["harnesses", "--each", "10"], ["keras"]):
            done = subprocess.run([LIVE_PYTHON, fixture("live.py"), *arguments], stdout=subprocess.PIPE, text=True, check=False)
            self.assertEqual(done.returncode, 0, done.stdout[-3000:])


if __name__ == "__main__":
    unittest.main()
