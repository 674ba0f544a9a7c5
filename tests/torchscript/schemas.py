"""Writes compiler/import/torch/schemas.def: the schemas of the operators of ATen that have a row in the tables of
compiler/import/torch. Needs PyTorch. `python tests/torchscript/schemas.py` in the root of the tree."""

import glob
import re
import textwrap

import torch

HEADER = """\
// RVM_SCHEMA(name, overload, arguments, results): the schemas of the operators that can be imported, as PyTorch
// declares them. Written by tests/torchscript/schemas.py; do not edit.
//
// An argument is `name:type`, with `=` behind it if it has a default, and `*` before it if only its name gives it.
// Types: T tensor, S number, I integer, F float, B truth, X text, D dtype, O what no operator here reads; `?` may be
// none, `[]` a list. Results: a letter each, a list as `T[]`.

"""
TYPES = {"Tensor": "T", "number": "S", "int": "I", "SymInt": "I", "float": "F", "bool": "B", "str": "X"}


def rows():
    names = set()
    for path in glob.glob("compiler/import/torch/*.cc"):
        with open(path, encoding="utf-8") as file:
            names.update(re.findall(r'^    \{"(_?[a-z0-9_]+)", ', file.read(), re.M))
    return names


def has_row(name, names):
    candidates = [name, name.removesuffix("_copy")]
    candidates += [name.removeprefix(prefix) for prefix in ("special_", "_unsafe_", "unsafe_")]
    candidates += ["a" + name[3:]] if name.startswith("arc") else []
    return any(candidate in names for candidate in candidates)


def type_of(kind, text):
    if isinstance(kind, torch.OptionalType):
        return type_of(kind.getElementType(), text.rstrip("?")) + "?"
    if isinstance(kind, torch.ListType):
        return type_of(kind.getElementType(), "") + "[]"
    if text.startswith("ScalarType"):
        return "D"
    if text.startswith(("Layout", "MemoryFormat", "Device")):
        return "O"
    return TYPES.get(str(kind), "O")


def argument(one):
    text = str(one.real_type) if hasattr(one, "real_type") else str(one.type)
    kind = type_of(one.type, text)
    if one.name == "dtype" and kind.startswith("I"):
        kind = kind.replace("I", "D")
    if one.name in ("layout", "memory_format", "device", "pin_memory", "generator", "non_blocking"):
        kind = "O?"
    return ("*" if one.kwarg_only else "") + one.name + ":" + kind + ("=" if one.has_default_value() else "")


def row(name, overload, arguments, results):
    line = f'RVM_SCHEMA("{name}", "{overload}", "{arguments}", "{results}")\n'
    if len(line) <= 121:
        return line
    parts = textwrap.wrap(arguments, 90, break_long_words=False, break_on_hyphens=False)
    spread = "".join(f'\n           "{part} "' for part in parts[:-1]) + f'\n           "{parts[-1]}"'
    return f'RVM_SCHEMA("{name}", "{overload}",{spread},\n           "{results}")\n'


def main():
    names, lines = rows(), set()
    for schema in torch._C._jit_get_all_schemas():
        space, _, name = schema.name.partition("::")
        plain = name[:-1] if name.endswith("_") and not name.endswith("__") else name
        is_other = schema.overload_name.endswith("out") or "out" in [a.name for a in schema.arguments]
        if space != "aten" or is_other or not has_row(plain, names):
            continue
        arguments = " ".join(argument(a) for a in schema.arguments)
        results = "".join(type_of(r.type, "") for r in schema.returns)
        if "O" in results or "T" not in arguments + results or "dimname" in schema.overload_name.lower():
            continue
        lines.add((name, schema.overload_name, arguments, results))
    with open("compiler/import/torch/schemas.def", "w", encoding="utf-8") as file:
        file.write(HEADER)
        file.writelines(row(*line) for line in sorted(lines))


main()
