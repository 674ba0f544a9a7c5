"""Options of the torch.compile backend, and the messages of its fallback. Needs no PyTorch."""

import difflib
import os
import re
import sys
import threading
import typing
import warnings

OLDEST = (2, 8)
_VARIABLE = "RELAYVM_TORCH"
_SHOW_ALL = f'set {_VARIABLE}=strict or options={{"fallback": False}} to raise an error that lists everything'


class FallbackWarning(UserWarning):
    """A graph, or what follows from it, runs eagerly, because RelayVM cannot run it."""


class Unsupported(Exception):
    """A graph that RelayVM cannot run. `reasons`: (operator or other subject, why, where in the user's program)."""

    def __init__(self, reasons, cause=None):
        super().__init__("\n".join(_sentence(*reason) for reason in reasons))
        self.reasons, self.cause = reasons, cause


class Settings(typing.NamedTuple):
    """The options of one torch.compile call. `threads`: None for as many as PyTorch has."""

    threads: int | None = None
    target: str = "host"
    device: str | None = None
    opt_level: int = 2
    fallback: bool = True
    freeze: bool = True

    @classmethod
    def of(cls, options, environment=os.environ):
        """Checks `options`, a dict or None. Raises TypeError or ValueError."""
        options = dict(options or {})
        known = cls._field_defaults
        for name, value in options.items():
            if name not in known:
                near = difflib.get_close_matches(str(name), known, 1)
                hint = f"; did you mean {near[0]!r}?" if near else ""
                raise ValueError(f"saw the option {name!r}; the options of the backend relayvm are {', '.join(known)}{hint}")
            if not _CHECKS[name][0](value):
                raise TypeError(f"the option {name!r} is {value!r}; expected {_CHECKS[name][1]}")
        mode = environment.get(_VARIABLE, "")
        if mode not in ("", "strict"):
            raise ValueError(f"{_VARIABLE} is {mode!r}; expected \"strict\", or no such variable")
        if mode == "strict":
            options["fallback"] = False
        return cls(**options)


def _is_whole(value, least):
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


_CHECKS = {
    "threads": (lambda value: value is None or _is_whole(value, 1), "a number of threads, 1 or more"),
    "target": (lambda value: isinstance(value, str), "the name of a target, such as \"host\" or \"x86-64-v3\""),
    "device": (lambda value: value is None or isinstance(value, str), "the name of a device, such as \"gpu\", or None"),
    "opt_level": (lambda value: _is_whole(value, 0) and value <= 3, "0, 1, 2 or 3"),
    "fallback": (lambda value: isinstance(value, bool), "True or False"),
    "freeze": (lambda value: isinstance(value, bool), "True or False"),
}


def check_version(text):
    """Raises ImportError for a PyTorch that is too old."""
    found = re.match(r"(\d+)\.(\d+)", text)
    if found and tuple(map(int, found.groups())) < OLDEST:
        raise ImportError(f"saw PyTorch {text}; relayvm.torch needs {'.'.join(map(str, OLDEST))} or newer")


def _sentence(subject, why, place):
    return f"{subject}: {why}" + (f"\n  {place}" if place else "")


_warned = set()  # subjects that a warning has named
_lock = threading.Lock()


def warn(reasons):
    """Warns once in a process for each subject of the reasons, as Unsupported has them."""
    with _lock:
        new = [reason for reason in reasons if reason[0] not in _warned]
        _warned.update(reason[0] for reason in new)
    for subject, why, place in dict((reason[0], reason) for reason in reversed(new)).values():
        text = f"torch.compile(backend=\"relayvm\"): a graph runs eagerly, because of {_sentence(subject, why, place)}\n  {_SHOW_ALL}"
        warnings.warn(FallbackWarning(text), stacklevel=_depth_of_user())


def _depth_of_user():
    """The stacklevel of the caller outside of this package and PyTorch."""
    inside = [os.path.dirname(os.path.abspath(__file__)), "<"]  # generated code has no file
    if getattr(sys.modules.get("torch"), "__file__", None):
        inside.append(os.path.dirname(os.path.abspath(sys.modules["torch"].__file__)))
    depth, frame = 1, sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(tuple(inside)):
        depth, frame = depth + 1, frame.f_back
    return depth if frame is not None else 2


def place_of(trace):
    """The innermost line of a stack trace that is not PyTorch's own, as `File "...", line 3, in forward: code`."""
    frames = re.findall(r'(File "([^"]+)", line \d+, in [^\n]+)(?:\n *(?! |File )([^\n]+))?', trace or "")
    own = [frame for frame in frames if not re.search(r"site-packages[/\\]torch[/\\]|[/\\]torch[/\\]nn[/\\]", frame[1])] or frames
    return f"{own[-1][0]}{': ' + own[-1][2].strip() if own[-1][2] else ''}" if own else ""
