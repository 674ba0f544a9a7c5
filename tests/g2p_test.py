"""The g2p example says what the equations in numpy say: every phoneme of many words."""

import os
import sys
import tempfile
import unittest

import numpy as np

import relayvm

EXAMPLE = os.path.join(relayvm.ROOT, "examples/g2p")
sys.path.insert(0, EXAMPLE)
import reference as g2p_reference  # noqa: E402  (examples/g2p)
import spell  # noqa: E402

sys.path.remove(EXAMPLE)
WEIGHTS = os.path.join(relayvm.G2P, "checkpoint20.npz")


def real_words():
    """The words that the g2p-en package lists because they are spoken in two ways."""
    with open(os.path.join(relayvm.G2P, "homographs.en"), encoding="utf-8") as file:
        return sorted({line.split("|")[0].lower() for line in file if not line.startswith("#") and "|" in line})


def made_words(count, random):
    """Of 1 to 30 characters: mostly letters, some digits, accents, signs and capitals."""
    letters = list("abcdefghijklmnopqrstuvwxyz" * 4 + "aeiou" * 12 + "0123456789éüñçøß'-.ABCZ")
    return ["".join(random.choice(letters, size=int(random.integers(1, 31)))) for _ in range(count)]


@unittest.skipUnless(os.path.exists(WEIGHTS), "the weights of g2p-en are not in build/g2p: ./run test fetches them")
class G2p(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.weights = g2p_reference.load(WEIGHTS)
        words = real_words()
        words += ["hello", "relay", "world", "café", "naïve", "straße", "4ever", "2024", "é", "a", "", "x" * 60]
        words += made_words(560 - len(words), np.random.default_rng(11))
        cls.words = words
        cls.expected = [g2p_reference.predict(cls.weights, spell.letters(word)) for word in words]
        cls.folder = tempfile.TemporaryDirectory()
        cls.source = os.path.join(EXAMPLE, "g2p.relay")

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def compile(self, level):
        model = os.path.join(self.folder.name, f"g2p_o{level}.rvm")
        return relayvm.compile_file(self.source, model, level, [WEIGHTS])

    def compare(self, words, expected, said):
        self.assertEqual(len(said), len(words))
        wrong = [(word, spell.phonemes(right), spell.phonemes(numbers))
                 for word, right, numbers in zip(words, expected, said) if right != numbers]
        self.assertEqual(wrong, [], "(word, numpy, RelayVM)")

    def test_every_phoneme(self):
        self.assertGreaterEqual(len(self.words), 500)
        said = spell.say(self.words, relayvm.RUNTIME, self.compile(2))
        self.compare(self.words, self.expected, said)

    def test_every_level(self):
        some = slice(0, None, 9)
        for level in (0, 1, 3):
            with self.subTest(f"-O{level}"):
                said = spell.say(self.words[some], relayvm.RUNTIME, self.compile(level))
                self.compare(self.words[some], self.expected[some], said)

    def test_quantised(self):
        """By the verb, with 24 words as data: a megabyte, and few phonemes of the words in lower case are others."""
        data = os.path.join(self.folder.name, "data.txt")
        words = [word for word in self.words if word.isascii() and word.isalpha() and word.islower() and len(word) < 16]
        with open(data, "w", encoding="utf-8") as file:
            file.writelines(f"{str(spell.letters(word)).replace(' ', '')}\n" for word in words[:24])
        words = words[24:224]
        expected = [g2p_reference.predict(self.weights, spell.letters(word)) for word in words]
        for scheme in ("w8", "w8a8-dynamic", "w8a8"):
            with self.subTest(scheme):
                model = os.path.join(self.folder.name, f"g2p_{scheme}.rvm")
                relayvm.must(relayvm.COMPILER, "quantize", self.source, "--params", WEIGHTS, "--scheme", scheme, "--data", data,
                             "--entry", "main", "--entry", "words", "--force", "-o", model)
                self.assertLess(os.path.getsize(model), 1_050_000)
                said = spell.say(words, relayvm.RUNTIME, model)
                wrong = sum(a != b for x, y in zip(said, expected) for a, b in zip(x + [0] * 30, y + [0] * 30))
                self.assertLess(wrong, 0.03 * sum(map(len, expected)))

    def test_reference_evaluator(self):
        words = ["go", "relay"]
        text = relayvm.relay_list([relayvm.relay_list(spell.letters(word)) for word in words])
        said = spell.read_lists(relayvm.evaluate(self.source, text, entry="words", params=[WEIGHTS]))
        self.compare(words, [g2p_reference.predict(self.weights, spell.letters(word)) for word in words], said)

    def test_one_word_entry(self):
        word = "hello"
        text = relayvm.execute(self.compile(2), relayvm.relay_list(spell.letters(word)))
        self.assertEqual(relayvm.list_of(relayvm.parse_value(text)), self.expected[self.words.index(word)])


