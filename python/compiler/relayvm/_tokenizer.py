"""Tokenizers as programs: the tables and the parts of the program of a tokenizer.json."""

import os
import re

import numpy

from . import _characters, _tokenizer_programs as programs
from ._compiler import ImportFailed, Module
from ._tokenizer_reader import PATTERNS, Reader, byte_characters, read_json

_ROOT = 1 << 24  # the first state of tries, behind all tokens: the keys of both are in one table
_COMPOSED = 1 << 26  # behind the states: the first characters of pairs that normalizers compose
_UNKNOWN_PENALTY = 10  # by which the score of unknown text is below the lowest one


_CHARACTER_NUMBERS = {name: getattr(_characters, name) for name in (
    "OTHER", "SPACE", "LINE_END", "MARK", "PREFIX", "CONTROL", "RETURN", "NEW_LINE", "GONE")}


class _PairTable:
    """A hash table with open addresses: keys, ranks and values of pairs of numbers."""

    def __init__(self, entries):
        """entries: (a, b), (rank, value); the first of equal pairs counts."""
        self.bits = max(4, (2 * len(entries)).bit_length())
        size = 1 << self.bits
        self.keys = numpy.full(size, -1, "int64")
        self.ranks, self.values = numpy.zeros(size, "int32"), numpy.zeros(size, "int32")
        keys = [-1] * size
        for (a, b), (rank, value) in entries:
            place = ((a * 2654435761 + b * 2246822519) & 0xFFFFFFFF) >> (32 - self.bits)
            key = a << 32 | b
            while keys[place] >= 0 and keys[place] != key:
                place = (place + 1) & (size - 1)
            if keys[place] < 0:
                keys[place], self.ranks[place], self.values[place] = key, rank, value
        self.keys[:] = keys

    def params(self):
        return {"pair_keys": self.keys, "pair_ranks": self.ranks, "pair_tokens": self.values}


class _Trie:
    """The states of byte strings, and the token that ends at each."""

    def __init__(self, tokens):
        """tokens: byte strings with their numbers."""
        self.next, self.tokens = {}, [-1]
        for text, token in tokens:
            state = self.state_of(text)
            self.tokens[state - _ROOT] = token

    def state_of(self, text):
        """The state behind a text, which is added if there is none."""
        state = _ROOT
        for byte in text:
            following = self.next.get((state, byte))
            if following is None:
                following = self.next[state, byte] = _ROOT + len(self.tokens)
                self.tokens.append(-1)
            state = following
        return state

    def entries(self):
        return [(pair, (0, state)) for pair, state in self.next.items()]


class _Program:
    """The parts of the text of a program, its tables and its numbers."""

    def __init__(self, reader):
        self.reader = reader
        self.parts, self.params = [programs.CHARACTERS, programs.PAIRS], {}
        self.numbers = {"ROOT": _ROOT, "COMPOSED": _COMPOSED, **_CHARACTER_NUMBERS}
        self.add_tables(*{"BPE": self.bpe, "WordPiece": self.word_piece, "Unigram": self.unigram}[reader.kind]())
        self.add_added()
        self.parts += [programs.ENCODE, programs.DECODE]
        self.add_entry()

    def add_tables(self, class_of, pairs, texts, first_texts):
        """class_of: of characters; pairs: (a, b), (rank, value); texts: of tokens, and those of first ones if they differ."""
        forms = [step for step in self.reader.steps if isinstance(step, _characters.Form)]
        together = {pair: code for form in forms for pair, code in form.compositions().items()}
        table = _PairTable([*pairs, *(((_COMPOSED + a, b), (0, code)) for (a, b), code in together.items())])
        pages, classes = _characters.classes(class_of)
        self.params.update(table.params(), pages=pages, classes=classes)
        self.numbers.update(SHIFT=f"{32 - table.bits}u32", MASK=(1 << table.bits) - 1, COUNT=len(texts))
        names = ("token_bytes", "token_places")
        self.params.update(zip(names, _characters.joined([*texts, b""])))  # the last one for tokens that are unknown
        if first_texts is None:
            self.numbers["FIRST"] = programs.DECODE_PLAIN.strip()
        else:
            self.numbers["FIRST"] = programs.DECODE_FIRST.strip()
            self.params.update(zip(("first_bytes", "first_places"), _characters.joined([*first_texts, b""])))

    def texts_by_number(self, text_of):
        """The bytes of each token, by `text_of` its text."""
        numbers = {**self.reader.vocabulary, **{token["content"]: token["id"] for token in self.reader.added}}
        added = {token["content"] for token in self.reader.added}
        texts = [b""] * (1 + max(numbers.values(), default=0))
        for text, number in numbers.items():
            texts[number] = text_of(text, text in added)
        return texts

    def bpe(self):
        reader, vocabulary = self.reader, self.reader.vocabulary
        characters = byte_characters()
        bytes_of = {character: byte for byte, character in characters.items()}
        own_bytes = lambda text: bytes(bytes_of[c] for c in text) if all(c in bytes_of for c in text) else text.encode()
        pairs = [((vocabulary[a], vocabulary[b]), (rank, vocabulary[a + b])) for rank, (a, b) in enumerate(reader.merges)]
        is_modern, digits = PATTERNS[reader.pattern]
        self.numbers.update(DIGITS=digits, PIECES=(programs.MODERN_PIECES if is_modern else programs.GPT2_PIECES).strip())
        self.parts.append(programs.BPE)
        if reader.ignores_merges:
            trie = _Trie((own_bytes(text), number) for text, number in vocabulary.items())
            pairs += trie.entries()
            self.params["state_tokens"] = numpy.array(trie.tokens, "int32")
            self.parts += [programs.TRIE, programs.BPE_WHOLE]
        else:
            self.parts.append(programs.BPE_MERGED)
        self.params["byte_tokens"] = numpy.array([vocabulary.get(characters[byte], -1) for byte in range(256)], "int32")
        texts = self.texts_by_number(lambda text, is_added: text.encode() if is_added else own_bytes(text))
        return _characters.text_class, pairs, texts, None

    def word_piece(self):
        reader = self.reader
        trie = _Trie((text.encode(), number) for text, number in reader.vocabulary.items())
        self.numbers.update(INSIDE=trie.state_of(reader.prefix.encode()), MOST=reader.most, UNKNOWN=reader.vocabulary[reader.unknown])
        self.params["state_tokens"] = numpy.array(trie.tokens, "int32")
        self.parts += [programs.TRIE, programs.WORD_PIECE]
        cleaned = _cleaned if reader.cleans else str

        def behind(text, is_added):
            is_inside = text.startswith(reader.decoder_prefix)
            return cleaned(text.removeprefix(reader.decoder_prefix) if is_inside else " " + text).encode()

        return (_characters.word_class, trie.entries(), self.texts_by_number(behind),
                self.texts_by_number(lambda text, is_added: cleaned(text).encode()))

    def unigram(self):
        reader = self.reader
        trie = _Trie((text.encode(), number) for text, number in reader.vocabulary.items())
        mark = reader.mark.encode()
        self.numbers.update(UNKNOWN=reader.unknown, MARK_SIZE=len(mark),
                            UNKNOWN_SCORE=f"take(%token_scores, {len(reader.scores)})",
                            HAS_MARK={"always": "True", "first": "%is_first", "never": "False"}[reader.scheme],
                            NEXT_END="@next_mark(%text, %length, %at + 1)" if reader.splits_marks else "%length")
        scores = [*reader.scores, min(reader.scores) - _UNKNOWN_PENALTY]
        self.params.update(state_tokens=numpy.array(trie.tokens, "int32"), token_scores=numpy.array(scores, "float64"),
                           mark=numpy.frombuffer(mark, "uint8"))
        if reader.has_bytes:
            self.params["byte_tokens"] = numpy.array([reader.vocabulary[f"<0x{byte:02X}>"] for byte in range(256)], "int32")
        self.parts += [programs.TRIE, programs.UNIGRAM, programs.UNKNOWN_BYTES if reader.has_bytes else programs.UNKNOWN_FUSED,
                       programs.MARKS, programs.WORDS if reader.splits_words else programs.NO_WORDS]
        first = "" if reader.decoder_scheme != "never" else " "
        return (_space_class, trie.entries(),
                self.texts_by_number(lambda text, is_added: text.replace(reader.decoder_mark, " ").encode()),
                self.texts_by_number(lambda text, is_added: text.replace(reader.decoder_mark, first).encode()))

    def add_added(self):
        added = sorted(self.reader.added, key=lambda token: -len(token["content"].encode()))
        texts = [token["content"].encode() for token in added]
        starts = numpy.zeros(256, "int32")
        for text in texts:
            starts[text[0]] = 1
        self.params.update(zip(("added_bytes", "added_places"), _characters.joined(texts)))
        self.params.update(added_starts=starts, added_tokens=numpy.array([token["id"] for token in added] or [0], "int32"))
        self.numbers["ADDED"] = len(added)
        self.parts.append(programs.ADDED)

    def add_entry(self):
        """The normalizer, between added tokens and the model."""
        call = "%text"
        if self.reader.steps:
            self.parts += [programs.REPLACED, programs.BYTES]
        for number, step in enumerate(_steps_together(self.reader.steps)):
            name = f"step_{number}"
            text = programs.CHARACTER_MAP if isinstance(step, list) else programs.STEPS[type(step).__name__]
            if isinstance(step, _characters.Strip):
                text = text.replace("FIRST_END", "0" if step.right else "@length_of(%text)")
                text = text.replace("FIRST_START", "@length_of(%text)" if step.left else "0")
            self.parts.append(text.replace("STEP", name))
            if isinstance(step, _characters.Form):
                self.parts.append(programs.CHARACTER_MAP.replace("STEP", f"{name}_parts"))
                parts = _characters.mapping([step.decomposed()])
                self.params.update({f"{name}_parts_{part}": table for part, table in parts.items()})
            tables = _characters.mapping(step) if isinstance(step, list) else step.tables()
            self.params.update({f"{name}_{part}": table for part, table in tables.items()})
            call = f"@{name}({call})"
        self.numbers.update(NORMALIZED=call, IS_FIRST="%is_first")
        if self.reader.kind == "Unigram" and self.reader.scheme == "first" and self.reader.steps:
            self.parts.append(programs.KEPT)
            self.numbers["IS_FIRST"] = "logical_and(%is_first, @is_kept(%text))"

    def module(self, path):
        names = "|".join(self.numbers)
        text = "\n".join(self.parts)
        for _ in range(2):  # parts have numbers, too
            text = re.sub(rf"\b({names})\b", lambda match: str(self.numbers[match[0]]), text)
        variables = "".join(f"free_var %{name}: Tensor[({len(array)}), {array.dtype}];\n" for name, array in self.params.items())
        return Module(variables + text, self.params, name=path)


def _steps_together(steps):
    """The steps, with neighbours that are functions of one character in lists."""
    together = []
    for step in steps:
        if not callable(step):
            together.append(step)
        elif together and isinstance(together[-1], list):
            together[-1].append(step)
        else:
            together.append([step])
    return together


def _space_class(character):
    return _characters.SPACE if _characters.is_space(character) else _characters.OTHER


def _cleaned(text):
    """The text of a token without blanks before punctuation, as decoders of WordPiece clean it."""
    for old, new in ((" .", "."), (" ?", "?"), (" !", "!"), (" ,", ","), (" ' ", "'"), (" n't", "n't"), (" 'm", "'m"),
                     (" do not", " don't"), (" 's", "'s"), (" 've", "'ve"), (" 're", "'re")):
        text = text.replace(old, new)
    return text


def import_tokenizer(path):
    """A tokenizer as a Module: byte-level BPE, as GPT-2, Llama 3 and Qwen have it, WordPiece as BERT has it, and Unigram, as
    SentencePiece and T5 have it.

    path: a tokenizer.json, or the folder that has it. Its functions take and give bytes of UTF-8: `encode(text)` gives tokens,
    without those that a template adds, `decode(tokens)` the text, and `bytes_of_token(token)` that of one token behind
    others. They give what the package `tokenizers` gives. Raises ImportFailed, which lists all that is not supported.
    """
    path = os.fspath(path)
    if os.path.isdir(path):
        path = os.path.join(path, "tokenizer.json")
    reader = Reader(read_json(path))
    if reader.problems:
        raise ImportFailed(f"{path}: cannot be imported\n" + "\n".join(reader.problems), [])
    return _Program(reader).module(path)
