"""The programs of `./run bench control`, small: each peer that is installed gives the result of Python; the table of times that are given."""

import dataclasses
import os
import sys
import tempfile
import unittest
import unittest.mock

import relayvm

sys.path.insert(0, os.path.join(relayvm.ROOT, "benchmarks"))

from control import compare, peers, programs  # pylint: disable=wrong-import-position


class Wrong(peers.Python):
    """Python whose results are one too large."""

    def __init__(self):
        super().__init__()
        self.name = "Wrong"

    def parse(self, done):
        result, seconds = super().parse(done)
        return result + 1, seconds


@unittest.skipUnless(os.path.exists(relayvm.COMPILER), "the compiler is not built")
class ControlBench(relayvm.TestCase):
    def measure(self, program, chosen):
        with tempfile.TemporaryDirectory() as folder:
            return compare.measure(dataclasses.replace(program, size=program.small), chosen, folder, 1)

    def test_all_give_pythons_result(self):
        installed = [peer for peer in peers.all_peers() if not peer.missing]
        chosen = [peers.Python(), *(peer for peer in installed if not isinstance(peer, peers.Python))]
        for program in programs.PROGRAMS:
            with self.subTest(program.name):
                row = self.measure(program, chosen)
                relays = [name for name in row if name.startswith("RelayVM")]
                self.assertNotEqual(relays, [])
                self.assert_none([name for name in ["Python", *relays] if not row[name]], "not measured")

    def test_another_result_ends_the_comparison(self):
        for name in ("fib", "nbody"):
            program = next(p for p in programs.PROGRAMS if p.name == name)
            with self.assertRaisesRegex(SystemExit, f"{name} {program.small}: Wrong gives .*, Python "):
                self.measure(program, [peers.Python(), Wrong()])

    def test_a_column_for_each_kind_of_control_flow(self):
        for text, names in (("--repeat N\n--control native|bytecode\n", ["RelayVM, native", "RelayVM, bytecode"]), ("--repeat N\n", ["RelayVM"])):
            with unittest.mock.patch.object(peers.relayvm, "must", return_value=text):
                self.assertEqual([peer.name for peer in peers.relays()], names)

    def test_table(self):
        rows = [("fib 3", {"RelayVM": 0.002, "C, malloc": 0.001, "C, own pool": None, "Lua": 0.008}),
                ("trees 3", {"RelayVM": 0.001, "C, malloc": 0.002, "C, own pool": 0.0005, "Lua": None})]
        text = compare.table_of(rows, list(rows[0][1]))
        self.assertIn("| fib 3 | 2.00 | 1.00 (0.50) |  | 8.00 (4.00) |", text)
        self.assertIn("| geometric mean of the ratios | | 1.00 of 2, least 0.50 | 0.50 of 2, least 0.50 | 4.00 of 1, least 4.00 |", text)


if __name__ == "__main__":
    unittest.main()
