"""Documents that are generated say what the tables say.

`UPDATE_DOCS=1 python3 tests/run_python_tests.py documents` rewrites them.
"""

import glob
import itertools
import os
import re

import relayvm
from operator_cases import examples


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


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
        """The table of compiler/passes/README.md: the passes of pipeline.def in their order, the lowest level of each, and
        how the comment at the top of its file begins."""
        folder, levels, rows = os.path.join(relayvm.ROOT, "compiler/passes"), {}, []
        for name, level in re.findall(r"^RVM_PASS\((\w+), (\d)\)", read(f"{folder}/pipeline.def"), re.MULTILINE):
            levels[name] = min(int(level), levels.get(name, 9))
        for name, level in levels.items():
            snake = re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()
            path, = glob.glob(f"{folder}/**/{snake}.cc", recursive=True)
            lines = itertools.takewhile(lambda line: line.startswith("// "), read(path).splitlines())
            text = " ".join(line[3:] for line in lines).rstrip(".")
            self.assertNotEqual(text, "", f"{path} begins with no comment")
            rows.append(f"| `{snake}` | {level} | {text} |\n")
        written = read(f"{folder}/README.md")
        expected = re.sub(r"(?<=\|---\|---\|---\|\n)(\|.*\n)+", lambda _: "".join(rows), written, count=1)
        if os.environ.get("UPDATE_DOCS"):
            with open(f"{folder}/README.md", "w", encoding="utf-8") as file:
                file.write(expected)
            written = read(f"{folder}/README.md")
        self.assertEqual(written.splitlines(), expected.splitlines())

    def test_decisions(self):
        """Each decision has a row with its number and title, in order."""
        folder = os.path.join(relayvm.ROOT, "docs/decisions")
        rows = re.findall(r"^\| (\d+) \| \[(.*)\]\((.*?)\) \|", read(os.path.join(folder, "README.md")), re.MULTILINE)
        found = []
        for name in sorted(os.listdir(folder)):
            if re.match(r"\d{4}-", name):
                with open(os.path.join(folder, name), encoding="utf-8") as file:
                    number, title = re.match(r"# (\d+)\. (.*)", file.readline()).groups()
                found.append((number, title, name))
        self.assertEqual([(number, name) for number, _, name in rows], [(number, name) for number, _, name in found])
        self.assertEqual([title for _, title, _ in rows], [title for _, title, _ in found])
