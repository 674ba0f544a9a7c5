"""Exported programs of PyTorch: `.pt2` files where tools take programs, equal to what PyTorch computed.

The fixtures and the script that made them are in tests/torch. No test needs PyTorch.
"""

import glob
import os
import tempfile
import unittest

import relayvm

FIXTURES = os.path.join(relayvm.ROOT, "tests/torch")


def programs():
    """[(the path of a .pt2, the path of its cases)], of both forms."""
    return [(path, path.removesuffix(".pt2").removesuffix("_core") + ".npz")
            for path in sorted(glob.glob(os.path.join(FIXTURES, "*.pt2")))]


class Fixtures(relayvm.TestCase):
    """Each fixture at the shapes of all of its cases."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.place = folder.name

    def cases(self, path):
        import numpy as np  # pylint: disable=import-outside-toplevel
        arrays = np.load(path)
        for number in range(len({name.split(".")[0] for name in arrays.files})):
            def all_of(kind):
                count = sum(name.startswith(f"{number}.{kind}.") for name in arrays.files)  # noqa: B023
                return [arrays[f"{number}.{kind}.{i}"] for i in range(count)]  # noqa: B023
            yield all_of("in"), all_of("out")

    def outputs(self, executable, inputs):
        import numpy as np  # pylint: disable=import-outside-toplevel
        args = []
        for array in inputs:
            args.append("@" + os.path.join(self.place, f"{len(args)}.npy"))
            np.save(args[-1][1:], array)
        value = relayvm.parse_value(relayvm.execute(executable, *args))
        return value if isinstance(value, tuple) else (value,)

    def compare(self, path, cases, *options):
        import numpy as np  # pylint: disable=import-outside-toplevel
        executable = os.path.join(self.place, "model.rvm")
        relayvm.must(relayvm.COMPILER, "compile", path, "-o", executable, *options)
        for number, (inputs, expected) in enumerate(self.cases(cases)):
            outputs = self.outputs(executable, inputs)
            self.assertEqual(len(outputs), len(expected), path)
            for i, (got, wanted) in enumerate(zip(outputs, expected)):
                got = np.array(got).reshape(wanted.shape)
                np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5,
                                           err_msg=f"{os.path.basename(path)}, case {number}, output {i}")

    def test_all_forms_are_there(self):
        self.assertGreaterEqual(len(programs()), 20)

    def test_portable(self):
        for path, cases in programs():
            with self.subTest(os.path.basename(path)):
                self.compare(path, cases, "--target", "portable")

    def test_machine_code(self):
        for path, cases in programs():
            if not path.endswith("_core.pt2"):
                with self.subTest(os.path.basename(path)):
                    self.compare(path, cases)


if __name__ == "__main__":
    unittest.main()
