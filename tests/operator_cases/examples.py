"""The examples that operators carry (OpDef::examples): a call and what it gives, as docs/operators.md shows them."""

import collections
import re

import numpy as np

import relayvm

LISTER = "//tests:list_operators"
DTYPES = {"f": "float32", "f16": "float16", "f64": "float64", "": "int32", "bool": "bool"}
DTYPES.update({f"{kind[0]}{bits}": f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)})

# `arguments` are the texts of the values; `expression` is the call with %a, %b, ... in their place.
Example = collections.namedtuple("Example", "op call expression arguments result")


def all_examples():
    lines = relayvm.must(relayvm.built(LISTER), "--examples").splitlines()
    return [_example(*line.split("\t")) for line in lines]


def cases(case):
    for example in all_examples():
        inputs = [array(text) for text in example.arguments]
        is_tuple = example.result.startswith("(")
        for number, field in enumerate(leaves(example.result)):
            case(example.op, example.expression + (f".{number}" if is_tuple else ""), inputs, field, 1e-5)


def leaves(text):
    """The tensors of a tensor or a tuple of tensors."""
    text = text.strip()
    return [array(field) for field in (_split(text[1:-1]) if text.startswith("(") else [text])]


def array(text):
    """A number or nested lists of numbers; the suffix of the first number is the dtype of all."""
    first = re.search(r"True|False|(?:[0-9][0-9.]*(?:e[-+]?[0-9]+)?|inf|nan)(f16|f32|f64|f|[iu][0-9]+)?", text)
    suffix = "bool" if first[0] in ("True", "False") else first[1] or ""
    return np.array(relayvm.parse_value(text), DTYPES[suffix])


def _split(text):
    """At the commas outside all brackets and quotes."""
    parts, depth, quoted, start = [], 0, False, 0
    for at, c in enumerate(text):
        quoted ^= c == '"'
        if not quoted:
            depth += (c in "([") - (c in ")]")
            if c == "," and depth == 0:
                parts.append(text[start:at].strip())
                start = at + 1
    return [part for part in parts + [text[start:].strip()] if part]


def _example(op, call, result):
    assert call.startswith(op + "(") and call.endswith(")"), f"the example `{call}` is no call of `{op}`"
    arguments = []

    def name_of(value):
        arguments.append(value)
        return "%" + "abcdefgh"[len(arguments) - 1]

    parts = []
    for part in _split(call[len(op) + 1:-1]):
        if re.match(r"[a-z_0-9]+=", part):
            parts.append(part)
        elif part.startswith("("):
            fields = _split(part[1:-1])
            parts.append("(" + ", ".join(map(name_of, fields)) + ("," if len(fields) == 1 else "") + ")")
        else:
            parts.append(name_of(part))
    return Example(op, call, f"{op}({', '.join(parts)})", arguments, result)
