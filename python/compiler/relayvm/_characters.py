"""Tables of characters for programs: classes, and what normalizers make of each character."""

import string
import unicodedata

import numpy

OTHER, LETTER, DIGIT, SPACE, LINE_END, PUNCTUATION = range(6)  # classes
MARK, PREFIX, CONTROL, RETURN, NEW_LINE = range(1, 6)  # how characters join others in graphemes
GONE = 1  # the row of a character that is mapped to nothing
_MOST_KEY_BYTES = 5  # of a grapheme that is mapped as a whole
# Characters that join the one before them without being marks, marks that do not, and characters that join the next one.
_MARKS = {0xE33, 0xEB3, 0x200C, 0x200D, 0xFF9E, 0xFF9F, *range(0x1F3FB, 0x1F400), *range(0xE0020, 0xE0080)}
_NO_MARKS = {0x102B, 0x102C, 0x1038, *range(0x1062, 0x1065), *range(0x1067, 0x106E), 0x1083, *range(0x1087, 0x108D), 0x108F,
             *range(0x109A, 0x109D), 0x1A61, 0x1A63, 0x1A64, 0xAA7B, 0xAA7D, 0x11720, 0x11721}
_PREFIXES = {*range(0x600, 0x606), 0x6DD, 0x70F, 0x890, 0x891, 0x8E2, 0xD4E, 0x110BD, 0x110CD, 0x111C2, 0x111C3, 0x1193F,
             0x11941, 0x11A3A, *range(0x11A84, 0x11A8A), 0x11D46, 0x11F02}
_PAGE = 256  # characters of a page of a table
_CHARACTERS = 0x110000
_CJK = ((0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFAFF), (0x20000, 0x2A6DF), (0x2A700, 0x2B73F), (0x2B740, 0x2B81F),
        (0x2B920, 0x2CEAF), (0x2F800, 0x2FA1F))


def is_space(character):
    """White space of Unicode, which differs from str.isspace by four control characters."""
    return character.isspace() and not "\x1c" <= character <= "\x1f"


def text_class(character):
    """The class in the patterns of byte-level BPE."""
    if character in "\r\n":
        return LINE_END
    if is_space(character):
        return SPACE
    return {"L": LETTER, "N": DIGIT}.get(unicodedata.category(character)[0], OTHER)


def word_class(character):
    """The class among BERT's words."""
    if is_space(character):
        return SPACE
    is_sign = character in string.punctuation or unicodedata.category(character)[0] == "P"
    return PUNCTUATION if is_sign else OTHER


def table(values):
    """The number of the page of each 256 of the values of characters, and the pages that differ."""
    pages, numbers = {}, []
    values = numpy.ascontiguousarray(values)
    for start in range(0, _CHARACTERS, _PAGE):
        numbers.append(pages.setdefault(values[start:start + _PAGE].tobytes(), len(pages)))
    return numpy.array(numbers, "int32"), numpy.frombuffer(b"".join(pages), values.dtype)


def _assigned():
    """All characters but those of planes without any, which are all alike."""
    return (*range(0x40000), *range(0xE0000, _CHARACTERS))


def _values(value_of):
    values = numpy.full(_CHARACTERS, value_of(chr(0x40000)), "uint8")
    for code in _assigned():
        values[code] = value_of(chr(code))
    return values


def classes(class_of):
    return table(_values(class_of))


def joined(parts):
    """Byte strings one behind the other, and where each begins and the last ends."""
    places = numpy.cumsum([0, *map(len, parts)]).astype("int32")
    return numpy.frombuffer(b"".join(parts) or b"\0", "uint8"), places


def mapping(steps):
    """The tables of a map of characters: each step gives the text that one character becomes."""
    texts, rows = {}, numpy.zeros(_CHARACTERS, "int32")
    for code in _assigned():
        if 0xD800 <= code < 0xE000:
            continue
        text = character = chr(code)
        for step in steps:
            text = step(text) if len(text) == 1 else "".join(map(step, text))
        if text != character:
            rows[code] = texts.setdefault(text, len(texts) + 1)
    others, places = joined([b"", *(text.encode() for text in texts)])
    return {**dict(zip(("pages", "rows"), table(rows))), "places": places, "bytes": others}


def _prefixes(units):
    """The keys of a double-array trie of 32-bit units, as bytes, with their values; None if it is malformed."""
    found, open_nodes, visits = [], [(b"", 0)], 0
    offset = lambda unit: (unit >> 10) << ((unit & 0x200) >> 6)
    while open_nodes:
        key, at = open_nodes.pop()
        at ^= offset(units[at])
        if len(key) >= _MOST_KEY_BYTES:
            continue
        for byte in range(1, 256):
            place = at ^ byte
            if place >= len(units) or units[place] & 0x800000FF != byte:
                continue
            visits += 1
            leaf = place ^ offset(units[place])
            if visits > 4 * len(units) or leaf >= len(units):
                return None
            if units[place] >> 8 & 1:
                found.append((key + bytes([byte]), units[leaf] & 0x7FFFFFFF))
            open_nodes.append((key + bytes([byte]), place))
    return found


class CharsMap:
    """The table of a normalizer of SentencePiece: texts of characters, and of graphemes of less than 6 bytes."""

    def __init__(self, data):
        """Raises ValueError for malformed data."""
        size = int.from_bytes(data[:4], "little")
        if len(data) < 4 or size % 4 or not 0 < size <= len(data) - 4:
            raise ValueError("the size of its table does not fit")
        texts = data[4 + size:]
        keys = _prefixes(numpy.frombuffer(data[4:4 + size], "<u4").tolist())
        if keys is None:
            raise ValueError("its table is malformed")
        self.characters, self.graphemes = {}, {}
        for key, place in keys:
            end = texts.find(b"\0", place)
            if end < 0:
                raise ValueError("a text of its table has no end")
            try:
                key, text = key.decode(), texts[place:end].decode()
            except UnicodeDecodeError:
                continue  # it begins no text
            (self.characters if len(key) == 1 else self.graphemes)[key] = text

    def tables(self):
        rows, texts = numpy.zeros(_CHARACTERS, "int32"), {"": 1}
        row_of = lambda text: texts.setdefault(text, len(texts) + 1)
        for character, text in self.characters.items():
            rows[ord(character)] = row_of(text)
        keys = {}
        for grapheme, text in self.graphemes.items():
            if len(grapheme) <= 3:
                a, b, c = [*map(ord, grapheme), 0][:3]
                keys[a << 42 | b << 21 | c] = row_of(text)
        ordered = sorted(keys) or [-1]
        others, places = joined([b"", *(text.encode() for text in texts)])
        return {**dict(zip(("pages", "rows"), table(rows))), **dict(zip(("kind_pages", "kinds"), table(_values(_joining_kind)))),
                "keys": numpy.array(ordered, "int64"), "key_rows": numpy.array([keys.get(key, 0) for key in ordered], "int32"),
                "places": places, "bytes": others}


class Form:
    """A normal form of Unicode: characters in their parts, with marks in order, composed if the form is NFC or NFKC."""

    def __init__(self, form):
        self.form = form

    def compositions(self):
        """Pairs of characters that are one together, and that."""
        pairs = {}
        if self.form in ("NFC", "NFKC"):
            for code in _assigned():
                parts = [] if unicodedata.decomposition(chr(code)).startswith("<") else unicodedata.decomposition(chr(code)).split()
                if len(parts) == 2:
                    pairs[int(parts[0], 16), int(parts[1], 16)] = code
            for syllable in range(0xAC00, 0xD7A4):
                *first, last = unicodedata.normalize("NFD", chr(syllable))
                pairs[ord(unicodedata.normalize("NFC", "".join(first))), ord(last)] = syllable
        return {pair: code for pair, code in pairs.items() if unicodedata.normalize("NFC", "".join(map(chr, pair))) == chr(code)}

    def decomposed(self):
        return decomposition(self.form.replace("C", "D"))

    def tables(self):
        seconds = {second for _, second in self.compositions()}
        changes = lambda c: unicodedata.normalize(self.form, c) != c or unicodedata.combining(c) != 0 or ord(c) in seconds
        return {**dict(zip(("kind_pages", "kinds"), table(_values(changes)))),
                **dict(zip(("order_pages", "orders"), table(_values(unicodedata.combining))))}


class Blanks:
    """Two blanks and more as one text."""

    def __init__(self, content):
        self.content = content

    def tables(self):
        return dict(zip(("bytes", "places"), joined([b"", self.content.encode(), b""])))


class Strip:
    """A text without white space at its ends."""

    def __init__(self, left, right):
        self.left, self.right = left, right

    def tables(self):
        return {}


def _joining_kind(character):
    """How a character joins others in a grapheme."""
    code, category = ord(character), unicodedata.category(character)
    if character in "\r\n":
        return RETURN if character == "\r" else NEW_LINE
    if code in _PREFIXES:
        return PREFIX
    if code in _NO_MARKS:
        return 0
    if category[0] == "M" or code in _MARKS:
        return MARK
    return CONTROL if category in ("Cc", "Cf", "Zl", "Zp") else 0


def lowercase(character):
    return character.lower()


def without_accents(character):
    """The base of a character: marks that take no space of their own go."""
    return "".join(c for c in unicodedata.normalize("NFD", character) if unicodedata.category(c) != "Mn")


def without_marks(character):
    return "" if unicodedata.category(character)[0] == "M" else character


def decomposition(form):
    return lambda character: unicodedata.normalize(form, character)


def replacement(character, text):
    return lambda given: text if given == character else given


def clean(character):
    """White space as blanks, no control characters."""
    if character in "\t\n\r":
        return " "
    if character in "\0\ufffd" or unicodedata.category(character) in ("Cc", "Cf", "Co"):
        return ""
    return " " if is_space(character) else character


def apart(character):
    """Characters of Chinese as words of their own."""
    return f" {character} " if any(first <= ord(character) <= last for first, last in _CJK) else character
