"""Values of the machine as Python values. Tensors are shared, not copied, but for those of a few bytes. The module _arguments has the other way."""

import ctypes
import math

import numpy

from . import _dlpack
from ._dtypes import EXTENSIONS, KINDS, extension
from ._errors import check
from ._library import ValueInfo, lib, take_string

_TENSOR, _TUPLE, _ADT, _REF, _CLOSURE = 1, 2, 3, 4, 5


class Handle:
    """Owns a share of an rvm_value. `session`: the one whose closures may be part of it, else None."""

    __slots__ = ("pointer", "session", "__weakref__")

    def __init__(self, pointer, session=None):
        self.pointer, self.session = pointer, session

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
            self._fields = _fields(self._handle, _info(self._handle).field_count)
        return self._fields

    def __getitem__(self, index):
        return self.fields[index]

    def __len__(self):
        if self._fields is None:
            return _list_length(self._handle)
        return sum(1 for _ in self)

    def __iter__(self):
        if self._fields is None and (elements := _list_elements(self._handle)) is not None:
            yield from elements
            return
        at = self
        while at.constructor == "Cons" and len(at.fields) == 2:
            yield at.fields[0]
            at = at.fields[1]
        if at.constructor != "Nil":
            raise TypeError(f"`{self.constructor}` is no list; its parts are in .fields")

    def __array__(self, dtype=None, copy=None):
        """The elements of a list, tensors of one dtype and shape, along the first axis: numpy.asarray(result)."""
        array = None if self._handle is None else _stacked(self._handle)
        if array is None:
            array = numpy.asarray(list(self))
        return array if dtype is None else array.astype(dtype, copy=bool(copy))

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
    """A function that a run gave. Calling it runs it in the session of that run, where what it captured stays: a function with state
    goes on where the call before left it.

    After a run of the session that ended with an error, its functions can no longer be called. A closure that was made
    from a text, or pickled, is only that text.
    """

    def __init__(self, text):
        self.text, self._handle = text, None

    @classmethod
    def _of(cls, handle):
        self = cls(take_string(lib.rvm_value_to_string(handle.pointer)))
        self._handle = handle
        return self

    def __call__(self, /, *args):
        session = self._handle and self._handle.session
        if session is None:
            raise TypeError(f"{self.text} is no function of a session, and cannot be called")
        return session._call(self._handle, args)

    def __reduce__(self):
        return (Closure, (self.text,))

    def __repr__(self):
        return self.text


# ---- out of the machine


SMALL = 1024  # bytes that are copied faster than lent
_dtypes = {}  # DType.word() -> the numpy dtype; that of the bits of a dtype that numpy has not


def _numpy_dtype(word):
    code, bits = word & 0xff, word >> 8 & 0xff
    kind = "u" if code in EXTENSIONS else KINDS[code]
    dtype = _dtypes[word] = numpy.dtype(f"{kind}{bits // 8}" if kind != "b" else bool)
    return dtype


def _array(handle, info):
    word = info.dtype
    dtype = _dtypes.get(word) or _numpy_dtype(word)
    shape = info.shape[:info.rank]
    size = math.prod(shape) * dtype.itemsize
    if size <= SMALL:
        array = numpy.ndarray(shape, dtype, ctypes.string_at(info.data, size) if size else b"")
    else:
        array = numpy.asarray(Elements(handle, shape, dtype, info.data))
    if word & 0xff in EXTENSIONS and (wider := extension(word & 0xff)) is not None:
        array = array.view(wider).view(_dlpack.Array)
    return array if shape else array[()]


class Elements:
    """Lends a tensor's memory to numpy, and keeps it."""

    def __init__(self, handle, shape, dtype, address):
        self.handle = handle
        self.__array_interface__ = {"version": 3, "shape": tuple(shape), "typestr": dtype.str, "data": (address, True)}


def from_handle(handle):
    """A tensor as a read-only numpy array on the machine's memory, a scalar as a numpy scalar; tuple, Adt, Ref.

    bfloat16 and float8 are of the dtypes that the package ml_dtypes adds to numpy; where that is not installed, their
    bits as uint16 and uint8.
    """
    info = _info(handle)
    kind = info.kind
    if kind == _TENSOR:
        return _array(handle, info)
    if kind == _ADT:
        return adt(info.constructor.decode())._of(handle)
    if kind == _CLOSURE:
        return Closure._of(handle)
    fields = _fields(handle, info.field_count)
    return fields if kind == _TUPLE else Ref(fields[0])


_INFO_SIZE = ctypes.sizeof(ValueInfo)


def _info(handle):
    info = ValueInfo(_INFO_SIZE)
    check(lib.rvm_value_get_info(handle.pointer, ctypes.byref(info)))
    return info


def _fields(handle, count):
    session = handle.session
    return tuple(from_handle(Handle(lib.rvm_value_field(handle.pointer, i), session)) for i in range(count))


# ---- lists, without a call for each element


def _is_ok(error):
    lib.rvm_error_free(error)
    return not error


def _list_length(handle):
    count = ctypes.c_size_t()
    if not _is_ok(lib.rvm_value_list_elements(handle.pointer, None, 0, ctypes.byref(count))):
        raise TypeError("the value is no list; its parts are in .fields")
    return count.value


def _stacked(handle):
    """The elements of a list of tensors of one dtype and shape as an array; None if they have not one."""
    out = ctypes.c_void_p()
    if not _is_ok(lib.rvm_value_list_to_tensor(handle.pointer, ctypes.byref(out))):
        return None
    return from_handle(Handle(out.value))


def _list_elements(handle):
    """The elements of a list; None if the value is none."""
    array = _stacked(handle)
    if array is not None:
        return array
    count = ctypes.c_size_t()
    if not _is_ok(lib.rvm_value_list_elements(handle.pointer, None, 0, ctypes.byref(count))):
        return None
    out = (ctypes.c_void_p * count.value)()
    check(lib.rvm_value_list_elements(handle.pointer, out, count.value, ctypes.byref(count)))
    return [from_handle(Handle(pointer, handle.session)) for pointer in out]
