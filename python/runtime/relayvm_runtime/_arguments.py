"""Python values as values of the machine. Tensors are shared, not copied, but for those of a few bytes."""

import ctypes
import threading

import numpy

from . import _dlpack
from ._dtypes import EXTENSION_CODES, EXTENSIONS, bfloat16_bits, dtype_of, extension, of_name
from ._errors import InvalidArgument, check
from ._library import FUNCTION, RELEASE, DType, lib
from ._values import SMALL, Adt, Closure, Elements, Handle, Ref, from_handle

_lent = {}  # id -> array, or bytes, whose memory the machine has; or _HostFunction


@RELEASE
def give_back(key):
    """What the machine calls once it no longer has the memory that lend() lent."""
    _lent.pop(key or 0, None)


_next_key = iter(range(1, 2**62))


def lend(owner):
    """Keeps `owner` until give_back is called with the key that this returns."""
    key = next(_next_key)
    _lent[key] = owner
    return key


_EXTENTS = [ctypes.c_int64 * rank for rank in range(8)]
_HANDLES = [ctypes.c_void_p * count for count in range(8)]


def _in_rows(array, dtype, may_copy=True):
    """A tensor on the memory of an array in rows, or on a copy if it is small. `dtype`: DType.word()."""
    rank, out = array.ndim, ctypes.c_void_p()
    shape = (_EXTENTS[rank] if rank < len(_EXTENTS) else ctypes.c_int64 * rank)(*array.shape)
    if may_copy and array.nbytes <= SMALL:
        check(lib.rvm_value_tensor_copy(dtype, shape, rank, array.tobytes(), ctypes.byref(out)))
        return Handle(out.value)
    address = array.__array_interface__["data"][0]
    key = lend(array)
    try:
        check(lib.rvm_value_tensor_borrow(dtype, shape, rank, address, give_back, key, ctypes.byref(out)))
    except Exception:
        _lent.pop(key, None)
        raise
    return Handle(out.value)


def pointers(handles):
    """A C array of the handles' pointers."""
    count = len(handles)
    return (_HANDLES[count] if count < len(_HANDLES) else ctypes.c_void_p * count)(*[h.pointer for h in handles])


def tensor(array, dtype=None):
    """An array as a tensor; one that does not lie in rows is copied."""
    dtype = dtype or dtype_of(array).word()
    return _in_rows(numpy.asarray(array, order="C"), dtype)


def handle_of(array):
    """An array as a value of the machine that shares its memory, in rows: that which it came from, if it is all of it."""
    base = array
    while isinstance(base, numpy.ndarray) and base.base is not None:
        base = base.base
    if isinstance(base, Elements) and array.flags.c_contiguous:
        whole = base.__array_interface__
        if whole["data"][0] == array.ctypes.data and whole["shape"] == array.shape:
            return base.handle
    dtype = dtype_of(array)
    return _in_rows(numpy.asarray(array, order="C").view(f"u{array.itemsize}"), dtype.word(), may_copy=False)


def as_array(value, is_extension=False):
    """numpy's view of an array, of whatever speaks DLPack, of numbers and of nested lists of them.

    bfloat16 and float8 as from_handle gives them. `is_extension`: the dtype is probably one of these.
    """
    if isinstance(value, (numpy.ndarray, numpy.generic)) or not hasattr(value, "__dlpack__"):
        return numpy.asarray(value)
    found = _dlpack.bits_of(value, EXTENSIONS) if is_extension else None
    if found is None:
        try:
            return numpy.from_dlpack(value)
        except (BufferError, RuntimeError, SystemError):
            found = None if is_extension else _dlpack.bits_of(value, EXTENSIONS)
            if found is None:
                raise
    bits, code = found
    return bits if extension(code) is None else bits.view(extension(code))


class Importer:
    """Makes values of the types of one program."""

    def __init__(self, signature):
        self.types, self.adts = signature["types"], signature["adts"]
        self._makers = [None] * len(self.types)

    def handle(self, value, type_id):
        """The value with that type. Raises InvalidArgument."""
        return self.maker(type_id)(value)

    def maker(self, type_id):
        """The function that makes values of a type."""
        return self._makers[type_id] or self._new_maker(type_id)

    def has_functions(self, entries):
        """Whether functions are part of what the entries take and give."""
        seen, work = set(), [type_ for e in entries for type_ in (e["result"], *(p["type"] for p in e["parameters"]))]
        while work:
            index = work.pop()
            if index in seen:
                continue
            seen.add(index)
            type_ = self.types[index]
            if type_["kind"] == "closure":
                return True
            work += type_.get("fields", ())
            if type_["kind"] == "adt":
                work += [field for c in self.adts[type_["adt"]]["constructors"] for field in c["fields"]]
        return False

    def list_element(self, type_id):
        """The type of the elements of a `List`; None for another data type."""
        if not _ListMaker.fits(self, type_id):
            return None
        return next(c["fields"][0] for c in self.adts[self.types[type_id]["adt"]]["constructors"] if c["name"] == "Cons")

    def _new_maker(self, type_id):
        type_ = self.types[type_id]
        makers = {"tensor": _TensorMaker, "tuple": _TupleMaker, "ref": _RefMaker, "adt": _AdtMaker, "closure": _FunctionMaker}
        maker = makers.get(type_["kind"], _NoMaker)(self, type_)
        if type_["kind"] == "adt" and _ListMaker.fits(self, type_id):
            maker = _ListMaker(self, type_, maker)
        self._makers[type_id] = maker
        return maker


class _NoMaker:
    """Of a type whose values cannot be passed in."""

    def __init__(self, importer, type_):
        self.importer, self.type = importer, type_

    def __call__(self, value):
        self.mismatch(value)

    def mismatch(self, value):
        raise InvalidArgument(f"saw {_describe(value)}; expected {self.type['text']}", "invalid-argument")


class _TensorMaker(_NoMaker):
    def __init__(self, importer, type_):
        super().__init__(importer, type_)
        self.name, self.rank = type_["dtype"], len(type_["shape"])
        self.code = EXTENSION_CODES.get(self.name)
        self.wanted, dtype = of_name(self.name)
        self.dtype = dtype.word()

    def __call__(self, value):
        if type(value) is numpy.ndarray and value.dtype == self.wanted and value.ndim == self.rank and self.code is None:
            return _in_rows(value if value.flags.c_contiguous else numpy.ascontiguousarray(value), self.dtype)
        array = self.array(value)
        if array.ndim != self.rank:
            self.mismatch(array)
        return tensor(array, self.dtype)

    def array(self, value):
        """The value as an array of the dtype, of any rank; for a dtype of ml_dtypes, of its bits."""
        if isinstance(value, (numpy.integer, numpy.bool_)):
            value = value.item()  # exact: a number, not an array of another dtype
        try:
            if isinstance(value, (bool, int, float, list, tuple)):
                return self._of_numbers(value)
            array = as_array(value, self.code is not None)
        except InvalidArgument:
            raise
        except (ValueError, TypeError, OverflowError, RuntimeError, BufferError) as error:
            raise InvalidArgument(f"saw {_describe(value)}; expected {self.type['text']}: {error}", "invalid-argument") from error
        if self.code is not None and array.dtype.name == self.name:
            array = array.view(self.wanted)
        if array.dtype != self.wanted:
            self.mismatch(array)
        return array

    def _of_numbers(self, value):
        if self.name == "bfloat16":
            return bfloat16_bits(value)
        if self.code is not None:
            if extension(self.code) is None:
                raise TypeError("numpy has that dtype only with the package ml_dtypes; install that, or give bits")
            return numpy.asarray(value, dtype=extension(self.code)).view(self.wanted)
        array = numpy.asarray(value)
        if array.dtype == self.wanted:
            return array
        # numpy converts a Python number: an int may become a float.
        if array.size and (array.dtype.kind, self.wanted.kind) in (("f", "i"), ("f", "u"), ("f", "b")):
            self.mismatch(value)
        return numpy.asarray(value, dtype=self.wanted)


class _TupleMaker(_NoMaker):
    def __call__(self, value):
        types = self.type["fields"]
        if not isinstance(value, (tuple, list)) or len(value) != len(types):
            self.mismatch(value)
        return _combine(lib.rvm_value_tuple, [self.importer.handle(v, t) for v, t in zip(value, types)])


class _RefMaker(_NoMaker):
    def __call__(self, value):
        if not isinstance(value, Ref):
            self.mismatch(value)
        out = ctypes.c_void_p()
        contents = self.importer.handle(value.contents, self.type["fields"][0])
        check(lib.rvm_value_ref(contents.pointer, ctypes.byref(out)))
        return Handle(out.value)


class _AdtMaker(_NoMaker):
    def __call__(self, value):
        """Down the last fields without recursion: lists are long."""
        types, made, at = self.importer.types, [], self.type
        while True:
            if not isinstance(value, Adt):
                if not made:
                    self.mismatch(value)
                handle = self.importer.handle(value, last_type)
                break
            by_name = {c["name"]: c["fields"] for c in self.importer.adts[at["adt"]]["constructors"]}
            fields = by_name.get(value.constructor)
            if fields is None or len(fields) != len(value.fields):
                _NoMaker(self.importer, at).mismatch(value)
            if not fields or types[fields[-1]]["kind"] != "adt":
                handle = _combine(lib.rvm_value_adt, self._fields(value.fields, fields), value.constructor)
                break
            made.append((value.constructor, self._fields(value.fields[:-1], fields[:-1])))
            value, last_type, at = value.fields[-1], fields[-1], types[fields[-1]]
        for constructor, fields in reversed(made):
            handle = _combine(lib.rvm_value_adt, [*fields, handle], constructor)
        return handle

    def _fields(self, values, types):
        return [self.importer.handle(value, type_) for value, type_ in zip(values, types)]


class _FunctionMaker(_NoMaker):
    """Of a type of functions: takes what Python can call, and closures of the machine."""

    def __call__(self, value):
        if isinstance(value, Closure) and value._handle is not None:
            return value._handle
        if not callable(value):
            self.mismatch(value)
        key, out = lend(_HostFunction(value, self.importer, self.type)), ctypes.c_void_p()
        check(lib.rvm_value_function(_call_host, give_back, key, ctypes.byref(out)))
        return Handle(out.value)


class _HostFunction:
    """A function of Python as one of the host."""

    def __init__(self, function, importer, type_):
        self.function, self.importer, self.type = function, importer, type_

    def call(self, args, count):
        """The result for a C array of arguments, as a Handle."""
        values = [from_handle(Handle(lib.rvm_value_retain(args[i]), _run.session)) for i in range(count)]
        result = self.function(*values)
        type_ = self.importer.types[self.type["result"]]
        if result is None and type_["kind"] == "tuple" and not type_["fields"]:
            result = ()
        try:
            return self.importer.handle(result, self.type["result"])
        except InvalidArgument as error:
            raise InvalidArgument(f"the result of {self.function!r}: {error.message}", error.code) from error.__cause__


class _Run(threading.local):
    """The run of this thread: its session, and the exception of a function of the host that ends it."""

    session = error = None


_run = _Run()


@FUNCTION
def _call_host(key, args, count, out):
    try:
        result = _lent[key].call(args, count)
        out[0] = lib.rvm_value_retain(result.pointer)
        return None
    except BaseException as error:
        _run.error = error
        return lib.rvm_error_create(f"{type(error).__name__}: {error}".encode())


def take_raised():
    """The exception that ended the latest run of this thread, if a function of the host raised one; else None."""
    error, _run.error = _run.error, None
    return error


def enter_session(session):
    """Sets the session of the run of this thread. Returns that of the run around it, or None."""
    outer, _run.session = _run.session, session
    return outer


class _ListMaker(_NoMaker):
    """Of `List[A]`: takes sequences, and arrays whose slices along the first axis are the elements."""

    def __init__(self, importer, type_, adt_maker):
        super().__init__(importer, type_)
        self.adt_maker = adt_maker
        self.element = next(c["fields"][0] for c in importer.adts[type_["adt"]]["constructors"] if c["name"] == "Cons")
        element = importer.types[self.element]
        is_plain = element["kind"] == "tensor" and element["dtype"] not in EXTENSION_CODES
        self.element_maker = _TensorMaker(importer, element) if is_plain else None

    @staticmethod
    def fits(importer, type_id):
        fields = {c["name"]: c["fields"] for c in importer.adts[importer.types[type_id]["adt"]]["constructors"]}
        return fields.keys() == {"Cons", "Nil"} and len(fields["Cons"]) == 2 and fields["Cons"][1] == type_id

    def __call__(self, value):
        if isinstance(value, Adt):
            return self.adt_maker(value)
        if isinstance(value, range):
            value = numpy.arange(value.start, value.stop, value.step)
        elif not isinstance(value, (list, tuple, numpy.ndarray)):
            if not hasattr(value, "__dlpack__") and not hasattr(value, "__array__"):
                self.mismatch(value)
            value = as_array(value)
        array = self._array(value)
        if array is None:
            handles = [self.importer.handle(element, self.element) for element in value]
            return _combine(lib.rvm_value_list, handles)
        slices, out = _in_rows(array, self.element_maker.dtype), ctypes.c_void_p()
        check(lib.rvm_value_list_from_tensor(slices.pointer, ctypes.byref(out)))
        return Handle(out.value)

    def _array(self, value):
        """All elements as one array; None if they are not alike, or one of them is wrong, which making it says."""
        if self.element_maker is None or len(value) == 0:
            return None
        wanted, given = self.element_maker.wanted, value
        if not isinstance(value, numpy.ndarray):
            if not isinstance(value[0], (bool, int, float, numpy.number, numpy.bool_)):
                return None
            try:
                value = numpy.asarray(value)
            except (ValueError, TypeError, OverflowError):
                return None
        if value.ndim != 1 + self.element_maker.rank:
            return None
        if value.dtype != wanted:
            if self.element_maker.rank != 0 or not _may_convert(value, wanted, isinstance(given, numpy.ndarray)):
                return None
            value = value.astype(wanted)
        return numpy.ascontiguousarray(value)


def _may_convert(array, wanted, is_typed):
    """Whether numbers may become those of the dtype: integers that it holds, and, of Python's numbers, floats of any
    width. `is_typed`: somebody chose the dtype of the array."""
    if wanted.kind in "iu" and array.dtype.kind in "iu":
        limits = numpy.iinfo(wanted)
        return limits.min <= array.min() and array.max() <= limits.max
    return not is_typed and wanted.kind == "f" and array.dtype.kind in "iuf"


def _combine(make, handles, *name):
    out = ctypes.c_void_p()
    check(make(*(n.encode() for n in name), pointers(handles), len(handles), ctypes.byref(out)))
    return Handle(out.value)


def _describe(value):
    if isinstance(value, numpy.ndarray):
        return f"an array of {value.dtype} of shape {value.shape}"
    if isinstance(value, Adt):
        return f"`{value.constructor}` of {len(value.fields)} fields"
    text = repr(value)
    return f"{type(value).__name__} {text if len(text) < 60 else text[:57] + '...'}"
