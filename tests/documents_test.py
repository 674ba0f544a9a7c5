"""Documents that are generated say what the tables say.

`UPDATE_DOCS=1 python3 tests/run_python_tests.py documents` rewrites them.
"""

import os
import re

import relayvm
from operator_cases import examples


class Documents(relayvm.TestCase):
    def test_operators(self):
        path = os.path.join(relayvm.ROOT, "docs/operators.md")
        expected = relayvm.must(relayvm.built(examples.LISTER))
        if os.environ.get("UPDATE_DOCS"):
            with open(path, "w", encoding="utf-8") as file:
                file.write(expected)
        with open(path, encoding="utf-8") as file:
            written = file.read().splitlines()
        self.assert_none(sorted(set(expected.splitlines()) ^ set(written)), "lines of docs/operators.md that differ from the tables")
        self.assertEqual(written, expected.splitlines())

    def test_passes(self):
        """The rows of compiler/passes/README.md are the passes of pipeline.def with their lowest levels."""
        def read(name):
            with open(os.path.join(relayvm.ROOT, "compiler/passes", name), encoding="utf-8") as file:
                return file.read()

        levels = {}
        for name, level in re.findall(r"^RVM_PASS\((\w+), (\d)\)", read("pipeline.def"), re.MULTILINE):
            snake = re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()
            levels[snake] = min(int(level), levels.get(snake, 9))
        rows = re.findall(r"^\| `(\w+)` \| (\d) \|", read("README.md"), re.MULTILINE)
        self.assertEqual({name: int(level) for name, level in rows}, levels)

    def test_decisions(self):
        """Each decision has a row with its number and title, in order."""
        folder = os.path.join(relayvm.ROOT, "docs/decisions")
        with open(os.path.join(folder, "README.md"), encoding="utf-8") as file:
            rows = re.findall(r"^\| (\d+) \| \[(.*)\]\((.*?)\) \|", file.read(), re.MULTILINE)
        found = []
        for name in sorted(os.listdir(folder)):
            if re.match(r"\d{4}-", name):
                with open(os.path.join(folder, name), encoding="utf-8") as file:
                    number, title = re.match(r"# (\d+)\. (.*)", file.readline()).groups()
                found.append((number, title, name))
        self.assertEqual([(number, name) for number, _, name in rows], [(number, name) for number, _, name in found])
        self.assertEqual([title for _, title, _ in rows], [title for _, title, _ in found])
