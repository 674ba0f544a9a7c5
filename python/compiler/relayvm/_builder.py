"""Programs made in Python."""

import __future__

import inspect
import os
import re
import sys

import numpy

from ._compiler import Module, import_onnx, import_torch
from ._types import Type, as_type, tensor
from ._value import Value, literal

_HERE = os.path.dirname(os.path.abspath(__file__))
_MAX_LISTED = 16  # elements of a constant in the text; larger ones are weights


def _quoted(text):
    return '"' + re.sub(r'["\\\x00-\x1f]', lambda char: f"\\x{ord(char.group()):02x}", text) + '"'


def _origin():
    """The file and the line of the caller outside of this package, as FILE:LINE."""
    frame = sys._getframe(1)
    while frame is not None and os.path.dirname(os.path.abspath(frame.f_code.co_filename)) == _HERE:
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}" if frame else ""


def _stem(model):
    """The name of a model's file as an identifier."""
    stem = os.path.basename(os.fspath(model)) if isinstance(model, (str, os.PathLike)) else "model"
    stem = re.sub(r"\W", "_", re.sub(r"(\.(onnx|pt2|tflite|mlirbc|stablehlo|keras|h5|cfg|pb)|-symbol\.json)$", "", stem))
    return stem if re.match("[A-Za-z_]", stem) else f"model_{stem}"


class _Operators:
    """Operators by name: `op.nn.dense(x, w)` is the operator `nn.dense`."""

    def __init__(self, builder, name=""):
        self._builder, self._name = builder, name

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return _Operators(self._builder, f"{self._name}.{name}" if self._name else name)

    def __call__(self, *args, **attrs):
        return self._builder._call(self._name, args, attrs)


class _Prelude:
    """Functions and constructors of the Prelude: `prelude.map(f, xs)`, `prelude.Cons(x, xs)`, `prelude.Nil`."""

    def __init__(self, builder):
        self._builder = builder

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Value(self._builder, name if name[0].isupper() else f"@{name}", None)


class DataType:
    """A data type of the program: `Tree.Leaf(x)` makes a value, `Tree["int32"]` is a type."""

    def __init__(self, builder, name, constructors):
        self._name = name
        for constructor in constructors:
            setattr(self, constructor, Value(builder, f"{name}.{constructor}", None))

    def __getitem__(self, args):
        args = args if isinstance(args, tuple) else (args,)
        return Type(f"{self._name}[{', '.join(str(as_type(arg)) for arg in args)}]")

    def __getattr__(self, name):
        raise AttributeError(f"type `{self._name}` has no constructor `{name}`")

    def __str__(self):
        return self._name


class _Function:
    """A global function. Its body is built when it is first needed, when all names of Python are bound."""

    def __init__(self, name, params, result, body, type_params):
        self.name, self.params, self.result, self.body, self.type_params = name, params, result, body, type_params
        self.block = None  # while it is built, and behind that
        self.is_done = False

    def head(self, name, result):
        brackets = f"[{', '.join(self.type_params)}]" if self.type_params else ""
        params = ", ".join(f"%{param}: {type}" for param, type in self.params.items())
        return f"def @{name}{brackets}({params}){f' -> {result}' if result else ''} {{"


class _Block:
    """The steps of a function, a branch or a clause: pairs of an origin, or None within a step, and a line."""

    def __init__(self, parent, opening="", closing="", is_function=False):
        self.parent, self.opening, self.closing, self.is_function = parent, opening, closing, is_function
        self.lines = []
        self.depth = parent.depth + 1 if parent else 1

    def add(self, line, origin=None):
        self.lines.append((origin, "  " * self.depth + line))

    def chain(self):
        """The blocks around this one, outermost first, and itself."""
        return (self.parent.chain() if self.parent else []) + [self]


class Builder:
    """Builds a program: functions of Python run once, and what they do with Values becomes the program.

    >>> b = Builder()
    >>> w = b.weight("w", numpy.eye(2, dtype="float32") * 3)
    >>> @b.function
    ... def main(x: tensor("n", 2)):
    ...     return b.op.nn.relu(b.op.nn.dense(x, w) - 1)
    >>> from relayvm import compile
    >>> compile(b.finish())([[1, 0]])
    array([[2., 0.]], dtype=float32)

    Errors name the lines of Python. Not for several threads at once.
    """

    def __init__(self, name="<builder>"):
        self.name = name
        self.op, self.prelude = _Operators(self), _Prelude(self)
        self._functions, self._types, self._weights, self._params = {}, [], {}, {}
        self._imports, self._stubs = {}, []
        self._block = None
        self._count = 0

    # ---- definitions

    def function(self, body=None, *, name=None, type_params=()):
        """Makes a global function of a function of Python; annotations give the types of parameters and, if wanted, of
        the result: relayvm.Type, its text, or a dtype. As a decorator, or called with a function.

        The body runs later, so functions may call themselves and each other. `type_params`: as in ["A", "s: Shape"].
        """
        if body is None:
            return lambda given: self.function(given, name=name, type_params=type_params)
        name = name or body.__name__
        is_text = body.__code__.co_flags & __future__.annotations.compiler_flag
        signature = inspect.signature(body, eval_str=bool(is_text))
        params = {}
        for param in signature.parameters.values():
            if param.annotation is param.empty:
                raise TypeError(f"parameter `{param.name}` of `{name}` has no type; annotate it, as in "
                                f"`{param.name}: tensor(2, 3)`")
            params[param.name] = as_type(param.annotation)
        result = signature.return_annotation
        return self.define(name, params, body, result=None if result is signature.empty else result,
                           type_params=type_params)

    def define(self, name, params, body, *, result=None, type_params=()):
        """As `function`, with the types of the parameters by name."""
        if not re.fullmatch(r"[A-Za-z_]\w*", name):
            raise ValueError(f"saw the name {name!r}; expected letters, digits and `_`")
        if name in self._functions or name in self._imports:
            raise ValueError(f"function `{name}` is defined twice")
        self._functions[name] = _Function(name, {p: as_type(t) for p, t in params.items()},
                                          None if result is None else as_type(result), body, type_params)
        return Value(self, f"@{name}", None)

    def import_onnx(self, model, name=None, *, inputs=None, freeze=None):
        """An ONNX model as a function, with its weights: model, inputs and freeze as of relayvm.import_onnx. `name`: of the
        function; by default that of the file."""
        return self.import_module(import_onnx(model, inputs=inputs, freeze=freeze), name or _stem(model))

    def import_torch(self, model, name=None, args=None, kwargs=None, *, dynamic_shapes=None, inputs=None, freeze=None):
        """The same of a PyTorch model, as relayvm.import_torch takes it."""
        module = import_torch(model, args, kwargs, dynamic_shapes=dynamic_shapes, inputs=inputs, freeze=freeze)
        return self.import_module(module, name or _stem(model))

    def import_module(self, module, name):
        """The `main` of a Module as a function.

        >>> b = Builder()
        >>> double = b.import_module(Module("def @main(%x: int32) { %x * 2 }"), "double")
        >>> @b.function
        ... def main(x: "int32"):
        ...     return double(x) + 1
        >>> from relayvm import compile
        >>> int(compile(b.finish())(3))
        7
        """
        if not re.fullmatch(r"[A-Za-z_]\w*", name):
            raise ValueError(f"saw the name {name!r}; expected letters, digits and `_`")
        if name in self._functions or name in self._imports:
            raise ValueError(f"function `{name}` is defined twice")
        type = Type(module.types()["main"])
        params = {f"p{i}": param for i, param in enumerate(type._params())}
        self._imports[name] = module
        # Of the same type, so that types of values are inferred without reading the module again.
        stub = _Function(name, params, type.result, None, ())
        self._stubs += [stub.head(name, type.result), f"@{name}({', '.join(f'%{param}' for param in params)})", "}"]
        return Value(self, f"@{name}", None)

    def weight(self, name, value):
        """A weight: an array, or the type of one that is given to `compile`."""
        if not re.fullmatch(r"[A-Za-z_]\w*([/.:-]\w+)*", name):
            raise ValueError(f"saw the name {name!r}; expected letters, digits and `_`, joined by / . : -")
        if name in self._weights:
            raise ValueError(f"weight `{name}` is defined twice")
        if isinstance(value, (Type, str)):
            self._weights[name] = as_type(value)
        else:
            self._params[name] = array = numpy.asarray(value)
            self._weights[name] = tensor(*array.shape, dtype=array.dtype)
        return Value(self, f"%{name}", None, self._weights[name])

    def new_type(self, name, *type_params, **constructors):
        """A data type: its type parameters, and the types of each constructor's fields.

        >>> b = Builder()
        >>> Tree = b.new_type("Tree", "A", Leaf=["A"], Node=["Tree[A]", "Tree[A]"])
        >>> str(Tree["int32"])
        'Tree[int32]'
        """
        brackets = f"[{', '.join(type_params)}]" if type_params else ""
        made = DataType(self, name, constructors)
        fields = {c: ", ".join(str(f) if isinstance(f, DataType) else str(as_type(f)) for f in given)
                  for c, given in constructors.items()}
        lines = "".join(f"  {c}({text}),\n" if text else f"  {c},\n" for c, text in fields.items())
        self._types.append(f"type {name}{brackets} {{\n{lines}}}\n")
        return made

    # ---- steps

    def if_(self, condition, then, otherwise):
        """`then()` or `otherwise()`; both are functions of Python without parameters."""
        arms = [("", "} else {", _Block(self._here()), then, ()), ("", "", _Block(self._here()), otherwise, ())]
        return self._branches(f"if ({self._text_of(condition)}) {{", arms)

    def match(self, value, clauses, *, complete=True):
        """The value of the first clause whose pattern fits. `clauses`: functions by pattern; the variables of a pattern,
        which begin with a small letter, are their parameters. With complete=False a value that fits none fails the run.

        >>> b = Builder()
        >>> @b.function
        ... def main(xs: "List[int32]") -> "int32":
        ...     return b.match(xs, {"Nil": lambda: 0, "Cons(x, rest)": lambda x, rest: x + main(rest)})
        >>> from relayvm import compile
        >>> int(compile(b.finish())([1, 2, 3]))
        6
        """
        opening, arms = f"match? ({self._text_of(value)}) {{", []
        for pattern, body in clauses.items():
            names = []

            def rename(word):
                if not re.match("%|[a-z]", word.group()):
                    return word.group()  # a constructor, a number, `_`
                names.append(self._fresh(word.group().lstrip("%")))
                return names[-1]

            text = re.sub(r"-?\d\w*|%?[A-Za-z_]\w*(\.\w+)*", rename, pattern)
            probe = (f"{opening} {text} => {{", "} }")
            arms.append((f"{text} => {{", "},", _Block(self._block, *probe), body, names))
        return self._branches(opening.replace("match?", "match", complete), arms)

    def fn(self, body, *types):
        """A function as a value, which may use the Values around it; `types`: those of its parameters."""
        names = [self._fresh(name) for name in inspect.signature(body).parameters]
        if len(names) != len(types):
            raise TypeError(f"saw {len(types)} types for {len(names)} parameters")
        params = ", ".join(f"{name}: {as_type(type)}" for name, type in zip(names, types))
        block = _Block(self._block, f"fn ({params}) {{", "}", is_function=True)
        values = [Value(self, name, block, as_type(type)) for name, type in zip(names, types)]
        return self._branches(block.opening, [("", "", block, lambda: body(*values), ())])

    def ref(self, value):
        """A reference with this value; it has `read` and `write`."""
        return self._let(f"ref({self._text_of(value)})", "ref")

    # ---- the end

    def finish(self):
        """The program, a Module with the weights that have values. Its types are checked when it is compiled, or by
        `Module.check()`."""
        for function in list(self._functions.values()):
            self._build(function)
        return Module(self._text(self._functions.values()), self._params, self.name, imports=self._imports)

    # ---- inside

    def _fresh(self, name):
        self._count += 1
        return f"%{name}_{self._count}"

    def _here(self):
        if self._block is None:
            raise TypeError("steps are made in the body of a function: use @builder.function")
        return self._block

    def _let(self, text, name, type=None, dtype=None):
        value = Value(self, self._fresh(name), self._here(), type, dtype)
        self._block.add(f"let {value._text} = {text};", _origin())
        return value

    def _call(self, callee, args, attrs, dtype=None):
        parts = [self._text_of(arg) for arg in args]
        parts += [f"{name}={self._attribute(value)}" for name, value in attrs.items()]
        name = re.sub(r"\W|_\d+$", "", callee.rsplit(".", 1)[-1])
        return self._let(f"{callee}({', '.join(parts)})", name or "t", dtype=dtype)

    def _attribute(self, value):
        if isinstance(value, (list, tuple, numpy.ndarray)):
            return f"[{', '.join(self._attribute(item) for item in value)}]"
        if isinstance(value, (bool, numpy.bool_)):
            return str(bool(value))
        if isinstance(value, numpy.integer):
            return str(int(value))
        if isinstance(value, (float, numpy.floating)):
            return literal(value, "float32")
        if value is None or isinstance(value, int):
            return str(value)
        if isinstance(value, Value):
            raise TypeError("saw a Value as an attribute; attributes are known when the program is built")
        return _quoted(value if isinstance(value, str) else str(as_type(value)))

    def _text_of(self, value, dtype=None):
        """How an expression of the current block refers to `value`; numbers are scalars of `dtype`."""
        if isinstance(value, Value):
            if value._builder is not self:
                raise ValueError(f"{value!r} belongs to another Builder")
            if value._block is not None and value._block not in self._here().chain():
                raise ValueError(f"{value!r} was made in a branch or a function that has ended; return it from there")
            return value._text
        if isinstance(value, numpy.generic):
            return literal(value.item(), value.dtype.name)
        if isinstance(value, (bool, int, float)):
            return literal(value, dtype)
        if isinstance(value, tuple):
            fields = ", ".join(self._text_of(field) for field in value)
            return f"({fields},)" if len(value) == 1 else f"({fields})"
        if isinstance(value, list):
            return f"[{', '.join(self._text_of(item) for item in value)}]"
        if isinstance(value, numpy.ndarray):
            return self._constant(value)
        raise TypeError(f"saw {value!r}; expected a Value, a number, an array, a tuple or a list of them")

    def _constant(self, array):
        if array.size > _MAX_LISTED:
            return self.weight(self._fresh("constant").lstrip("%"), array)._text
        dtype = array.dtype.name
        elements = ", ".join(literal(item, dtype) for item in array.ravel().tolist())
        return f"Constant([{elements}], ({', '.join(map(str, array.shape))}), {dtype})"

    def _branches(self, opening, arms):
        """A step of blocks: (the line before, the line after, the block, its body, the names it binds) of each."""
        outer, origin = self._here(), _origin()
        value = Value(self, self._fresh("t"), outer)
        lines = [(origin, "  " * outer.depth + f"let {value._text} = {opening}")]
        for before, after, block, body, names in arms:
            self._run(block, body, [Value(self, name, block) for name in names])
            around = [[(None, "  " * outer.depth + line)] if line else [] for line in (before, after)]
            lines += around[0] + block.lines + around[1]
        outer.lines += [*lines, (None, "  " * outer.depth + "};")]
        return value

    def _run(self, block, body, values, dtype=None):
        """Builds a block, whose value is what the body returns."""
        outer, self._block = self._block, block
        try:
            result = body(*values) if callable(body) and not isinstance(body, Value) else body
            code = getattr(body, "__code__", None)
            begins = f"{code.co_filename}:{code.co_firstlineno}" if code and not block.lines else None
            block.add(self._text_of(result, dtype), begins)
        finally:
            self._block = outer

    def _build(self, function):
        if function.block is not None:
            return
        function.block = block = _Block(None)
        values = [Value(self, f"%{name}", block, type) for name, type in function.params.items()]
        self._run(block, function.body, values, function.result and function.result.dtype)
        function.is_done = True

    def _text(self, functions, probe=()):
        """The text of the program, with the functions that are built, and the lines of a probe."""
        lines = ['#[version = "0.0.5"]', *self._types]
        lines += [f"free_var %{name}: {type};" for name, type in self._weights.items()]
        for function in functions:
            head = function.head(function.name, function.result)
            lines += ["", '#[origin = ""]', head, *_with_origins(function.block.lines), "}"]
        return "\n".join([*lines, *probe]) + "\n"

    def _infer(self, value):
        """The type of a value: that of a function which ends with it."""
        blocks = value._block.chain() if value._block else [_Block(None)]
        within = next((f for f in self._functions.values() if f.block is blocks[0]), _Function("", {}, None, None, ()))
        probe = ['#[origin = ""]', within.head("type_of_value", None)]
        for block in blocks:
            probe += [block.opening, *_with_origins(block.lines)]
        probe += [value._text, *(block.closing for block in reversed(blocks)), "}"]
        done, unfinished = self._needed("\n".join(probe))
        for function in unfinished:
            if function.result is None:
                raise TypeError(f"the type of {value!r} depends on the result of `{function.name}`, which is being built; "
                                "annotate that result")
            args = ", ".join(f"%{name}" for name in function.params)
            probe += [function.head(function.name, function.result), f"@{function.name}({args})", "}"]
        type = Type(Module(self._text(done, [*probe, *self._stubs]), name=self.name).types()["type_of_value"]).result
        for _ in range(sum(block.is_function for block in blocks)):
            type = type.result
        return type

    def _needed(self, text):
        """The functions that a text calls, directly or not: those that are built, and those that are being built."""
        found, texts = {}, [text]
        while texts:
            for name in re.findall(r"@(\w+)", texts.pop()):
                function = self._functions.get(name)
                if function is None or name in found:
                    continue
                found[name] = function
                self._build(function)
                if function.is_done:
                    texts.append("\n".join(line for _, line in function.block.lines))
        done = [function for function in found.values() if function.is_done]
        return done, [function for function in found.values() if not function.is_done]


def _with_origins(lines):
    last = ""
    for origin, line in lines:
        if origin is not None and origin != last:
            last = origin
            yield f"#[origin = {_quoted(origin)}]"
        yield line
