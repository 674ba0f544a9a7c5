"""Tokenizers as programs, beside the tokens of the package `tokenizers` (tests/tokenizers/make.py writes them)."""

import base64
import importlib
import json
import os
import random
import tempfile
import unicodedata
import unittest

import numpy

import python_test
import relayvm as tools

FIXTURES = os.path.join(tools.ROOT, "tests", "tokenizers")
BYTE_LEVEL = ("gpt2", "llama3", "whole")
NAMES = (*BYTE_LEVEL, "bert", "bert_cased", "t5", "albert")


def as_bytes(text):
    return numpy.frombuffer(text.encode(), "uint8")


class Tokenizers(python_test.WithPackages, tools.TestCase):
    programs = {}

    def program(self, name, **options):
        """The tokenizer, compiled once for all tests."""
        key = (name, *options.items())
        if key not in self.programs:
            module = self.vm.import_tokenizer(os.path.join(FIXTURES, f"{name}.json"))
            self.programs[key] = self.vm.compile(module, entries=["encode", "decode", "bytes_of_token"], **options)
        return self.programs[key]

    def compare(self, program, lines):
        for text, expected, decoded in lines:
            with self.subTest(repr(text)):
                tokens = program["encode"](as_bytes(text))
                self.assertEqual([int(token) for token in tokens], expected)
                self.assertEqual(bytes(program["decode"](numpy.array(expected, "int32"))).decode(), decoded)

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
            self.compare(self.program(name), list(zip(many["lines"], many[name], many[f"{name}_decoded"])))

    def test_any_bytes(self):
        """What is no UTF-8 has tokens, too, and comes back as it was; tokens that are unknown have no bytes."""
        dice = numpy.random.default_rng(5)
        for name in BYTE_LEVEL:
            program = self.program(name)
            for size in (0, 1, 2, 3, 7, 40, 300):
                text = dice.integers(0, 256, size).astype("uint8")
                numpy.testing.assert_array_equal(program["decode"](program["encode"](text)), text)
            for token in (-1, 600, 2**31 - 1):
                self.assertEqual(len(program["bytes_of_token"](token)), 0)
            self.assertEqual(bytes(program["bytes_of_token"](0)), b"<|end|>")

    def test_bytes_that_are_no_text(self):
        """Tokenizers of characters give some tokens for what is no UTF-8, in bounds, and end."""
        dice = numpy.random.default_rng(6)
        for name in set(NAMES) - set(BYTE_LEVEL):
            program = self.program(name)
            for size in (0, 1, 2, 3, 7, 40, 300):
                tokens = program["encode"](dice.integers(0, 256, size).astype("uint8"))
                self.assertTrue(all(0 <= int(token) < 1000 for token in tokens))
            for token in (-1, 1000, 2**31 - 1):
                self.assertEqual(len(program["bytes_of_token"](token)), 0)
            self.assertEqual(len(program["decode"](numpy.zeros(0, "int32"))), 0)

    def test_normal_forms(self):
        """Forms of Unicode, beside those of Python: marks in any order, parts of Korean syllables, marks that block others."""
        dice = random.Random(5)
        marks = [chr(code) for code in range(0x300, 0x370)]
        parts = [*"aeoun ", "\uac00", "\ud55c", "\u1100", "\u1161", "\u11a8", "\ufb01", "\u00bd", "\u0958", "\u1e69", "\u212b", "\U0001d15e",
                 "\u0344", "\u0fb2\u0f71\u0f80"]
        texts = ["", "plain text", *("".join(dice.choice(marks if dice.random() < 0.5 else parts) for _ in range(dice.randrange(12)))
                                     for _ in range(60))]
        for form in ("NFC", "NFD", "NFKC", "NFKD"):
            config = self.fixture()
            config["normalizer"] = {"type": form}
            with tempfile.TemporaryDirectory() as folder:
                with open(os.path.join(folder, "tokenizer.json"), "w", encoding="utf-8") as file:
                    json.dump(config, file)
                program = self.vm.compile(self.vm.import_tokenizer(folder), entries=["step_0", "encode"])
            for text in texts:
                self.assertEqual(bytes(program["step_0"](as_bytes(text))).decode(), unicodedata.normalize(form, text), ascii(text))
            for size in (1, 5, 40):
                program["encode"](numpy.random.default_rng(size).integers(0, 256, size).astype("uint8"))

    def test_first_tokens(self):
        """A token has no blank before it if it is the first of a text."""
        for name, token in (("bert", "the"), ("t5", "\u2581the")):
            config = self.fixture(name)["model"]["vocab"]
            number = config[token] if isinstance(config, dict) else [text for text, _ in config].index(token)
            program = self.program(name)
            self.assertEqual(bytes(program["decode"](numpy.array([number, number], "int32"))), b"the the")
            self.assertEqual(bytes(program["bytes_of_token"](number)), b" the")

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
            text, tokens, _ = next(line for line in json.load(file) if line[1])
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
        config["normalizer"] = {"type": "Nmt"}
        config["model"]["byte_fallback"] = True
        config["pre_tokenizer"] = {"type": "Split", "pattern": {"Regex": "a+"}, "behavior": "Isolated", "invert": False}
        shown = self.refusal(config)
        self.assertIn('`normalizer.type`: saw "Nmt"; expected "BertNormalizer" or "Lowercase"', shown)
        self.assertIn("`model.byte_fallback`: saw true; expected false", shown)
        self.assertIn('`pre_tokenizer.pattern`: saw "a+"; expected', shown)
        config = self.fixture()
        del config["model"]["vocab"]["a"]
        config["model"]["merges"].insert(3, ["e", "none"])
        shown = self.refusal(config)
        self.assertIn("saw no token for 1 bytes, such as 97", shown)
        self.assertIn("`model.merges`: saw", shown)
        config["model"] = {"type": "WordLevel", "vocab": {}}
        self.assertIn('saw "WordLevel"; expected "BPE" or "WordPiece" or "Unigram"', self.refusal(config))
        self.assertIn("no JSON", self.refusal("{"))
        self.assertIn("no JSON", self.refusal("[" * 100000))
        self.assertIn("expected a JSON object", self.refusal("[]"))

    def test_values_of_other_types_are_refused(self):
        """A value of another type anywhere: a message that names it."""
        token = {"content": "<x>", "id": 7}
        llama3 = self.fixture("llama3")["pre_tokenizer"]["pretokenizers"]
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
                (["pre_tokenizer"], {"type": ["Split"]}, '`pre_tokenizer.type`: saw ["Split"]; expected'),
                (["pre_tokenizer"], {"type": "Sequence", "pretokenizers": [llama3[0], {**llama3[1], "use_regex": True}]},
                 "`pre_tokenizer`: saw 2 patterns; expected"),
                (["pre_tokenizer"], llama3[0], '`pre_tokenizer`: saw no "ByteLevel" as the last step'),
                (["decoder"], {"type": "WordPiece"}, '`decoder.type`: saw "WordPiece"; expected "ByteLevel"')):
            with self.subTest(".".join(keys), saw=saw):
                self.assertIn(expected, self.refusal(self.changed("gpt2", keys, saw)))

    def changed(self, name, keys, saw):
        """A fixture with another value at a place."""
        config = self.fixture(name)
        place = config
        for key in keys[:-1]:
            place = place[key]
        place[keys[-1]] = saw
        return config

    def test_refused_settings(self):
        """Settings of WordPiece, Unigram and normalizers that are not supported or malformed."""
        steps = lambda *kinds: {"type": "Sequence", "normalizers": [{"type": kind} for kind in kinds]}
        mark = {"type": "Metaspace", "replacement": "_", "prepend_scheme": "first", "split": True}
        charsmap = lambda data: {"type": "Precompiled", "precompiled_charsmap": data}
        for name, keys, saw, expected in (
                ("bert", ["model", "unk_token"], "none", '`model.unk_token`: saw "none"; expected a token'),
                ("bert", ["model", "unk_token"], ["a"], '`model.unk_token`: saw ["a"]; expected a token'),
                ("bert", ["model", "max_input_chars_per_word"], True, "`model.max_input_chars_per_word`: saw true; expected"),
                ("bert", ["model", "continuing_subword_prefix"], "", '`model.continuing_subword_prefix`: saw ""; expected a text'),
                ("bert", ["model", "vocab"], [["a", 1]], '`model.vocab`: saw [["a", 1]]; expected an object'),
                ("bert", ["pre_tokenizer"], {"type": "Whitespace"}, 'saw "Whitespace"; expected "BertPreTokenizer"'),
                ("bert", ["decoder"], None, '`decoder.type`: saw null; expected "WordPiece"'),
                ("bert", ["added_tokens", 0, "normalized"], True, '`added_tokens, "[PAD]", normalized`: saw true; expected false'),
                ("bert", ["normalizer"], steps("NFKD", "StripAccents", "Nmt"), '`normalizer.type`: saw "Nmt"; expected'),
                ("bert", ["normalizer"], {"type": "Sequence", "normalizers": ["a"]}, '`normalizer.normalizers`: saw "a"'),
                ("t5", ["normalizer"], {"type": "Replace", "pattern": {"String": "ab"}, "content": ""}, 'saw {"String": "ab"} and'),
                ("t5", ["normalizer"], {"type": "Replace", "pattern": {"Regex": "a+"}, "content": ""}, 'saw {"Regex": "a+"} and'),
                ("t5", ["normalizer"], charsmap("!"), "expected a table of SentencePiece in base 64"),
                ("t5", ["normalizer"], charsmap([1]), "expected a table of SentencePiece in base 64"),
                ("t5", ["normalizer"], charsmap(""), "the size of its table does not fit; expected"),
                ("t5", ["normalizer"], charsmap("/////wAAAAA="), "the size of its table does not fit; expected"),
                ("t5", ["model", "unk_id"], None, "`model.unk_id`: saw null; expected the number of a token"),
                ("t5", ["model", "unk_id"], True, "`model.unk_id`: saw true; expected the number of a token"),
                ("t5", ["model", "vocab"], {"a": 1}, '`model.vocab`: saw {"a": 1}; expected a list'),
                ("t5", ["model", "vocab", 5], ["a"], '`model.vocab`: saw ["a"]; expected a text and its score'),
                ("t5", ["model", "vocab", 5], ["a", True], '`model.vocab`: saw ["a", true]; expected a text and its score'),
                ("t5", ["model", "vocab", 5], ["a", float("nan")], "expected a text and its score"),
                ("t5", ["model", "vocab", 5], ["a", 10**400], "expected a text and its score"),
                ("t5", ["model", "vocab", 5], [["a"], 1], '`model.vocab`: saw ["a"] with the number 5; expected'),
                ("t5", ["model", "byte_fallback"], True, "saw true without a token for each byte"),
                ("t5", ["pre_tokenizer"], None, 'saw no "Metaspace"; expected it'),
                ("t5", ["pre_tokenizer"], {"type": "Sequence", "pretokenizers": [mark, {"type": "WhitespaceSplit"}]},
                 'saw a step behind "Metaspace"'),
                ("t5", ["pre_tokenizer"], {**mark, "replacement": "__"}, '`pre_tokenizer.replacement`: saw "__"; expected one'),
                ("t5", ["pre_tokenizer"], {**mark, "prepend_scheme": "x"}, '`pre_tokenizer.prepend_scheme`: saw "x"; expected'),
                ("t5", ["decoder"], {"type": "ByteLevel"}, '`decoder.type`: saw "ByteLevel"; expected "Metaspace"')):
            with self.subTest(name, keys=keys, saw=saw):
                self.assertIn(expected, self.refusal(self.changed(name, keys, saw)))

    def test_damaged_tables(self):
        """Prefixes of a table of SentencePiece, and tables with other bytes: a message, or a table."""
        dice = numpy.random.default_rng(3)
        config = self.fixture("t5")
        step = next(step for step in config["normalizer"]["normalizers"] if step["type"] == "Precompiled")
        table = base64.b64decode(step["precompiled_charsmap"])
        damaged = [table[:size] for size in (0, 3, 4, 8, len(table) // 2, len(table) - 1)]
        for _ in range(12):
            other = bytearray(table)
            for place in dice.integers(0, len(table), 30):
                other[place] = dice.integers(0, 256)
            damaged.append(bytes(other))
        characters = importlib.import_module("relayvm._characters")
        refused = 0
        for data in damaged:
            try:
                characters.CharsMap(data)
            except ValueError as error:
                self.assertIn("its table", str(error))
                refused += 1
        self.assertGreater(refused, 5)
