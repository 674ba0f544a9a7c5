"""Tokenizers as programs, beside the tokens of the package `tokenizers` (tests/tokenizers/make.py writes them)."""

import json
import os
import tempfile
import unittest

import numpy

import python_test
import relayvm as tools

FIXTURES = os.path.join(tools.ROOT, "tests", "tokenizers")
NAMES = ("gpt2", "llama3")


def as_bytes(text):
    return numpy.frombuffer(text.encode(), "uint8")


class Tokenizers(python_test.WithPackages, tools.TestCase):
    def program(self, name, **options):
        module = self.vm.import_tokenizer(os.path.join(FIXTURES, f"{name}.json"))
        return self.vm.compile(module, entries=["encode", "decode", "bytes_of_token"], **options)

    def compare(self, program, lines):
        for text, expected in lines:
            with self.subTest(repr(text)):
                tokens = program["encode"](as_bytes(text))
                self.assertEqual([int(token) for token in tokens], expected)
                self.assertEqual(bytes(program["decode"](numpy.array(expected, "int32"))).decode(), text)

    def test_lines(self):
        for name in NAMES:
            with open(os.path.join(FIXTURES, f"{name}_lines.json"), encoding="utf-8") as file:
                lines = json.load(file)
            for options in ({}, {"opt_level": 0}, {"target": "portable"}):
                self.compare(self.program(name, **options), lines if not options else lines[:40])

    def test_many_lines(self):
        """Lines that `make.py 10000` has written, with --long."""
        path = os.path.join(tools.ROOT, "build", "tokenizer_lines.json")
        if not tools.long_or(True, False) or not os.path.exists(path):
            raise unittest.SkipTest("only with --long, after tests/tokenizers/make.py 10000")
        with open(path, encoding="utf-8") as file:
            many = json.load(file)
        for name in NAMES:
            self.compare(self.program(name), list(zip(many["lines"], many[name])))

    def test_any_bytes(self):
        """What is no UTF-8 has tokens, too, and comes back as it was; tokens that are unknown have no bytes."""
        dice = numpy.random.default_rng(5)
        for name in NAMES:
            program = self.program(name)
            for size in (0, 1, 2, 3, 7, 40, 300):
                text = dice.integers(0, 256, size).astype("uint8")
                numpy.testing.assert_array_equal(program["decode"](program["encode"](text)), text)
            for token in (-1, 600, 2**31 - 1):
                self.assertEqual(len(program["bytes_of_token"](token)), 0)
            self.assertEqual(bytes(program["bytes_of_token"](0)), b"<|end|>")

    def test_text_in_text_out(self):
        """A program with a tokenizer and a model of its own: what follows a text, as text, in one file."""
        tokenizer = self.vm.import_tokenizer(os.path.join(FIXTURES, "gpt2.json"))
        program = self.vm.Module("""
def @step(%last: int32, %token: int32) -> (int32, Tensor[(600), float32]) {
  (%token, one_hot(mod(%last + %token, 600), 1f, 0f, depth=600))
}
def @main(%text: Tensor[(n), uint8], %limit: int32) -> Tensor[(?), uint8] {
  let %tokens = @words.encode(%text);
  let %last = take(%tokens, cast(extent(%tokens, axis=0), dtype="int32") - 1);
  let (%state, %logits) = @step(%last, 1);
  @words.decode(@words.vector_of(@greedy(@step, %state, %logits, [], %limit), zeros(shape=[0], dtype="int32")))
}
""", imports={"words": tokenizer})
        with open(os.path.join(FIXTURES, "gpt2_lines.json"), encoding="utf-8") as file:
            text, tokens = next(line for line in json.load(file) if line[1])
        text_of = self.program("gpt2")["decode"]
        expected, last, token = [], tokens[-1], 1
        for _ in range(6):
            last, token = token, (last + token) % 600
            expected.append(token)
        run = self.vm.compile(program, entries=["main"])
        self.assertEqual(bytes(run(as_bytes(text), 6)), bytes(text_of(numpy.array(expected, "int32"))))

    def test_refusals(self):
        """All at once, with what was seen and what was expected."""
        with open(os.path.join(FIXTURES, "gpt2.json"), encoding="utf-8") as file:
            config = json.load(file)
        config["normalizer"] = {"type": "NFC"}
        config["model"]["byte_fallback"] = True
        config["pre_tokenizer"] = {"type": "Split", "pattern": {"Regex": "a+"}, "behavior": "Isolated", "invert": False}
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "tokenizer.json"), "w", encoding="utf-8") as file:
                json.dump(config, file)
            with self.assertRaises(self.vm.ImportFailed) as caught:
                self.vm.import_tokenizer(folder)
            shown = str(caught.exception)
            self.assertIn('`normalizer.type`: saw "NFC"; expected null', shown)
            self.assertIn("`model.byte_fallback`: saw true; expected false", shown)
            self.assertIn('`pre_tokenizer.pattern`: saw "a+"; expected', shown)
            with open(os.path.join(FIXTURES, "gpt2.json"), encoding="utf-8") as file:
                config = json.load(file)
            del config["model"]["vocab"]["a"]
            config["model"]["merges"].insert(3, ["e", "none"])
            with open(os.path.join(folder, "tokenizer.json"), "w", encoding="utf-8") as file:
                json.dump(config, file)
            with self.assertRaises(self.vm.ImportFailed) as caught:
                self.vm.import_tokenizer(folder)
            self.assertIn("saw no token for 1 bytes, such as 97", str(caught.exception))
            self.assertIn("`model.merges`: saw", str(caught.exception))
            config["model"] = {"type": "WordPiece", "vocab": {}}
            with open(os.path.join(folder, "tokenizer.json"), "w", encoding="utf-8") as file:
                json.dump(config, file)
            with self.assertRaisesRegex(self.vm.ImportFailed, 'saw "WordPiece"; expected "BPE"'):
                self.vm.import_tokenizer(folder)
            with open(os.path.join(folder, "tokenizer.json"), "w", encoding="utf-8") as file:
                file.write("{")
            with self.assertRaisesRegex(self.vm.ImportFailed, "no JSON"):
                self.vm.import_tokenizer(folder)
