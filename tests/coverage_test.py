"""Every instruction, operator and kind of diagnostic occurs in some test or example.

The words come from the tables themselves (tests:list_vocabulary), so a new one without a test
fails here, by name.
"""

import os
import re
import tempfile

import operator_cases
import relayvm

VOCABULARY = os.path.join(relayvm.ROOT, "bazel-bin/tests/list_vocabulary")


def words(table):
    return [line.split()[1:] for line in relayvm.must(VOCABULARY).splitlines() if line.startswith(table + " ")]


def tracked(*patterns):
    return relayvm.must("git", "-C", relayvm.ROOT, "ls-files", *patterns).split()


def text_of(paths):
    texts = []
    for path in paths:
        with open(os.path.join(relayvm.ROOT, path), encoding="utf-8") as file:
            texts.append(file.read())
    return "\n".join(texts)


class Coverage(relayvm.TestCase):
    def test_diagnostics(self):
        tests = text_of(tracked("*_test.cc", "*_test.py"))
        expected = "\n".join(re.findall(r"^// .*\b(?:error|warning|remark): .*$", text_of(tracked("tests/errors/*.relay")), re.MULTILINE))
        # The examples in the table itself are compiled by diagnostic_examples_test.
        missing = [name for name, shown, *example in words("diagnostic")
                   if not example and f"[{shown}]" not in expected + tests and not re.search(rf"\bk{name}\b", tests)]
        self.assert_none(missing, "kinds of diagnostics that no test expects")

    def test_operators(self):
        infix = {"add": "+", "subtract": "-", "multiply": "*", "divide": "/", "less": "<", "less_equal": "<=",
                 "greater": ">", "greater_equal": ">=", "equal": "==", "not_equal": "!="}
        programs = text_of(tracked("tests/programs/*.relay", "examples/*.relay"))
        code = re.sub(r"//.*", "", programs)
        tests = text_of(tracked("*_test.cc"))
        compared = {case.op for case in operator_cases.all_cases()}
        missing = []
        for (whole,) in words("operator"):
            # The halves of an operator whose result has a counted extent are tested with it.
            name = re.sub(r"_(count|fill)$", "", whole)
            used = name in compared or re.search(rf"(?<![\w.%@]){re.escape(name)}\b", code) or (name in infix and f" {infix[name]} " in code)
            if not used and not re.search(rf"(?<![\w.%@]){re.escape(name)}\(", tests):
                missing.append(whole)
        self.assert_none(missing, "operators that no test or example uses")

    def test_instructions(self):
        tests = text_of(tracked("*_test.cc", "*.rvmasm"))

        def is_in(text, mnemonic):
            return re.search(rf"(?<![\w.]){mnemonic}\b", text)

        missing = {name: mnemonic for name, mnemonic in words("opcode")
                   if not re.search(rf"\bop::{name}\b|\bOpcode::k{name}\b", tests) and not is_in(tests, mnemonic)}
        for shown in self.disassemblies():
            missing = {name: mnemonic for name, mnemonic in missing.items() if not is_in(shown, mnemonic)}
            if not missing:
                break
        self.assert_none(list(missing), "instructions that no test contains and no test program compiles to")

    def disassemblies(self):
        """The code of each test program, unoptimised and optimised. It has the same instructions whatever its kernels are."""
        with tempfile.TemporaryDirectory() as folder:
            for path in tracked("tests/programs/*.relay"):
                for level in (0, 3):
                    model = relayvm.compile_file(os.path.join(relayvm.ROOT, path), os.path.join(folder, "m.rvm"), level,
                                                 extra=["--target", "portable"])
                    yield relayvm.must(relayvm.COMPILER, "inspect", model, "--code")
