"""Tokenizers as programs: byte-level BPE of a tokenizer.json as Relay text, with its tables as weights."""

import json
import os
import unicodedata

import numpy

from ._compiler import ImportFailed, Module

# The patterns of pre-tokenizers that are supported, and how their programs differ: whether a letter run may begin with
# any character that is no letter, digit or end of a line, and contractions have upper case; how many digits a run has.
_GPT2 = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_MODERN = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}DIGITS| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|"
           r"\s+(?!\S)|\s+")
_PATTERNS = {
    _GPT2: (False, 0),
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+": (False, 0),
    _MODERN.replace("DIGITS", "{1,3}"): (True, 3),
    _MODERN.replace("DIGITS", ""): (True, 1),
}
_OTHER, _LETTER, _DIGIT, _SPACE, _LINE_END = range(5)  # classes of characters
_PAGE = 256  # characters of a page of the table of classes
_MOST_TOKENS = 1 << 24

_TEXT = """
// Classes of characters: 0 other, 1 letter, 2 digit, 3 white space, 4 an end of a line. A byte has that of its character.
def @byte_before(%text: Tensor[(n), uint8], %distance: int32) -> Tensor[(n), int32] {
  let %places = arange(0i64, extent(%text, axis=0), 1i64) + cast(%distance, dtype="int64");
  let %is_inside = logical_and(%places >= 0i64, %places < extent(%text, axis=0));
  where(%is_inside, cast(take(%text, %places), dtype="int32"), 0)
}
def @is_start(%byte: Tensor[(n), int32]) -> Tensor[(n), bool] { bitwise_and(%byte, 192) != 128 }
def @class_at_start(%text: Tensor[(n), uint8]) -> Tensor[(n), int32] {
  let %a = cast(%text, dtype="int32");
  let %b = bitwise_and(@byte_before(%text, 1), 63);
  let %c = bitwise_and(@byte_before(%text, 2), 63);
  let %d = bitwise_and(@byte_before(%text, 3), 63);
  let %two = bitwise_and(%a, 31) * 64 + %b;
  let %three = bitwise_and(%a, 15) * 4096 + %b * 64 + %c;
  let %four = bitwise_and(%a, 7) * 262144 + %b * 4096 + %c * 64 + %d;
  let %code = where(%a < 128, %a, where(%a < 224, %two, where(%a < 240, %three, minimum(%four, 1114111))));
  cast(take(%classes, take(%pages, right_shift(%code, 8)) * 256 + bitwise_and(%code, 255)), dtype="int32")
}
def @classes_of(%text: Tensor[(n), uint8]) -> Tensor[(n), int32] {
  let %own = cast(@class_at_start(%text), dtype="uint8");
  let %is_first = @is_start(@byte_before(%text, 0));
  let %is_second = @is_start(@byte_before(%text, -1));
  let %is_third = @is_start(@byte_before(%text, -2));
  where(%is_first, @byte_before(%own, 0), where(%is_second, @byte_before(%own, -1),
    where(%is_third, @byte_before(%own, -2), @byte_before(%own, -3))))
}

// Text and its classes, with what follows from them. Places are numbers of bytes.
def @byte_at(%text: Tensor[(n), uint8], %at: int32) -> int32 { cast(take(%text, %at), dtype="int32") }
def @length_of(%text: Tensor[(n), uint8]) -> int32 { cast(extent(%text, axis=0), dtype="int32") }
// The end of the run of one class from %at.
def @run_end(%classes: Tensor[(n), int32], %length: int32, %class: int32, %at: int32) -> int32 {
  if (%at >= %length) { %at } else {
    if (take(%classes, %at) == %class) { @run_end(%classes, %length, %class, %at + 1) } else { %at }
  }
}
// The same of white space, with ends of lines, which may be the last character that is left out.
def @space_end(%classes: Tensor[(n), int32], %length: int32, %at: int32) -> int32 {
  if (%at >= %length) { %at } else {
    if (take(%classes, %at) >= 3) { @space_end(%classes, %length, %at + 1) } else { %at }
  }
}
// Before the character that ends at %at.
def @character_before(%text: Tensor[(n), uint8], %at: int32) -> int32 {
  if (bitwise_and(@byte_at(%text, %at - 1), 192) == 128) { @character_before(%text, %at - 1) } else { %at - 1 }
}
def @character_end(%text: Tensor[(n), uint8], %length: int32, %at: int32) -> int32 {
  if (%at + 1 >= %length) { %length } else {
    if (bitwise_and(@byte_at(%text, %at + 1), 192) == 128) { @character_end(%text, %length, %at + 1) } else { %at + 1 }
  }
}
// At most %most characters of the run of digits from %at.
def @digits_end(%text: Tensor[(n), uint8], %classes: Tensor[(n), int32], %length: int32, %at: int32, %most: int32)
    -> int32 {
  if (%most == 0) { %at } else { if (%at >= %length) { %at } else {
    if (take(%classes, %at) == 2) {
      @digits_end(%text, %classes, %length, @character_end(%text, %length, %at), %most - 1)
    } else { %at }
  } }
}
// The end of the last end of a line in the white space from %at to %end; -1: there is none.
def @last_line_end(%classes: Tensor[(n), int32], %at: int32, %end: int32) -> int32 {
  if (%end <= %at) { -1 } else {
    if (take(%classes, %end - 1) == 4) { %end } else { @last_line_end(%classes, %at, %end - 1) }
  }
}
// How long the contraction from %at is: 's, 'll; 0: none.
def @contraction(%text: Tensor[(n), uint8], %length: int32, %at: int32) -> int32 {
  if (%at + 1 >= %length) { 0 } else { if (@byte_at(%text, %at) != 39) { 0 } else {
    let %a = @folded(@byte_at(%text, %at + 1));
    if (logical_or(logical_or(%a == 115, %a == 100), logical_or(%a == 109, %a == 116))) { 2 } else {
      if (%at + 2 >= %length) { 0 } else {
        let %b = @folded(@byte_at(%text, %at + 2));
        let %is_long = logical_or(logical_and(%a == 108, %b == 108),
          logical_and(%b == 101, logical_or(%a == 118, %a == 114)));
        if (%is_long) { 3 } else { 0 }
      }
    }
  } }
}
// The white space from %at to %end, up to the last character before another class.
def @space_piece(%text: Tensor[(n), uint8], %length: int32, %at: int32, %end: int32) -> int32 {
  if (%end == %length) { %end } else {
    let %before = @character_before(%text, %end);
    if (%before > %at) { %before } else { %end }
  }
}
PIECES

// Pairs of tokens, in a table with open addresses: the place of a pair, or -1.
def @place_of(%a: int32, %b: int32) -> int32 {
  let %mixed = cast(%a, dtype="uint32") * 2654435761u32 + cast(%b, dtype="uint32") * 2246822519u32;
  @probe(cast(%a, dtype="int64") * 4294967296i64 + cast(%b, dtype="int64"),
    cast(right_shift(%mixed, SHIFTu32), dtype="int32"))
}
def @probe(%key: int64, %at: int32) -> int32 {
  let %found = take(%pair_keys, %at);
  if (%found == %key) { %at } else { if (%found < 0i64) { -1 } else { @probe(%key, bitwise_and(%at + 1, MASK)) } }
}
def @rank_of(%a: int32, %b: int32) -> int32 {
  let %place = @place_of(%a, %b);
  if (%place < 0) { 2147483647 } else { take(%pair_ranks, %place) }
}
// The lowest rank of neighbours.
def @lowest(%a: int32, %rest: List[int32], %best: int32) -> int32 {
  match (%rest) { Nil => %best, Cons(%b, %more) => @lowest(%b, %more, minimum(%best, @rank_of(%a, %b))) }
}
// Joins the neighbours of that rank, from the left; the result is turned round.
def @join(%a: int32, %rest: List[int32], %rank: int32, %done: List[int32]) -> List[int32] {
  match (%rest) {
    Nil => Cons(%a, %done),
    Cons(%b, %more) => if (@rank_of(%a, %b) == %rank) {
      @after_join(take(%pair_tokens, @place_of(%a, %b)), %more, %rank, %done)
    } else { @join(%b, %more, %rank, Cons(%a, %done)) },
  }
}
def @after_join(%token: int32, %rest: List[int32], %rank: int32, %done: List[int32]) -> List[int32] {
  match (%rest) { Nil => Cons(%token, %done), Cons(%b, %more) => @join(%b, %more, %rank, Cons(%token, %done)) }
}
def @merge(%word: List[int32]) -> List[int32] {
  match (%word) {
    Nil => Nil,
    Cons(%a, %rest) => {
      let %rank = @lowest(%a, %rest, 2147483647);
      if (%rank == 2147483647) { %word } else { @merge(@rev(@join(%a, %rest, %rank, Nil))) }
    },
  }
}
def @bytes_of(%text: Tensor[(n), uint8], %at: int32, %end: int32, %word: List[int32]) -> List[int32] {
  if (%end <= %at) { %word } else {
    @bytes_of(%text, %at, %end - 1, Cons(take(%byte_tokens, @byte_at(%text, %end - 1)), %word))
  }
}

// The longest added token from %at: its row, or -1. Longer ones come first.
def @added_at(%text: Tensor[(n), uint8], %length: int32, %at: int32, %row: int32) -> int32 {
  if (%row >= ADDED) { -1 } else {
    let %begin = take(%added_places, %row);
    let %size = take(%added_places, %row + 1) - %begin;
    if (%at + %size > %length) { @added_at(%text, %length, %at, %row + 1) } else {
      if (@is_equal(%text, %at, %begin, %size)) { %row } else { @added_at(%text, %length, %at, %row + 1) }
    }
  }
}
def @is_equal(%text: Tensor[(n), uint8], %at: int32, %begin: int32, %size: int32) -> bool {
  if (%size == 0) { True } else {
    if (take(%text, %at) == take(%added_bytes, %begin)) { @is_equal(%text, %at + 1, %begin + 1, %size - 1) } else { False }
  }
}
// The place of the next added token from %at.
def @next_added(%text: Tensor[(n), uint8], %length: int32, %at: int32) -> int32 {
  if (%at >= %length) { %length } else {
    if (take(%added_starts, @byte_at(%text, %at)) == 0) { @next_added(%text, %length, %at + 1) } else {
      if (@added_at(%text, %length, %at, 0) >= 0) { %at } else { @next_added(%text, %length, %at + 1) }
    }
  }
}

// The tokens of text, turned round: pieces up to each added token, then that.
def @encode_from(%text: Tensor[(n), uint8], %length: int32, %at: int32, %done: List[int32]) -> List[int32] {
  if (%at >= %length) { %done } else {
    let %end = @next_added(%text, %length, %at);
    let %part = take(%text, arange(%at, %end, 1));
    let %more = @encode_part(%part, @classes_of(%part), %end - %at, 0, %done);
    if (%end >= %length) { %more } else {
      let %row = @added_at(%text, %length, %end, 0);
      let %size = take(%added_places, %row + 1) - take(%added_places, %row);
      @encode_from(%text, %length, %end + %size, Cons(take(%added_tokens, %row), %more))
    }
  }
}
def @encode_part(%text: Tensor[(n), uint8], %classes: Tensor[(n), int32], %length: int32, %at: int32, %done: List[int32])
    -> List[int32] {
  if (%at >= %length) { %done } else {
    let %end = @piece_end(%text, %classes, %length, %at);
    @encode_part(%text, %classes, %length, %end, @rev_onto(@merge(@bytes_of(%text, %at, %end, Nil)), %done))
  }
}
def @vector_of(%tokens: List[int32], %done: Tensor[(?), int32]) -> Tensor[(?), int32] {
  match (%tokens) {
    Nil => %done,
    Cons(%token, %rest) => @vector_of(%rest, concatenate((%done, expand_dims(%token, axis=0)), axis=0)),
  }
}
def @encode(%text: Tensor[(n), uint8]) -> Tensor[(?), int32] {
  @vector_of(@rev(@encode_from(%text, @length_of(%text), 0, Nil)), zeros(shape=[0], dtype="int32"))
}

// The bytes of a token; none for one that is unknown.
def @bytes_of_token(%token: int32) -> Tensor[(?), uint8] {
  let %known = if (%token < 0) { COUNT } else { minimum(%token, COUNT) };
  take(%token_bytes, arange(take(%token_places, %known), take(%token_places, %known + 1), 1))
}
def @decode_from(%tokens: Tensor[(n), int32], %at: int32, %done: Tensor[(?), uint8]) -> Tensor[(?), uint8] {
  if (cast(%at, dtype="int64") >= extent(%tokens, axis=0)) { %done } else {
    @decode_from(%tokens, %at + 1, concatenate((%done, @bytes_of_token(take(%tokens, %at))), axis=0))
  }
}
def @decode(%tokens: Tensor[(n), int32]) -> Tensor[(?), uint8] {
  @decode_from(%tokens, 0, zeros(shape=[0], dtype="uint8"))
}
def @main(%text: Tensor[(n), uint8]) -> Tensor[(?), int32] { @encode(%text) }
"""

_GPT2_PIECES = """
def @folded(%byte: int32) -> int32 { %byte }
// The end of the piece of text that begins at %at: a contraction, a run of one class, which a blank may begin, or white space
// up to the last character before another class.
def @piece_end(%text: Tensor[(n), uint8], %classes: Tensor[(n), int32], %length: int32, %at: int32) -> int32 {
  let %size = @contraction(%text, %length, %at);
  if (%size > 0) { %at + %size } else {
    let %first = if (@byte_at(%text, %at) == 32) { %at + 1 } else { %at };
    let %class = if (%first < %length) { take(%classes, %first) } else { 3 };
    if (%class < 3) { @run_end(%classes, %length, %class, %first) } else {
      @space_piece(%text, %length, %at, @space_end(%classes, %length, %at))
    }
  }
}
"""

_MODERN_PIECES = """
def @folded(%byte: int32) -> int32 { if (logical_and(%byte >= 65, %byte <= 90)) { %byte + 32 } else { %byte } }
// The end of the piece of text that begins at %at: a contraction; letters, which any character but a digit or an end of a
// line may begin; DIGITS digits; other characters, which a blank may begin and ends of lines end; white space up to an end of
// a line; or white space up to the last character before another class.
def @piece_end(%text: Tensor[(n), uint8], %classes: Tensor[(n), int32], %length: int32, %at: int32) -> int32 {
  let %size = @contraction(%text, %length, %at);
  if (%size > 0) { %at + %size } else {
    let %class = take(%classes, %at);
    let %next = @character_end(%text, %length, %at);
    let %second = if (%next < %length) { take(%classes, %next) } else { 3 };
    if (%class == 1) { @run_end(%classes, %length, 1, %at) } else {
      if (%class == 2) { @digits_end(%text, %classes, %length, %at, DIGITS) } else {
        if (logical_and(%second == 1, %class != 4)) { @run_end(%classes, %length, 1, %next) } else {
          @other_piece(%text, %classes, %length, %at, %class, %second)
        }
      }
    }
  }
}
def @other_piece(
    %text: Tensor[(n), uint8], %classes: Tensor[(n), int32], %length: int32, %at: int32, %class: int32, %second: int32)
    -> int32 {
  if (logical_or(%class == 0, logical_and(@byte_at(%text, %at) == 32, %second == 0))) {
    let %first = if (%class == 0) { %at } else { %at + 1 };
    @run_end(%classes, %length, 4, @run_end(%classes, %length, 0, %first))
  } else {
    let %end = @space_end(%classes, %length, %at);
    let %line = @last_line_end(%classes, %at, %end);
    if (%line > 0) { %line } else { @space_piece(%text, %length, %at, %end) }
  }
}
"""


def _class_of(character):
    if character in "\r\n":
        return _LINE_END
    # White space of Unicode, which differs from str.isspace by four control characters.
    if character.isspace() and not "\x1c" <= character <= "\x1f":
        return _SPACE
    return {"L": _LETTER, "N": _DIGIT}.get(unicodedata.category(character)[0], _OTHER)


def _class_tables():
    """The number of the page of each 256 characters, and the pages that differ."""
    pages, numbers = {}, []
    for start in range(0, 0x110000, _PAGE):
        page = bytes(_class_of(chr(code)) for code in range(start, start + _PAGE))
        numbers.append(pages.setdefault(page, len(pages)))
    return numpy.array(numbers, "int32"), numpy.frombuffer(b"".join(pages), "uint8")


def _byte_characters():
    """The characters that stand for bytes in vocabularies, by byte: printable ones for themselves, then from 256 on."""
    own = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in own]
    return {byte: chr(byte if byte in own else 256 + others.index(byte)) for byte in range(256)}


def _read(path):
    """The contents of a tokenizer.json."""
    with open(path, encoding="utf-8") as file:
        try:
            config = json.load(file)
        except (ValueError, RecursionError) as error:
            raise ImportFailed(f"{path}: no JSON: {error}", []) from error
    if not isinstance(config, dict):
        raise ImportFailed(f"{path}: expected a JSON object", [])
    return config


def _is_text(json):
    """Whether it is a text that has bytes: JSON may have halves of characters."""
    return isinstance(json, str) and not any("\ud800" <= c <= "\udfff" for c in json)


class _Reader:
    """What a tokenizer.json has; `problems` lists what is not supported."""

    def __init__(self, config):
        self.problems = []
        self.pattern, self.has_prefix_space = None, False
        self.vocabulary, self.merges, self.added = {}, [], []
        model = self.object("model", config.get("model"))
        self.expect("model.type", model.get("type"), "BPE")
        for key in ("dropout", "continuing_subword_prefix", "end_of_word_suffix"):
            self.expect(f"model.{key}", model.get(key) or None, None)
        for key in ("fuse_unk", "byte_fallback", "ignore_merges"):
            self.expect(f"model.{key}", bool(model.get(key)), False)
        self.expect("normalizer.type", self.object("normalizer", config.get("normalizer")).get("type"), None)
        self.read_pre_tokenizer(self.object("pre_tokenizer", config.get("pre_tokenizer")))
        for json_token in self.list("added_tokens", config.get("added_tokens")):
            token = self.object("added_tokens", json_token)
            for key in ("lstrip", "rstrip", "single_word"):
                self.expect(f"added_tokens, {json.dumps(token.get('content'))}, {key}", bool(token.get(key)), False)
            if self.has_token("added_tokens", token.get("content"), token.get("id")):
                self.added.append(token)
        if not self.problems:
            self.read_vocabulary(model)

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

    def read_vocabulary(self, model):
        self.vocabulary = self.object("model.vocab", model.get("vocab"))
        if not all(self.has_token("model.vocab", text, number) for text, number in self.vocabulary.items()):
            return
        missing = [byte for byte, character in _byte_characters().items() if character not in self.vocabulary]
        if missing:
            self.problems.append(f"`model.vocab`: saw no token for {len(missing)} bytes, such as {missing[0]}; expected one for each")
        for merge in self.list("model.merges", model.get("merges")):
            pair = merge.split(" ") if isinstance(merge, str) else merge
            is_pair = isinstance(pair, list) and len(pair) == 2 and all(isinstance(part, str) for part in pair)
            if not is_pair or any(part not in self.vocabulary for part in (*pair, "".join(pair))):
                self.problems.append(f"`model.merges`: saw {json.dumps(merge)}; expected two tokens that are one together")
                return
            self.merges.append(pair)

    def expect(self, name, saw, *expected):
        if saw not in expected:
            self.problems.append(f"`{name}`: saw {json.dumps(saw)}; expected {' or '.join(map(json.dumps, expected))}")

    def read_pre_tokenizer(self, pre):
        is_sequence = pre.get("type") == "Sequence"
        steps = self.list("pre_tokenizer.pretokenizers", pre.get("pretokenizers")) if is_sequence else [pre]
        for json_step in steps:
            step = self.object("pre_tokenizer.pretokenizers", json_step)
            self.expect("pre_tokenizer.type", step.get("type"), "ByteLevel", "Split")
            if step.get("type") == "Split":
                pattern = self.object("pre_tokenizer.pattern", step.get("pattern")).get("Regex")
                self.expect("pre_tokenizer.pattern", pattern, *_PATTERNS)
                self.expect("pre_tokenizer.behavior", step.get("behavior"), "Isolated")
                self.expect("pre_tokenizer.invert", bool(step.get("invert")), False)
                self.pattern = pattern
            elif step.get("type") == "ByteLevel" and step.get("use_regex", True):
                self.pattern = _GPT2
            self.has_prefix_space = self.has_prefix_space or bool(step.get("add_prefix_space"))
        self.expect("pre_tokenizer.add_prefix_space", self.has_prefix_space, False)
        if self.pattern is None and not self.problems:
            self.problems.append("`pre_tokenizer`: saw no pattern; expected that of GPT-2, Llama 3 or Qwen")


def _pair_table(merges, vocabulary):
    """Keys, ranks and tokens of pairs, with free places, and the logarithm of their number."""
    bits = max(4, (2 * len(merges)).bit_length())
    keys = numpy.full(1 << bits, -1, "int64")
    ranks, tokens = numpy.zeros(1 << bits, "int32"), numpy.zeros(1 << bits, "int32")
    for rank, (left, right) in enumerate(merges):
        a, b = vocabulary[left], vocabulary[right]
        place = ((a * 2654435761 + b * 2246822519) & 0xFFFFFFFF) >> (32 - bits)
        while keys[place] >= 0 and keys[place] != a << 32 | b:
            place = (place + 1) & ((1 << bits) - 1)
        if keys[place] < 0:
            keys[place], ranks[place], tokens[place] = a << 32 | b, rank, vocabulary[left + right]
    return keys, ranks, tokens, bits


def _joined(parts):
    """Byte strings one behind the other, and where each begins and the last ends."""
    places = numpy.cumsum([0, *map(len, parts)]).astype("int32")
    return numpy.frombuffer(b"".join(parts) or b"\0", "uint8"), places


def import_tokenizer(path):
    """A tokenizer as a Module: byte-level BPE, as GPT-2, Llama 3 and Qwen have it.

    path: a tokenizer.json, or the folder that has it. Its functions take and give bytes of UTF-8: `encode(text)` gives tokens,
    without those that a template adds, `decode(tokens)` the text, and `bytes_of_token(token)` that of one token. They
    give what the package `tokenizers` gives. Raises ImportFailed, which lists all that is not supported.
    """
    path = os.fspath(path)
    if os.path.isdir(path):
        path = os.path.join(path, "tokenizer.json")
    config = _read(path)
    reader = _Reader(config)
    if reader.problems:
        raise ImportFailed(f"{path}: cannot be imported\n" + "\n".join(reader.problems), [])
    vocabulary = reader.vocabulary
    characters = _byte_characters()
    bytes_of = {character: byte for byte, character in characters.items()}
    keys, ranks, tokens, bits = _pair_table(reader.merges, vocabulary)
    added = sorted(reader.added, key=lambda token: -len(token["content"].encode()))
    added_bytes, added_places = _joined([token["content"].encode() for token in added])
    starts = numpy.zeros(256, "int32")
    for token in added:
        starts[token["content"].encode()[0]] = 1
    count = 1 + max([*vocabulary.values(), *(token["id"] for token in added)])
    texts = [b""] * (count + 1)  # the last one for tokens that are unknown
    for text, token in vocabulary.items():
        texts[token] = bytes(bytes_of[c] for c in text) if all(c in bytes_of for c in text) else text.encode()
    for token in added:
        texts[token["id"]] = token["content"].encode()
    token_bytes, token_places = _joined(texts)
    pages, classes = _class_tables()
    params = {"pair_keys": keys, "pair_ranks": ranks, "pair_tokens": tokens, "pages": pages, "classes": classes,
              "byte_tokens": numpy.array([vocabulary.get(characters[byte], -1) for byte in range(256)], "int32"),
              "added_bytes": added_bytes, "added_places": added_places, "added_starts": starts,
              "added_tokens": numpy.array([token["id"] for token in added] or [0], "int32"),
              "token_bytes": token_bytes, "token_places": token_places}
    is_modern, digits = _PATTERNS[reader.pattern]
    text = _TEXT.replace("PIECES", (_MODERN_PIECES if is_modern else _GPT2_PIECES).strip())
    for name, value in (("SHIFT", 32 - bits), ("MASK", (1 << bits) - 1), ("ADDED", len(added)), ("COUNT", count),
                        ("DIGITS", digits)):
        text = text.replace(name, str(value))
    variables = "".join(f"free_var %{name}: Tensor[({len(array)}), {array.dtype}];\n" for name, array in params.items())
    return Module(variables + text, params, name=path)
