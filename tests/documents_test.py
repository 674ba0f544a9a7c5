"""Documents that are generated say what the tables say.

`UPDATE_DOCS=1 python3 tests/run_python_tests.py documents` rewrites them.
"""

import os

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
