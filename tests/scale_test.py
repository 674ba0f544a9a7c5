"""Large programs compile and run, with work that grows with their size and not faster.

Work is counted in instructions, which do not depend on what else the machine does.
"""

import os
import re
import tempfile

import big_programs
import relayvm


def instructions(*command):
    """That the command, which must succeed, executes."""
    done = relayvm.run("valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null", *command)
    if done.returncode != 0:
        raise relayvm.ToolError(done.stderr[-3000:])
    return int(re.search(r"I +refs: +([\d,]+)", done.stderr).group(1).replace(",", ""))


class Scale(relayvm.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def write(self, text):
        path = os.path.join(self.folder, "big.relay")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def gives(self, text, cases):
        """Through the whole compiler at two levels, and on the VM."""
        source = self.write(text)
        for level in (0, 3):
            model = relayvm.compile_file(source, os.path.join(self.folder, "big.rvm"), level, verify=False)
            for argument, value in cases:
                with self.subTest(f"-O{level}"):
                    self.assertEqual(relayvm.execute(model, argument), str(value))

    def test_lets(self):
        added = big_programs.lets_value(100_000)
        self.gives(big_programs.lets(100_000), [(0, added), (-5, added - 5)])

    def test_arms(self):
        count = relayvm.long_or(100_000, 30_000)
        self.gives(big_programs.arms(count), [(0, 0), (count - 1, 3 * (count - 1)), (count, -1)])

    def test_nested_tuple(self):
        self.gives(big_programs.nested_tuple(10_000), [(big_programs.nested_tuple_argument(10_000, 7), 7)])

    def test_mutual_recursion(self):
        count = relayvm.long_or(5_000, 2_000)
        cases = [(n, big_programs.mutual_value(count, n)) for n in (0, 1, 12_345)]
        self.gives(big_programs.mutual(count), cases)

    def test_gradients_of_long_recursions(self):
        """x -> sin(x) * (1 + 1/2 + 1/4 ...): tail calls keep their states as data, other calls nest."""
        text = """
def @loop(%x: float64, %i: int32, %sum: float64) -> float64 {
  if (%i == 0) { %sum } else { @loop(%x, %i - 1, %sum * 0.5f64 + sin(%x)) }
}
def @nested(%x: float64, %i: int32) -> float64 { if (%i == 0) { 0f64 } else { @nested(%x, %i - 1) * 0.5f64 + sin(%x) } }
def @main(%n: int32) -> (float64, float64) {
  (grad(fn (%y: float64) { @loop(%y, %n, 0f64) })(0f64).1.0, grad(fn (%y: float64) { @nested(%y, %n) })(0f64).1.0)
}
"""
        self.gives(text, [(2, "(1.5f64, 1.5f64)"), (100_000, "(2f64, 2f64)")])

    def assert_linear(self, count_of, small, big):
        """`count_of(n)` grows at most twice as fast as n, beside what does not depend on n; `big`: with --long."""
        big = relayvm.long_or(big, big // 3)
        start, few, many = count_of(1), count_of(small), count_of(big)
        self.assertLess((many - start) / big, 2 * (few - start) / small, f"{start}, {few}, {many}")

    def test_lines(self):
        self.assert_linear(lambda n: instructions(relayvm.COMPILER, "check", self.write(big_programs.ordinary(n))),
                           1_000, 15_000)

    def test_chain_is_checked(self):
        self.assert_linear(lambda n: instructions(relayvm.COMPILER, "check", self.write(big_programs.chain(n))),
                           1_000, 15_000)

    def test_chain_is_inlined(self):
        model = os.path.join(self.folder, "chain.rvm")
        self.assert_linear(lambda n: instructions(relayvm.COMPILER, "compile", "-O2", self.write(big_programs.chain(n)),
                                                  "-o", model), 500, 5_000)

    def test_arms_are_compiled(self):
        model = os.path.join(self.folder, "arms.rvm")
        self.assert_linear(lambda n: instructions(relayvm.COMPILER, "compile", "-O3", self.write(big_programs.arms(n)),
                                                  "-o", model), 500, 5_000)

    def test_arguments_are_read(self):
        model = relayvm.compile_file(self.write("def @main(%x: Tensor[(n), float32]) { sum(%x) }"),
                                     os.path.join(self.folder, "sum.rvm"), extra=["--target", "portable"])
        path = os.path.join(self.folder, "arguments")

        def read(n):
            with open(path, "w", encoding="utf-8") as file:
                file.write(str([0.5] * n))
            return instructions(relayvm.RUNTIME, model, "--args", path)

        self.assert_linear(read, 1_000, 30_000)
