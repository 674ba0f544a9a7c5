"""The values of a program that is being built."""

import numpy

from ._types import as_type

_SUFFIXES = {"int32": "", "float32": "f", "float64": "f64", "float16": "f16", "bfloat16": "bf16", "bool": ""}


def literal(number, dtype):
    """A Python number as a scalar of `dtype`; None: bool, int32 or int64, float32."""
    if isinstance(number, bool) and dtype in (None, "bool"):
        return str(bool(number))
    if dtype is None:
        dtype = "float32" if isinstance(number, float) else "int32" if -2**31 <= number < 2**31 else "int64"
    if "float" not in dtype:
        if isinstance(number, float):
            dtype = "float32"  # the compiler says what is wrong
        else:
            return f"{int(number)}{_SUFFIXES.get(dtype, dtype.replace('uint', 'u').replace('int', 'i'))}"
    text = repr(float(number)) if numpy.isfinite(number) else f"{float(number)}f"
    return text + (_SUFFIXES[dtype] if numpy.isfinite(number) else _SUFFIXES[dtype].lstrip("f"))


class Value:
    """The result of one step of a program that is being built.

    Python's operators compute with it, numbers take its dtype; `f(x)` calls a function, `x[...]` is a field of a tuple
    or indexes a tensor as numpy does. `type`, `shape` and `dtype` are what the compiler infers.
    """

    __hash__ = None
    __array_ufunc__ = None  # numpy leaves `array + value` to us

    def __init__(self, builder, text, block, type=None, dtype=None):
        self._builder, self._text, self._block, self._type = builder, text, block, type
        self._dtype = dtype or (type.dtype if type else None)

    def __repr__(self):
        return f"<Value {self._text}>"

    @property
    def type(self):
        if self._type is None:
            self._type = self._builder._infer(self)
        return self._type

    @property
    def shape(self):
        return self.type.shape

    @property
    def dtype(self):
        if self._dtype is None:
            self._dtype = self.type.dtype
        return self._dtype

    def __call__(self, *args):
        return self._builder._call(self._builder._text_of(self), args, {})

    def __bool__(self):
        raise TypeError("a Value has no truth while the program is built; use Builder.if_, or operators such as "
                        "op.logical_and")

    def __iter__(self):
        fields = self.type.fields
        if fields is None:
            raise TypeError(f"a value of type {self.type} cannot be iterated; expected a tuple")
        return (self[i] for i in range(len(fields)))

    def __getitem__(self, index):
        if self.type.fields is not None:
            count = len(self.type.fields)
            if not isinstance(index, int) or not -count <= index < count:
                raise IndexError(f"saw the index {index!r} of a tuple; expected a number below {count}")
            return self._builder._let(f"{self._text}.{index % count}", "field", self.type.fields[index % count])
        return _index(self, index if isinstance(index, tuple) else (index,))

    @property
    def T(self):
        return self._builder.op.transpose(self)

    def astype(self, dtype):
        """Converted to another dtype, as by the operator `cast`."""
        return self._builder.op.cast(self, dtype=str(as_type(dtype)))

    def read(self):
        """The value of a reference."""
        return self._builder._let(f"ref_read({self._builder._text_of(self)})", "read")

    def write(self, value):
        """Gives a reference another value."""
        text = self._builder._text_of
        self._builder._let(f"ref_write({text(self)}, {text(value)})", "done")

    def _binary(self, symbol, left, right, dtype=None):
        value = left if isinstance(left, Value) else right
        known = value._dtype if isinstance(left, Value) and isinstance(right, Value) else value.dtype
        a, b = (self._builder._text_of(v, known) for v in (left, right))
        text = f"{a} {symbol} {b}" if not symbol[0].isalpha() else f"{symbol}({a}, {b})"
        return self._builder._let(text, "t", dtype=dtype or known)

    def _logical(self, name, left, right):
        kind = "logical" if self.dtype == "bool" else "bitwise"
        return self._binary(f"{kind}_{name}", left, right)

    def __invert__(self):
        return self._builder._call("logical_not" if self.dtype == "bool" else "bitwise_not", (self,), {}, self.dtype)

    def __neg__(self):
        return self._builder._call("negative", (self,), {}, self._dtype)

    def __abs__(self):
        return self._builder._call("abs", (self,), {}, self._dtype)

    def __matmul__(self, other):
        return self._builder._call("nn.matmul", (self, other), {}, self._dtype)

    def __rmatmul__(self, other):
        return self._builder._call("nn.matmul", (other, self), {}, self._dtype)


def _define_operators():
    arithmetic = {"add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "floor_divide", "mod": "floor_mod",
                  "pow": "power"}
    for name, symbol in arithmetic.items():
        setattr(Value, f"__{name}__", lambda self, other, s=symbol: self._binary(s, self, other))
        setattr(Value, f"__r{name}__", lambda self, other, s=symbol: self._binary(s, other, self))
    for name in ("and", "or", "xor"):
        setattr(Value, f"__{name}__", lambda self, other, n=name: self._logical(n, self, other))
        setattr(Value, f"__r{name}__", lambda self, other, n=name: self._logical(n, other, self))
    for name, symbol in {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}.items():
        setattr(Value, f"__{name}__", lambda self, other, s=symbol: self._binary(s, self, other, "bool"))


_define_operators()


def _index(value, items):
    """numpy's basic indexing: numbers, slices, `...` and None, or one Value, which takes along its axis."""
    op, shape = value._builder.op, value.shape
    used = sum(item is not None and item is not Ellipsis for item in items)
    if shape is None or used > len(shape):
        raise IndexError(f"saw {used} indices of a value of type {value.type}; expected at most its rank")
    at = next((i for i, item in enumerate(items) if item is Ellipsis), len(items))
    items = (*items[:at], *[slice(None)] * (len(shape) - used), *items[at + 1:])
    slices, dropped, added, axis = [], [], [], 0  # of slices: axis, begin, end, stride
    for item in items:
        if item is None:
            added.append(axis - len(dropped) + len(added))
        elif isinstance(item, Value):
            if any(not isinstance(other, slice) for other in items if other is not item):
                raise IndexError("an index that is a Value goes with slices only; use op.take for the others")
            return op.take(_index(value, tuple(slice(None) if i is item else i for i in items)), item, axis=axis)
        else:
            is_slice = isinstance(item, slice)
            first, last, step = _bounds(item) if is_slice else (item.__index__(), item.__index__() + 1 or _END, 1)
            if (first, last, step) != (0, _END, 1):
                slices.append((axis, first, last, step))
            if not is_slice:
                dropped.append(axis)
            axis += 1
    if slices:
        axes, begin, end, strides = zip(*slices)
        value = op.strided_slice(value, begin=begin, end=end, strides=strides, axes=axes)
    if dropped:
        value = op.squeeze(value, axis=dropped)
    for axis in added:
        value = op.expand_dims(value, axis=axis)
    return value


_END = 2**31 - 1


def _bounds(item):
    if any(isinstance(part, Value) for part in (item.start, item.stop, item.step)):
        raise TypeError("the bounds of a slice are numbers; use op.dyn.strided_slice for computed ones")
    step = 1 if item.step is None else item.step
    first = item.start if item.start is not None else 0 if step > 0 else _END
    last = item.stop if item.stop is not None else _END if step > 0 else -_END - 1
    return first, last, step
