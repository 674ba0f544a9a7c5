"""Large programs compile and run, in time that grows with their size and not faster."""

import os
import resource
import tempfile

import big_programs
import relayvm


def processor_seconds(*command):
    """Of the command, which must succeed; the clock of the processor, as other work may share it."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    relayvm.must(*command)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


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
            model = relayvm.compile_file(source, os.path.join(self.folder, "big.rvm"), level)
            for argument, value in cases:
                with self.subTest(f"-O{level}"):
                    self.assertEqual(relayvm.execute(model, argument), str(value))

    def test_lets(self):
        added = big_programs.lets_value(100_000)
        self.gives(big_programs.lets(100_000), [(0, added), (-5, added - 5)])

    def test_arms(self):
        self.gives(big_programs.arms(100_000), [(0, 0), (99_999, 299_997), (100_000, -1)])

    def test_nested_tuple(self):
        self.gives(big_programs.nested_tuple(10_000), [(big_programs.nested_tuple_argument(10_000, 7), 7)])

    def test_mutual_recursion(self):
        cases = [(n, big_programs.mutual_value(5_000, n)) for n in (0, 1, 12_345)]
        self.gives(big_programs.mutual(5_000), cases)

    def test_lines(self):
        """100,000 lines are checked in less than 5 s, and at no more than twice the cost per line of 1,000."""
        seconds = {}
        for lines in (1_000, 100_000):
            source = self.write(big_programs.ordinary(lines))
            seconds[lines] = min(processor_seconds(relayvm.COMPILER, "check", source) for _ in range(3))
        self.assertLess(seconds[100_000], 5)
        # A start of the tool, which any number of lines pays once.
        start = min(processor_seconds(relayvm.COMPILER, "check", self.write("1\n")) for _ in range(3))
        small = max(seconds[1_000] - start, 0.005)  # the clock is hardly finer
        self.assertLess((seconds[100_000] - start) / 100, 2 * small, f"{seconds}, start {start}")
