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

    def refusal(self, config):
        """The message for a tokenizer.json: of an object, or a text as it is."""
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "tokenizer.json"), "w", encoding="utf-8") as file:
                file.write(config if isinstance(config, str) else json.dumps(config))
            with self.assertRaises(self.vm.ImportFailed) as caught:
                self.vm.import_tokenizer(folder)
        return str(caught.exception)

    def fixture(self, name="gpt2"):
        with open(os.path.join(FIXTURES, f"{name}.json"), encoding="utf-8") as file:
            return json.load(file)

    def test_refusals(self):
        """All at once, with what was seen and what was expected."""
        config = self.fixture()
        config["normalizer"] = {"type": "NFC"}
        config["model"]["byte_fallback"] = True
        config["pre_tokenizer"] = {"type": "Split", "pattern": {"Regex": "a+"}, "behavior": "Isolated", "invert": False}
        shown = self.refusal(config)
        self.assertIn('`normalizer.type`: saw "NFC"; expected null', shown)
        self.assertIn("`model.byte_fallback`: saw true; expected false", shown)
        self.assertIn('`pre_tokenizer.pattern`: saw "a+"; expected', shown)
        config = self.fixture()
        del config["model"]["vocab"]["a"]
        config["model"]["merges"].insert(3, ["e", "none"])
        shown = self.refusal(config)
        self.assertIn("saw no token for 1 bytes, such as 97", shown)
        self.assertIn("`model.merges`: saw", shown)
        config["model"] = {"type": "WordPiece", "vocab": {}}
        self.assertIn('saw "WordPiece"; expected "BPE"', self.refusal(config))
        self.assertIn("no JSON", self.refusal("{"))
        self.assertIn("no JSON", self.refusal("[" * 100000))
        self.assertIn("expected a JSON object", self.refusal("[]"))

    def test_values_of_other_types_are_refused(self):
        """A value of another type anywhere: a message that names it."""
        token = {"content": "<x>", "id": 7}
        for keys, saw, expected in (
                (["model"], [1], "`model`: saw [1]; expected an object"),
                (["model"], 3, "`model`: saw 3; expected an object"),
                (["model", "vocab"], [1], "`model.vocab`: saw [1]; expected an object"),
                (["model", "vocab"], {"a": True}, '`model.vocab`: saw "a" with the number true; expected a text and a number'),
                (["model", "vocab"], {"\udc00": 1}, '`model.vocab`: saw "\\udc00" with the number 1; expected'),
                (["model", "vocab"], {"a": [2]}, '`model.vocab`: saw "a" with the number [2]'),
                (["model", "merges"], [3], "`model.merges`: saw 3; expected two tokens"),
                (["model", "merges"], "a b", '`model.merges`: saw "a b"; expected a list'),
                (["model", "merges"], [[["a"], "b"]], '`model.merges`: saw [["a"], "b"]; expected two tokens'),
                (["model", "merges"], [{"a": 1, "b": 2}], '`model.merges`: saw {"a": 1, "b": 2}'),
                (["added_tokens"], {"a": 1}, '`added_tokens`: saw {"a": 1}; expected a list'),
                (["added_tokens"], ["a"], '`added_tokens`: saw "a"; expected an object'),
                (["added_tokens"], [{**token, "content": "\ud800"}], '`added_tokens`: saw "\\ud800" with the number 7'),
                (["added_tokens"], [{**token, "content": ["a"]}], '`added_tokens`: saw ["a"] with the number 7'),
                (["added_tokens"], [{**token, "id": True}], '`added_tokens`: saw "<x>" with the number true'),
                (["normalizer"], "NFC", '`normalizer`: saw "NFC"; expected an object'),
                (["pre_tokenizer"], "ByteLevel", '`pre_tokenizer`: saw "ByteLevel"; expected an object'),
                (["pre_tokenizer"], {"type": "Sequence", "pretokenizers": ["a"]},
                 '`pre_tokenizer.pretokenizers`: saw "a"; expected an object'),
                (["pre_tokenizer"], {"type": "Sequence", "pretokenizers": 1},
                 "`pre_tokenizer.pretokenizers`: saw 1; expected a list"),
                (["pre_tokenizer"], {"type": "Split", "pattern": "a"}, '`pre_tokenizer.pattern`: saw "a"; expected an object'),
                (["pre_tokenizer"], {"type": ["Split"]}, '`pre_tokenizer.type`: saw ["Split"]; expected')):
            with self.subTest(".".join(keys), saw=saw):
                config = self.fixture()
                place = config
                for key in keys[:-1]:
                    place = place[key]
                place[keys[-1]] = saw
                self.assertIn(expected, self.refusal(config))
