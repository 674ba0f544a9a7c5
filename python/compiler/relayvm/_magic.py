"""The cell magic `%%relay` of IPython and Jupyter.

`%load_ext relayvm` registers it. A cell is a program; its functions become functions of Python:

    %%relay
    def @double(%x: Tensor[(n), float32]) { %x * 2f }

    double([1, 2, 3])
"""

import re
import shlex
import sys

from ._compiler import CompileError, Module, compile

_HELP = """\
usage: %%relay [NAME] [--params EXPRESSION] [--target TARGET] [-O LEVEL]

Compiles the cell. Each function whose types are known becomes a function of the notebook, under its name.

  NAME                  the program itself becomes this variable
  --params EXPRESSION   weights: a dictionary by name, or the path of a file, as Python
  --target TARGET       as of relayvm.compile (host)
  -O LEVEL              level of optimization, 0 to 3 (2)
"""


class CellError(CompileError):
    """Errors of the program in a cell, shown without the frames of Python that compiled it."""

    def _render_traceback_(self):
        return str(self).splitlines()


def _options(line):
    """The options on the line of the magic, by name; raises ValueError with the usage."""
    options = {"name": None, "params": None, "target": "host", "opt_level": 2}
    words = shlex.split(line)
    names = {"--params": "params", "--target": "target", "-O": "opt_level"}
    while words:
        word = words.pop(0)
        if attached := re.fullmatch(r"-O(\d+)", word):
            options["opt_level"] = int(attached.group(1))
        elif word in names and words:
            options[names[word]] = words.pop(0)
        elif word.isidentifier() and options["name"] is None:
            options["name"] = word
        else:
            raise ValueError(f"saw `{word}`{' without a value' if word in names else ''}\n\n{_HELP}")
    if str(options["opt_level"]) not in ("0", "1", "2", "3"):
        raise ValueError(f"saw the level `{options['opt_level']}`; expected 0, 1, 2 or 3\n\n{_HELP}")
    options["opt_level"] = int(options["opt_level"])
    return options


def _entries(module):
    """The functions that the cell defines and Python can call: those without type parameters, extents apart."""
    defined = set(re.findall(r"\bdef\s+@(\w+)", module.text))
    open_types = re.compile(r"fn \[(?!\w+: ShapeVar(?:, \w+: ShapeVar)*\])")
    types = module.types()
    # A text without `def` is the value of @main.
    return [name for name, text in types.items() if (name in defined or not defined) and not open_types.match(text)]


def relay(shell, line, cell):
    """Runs the magic in a shell of IPython; the new variables, by name."""
    if line.strip() in ("-h", "--help"):
        print(_HELP, end="")
        return {}
    options = _options(line)
    name = options.pop("name")
    params = options.pop("params")
    if params is not None:
        params = eval(params, shell.user_ns)  # the user's own Python
    module = Module(cell, name=f"In[{shell.execution_count}]")
    try:
        entries = _entries(module)
        program = compile(module, params=params, entries=entries or None, **options)
    except CompileError as error:
        raise CellError(error.message, error.diagnostics) from None
    variables = {entry: program[entry] for entry in entries if entry.isidentifier()}
    if name is not None:
        variables[name] = program
    for warning in module.check():
        print(_text(warning), file=sys.stderr)
    shell.push(variables)
    return variables


def _text(diagnostic):
    return f"{diagnostic.file}:{diagnostic.line}:{diagnostic.column}: {diagnostic.severity}: {diagnostic.message} [{diagnostic.kind}]"


def load_ipython_extension(shell):
    """Registers `%%relay`; `%load_ext relayvm` calls it."""

    def magic(line, cell):
        relay(shell, line, cell)

    magic.__doc__ = _HELP
    shell.register_magic_function(magic, "cell", "relay")
