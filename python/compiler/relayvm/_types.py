"""Relay types as Python reads them: by their text."""

import re

import numpy

_DTYPE = re.compile(r"bool|u?int(8|16|32|64)|float(16|32|64)|bfloat16|float8_e4m3fn")


def _split(text):
    """The parts between the commas of `text` that are in no brackets."""
    parts, depth, begin = [], 0, 0
    for at, char in enumerate(text):
        depth += (char in "([") - (char in ")]")
        if char == "," and depth == 0:
            parts.append(text[begin:at].strip())
            begin = at + 1
    rest = text[begin:].strip()
    return parts + [rest] if rest else parts


def _extent(text):
    return None if text == "?" else int(text) if text.isdigit() else text


class Type:
    """A Relay type, given by its text: Type("List[Tensor[(n), float32]]").

    >>> Type("Tensor[(n, 4, ?), float32]").shape
    ('n', 4, None)
    >>> [str(field) for field in Type("(int32, List[float32])").fields]
    ['int32', 'List[float32]']
    """

    def __init__(self, text):
        self.text = str(text)

    @property
    def shape(self):
        """Extents of a tensor: numbers, names, or None where unknown; None if it is no tensor, or of unknown rank."""
        if _DTYPE.fullmatch(self.text):
            return ()
        if not self.text.startswith("Tensor[("):
            return None
        return tuple(_extent(extent) for extent in _split(_split(self.text[7:-1])[0][1:-1]))

    @property
    def dtype(self):
        """The dtype of a tensor, "float32"; None if it is no tensor."""
        dtype = _split(self.text[7:-1])[-1] if self.text.startswith("Tensor[") else self.text
        return dtype if _DTYPE.fullmatch(dtype) else None

    @property
    def fields(self):
        """The types of a tuple's fields; None if it is no tuple."""
        return tuple(map(Type, _split(self.text[1:-1]))) if self.text.startswith("(") else None

    @property
    def result(self):
        """The type of a function's result; None if it is no function."""
        arrow = self._arrow()
        return None if arrow is None else Type(self.text[arrow + 4:])

    def _arrow(self):
        """Where a function's type has its ` -> `."""
        if not self.text.startswith("fn "):
            return None
        depth = 0
        for at, char in enumerate(self.text):
            depth += (char in "([") - (char in ")]")
            if depth == 0 and self.text.startswith(" -> ", at):
                return at
        return None

    def _params(self):
        """The types of a function's parameters, without its type parameters."""
        head = self.text[3:self._arrow()]
        if head.startswith("["):
            head = head[head.index("](") + 1:]
        return [Type(param) for param in _split(head[1:-1])]

    def __str__(self):
        return self.text

    def __repr__(self):
        return f"Type({self.text!r})"

    def __eq__(self, other):
        return isinstance(other, Type) and self.text == other.text

    def __hash__(self):
        return hash(self.text)


def tensor(*extents, dtype="float32"):
    """The type of tensors with these extents: numbers, names such as "n" or "2 * n", or None where unknown."""
    shape = ", ".join("?" if extent is None else str(extent) for extent in extents)
    return Type(f"Tensor[({shape}), {dtype_name(dtype)}]")


def dtype_name(dtype):
    """"float32" of "float32", numpy.float32 or numpy.dtype("float32")."""
    return dtype if isinstance(dtype, str) else numpy.dtype(dtype).name


def as_type(given):
    """A Type, its text, or a dtype, as a Type."""
    if isinstance(given, Type):
        return given
    if isinstance(given, str):
        return Type(given)
    try:
        return Type(dtype_name(given))
    except TypeError:
        raise TypeError(f"saw {given!r}; expected a type: relayvm.Type, its text, or a dtype") from None
