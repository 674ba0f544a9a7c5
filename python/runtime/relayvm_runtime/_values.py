"""Python values to and from values of the machine. Tensors are shared, not copied."""

import ctypes

import numpy

try:
    import ml_dtypes as _ml_dtypes
except ImportError:  # then the dtypes that numpy has only with it come and go as their bits, uint16 and uint8
    _ml_dtypes = None

from . import _dlpack
from ._errors import InvalidArgument, check
from ._library import RELEASE, DType, lib

_TENSOR, _TUPLE, _ADT, _REF, _CLOSURE = 1, 2, 3, 4, 5
_CODES = {"i": 0, "u": 1, "f": 2, "b": 6}
_KINDS = {0: "i", 1: "u", 2: "f", 6: "b"}
_EXTENSIONS = {4: "bfloat16", 10: "float8_e4m3fn"}  # code -> name, of dtypes in ml_dtypes
_EXTENSION_CODES = {name: code for code, name in _EXTENSIONS.items()}


class Handle:
    """Owns a share of an rvm_value."""

    __slots__ = ("pointer", "__weakref__")

    def __init__(self, pointer):
        self.pointer = pointer

    def __del__(self, release=lib.rvm_value_release):
        release(self.pointer)

    def __reduce__(self):
        raise TypeError("a value of the machine cannot be copied or pickled")


class Adt:
    """A constructor applied to fields, such as `Cons(1, Nil)`.

    >>> one = adt("Cons")(1, adt("Nil")())
    >>> one
    Cons(1, Nil)
    >>> match one:
    ...     case Adt("Cons", (head, tail)):
    ...         print(head, tail)
    1 Nil

    Lists of Relay are iterable:

    >>> list(one)
    [1]
    """

    constructor = ""
    __match_args__ = ("constructor", "fields")

    def __init__(self, *fields):
        self._fields = fields
        self._handle = None

    @classmethod
    def _of(cls, handle):
        self = cls.__new__(cls)
        self._fields, self._handle = None, handle
        return self

    @property
    def fields(self):
        """The fields, a tuple. They are taken out of the machine's value when they are first asked for."""
        if self._fields is None:
            handle = self._handle
            self._fields = tuple(from_handle(Handle(lib.rvm_value_field(handle.pointer, i)))
                                 for i in range(lib.rvm_value_field_count(handle.pointer)))
        return self._fields

    def __getitem__(self, index):
        return self.fields[index]

    def __len__(self):
        return sum(1 for _ in self)

    def __iter__(self):
        at = self
        while at.constructor == "Cons" and len(at.fields) == 2:
            yield at.fields[0]
            at = at.fields[1]
        if at.constructor != "Nil":
            raise TypeError(f"`{self.constructor}` is no list; its parts are in .fields")

    def __eq__(self, other):
        a, b = self, other
        while isinstance(b, Adt) and a.constructor == b.constructor and len(a.fields) == len(b.fields):
            if not a.fields:
                return True
            if not all(_equal(x, y) for x, y in zip(a.fields[:-1], b.fields[:-1])):
                return False
            if not isinstance(a.fields[-1], Adt):
                return _equal(a.fields[-1], b.fields[-1])
            a, b = a.fields[-1], b.fields[-1]
        return False

    __hash__ = None

    def __repr__(self):
        text, closing, at = [], 0, self
        while True:
            text.append(at.constructor)
            if not at.fields:
                break
            text.append("(" + "".join(f"{field!r}, " for field in at.fields[:-1]))
            closing += 1
            if not isinstance(at.fields[-1], Adt):
                text.append(repr(at.fields[-1]))
                break
            at = at.fields[-1]
        return "".join(text) + ")" * closing

    def __reduce__(self):
        # Flat: a list of any length pickles without recursion.
        chain, at = [], self
        while at.fields and isinstance(at.fields[-1], Adt):
            chain.append((at.constructor, at.fields[:-1]))
            at = at.fields[-1]
        return (_unpickle, (chain, (at.constructor, at.fields)))


def _equal(a, b):
    if isinstance(a, numpy.ndarray) or isinstance(b, numpy.ndarray):
        return numpy.array_equal(a, b)
    return a == b


def _unpickle(chain, last):
    value = adt(last[0])(*last[1])
    for constructor, fields in reversed(chain):
        value = adt(constructor)(*fields, value)
    return value


_adt_classes = {}


def adt(constructor):
    """The class of a constructor's values: it makes them, and patterns match their fields by position.

    >>> Some = adt("Some")
    >>> match Some(3):
    ...     case Some(x):
    ...         print(x)
    3
    """
    if constructor not in _adt_classes:
        # By position, beyond what any constructor has.
        names = tuple(f"_{i}" for i in range(64))
        members = {"constructor": constructor, "__match_args__": names}
        for i, name in enumerate(names):
            members[name] = property(lambda self, i=i: self.fields[i])
        _adt_classes[constructor] = type(constructor, (Adt,), members)
    return _adt_classes[constructor]


class Ref:
    """A reference cell: its contents when it left the machine.

    >>> Ref(3)
    Ref(3)
    """

    __match_args__ = ("contents",)

    def __init__(self, contents):
        self.contents = contents

    def __eq__(self, other):
        return isinstance(other, Ref) and _equal(self.contents, other.contents)

    __hash__ = None

    def __repr__(self):
        return f"Ref({self.contents!r})"


class Closure:
    """A function that a program returned: it can be shown, not called."""

    def __init__(self, text):
        self.text = text

    def __repr__(self):
        return self.text


# ---- out of the machine


class _Elements:
    """Lends a tensor's memory to numpy, and keeps it."""

    def __init__(self, handle):
        self.handle = handle
        dtype = lib.rvm_value_dtype(handle.pointer)
        rank = lib.rvm_value_rank(handle.pointer)
        extents = lib.rvm_value_shape(handle.pointer)
        # numpy has no such dtypes of its own: their bits.
        self.extension = extension(dtype.code)
        kind = "u" if dtype.code in _EXTENSIONS else _KINDS[dtype.code]
        self.__array_interface__ = {
            "version": 3, "shape": tuple(extents[:rank]), "typestr": f"{'|' if dtype.bits == 8 else '<'}{kind}{dtype.bits // 8}",
            "data": (lib.rvm_value_data(handle.pointer) or 0, True)}


def from_handle(handle):
    """A tensor as a read-only numpy array on the machine's memory, a scalar as a numpy scalar; tuple, Adt, Ref.

    bfloat16 and float8 are of the dtypes that the package ml_dtypes adds to numpy; where that is not installed, their
    bits as uint16 and uint8.
    """
    kind = lib.rvm_value_kind(handle.pointer)
    if kind == _TENSOR:
        elements = _Elements(handle)
        array = numpy.asarray(elements)
        if elements.extension is not None:
            array = array.view(elements.extension).view(_dlpack.Array)
        return array[()] if array.ndim == 0 else array
    if kind == _ADT:
        return adt(lib.rvm_value_constructor(handle.pointer).decode())._of(handle)
    if kind == _CLOSURE:
        from ._library import take_string
        return Closure(take_string(lib.rvm_value_to_string(handle.pointer)))
    fields = tuple(from_handle(Handle(lib.rvm_value_field(handle.pointer, i)))
                   for i in range(lib.rvm_value_field_count(handle.pointer)))
    return fields if kind == _TUPLE else Ref(fields[0])


# ---- into the machine

_lent = {}  # id -> array whose memory the machine has


@RELEASE
def _give_back(key):
    _lent.pop(key or 0, None)


_next_key = iter(range(1, 2**62))


def extension(code):
    """The dtype of ml_dtypes with that DLPack code; None for others, and where ml_dtypes is not installed."""
    return numpy.dtype(getattr(_ml_dtypes, _EXTENSIONS[code])) if _ml_dtypes and code in _EXTENSIONS else None


def bfloat16_bits(array):
    """Numbers as the bits of the nearest bfloat16, ties to even.

    >>> [hex(bits) for bits in bfloat16_bits([1, -2, 1.00390625, 1.01171875])]
    ['0x3f80', '0xc000', '0x3f80', '0x3f82']
    """
    values = numpy.asarray(array, dtype=numpy.float32)
    bits = values.view(numpy.uint32)
    rounded = (bits + (0x7fff + ((bits >> 16) & 1))) >> 16
    return numpy.where(numpy.isnan(values), 0x7fc0 | (bits >> 16 & 0x8000), rounded).astype(numpy.uint16)


def dtype_of(array):
    if array.dtype.name in _EXTENSION_CODES:
        return DType(_EXTENSION_CODES[array.dtype.name], array.dtype.itemsize * 8, 1)
    if array.dtype.kind not in _CODES or not array.dtype.isnative:
        raise InvalidArgument(f"saw an array of dtype {array.dtype}; expected integers, floats or bool", "invalid-argument")
    return DType(_CODES[array.dtype.kind], array.dtype.itemsize * 8, 1)


def _tensor(array, dtype=None):
    dtype = dtype or dtype_of(array)
    array = numpy.asarray(array, order="C")
    shape = (ctypes.c_int64 * array.ndim)(*array.shape)
    out = ctypes.c_void_p()
    if array.ndim == 0:
        check(lib.rvm_value_tensor_copy(dtype, shape, 0, array.ctypes.data, ctypes.byref(out)))
        return Handle(out.value)
    key = next(_next_key)
    _lent[key] = array
    try:
        check(lib.rvm_value_tensor_borrow(dtype, shape, array.ndim, array.ctypes.data, _give_back, key, ctypes.byref(out)))
    except Exception:
        _lent.pop(key, None)
        raise
    return Handle(out.value)


def handle_of(array):
    """An array as a value of the machine that shares its memory, in rows: that which it came from, if it is all of it."""
    base = array
    while isinstance(base, numpy.ndarray) and base.base is not None:
        base = base.base
    if isinstance(base, _Elements) and array.flags.c_contiguous:
        whole = base.__array_interface__
        if whole["data"][0] == array.ctypes.data and whole["shape"] == array.shape:
            return base.handle
    dtype = dtype_of(array)
    return _tensor(array.view(f"u{array.itemsize}"), dtype)


def as_array(value, is_extension=False):
    """numpy's view of an array, of whatever speaks DLPack, of numbers and of nested lists of them.

    bfloat16 and float8 as from_handle gives them. `is_extension`: the dtype is probably one of these.
    """
    if isinstance(value, (numpy.ndarray, numpy.generic)) or not hasattr(value, "__dlpack__"):
        return numpy.asarray(value)
    found = _dlpack.bits_of(value, _EXTENSIONS) if is_extension else None
    if found is None:
        try:
            return numpy.from_dlpack(value)
        except (BufferError, RuntimeError, SystemError):
            found = None if is_extension else _dlpack.bits_of(value, _EXTENSIONS)
            if found is None:
                raise
    bits, code = found
    return bits if extension(code) is None else bits.view(extension(code))


class Importer:
    """Makes values of the types of one program."""

    def __init__(self, signature):
        self.types, self.adts = signature["types"], signature["adts"]

    def handle(self, value, type_id):
        return self._make(value, self.types[type_id])

    def _mismatch(self, value, type_):
        raise InvalidArgument(f"saw {_describe(value)}; expected {type_['text']}", "invalid-argument")

    def _make(self, value, type_):
        kind = type_["kind"]
        if kind == "tensor":
            return self._tensor(value, type_)
        if kind == "tuple":
            if not isinstance(value, (tuple, list)) or len(value) != len(type_["fields"]):
                self._mismatch(value, type_)
            return self._combine(lib.rvm_value_tuple, [self.handle(v, t) for v, t in zip(value, type_["fields"])])
        if kind == "ref":
            if not isinstance(value, Ref):
                self._mismatch(value, type_)
            out = ctypes.c_void_p()
            contents = self.handle(value.contents, type_["fields"][0])
            check(lib.rvm_value_ref(contents.pointer, ctypes.byref(out)))
            return Handle(out.value)
        if kind == "adt":
            return self._adt(value, type_)
        self._mismatch(value, type_)

    def _tensor(self, value, type_):
        name = type_["dtype"]
        code = _EXTENSION_CODES.get(name)
        wanted = numpy.dtype(name if code is None else "uint16" if name == "bfloat16" else "uint8")
        if isinstance(value, (bool, int, float, list, tuple)):
            try:
                array = numpy.asarray(value)
                if name == "bfloat16":
                    array = bfloat16_bits(value)
                elif code is not None:
                    if extension(code) is None:
                        raise TypeError("numpy has that dtype only with the package ml_dtypes; install that, or give bits")
                    array = numpy.asarray(value, dtype=extension(code)).view(wanted)
                elif array.dtype != wanted:  # as numpy converts a Python number: an int may become a float
                    if array.size and (array.dtype.kind, wanted.kind) in (("f", "i"), ("f", "u"), ("f", "b")):
                        self._mismatch(value, type_)
                    array = numpy.asarray(value, dtype=wanted)
            except InvalidArgument:
                raise
            except (ValueError, TypeError, OverflowError) as error:
                raise InvalidArgument(f"saw {_describe(value)}; expected {type_['text']}: {error}", "invalid-argument") from error
        else:
            try:
                array = as_array(value, code is not None)
            except (TypeError, ValueError, RuntimeError, BufferError) as error:
                raise InvalidArgument(f"saw {_describe(value)}; expected {type_['text']}: {error}", "invalid-argument") from error
            if code is not None and array.dtype.name == name:
                array = array.view(wanted)
            if array.dtype != wanted:
                self._mismatch(array, type_)
        if array.ndim != len(type_["shape"]):
            self._mismatch(array, type_)
        return _tensor(array, None if code is None else DType(code, wanted.itemsize * 8, 1))

    def _adt(self, value, type_):
        """Down the last fields without recursion: lists are long."""
        made = []
        while True:
            if isinstance(value, (list, tuple)) and not isinstance(value, Adt):
                value = self._list(value, type_)
            if not isinstance(value, Adt):
                self._mismatch(value, type_)
            by_name = {c["name"]: c["fields"] for c in self.adts[type_["adt"]]["constructors"]}
            types = by_name.get(value.constructor)
            if types is None or len(types) != len(value.fields):
                self._mismatch(value, type_)
            if not types or self.types[types[-1]]["kind"] != "adt":
                last = [self.handle(v, t) for v, t in zip(value.fields, types)]
                handle = self._combine(lib.rvm_value_adt, last, value.constructor)
                break
            made.append((value.constructor, [self.handle(v, t) for v, t in zip(value.fields[:-1], types[:-1])]))
            value, type_ = value.fields[-1], self.types[types[-1]]
        for constructor, fields in reversed(made):
            handle = self._combine(lib.rvm_value_adt, [*fields, handle], constructor)
        return handle

    def _list(self, items, type_):
        names = {c["name"] for c in self.adts[type_["adt"]]["constructors"]}
        if names != {"Cons", "Nil"}:
            self._mismatch(items, type_)
        value = adt("Nil")()
        for item in reversed(items):
            value = adt("Cons")(item, value)
        return value

    def _combine(self, make, handles, *name):
        array = (ctypes.c_void_p * len(handles))(*(h.pointer for h in handles))
        out = ctypes.c_void_p()
        check(make(*(n.encode() for n in name), array, len(handles), ctypes.byref(out)))
        return Handle(out.value)


def _describe(value):
    if isinstance(value, numpy.ndarray):
        return f"an array of {value.dtype} of shape {value.shape}"
    if isinstance(value, Adt):
        return f"`{value.constructor}` of {len(value.fields)} fields"
    text = repr(value)
    return f"{type(value).__name__} {text if len(text) < 60 else text[:57] + '...'}"
