"""The tools as functions, and Relay values as Python values. For tests and benchmarks."""

import os
import re
import subprocess
import sys
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
COMPILER = os.path.join(ROOT, "bazel-bin/tools/relayvm/relayvm")
RUNTIME = os.path.join(ROOT, "bazel-bin/tools/relayvm_runtime/relayvm-run")
G2P = os.path.join(ROOT, "build/g2p/g2p_en")

sys.setrecursionlimit(20000)


class TestCase(unittest.TestCase):
    def assert_none(self, offenders, why=""):
        """Fails with one offender a line."""
        if offenders:
            self.fail("\n  ".join([f"{why} ({len(offenders)}):" if why else f"{len(offenders)}:", *map(str, offenders)]))


def run(*command, timeout=3600, **options):
    """Runs a command; the result has returncode, stdout, stderr. `timeout`: in seconds, only against hanging for ever."""
    return subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          timeout=timeout, check=False, **options)


def long_or(long, usual):
    """`long` in runs of `./run test --long`, `usual` in others."""
    return long if os.environ.get("RELAYVM_SOAK") else usual


class ToolError(AssertionError):
    pass


def must(*command, **options):
    """The standard output of a command that must succeed."""
    done = run(*command, **options)
    if done.returncode != 0:
        shown = " ".join(map(str, command))
        raise ToolError(f"`{shown[:300]}` ended with exit code {done.returncode}:\n{done.stderr[-3000:]}")
    return done.stdout


def built(target):
    """The program that bazel makes of `//folder:name`, made if it is not there."""
    path = os.path.join(ROOT, "bazel-bin", target.removeprefix("//").replace(":", "/"))
    if not os.path.exists(path):
        must("bazel", "build", target, cwd=ROOT, timeout=3600)
    return path


def compile_file(source, output, level=2, params=(), extra=(), verify=True):
    """`verify`: check the program after each pass."""
    options = [option for file in params for option in ("--params", file)]
    must(COMPILER, "compile", source, "-o", output, f"-O{level}", *options, *extra,
         *(["--verify-passes"] if verify else []))
    return output


def evaluate(source, *args, entry="main", params=(), **options):
    """The reference evaluator's value, as text."""
    flags = [flag for file in params for flag in ("--params", file)]
    return must(COMPILER, "eval", source, *flags, "--entry", entry, *args, **options).strip()


def execute(model, *args, entry="main", **options):
    """The VM's value, as text."""
    return must(RUNTIME, model, "--entry", entry, *args, **options).strip()


TOKEN = re.compile(r"\s*(?:([A-Za-z_][A-Za-z0-9_]*)|([-+]?(?:inf|nan|[0-9.]+(?:e[-+]?[0-9]+)?)(?:b?f16|f32|f64|f|[iu][0-9]+)?)|(\S))")
NUMBER = re.compile(r"([-+]?(?:inf|nan|[0-9.]+(?:e[-+]?[0-9]+)?))(bf16|f8e4m3fn|f16|f32|f64|f|[iu][0-9]+)?$")


def parse_value(text):
    """int, float or bool; list for a tensor; tuple; (name, fields...) of a constructor as an Adt."""
    tokens = [next(group for group in match if group) for match in TOKEN.findall(text)]
    value, rest = _parse(tokens, 0)
    if rest != len(tokens):
        raise ValueError(f"more than one value in {text[:200]!r}")
    return value


class Adt(tuple):
    """A constructor's name, then its fields."""


def _number(token):
    digits, suffix = NUMBER.match(token).groups()
    if "f" in (suffix or "") or any(c in digits for c in ".n") or "e" in digits:
        return float(digits)
    return int(digits)


def _parse_sequence(tokens, at, close):
    items = []
    while tokens[at] != close:
        item, at = _parse(tokens, at)
        items.append(item)
        if tokens[at] == ",":
            at += 1
    return items, at + 1


def _parse(tokens, at):
    token = tokens[at]
    if token in "([":
        items, at = _parse_sequence(tokens, at + 1, ")" if token == "(" else "]")
        return (tuple(items) if token == "(" else items), at
    if NUMBER.match(token):
        return _number(token), at + 1
    if token in ("True", "False"):
        return token == "True", at + 1
    if at + 1 < len(tokens) and tokens[at + 1] == "(":
        fields, at = _parse_sequence(tokens, at + 2, ")")
        return Adt([token, *fields]), at
    return Adt([token]), at + 1


def list_of(value):
    """Cons(1, Cons(2, Nil)) as [1, 2]."""
    items = []
    while value[0] == "Cons":
        items.append(value[1])
        value = value[2]
    return items


def relay_list(items):
    """[1, 2] as the text Cons(1, Cons(2, Nil))."""
    return "".join(f"Cons({item}, " for item in items) + "Nil" + ")" * len(items)
