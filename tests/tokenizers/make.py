"""Writes the fixtures of tests/tokenizers_test.py with the packages `tokenizers` and `sentencepiece`: small tokenizers, trained
on documents of the tree, and the tokens that they give for lines of mixed text.

    python3 tests/tokenizers/make.py [NAME ...]
    python3 tests/tokenizers/make.py LINES

With a number of LINES, only writes the tokens of so many random lines to build/tokenizer_lines.json.
"""

import glob
import json
import os
import random
import sys
import tempfile
import unicodedata

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
MODERN = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|"
          r"\s+(?!\S)|\s+")
PIECES = ["Hello", " world", "don't", "I'LL", "we've", " they're", "'", "''s", " ", "  ", "   ", "\t", "\n", "\n\n", "\r\n",
          " \n", "\n ", "1", "12", "1234", "3.14", "٣٤", "½", "é", "naïve", "Ünïcödé", "Привет", "мир", "你好", "世界", "こんにちは",
          "한국어", "مرحبا", "שלום", "😀", "👩‍👩‍👧", "🇺🇸", "\u00a0", "\u3000", "\u2028", "\u200b", "\x00", "\x1c", "e\u0301", "…", "—", "“q”", "a_b", "x=1;",
          "()", "{}", "<|end|>", "<|start|>", "<|", "|>", "http://a.b/c?d=e", "\\n", "#!", "ﬁ", "ⅷ", "²", "कि", "ก็", "\ufeff"]


# Rules of a table of SentencePiece: some characters, graphemes of two and three characters, and what is removed.
RULES = [("\u200b", " "), ("\u00a0", " "), ("\u3000", " "), ("\t", " "), ("\r", " "), ("\n", " "), ("\r\n", " "), ("\ufeff", ""),
         ("e\u0301", "\u00e9"), ("a\u0302\u0301", "\u1ea5"), ("o\u0308", "\u00f6"), ("\u0308", "^"), ("\ufb01", "fi"), ("\u00bd", "1/2"), ("\u2026", "..."),
         ("\u2177", "viii"), ("\u00b2", "2"), ("Q", "qq"), ("u\u0304\u0308", "u-")]


def is_alike(character):
    """Whether the package, whose tables are those of several versions of Unicode, has the properties that Python has."""
    category, form = unicodedata.category(character), unicodedata.normalize("NFKD", character)
    count = len(pre_tokenizers.BertPreTokenizer().pre_tokenize_str(f"a{character}a"))
    is_sign = category[0] == "P" or character.isascii() and category[0] == "S"
    bert = normalizers.BertNormalizer(clean_text=False, handle_chinese_chars=False, lowercase=False, strip_accents=True)
    return ((normalizers.StripAccents().normalize_str(character) == "") == (category[0] == "M")
            and (bert.normalize_str(character) == "") == (category == "Mn")
            and normalizers.NFKD().normalize_str(character) == form
            and normalizers.Lowercase().normalize_str(character) == character.lower()
            and (count == 3 if is_sign else count == (2 if character.isspace() and not "\x1c" <= character <= "\x1f" else 1)))


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
                     if not 0xd800 <= code < 0xe000 and is_alike(chr(code))]
        else:
            at = dice.randrange(len(words))
            parts = [" ".join(words[at:at + dice.randrange(8)]), dice.choice(PIECES)]
        result.append("".join(parts))
    return result


def documents():
    files = sorted(glob.glob(os.path.join(ROOT, "docs", "*.md")))
    return [file for file in files if os.path.basename(file) != "operators.md"]


def byte_level(pattern):
    tokenizer = tokenizers.Tokenizer(models.BPE())
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=pattern is None)
    if pattern is not None:
        split = pre_tokenizers.Split(tokenizers.Regex(pattern), "isolated")
        byte_level = pre_tokenizers.Sequence([split, byte_level])
    tokenizer.pre_tokenizer, tokenizer.decoder = byte_level, decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=600, special_tokens=["<|end|>", "<|start|>"], show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train(documents(), trainer)
    return tokenizer


def whole_pieces():
    """Pieces that are tokens need no merges; half of the merges are missing."""
    config = json.loads(byte_level(None).to_str())
    config["model"]["merges"] = config["model"]["merges"][::2]
    vocabulary = config["model"]["vocab"]
    config["model"]["merges"] = [pair for pair in config["model"]["merges"] if "".join(pair) in vocabulary]
    config["model"]["ignore_merges"] = True
    return tokenizers.Tokenizer.from_str(json.dumps(config))


def bert(lowercase):
    tokenizer = tokenizers.Tokenizer(models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=20))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizers.BertPreTokenizer(), decoders.WordPiece(cleanup=lowercase)
    tokenizer.train(documents(), trainers.WordPieceTrainer(
        vocab_size=500, special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "<|end|>"], show_progress=False))
    return tokenizer


def unigram(normalizer, pre_tokenizer, decoder, has_bytes=False):
    tokenizer = tokenizers.Tokenizer(models.Unigram())
    tokenizer.normalizer, tokenizer.pre_tokenizer, tokenizer.decoder = normalizer, pre_tokenizer, decoder
    special = ["<pad>", "</s>", "<unk>", "<|end|>"]
    tokenizer.train(documents(), trainers.UnigramTrainer(vocab_size=500, special_tokens=special, unk_token="<unk>",
                                                         show_progress=False))
    if not has_bytes:
        return tokenizer
    config = json.loads(tokenizer.to_str())
    config["model"]["vocab"] += [[f"<0x{byte:02X}>", -20.0] for byte in range(256)]
    config["model"]["byte_fallback"] = True
    return tokenizers.Tokenizer.from_str(json.dumps(config))


def charsmap():
    """The table that SentencePiece makes of the rules."""
    import sentencepiece
    from sentencepiece import sentencepiece_model_pb2
    code = lambda text: " ".join(f"{ord(c):X}" for c in text)
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "rules.tsv"), "w", encoding="utf-8") as file:
            file.writelines(f"{code(old)}\t{code(new)}\n" for old, new in RULES)
        sentencepiece.SentencePieceTrainer.train(
            input=documents()[0], model_prefix=os.path.join(folder, "model"), vocab_size=200, minloglevel=2, hard_vocab_limit=False,
            normalization_rule_tsv=os.path.join(folder, "rules.tsv"))
        with open(os.path.join(folder, "model.model"), "rb") as file:
            return sentencepiece_model_pb2.ModelProto.FromString(file.read()).normalizer_spec.precompiled_charsmap


def t5():
    splits = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()])
    steps = [normalizers.Precompiled(charsmap()), normalizers.Strip(left=False),
             normalizers.Replace(tokenizers.Regex(" {2,}"), "\u2581")]
    return unigram(normalizers.Sequence(steps), splits, decoders.Metaspace())


def albert():
    steps = [normalizers.NFKD(), normalizers.StripAccents(), normalizers.Lowercase(),
             normalizers.Replace(tokenizers.Regex(" {2,}"), " ")]
    mark = {"replacement": "_", "prepend_scheme": "first"}
    return unigram(normalizers.Sequence(steps), pre_tokenizers.Metaspace(**mark, split=False), decoders.Metaspace(**mark),
                   has_bytes=True)


TOKENIZERS = {"gpt2": lambda: byte_level(None), "llama3": lambda: byte_level(MODERN), "whole": whole_pieces,
              "bert": lambda: bert(True), "bert_cased": lambda: bert(False), "t5": t5, "albert": albert}


def main():
    if len(sys.argv) > 1 and sys.argv[1].isdigit():
        texts = lines(int(sys.argv[1]), 99)
        result = {}
        for name in TOKENIZERS:
            tokenizer = tokenizers.Tokenizer.from_file(os.path.join(HERE, f"{name}.json"))
            result[name] = [tokenizer.encode(text).ids for text in texts]
            result[f"{name}_decoded"] = [tokenizer.decode(ids, skip_special_tokens=False) for ids in result[name]]
        os.makedirs(os.path.join(ROOT, "build"), exist_ok=True)
        with open(os.path.join(ROOT, "build", "tokenizer_lines.json"), "w", encoding="utf-8") as file:
            json.dump({"lines": texts, **result}, file)
        return
    for name in sys.argv[1:] or TOKENIZERS:
        tokenizer = TOKENIZERS[name]()
        tokenizer.save(os.path.join(HERE, f"{name}.json"), pretty=False)
        texts = lines(150, 1)
        with open(os.path.join(HERE, f"{name}_lines.json"), "w", encoding="utf-8") as file:
            rows = [[text, tokenizer.encode(text).ids] for text in texts]
            json.dump([[text, ids, tokenizer.decode(ids, skip_special_tokens=False)] for text, ids in rows], file)


if __name__ == "__main__":
    main()
