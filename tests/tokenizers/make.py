"""Writes the fixtures of tests/tokenizers_test.py with the package `tokenizers`: small tokenizers, trained on documents of the
tree, and the tokens that they give for lines of mixed text.

    python3 tests/tokenizers/make.py [LINES]

With LINES, only checks so many random lines: writes their tokens to build/tokenizer_lines.json.
"""

import glob
import json
import os
import random
import sys

import tokenizers
from tokenizers import decoders, models, pre_tokenizers, trainers

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
MODERN = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|"
          r"\s+(?!\S)|\s+")
PIECES = ["Hello", " world", "don't", "I'LL", "we've", " they're", "'", "''s", " ", "  ", "   ", "\t", "\n", "\n\n", "\r\n",
          " \n", "\n ", "1", "12", "1234", "3.14", "٣٤", "½", "é", "naïve", "Ünïcödé", "Привет", "мир", "你好", "世界", "こんにちは",
          "한국어", "مرحبا", "שלום", "😀", "👩‍👩‍👧", "🇺🇸", "\u00a0", "\u3000", "\u2028", "\u200b", "\x00", "\x1c", "e\u0301", "…", "—", "“q”", "a_b", "x=1;",
          "()", "{}", "<|end|>", "<|start|>", "<|", "|>", "http://a.b/c?d=e", "\\n", "#!", "ﬁ", "ⅷ", "²", "कि", "ก็", "\ufeff"]


def lines(count, seed):
    """Lines of pieces, of characters of all planes, and of the documents."""
    dice = random.Random(seed)
    with open(os.path.join(ROOT, "README.md"), encoding="utf-8") as file:
        words = file.read().split(" ")
    result = []
    for _ in range(count):
        kind = dice.randrange(4)
        if kind == 0:
            parts = [dice.choice(PIECES) for _ in range(dice.randrange(12))]
        elif kind == 1:
            limit = dice.choice([0x80, 0x250, 0x3000, 0x10000, 0x20000])
            parts = [chr(code) for code in (dice.randrange(limit) for _ in range(dice.randrange(15)))
                     if not 0xd800 <= code < 0xe000]
        else:
            at = dice.randrange(len(words))
            parts = [" ".join(words[at:at + dice.randrange(8)]), dice.choice(PIECES)]
        result.append("".join(parts))
    return result


def train(pattern):
    tokenizer = tokenizers.Tokenizer(models.BPE())
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=pattern is None)
    if pattern is not None:
        split = pre_tokenizers.Split(tokenizers.Regex(pattern), "isolated")
        byte_level = pre_tokenizers.Sequence([split, byte_level])
    tokenizer.pre_tokenizer, tokenizer.decoder = byte_level, decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=600, special_tokens=["<|end|>", "<|start|>"], show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    files = sorted(glob.glob(os.path.join(ROOT, "docs", "*.md")))
    tokenizer.train([file for file in files if os.path.basename(file) != "operators.md"], trainer)
    return tokenizer


def main():
    names = {"gpt2": None, "llama3": MODERN}
    if len(sys.argv) > 1:
        texts = lines(int(sys.argv[1]), 99)
        result = {name: [tokenizers.Tokenizer.from_file(os.path.join(HERE, f"{name}.json")).encode(text).ids
                         for text in texts] for name in names}
        os.makedirs(os.path.join(ROOT, "build"), exist_ok=True)
        with open(os.path.join(ROOT, "build", "tokenizer_lines.json"), "w", encoding="utf-8") as file:
            json.dump({"lines": texts, **result}, file)
        return
    for name, pattern in names.items():
        tokenizer = train(pattern)
        tokenizer.save(os.path.join(HERE, f"{name}.json"), pretty=False)
        texts = lines(150, 1)
        with open(os.path.join(HERE, f"{name}_lines.json"), "w", encoding="utf-8") as file:
            json.dump([[text, tokenizer.encode(text).ids] for text in texts], file)


if __name__ == "__main__":
    main()
