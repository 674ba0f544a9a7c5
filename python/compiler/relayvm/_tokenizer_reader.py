"""Reads a tokenizer.json, and lists what is not supported."""

import base64
import json

from . import _characters
from ._compiler import ImportFailed

# The patterns of pre-tokenizers that are supported, and how their programs differ: whether a letter run may begin with
# any character that is no letter, digit or end of a line, and contractions have upper case; how many digits a run has.
GPT2 = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_MODERN = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}DIGITS| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|"
           r"\s+(?!\S)|\s+")
PATTERNS = {
    GPT2: (False, 0),
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+": (False, 0),
    _MODERN.replace("DIGITS", "{1,3}"): (True, 3),
    _MODERN.replace("DIGITS", ""): (True, 1),
}
_MOST_TOKENS = 1 << 24
_MOST_SCORE = 1e300


def byte_characters():
    """The characters that stand for bytes in vocabularies, by byte: printable ones for themselves, then from 256 on."""
    own = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in own]
    return {byte: chr(byte if byte in own else 256 + others.index(byte)) for byte in range(256)}


def read_json(path):
    """The contents of a tokenizer.json."""
    with open(path, encoding="utf-8") as file:
        try:
            config = json.load(file)
        except (ValueError, RecursionError) as error:
            raise ImportFailed(f"{path}: no JSON: {error}", []) from error
    if not isinstance(config, dict):
        raise ImportFailed(f"{path}: expected a JSON object", [])
    return config


def _is_text(json_text):
    """Whether it is a text that has bytes: JSON may have halves of characters."""
    return isinstance(json_text, str) and not any("\ud800" <= c <= "\udfff" for c in json_text)


class Reader:
    """What a tokenizer.json has; `problems` lists what is not supported."""

    def __init__(self, config):
        self.problems, self.vocabulary, self.added = [], {}, []
        self.steps = []  # of the normalizer: functions of one character, and others
        self.model = self.object("model", config.get("model"))
        self.kind = self.model.get("type")
        read = {"BPE": self.read_bpe, "WordPiece": self.read_word_piece, "Unigram": self.read_unigram}
        self.expect("model.type", self.kind, *read)
        self.read_normalizer(self.object("normalizer", config.get("normalizer")))
        if isinstance(self.kind, str) and self.kind in read:
            read[self.kind](self.object("pre_tokenizer", config.get("pre_tokenizer")),
                            self.object("decoder", config.get("decoder")))
        for json_token in self.list("added_tokens", config.get("added_tokens")):
            self.read_added(self.object("added_tokens", json_token))

    def object(self, name, saw):
        """The object `saw`; an empty one if it is missing or refused."""
        if isinstance(saw, dict):
            return saw
        if saw is not None:
            self.problems.append(f"`{name}`: saw {json.dumps(saw)}; expected an object")
        return {}

    def list(self, name, saw):
        """The list `saw`; an empty one if it is missing or refused."""
        if isinstance(saw, list):
            return saw
        if saw is not None:
            self.problems.append(f"`{name}`: saw {json.dumps(saw)}; expected a list")
        return []

    def has_token(self, name, text, number):
        """Whether a text and its number make a token; refuses them if not."""
        if _is_text(text) and text and type(number) is int and 0 <= number < _MOST_TOKENS:
            return True
        self.problems.append(f"`{name}`: saw {json.dumps(text)} with the number {json.dumps(number)}; expected a text and a "
                             f"number from 0 to {_MOST_TOKENS - 1}")
        return False

    def expect(self, name, saw, *expected):
        if saw not in expected:
            self.problems.append(f"`{name}`: saw {json.dumps(saw)}; expected {' or '.join(map(json.dumps, expected))}")

    def refuse_flags(self, name, given, *flags):
        for flag in flags:
            self.expect(f"{name}{flag}", bool(given.get(flag)), False)

    def text(self, name, saw):
        """The text `saw`; an empty one if it is refused."""
        if _is_text(saw) and saw:
            return saw
        self.problems.append(f"`{name}`: saw {json.dumps(saw)}; expected a text")
        return ""

    def read_added(self, token):
        name = f"added_tokens, {json.dumps(token.get('content'))}, "
        self.refuse_flags(name, token, "lstrip", "rstrip", "single_word", *(["normalized"] if self.steps else []))
        if self.has_token("added_tokens", token.get("content"), token.get("id")):
            self.added.append(token)

    def steps_of(self, name, given):
        """The steps of a sequence, or one alone."""
        if given.get("type") != "Sequence":
            return [given] if given else []
        return [self.object(name, step) for step in self.list(name, given.get(name.split(".")[-1]))]

    # ---- normalizers

    def read_normalizer(self, normalizer):
        for step in self.steps_of("normalizer.normalizers", normalizer):
            kind = step.get("type")
            if kind == "BertNormalizer":
                self.read_bert_normalizer(step)
            elif kind == "Lowercase":
                self.steps.append(_characters.lowercase)
            elif kind in ("NFC", "NFD", "NFKC", "NFKD"):
                self.steps.append(_characters.Form(kind))
            elif kind == "StripAccents":
                self.read_strip_accents()
            elif kind == "Replace":
                self.read_replace(step)
            elif kind == "Precompiled":
                self.read_charsmap(step.get("precompiled_charsmap"))
            elif kind == "Strip":
                self.steps.append(_characters.Strip(bool(step.get("strip_left", True)), bool(step.get("strip_right", True))))
            else:
                self.expect("normalizer.type", kind, "BertNormalizer", "Lowercase", "NFC", "NFD", "NFKC", "NFKD", "StripAccents",
                            "Replace", "Precompiled", "Strip")

    def read_strip_accents(self):
        """Without marks, their order does not matter."""
        if self.steps and isinstance(self.steps[-1], _characters.Form) and self.steps[-1].form in ("NFD", "NFKD"):
            self.steps.append(self.steps.pop().decomposed())
        self.steps.append(_characters.without_marks)

    def read_bert_normalizer(self, step):
        is_lower = bool(step.get("lowercase", True))
        strips = step.get("strip_accents")
        for is_done, function in ((step.get("clean_text", True), _characters.clean),
                                  (step.get("handle_chinese_chars", True), _characters.apart),
                                  (is_lower if strips is None else strips, _characters.without_accents),
                                  (is_lower, _characters.lowercase)):
            if is_done:
                self.steps.append(function)

    def read_replace(self, step):
        pattern = self.object("normalizer.pattern", step.get("pattern"))
        content = step.get("content")
        if pattern.get("Regex") == " {2,}" and _is_text(content):
            self.steps.append(_characters.Blanks(content))
            return
        pattern = pattern.get("String")
        if not _is_text(pattern) or len(pattern) != 1 or not _is_text(content):
            self.problems.append(f"`normalizer.pattern`: saw {json.dumps(step.get('pattern'))} and {json.dumps(content)}; "
                                 f"expected one character, or two blanks and more, and a text")
            return
        self.steps.append(_characters.replacement(pattern, content))

    def read_charsmap(self, text):
        if text is None:
            return
        try:
            self.steps.append(_characters.CharsMap(base64.b64decode(text, validate=True)))
        except (ValueError, TypeError) as error:
            self.problems.append(f"`normalizer.precompiled_charsmap`: {error}; expected a table of SentencePiece in base 64")

    # ---- byte-level BPE

    def read_bpe(self, pre, decoder):
        self.expect("decoder.type", decoder.get("type"), "ByteLevel")
        model = self.model
        self.merges, self.pattern = [], None
        self.ignores_merges = bool(model.get("ignore_merges"))
        for key in ("dropout", "continuing_subword_prefix", "end_of_word_suffix"):
            self.expect(f"model.{key}", model.get(key) or None, None)
        self.refuse_flags("model.", model, "fuse_unk", "byte_fallback")
        self.read_patterns(pre)
        self.read_vocabulary(model.get("vocab"))
        if not self.problems:
            self.read_merges(model)

    def read_vocabulary(self, vocabulary):
        vocabulary = self.object("model.vocab", vocabulary)
        if all(self.has_token("model.vocab", text, number) for text, number in vocabulary.items()):
            self.vocabulary = vocabulary

    def read_merges(self, model):
        missing = [byte for byte, character in byte_characters().items() if character not in self.vocabulary]
        if missing:
            self.problems.append(f"`model.vocab`: saw no token for {len(missing)} bytes, such as {missing[0]}; expected one for each")
        for merge in self.list("model.merges", model.get("merges")):
            pair = merge.split(" ") if isinstance(merge, str) else merge
            is_pair = isinstance(pair, list) and len(pair) == 2 and all(isinstance(part, str) for part in pair)
            if not is_pair or any(part not in self.vocabulary for part in (*pair, "".join(pair))):
                self.problems.append(f"`model.merges`: saw {json.dumps(merge)}; expected two tokens that are one together")
                return
            self.merges.append(pair)

    def read_patterns(self, pre):
        has_prefix_space, patterns, steps = False, [], self.steps_of("pre_tokenizer.pretokenizers", pre)
        for step in steps:
            self.expect("pre_tokenizer.type", step.get("type"), "ByteLevel", "Split")
            if step.get("type") == "Split":
                pattern = self.object("pre_tokenizer.pattern", step.get("pattern")).get("Regex")
                self.expect("pre_tokenizer.pattern", pattern, *PATTERNS)
                self.expect("pre_tokenizer.behavior", step.get("behavior"), "Isolated")
                self.refuse_flags("pre_tokenizer.", step, "invert")
                patterns.append(pattern)
            elif step.get("type") == "ByteLevel" and step.get("use_regex", True):
                patterns.append(GPT2)
            has_prefix_space = has_prefix_space or bool(step.get("add_prefix_space"))
        self.expect("pre_tokenizer.add_prefix_space", has_prefix_space, False)
        if self.problems:
            return
        if len(patterns) != 1:
            saw = f"{len(patterns)} patterns" if patterns else "no pattern"
            self.problems.append(f"`pre_tokenizer`: saw {saw}; expected that of GPT-2, Llama 3 or Qwen")
        elif steps[-1].get("type") != "ByteLevel":
            self.problems.append('`pre_tokenizer`: saw no "ByteLevel" as the last step; expected it')
        else:
            self.pattern = patterns[0]

    # ---- WordPiece

    def read_word_piece(self, pre, decoder):
        model = self.model
        self.expect("pre_tokenizer.type", pre.get("type"), "BertPreTokenizer")
        self.expect("decoder.type", decoder.get("type"), "WordPiece")
        self.read_vocabulary(model.get("vocab"))
        self.prefix = self.text("model.continuing_subword_prefix", model.get("continuing_subword_prefix", "##"))
        self.decoder_prefix = self.text("decoder.prefix", decoder.get("prefix", "##"))
        self.cleans = bool(decoder.get("cleanup", True))
        self.most = model.get("max_input_chars_per_word", 100)
        if type(self.most) is not int or not 0 < self.most < _MOST_TOKENS:
            self.problems.append(f"`model.max_input_chars_per_word`: saw {json.dumps(self.most)}; expected a number from 1 to "
                                 f"{_MOST_TOKENS - 1}")
        self.unknown = model.get("unk_token")
        if not isinstance(self.unknown, str) or self.unknown not in self.vocabulary:
            self.problems.append(f"`model.unk_token`: saw {json.dumps(self.unknown)}; expected a token of the vocabulary")

    # ---- Unigram

    def read_unigram(self, pre, decoder):
        self.scores = []
        for entry in self.list("model.vocab", self.model.get("vocab")):
            is_entry = isinstance(entry, list) and len(entry) == 2 and type(entry[1]) in (int, float) and \
                -_MOST_SCORE <= entry[1] <= _MOST_SCORE
            if not is_entry or not self.has_token("model.vocab", entry[0], len(self.scores)):
                if not is_entry:
                    self.problems.append(f"`model.vocab`: saw {json.dumps(entry)}; expected a text and its score")
                return
            self.vocabulary[entry[0]] = len(self.scores)  # the last one of several
            self.scores.append(float(entry[1]))
        self.unknown = self.model.get("unk_id")
        if type(self.unknown) is not int or not 0 <= self.unknown < len(self.scores):
            self.problems.append(f"`model.unk_id`: saw {json.dumps(self.unknown)}; expected the number of a token")
        self.has_bytes = bool(self.model.get("byte_fallback"))
        if self.has_bytes and any(f"<0x{byte:02X}>" not in self.vocabulary for byte in range(256)):
            self.problems.append("`model.byte_fallback`: saw true without a token for each byte, as <0x0A>; expected false")
        self.splits_words, self.mark = False, None
        for step in self.steps_of("pre_tokenizer.pretokenizers", pre):
            self.expect("pre_tokenizer.type", step.get("type"), "Metaspace", "WhitespaceSplit")
            if self.mark is not None:
                self.problems.append("`pre_tokenizer.pretokenizers`: saw a step behind \"Metaspace\"; expected it last")
            elif step.get("type") == "Metaspace":
                self.mark, self.scheme = self.read_mark("pre_tokenizer", step)
                self.splits_marks = bool(step.get("split", True))
            else:
                self.splits_words = True
        if self.mark is None:
            self.problems.append('`pre_tokenizer`: saw no "Metaspace"; expected it')
        elif not self.splits_words:
            self.steps.append(_characters.replacement(" ", self.mark))
        self.expect("decoder.type", decoder.get("type"), "Metaspace")
        self.decoder_mark, self.decoder_scheme = self.read_mark("decoder", decoder)

    def read_mark(self, name, given):
        """The mark before words, and when it is added: `always`, `first` or `never`."""
        mark = given.get("replacement", "\u2581")
        if not _is_text(mark) or len(mark) != 1:
            self.problems.append(f"`{name}.replacement`: saw {json.dumps(mark)}; expected one character")
        scheme = given.get("prepend_scheme", "always" if given.get("add_prefix_space", True) else "never")
        self.expect(f"{name}.prepend_scheme", scheme, "always", "first", "never")
        return mark, scheme
