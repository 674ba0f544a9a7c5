"""The Python packages: values, errors, threads, cancelling, pickles, docstrings, documents, wheels."""

import ast
import asyncio
import contextlib
import copy
import ctypes
import gc
import doctest
import hashlib
import importlib
import importlib.util
import inspect
import io
import json
import mmap
import os
import pickle
import re
import struct
import sys
import tempfile
import threading
import unittest
import unittest.mock
import zipfile

import numpy

import relayvm as tools
import tensorflow_test
import tflite_test
import torch_test

PYTHON = os.path.join(tools.ROOT, "python")
VALUES = os.path.join(tools.ROOT, "tests/embed/values.relay")


def packages():
    """The package `relayvm`, on the libraries of this tree. The tests' own relayvm.py has the same name."""
    os.environ["RELAYVM_LIBRARY"] = tools.built("//capi:librelayvm.so.1")
    os.environ["RELAYVM_COMPILER_LIBRARY"] = tools.built("//capi/compiler:librelayvm_compiler.so.1")
    for folder in ("runtime", "compiler"):
        sys.path.insert(0, os.path.join(PYTHON, folder))
    own = sys.modules.pop("relayvm")
    try:
        return importlib.import_module("relayvm")
    finally:
        sys.modules["relayvm.tests"] = own


class ForeignTensor:
    """An array of any DLPack dtype, as another library would hand it over; it counts what was made and given back."""

    def __init__(self, array, code, versioned, read_only=False, device=1):
        self.array, self.code, self.versioned, self.read_only, self.device = array, code, versioned, read_only, device
        self.made = self.deleted = 0
        self.kept = []

    def __dlpack__(self, **options):
        if not self.versioned and options:
            raise TypeError("__dlpack__() got an unexpected keyword argument")
        from relayvm_runtime import _dlpack
        array, rank = self.array, self.array.ndim
        shape = (ctypes.c_int64 * rank)(*array.shape)
        strides = (ctypes.c_int64 * rank)(*(stride // array.itemsize for stride in array.strides))
        tensor = _dlpack._Tensor(array.ctypes.data, _dlpack._Device(self.device, 0), rank,
                                 _dlpack.DType(self.code, array.itemsize * 8, 1), shape, strides, 0)

        @ctypes.CFUNCTYPE(None, ctypes.c_void_p)
        def delete(_):
            self.deleted += 1

        deleter = ctypes.cast(delete, ctypes.c_void_p)
        managed = (_dlpack._Versioned(1, 0, None, deleter, int(self.read_only), tensor) if self.versioned
                   else _dlpack._Managed(tensor, None, deleter))
        self.kept.append((shape, strides, delete, managed))
        self.made += 1
        name = _dlpack._VERSIONED_NAME if self.versioned else _dlpack._NAME
        return _dlpack._new_capsule(ctypes.addressof(managed), name, ctypes.cast(_drop, ctypes.c_void_p))


@ctypes.PYFUNCTYPE(None, ctypes.c_void_p)
def _drop(capsule):
    from relayvm_runtime import _dlpack
    for name, structure in ((_dlpack._NAME, _dlpack._Managed), (_dlpack._VERSIONED_NAME, _dlpack._Versioned)):
        if _dlpack._is_valid_dying(capsule, name):
            _dlpack._delete(structure, _dlpack._pointer_of_dying(capsule, name))


def taken(capsule):
    """The tensor of a versioned capsule, as a library that takes it over sees it."""
    from relayvm_runtime import _dlpack
    address = _dlpack._pointer_of(capsule, b"dltensor_versioned")
    _dlpack._rename(capsule, b"used_dltensor_versioned")
    return _dlpack._Versioned.from_address(address)


class WithPackages:
    """A test case in which `relayvm` is the package, `cls.vm`, and not the tools of the tests."""

    @classmethod
    def setUpClass(cls):
        cls.own = sys.modules["relayvm"]
        cls.vm = packages()

    @classmethod
    def tearDownClass(cls):
        sys.modules["relayvm"] = cls.own


class Python(WithPackages, tools.TestCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        entries = ["scale", "total", "first", "pair", "count", "grow"]
        cls.program = cls.vm.compile(VALUES, target="portable", entries=entries)

    def test_options_of_an_older_caller(self):
        """Fields that its struct lacks have their defaults."""
        library = ctypes.CDLL(os.environ["RELAYVM_LIBRARY"])
        runtime = sys.modules["relayvm_runtime._library"]
        options = runtime.LoadOptions(runtime.LoadOptions.device.offset, 1, None, 0, b"no such device", 0)
        data, out = self.program.tobytes(), ctypes.c_void_p()
        load = runtime.declare(library, {"rvm_program_load": (ctypes.c_void_p, [ctypes.c_char_p, ctypes.c_size_t, ctypes.POINTER(runtime.LoadOptions), runtime.OUT])}).rvm_program_load
        self.assertIsNone(load(data, len(data), ctypes.byref(options), ctypes.byref(out)))
        options.struct_size = ctypes.sizeof(options)
        self.assertIsNotNone(load(data, len(data), ctypes.byref(options), ctypes.byref(out)))

    def test_values(self):
        program = self.program
        x = numpy.arange(6, dtype="float32").reshape(3, 2)
        y = program["scale"](x)
        numpy.testing.assert_array_equal(y, x * 2)
        self.assertFalse(y.flags.writeable)
        numpy.testing.assert_array_equal(program["scale"](x[::-1]), x[::-1] * 2)  # not contiguous
        self.assertEqual(program["total"]([1, 2, 3]), 6)
        items, ref = program["pair"]([1, 2])
        self.assertEqual(list(items), [1, 2])
        self.assertEqual(ref, self.vm.Ref(7))
        self.assertEqual(repr(program), "\n".join(f"@{n}: {t}" for n, t in program.entries.items()))

    def test_memory_is_lent_not_copied(self):
        from relayvm_runtime import _arguments, _values
        x = numpy.ones((400, 2), "float32")
        before = len(_arguments._lent)
        handle = _arguments.tensor(x)
        self.assertEqual(numpy.asarray(_values.from_handle(handle)).ctypes.data, x.ctypes.data)
        del handle
        self.assertEqual(len(_arguments._lent), before)

    def test_long_lists(self):
        items = self.program["pair"](list(range(50000)))[0]
        self.assertEqual(len(items), 50000)
        self.assertTrue(pickle.loads(pickle.dumps(items)) == items)

    def test_lists_of_arrays(self):
        """Vectors, ranges and integers of any width, as numpy, Arrow and tokenizers hand them out."""
        total, first = self.program["total"], self.program["first"]
        for given in (numpy.array([1, 2, 3], "int32"), numpy.array([1, 2, 3]), list(numpy.array([1, 2, 3])), range(1, 4),
                      (numpy.int8(1), 2, numpy.uint64(3)), numpy.array([3, 2, 1], "uint8")[::-1], [1, True, 4]):
            with self.subTest(given):
                self.assertEqual(total(given), 6)
        self.assertEqual(first([numpy.int64(5)]), 5)
        self.assertEqual(total([]), 0)
        self.assertEqual(total(numpy.zeros(0, "int32")), 0)
        self.assertEqual(self.program["count"](numpy.int64(3)), 0)
        for given, part in [(numpy.array([1.0, 2.0]), "float64"), (numpy.array([2**40]), "1099511627776"),
                            ([numpy.int64(1), 2.5], "float 2.5"), (numpy.ones((2, 2), "int32"), "expected int32"),
                            ("12", "str"), (5, "int 5"), ([[1]], "shape (1,)"), (["1"], "<U1")]:
            with self.subTest(given), self.assertRaises(self.vm.InvalidArgument) as caught:
                total(given)
            self.assertIn(part, str(caught.exception))

    def test_lists_of_tensors(self):
        rows = self.vm.compile("""
            type List[A] { Cons(A, List[A]), Nil, }
            def @main(%l: List[Tensor[(?), float32]]) { %l }
            def @pairs(%l: List[(int32, float32)]) { %l }
            def @flags(%l: List[bool]) { %l }""", target="portable", entries=["main", "pairs", "flags"])
        given = numpy.arange(6, dtype="float32").reshape(3, 2)
        for rows_given in (given, list(given), given.tolist(), given[::-1][::-1]):
            result = rows(rows_given)
            self.assertEqual(len(result), 3)
            numpy.testing.assert_array_equal(numpy.asarray(result), given)
            numpy.testing.assert_array_equal(list(result)[1], given[1])
        ragged = [numpy.ones(2, "float32"), numpy.ones(3, "float32")]
        self.assertEqual([x.size for x in rows(ragged)], [2, 3])
        with self.assertRaises(self.vm.InvalidArgument):
            rows(given.astype("float64"))
        self.assertEqual([tuple(pair) for pair in rows["pairs"]([(1, 2.5), (3, 4)])], [(1, 2.5), (3, 4)])
        self.assertEqual(list(rows["flags"]([0, True, numpy.bool_(1)])), [False, True, True])
        empty = rows([])
        self.assertEqual((len(empty), list(empty), numpy.asarray(empty).size), (0, [], 0))

    def test_lists_are_equal_however_they_are_given(self):
        """All forms of the same numbers, in every dtype, are the same list."""
        for dtype in ("int8", "uint8", "int16", "int32", "int64", "uint64", "float16", "float32", "float64", "bool"):
            same = self.vm.compile("type List[A] { Cons(A, List[A]), Nil, }\n"
                                   f"def @main(%l: List[{dtype}]) {{ %l }}", target="portable")
            array = numpy.array([0, 1, 1, 0], dtype)
            for given in (array, list(array), array.tolist(), tuple(array.tolist()), same(array)):
                result = numpy.asarray(same(given))
                self.assertEqual(result.dtype, array.dtype)
                numpy.testing.assert_array_equal(result, array)

    def test_parameters_of_any_name(self):
        vm = self.vm
        self.assertEqual(vm.compile("def @main(%entry: int32) { %entry }", target="portable")(entry=3), 3)
        program = vm.compile("def @main(%self: int32, %entry: int32) { %self - %entry }", target="portable")
        self.assertEqual(program(self=5, entry=3), 2)
        self.assertEqual(program["main"](entry=3, self=5), 2)
        self.assertEqual(program.session()["main"](self=5, entry=3), 2)

    def test_limits_of_calls(self):
        vm, endless = self.vm, 10**9
        for limits, error, name in (({"fuel": 1000}, vm.ResourceExhausted, "fuel"),
                                    ({"time_limit": 0.02}, vm.DeadlineExceeded, "time")):
            with self.assertRaises(error) as caught:
                self.program.with_limits(**limits)["count"](endless)
            self.assertEqual(caught.exception.limit, name)
        limited = self.program.with_limits(fuel=1000)
        self.assertEqual(limited.with_limits(fuel=10**6)["count"](5000), 0)
        with self.assertRaises(vm.ResourceExhausted):
            pickle.loads(pickle.dumps(limited))["count"](5000)
        self.assertEqual(self.program["count"](5000), 0)
        with self.assertRaises(vm.ResourceExhausted):
            self.program.with_limits(memory_limit=1 << 20)["grow"](10**6)
        with self.assertRaises(vm.InvalidArgument):
            self.program.with_limits(fuel=0)

    def test_control(self):
        text = "def @main(%x: int64) -> float64 { if (%x == 0i64) { 0f64 } else { 1f64 + @main(%x - 1i64) } }"
        program, bytecode = (self.vm.compile(text, control=control) for control in ("native", "bytecode"))
        self.assertGreater(len(program.tobytes()), len(bytecode.tobytes()))
        self.assertEqual(program.with_limits(control="bytecode")(100), 100)

        def depth(control):
            """How many calls fit on a small stack: frames have other sizes as bytecode."""
            least, most = 1, 10**6
            with program.session(stack_limit=1 << 18, control=control) as session:
                while most - least > 1:
                    middle = (least + most) // 2
                    try:
                        session["main"](middle)
                        least = middle
                    except self.vm.ResourceExhausted:
                        most = middle
            return least
        self.assertEqual(depth("native"), depth(None))
        self.assertNotEqual(depth("native"), depth("bytecode"))
        with self.assertRaisesRegex(self.vm.CompileError, "saw the control `fast`; expected `native` or `bytecode`"):
            self.vm.compile(text, control="fast")
        for limited in (program.session, program.with_limits):
            with self.assertRaisesRegex(self.vm.InvalidArgument, "`control` is 'fast'"):
                limited(control="fast")

    def test_signatures(self):
        text = """def @main(%x: Tensor[(n, 3, n + 1), float32], %y: (int32, bool), %z: Tensor[(?), int8], result_names=["a", "b/c:0"]) { (%x, %y) }
def @one(%x: int64) -> Tensor[(2), float16] { zeros(shape=[2], dtype="float16") }"""
        program = self.vm.compile(text, target="portable", entries=["main", "one"])
        inputs, outputs = program.signature
        self.assertEqual([(x.name, x.dtype, x.shape) for x in inputs],
                         [("x", "float32", ("n", 3, "n + 1")), ("y", None, None), ("z", "int8", (None,))])
        self.assertEqual([(x.name, x.type, x.dtype, x.shape) for x in outputs],
                         [("a", "Tensor[(?, 3, ?), float32]", "float32", (None, 3, None)), ("b/c:0", "(int32, bool)", None, None)])
        for signature in (program["one"].signature, program.session()["one"].signature, pickle.loads(pickle.dumps(program))["one"].signature):
            self.assertEqual(signature.outputs, (self.vm.Argument("result", "Tensor[(2), float16]", "float16", (2,)),))
        text = "def @main(%x: int32, result_names=NAMES) { (%x, %x) }"
        for names in ('["a"]', '["a", 1]', '"a"', '["a", "b", "c"]'):
            with self.assertRaises(self.vm.CompileError) as caught:
                self.vm.compile(text.replace("NAMES", names), target="portable")
            self.assertIn("expected a list of 2 strings", str(caught.exception))

    def test_outputs_of_onnx_have_their_names(self):
        from onnx import TensorProto, helper
        values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n"]) for name in ("x", "label:0", "probabilities")]
        graph = helper.make_graph([helper.make_node("Abs", ["x"], ["label:0"]), helper.make_node("Neg", ["x"], ["probabilities"])],
                                  "g", values[:1], values[1:])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
        program = self.vm.compile(self.vm.import_onnx(model), target="portable")
        self.assertEqual([output.name for output in program.signature.outputs], ["label:0", "probabilities"])
        again = self.vm.compile(self.vm.parse(self.vm.import_onnx(model).text), target="portable")
        self.assertEqual(again.signature, program.signature)

    def test_shared_extents(self):
        """Arguments that do not fit each other are the caller's fault."""
        program = self.vm.compile("def @main(%x: Tensor[(n, 3), float32], %y: Tensor[(n, m), float32], %z: Tensor[(m, m), float32]) "
                                  "{ (%x, %y, %z) }", target="portable")
        def ones(*shape):
            return numpy.ones(shape, "float32")
        program(ones(2, 3), ones(2, 4), ones(4, 4))
        for args, part in [((ones(2, 3), ones(3, 4), ones(4, 4)), "argument 2 of `main`: axis 0 of `%y`, declared `n`: "
                            "the extent 3 differs from 2, that of axis 0 of `%x`"),
                           ((ones(2, 3), ones(2, 4), ones(5, 5)), "axis 0 of `%z`"),
                           ((ones(2, 3), ones(2, 4), ones(4, 5)), "axis 1 of `%z`, declared `m`")]:
            with self.assertRaises(self.vm.InvalidArgument) as caught:
                program(*args)
            self.assertIn(part, str(caught.exception))
            self.assertEqual(caught.exception.code, "invalid-argument")

    def test_sources(self):
        data = self.program.tobytes()
        with tempfile.TemporaryFile() as file:
            file.write(data)
            file.flush()
            file.seek(0)
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
                sources = (data, bytearray(data), memoryview(data), numpy.frombuffer(data, "uint8"), io.BytesIO(data), file, mapped)
                for source in sources:
                    with self.subTest(type(source)):
                        program = self.vm.load(source)
                        self.assertEqual(program["total"]([1, 2]), 3)
                        self.assertEqual(program.tobytes(), data)
                        del program
                        gc.collect()
        for source in (data, io.BytesIO(data)):
            self.vm.verify(source)

    def test_sessions_close(self):
        with self.program.session() as session:
            self.assertEqual(session["total"]([1, 2]), 3)
        with self.assertRaises(self.vm.InvalidArgument):
            session["total"]([1, 2])
        with self.assertRaises(KeyError):
            session["nothing"]

    def test_tasks_of_an_executable(self):
        async def main():
            results = await asyncio.gather(*(self.program["count"].call_async(10**5) for _ in range(8)))
            task = asyncio.create_task(self.program["count"].call_async(2 * 10**9))
            await asyncio.sleep(0.01)
            task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await task
            return results

        self.assertEqual(asyncio.run(main()), [0] * 8)

    def test_wrong_arguments(self):
        vm, program = self.vm, self.program
        for entry, args, part in [("scale", [numpy.ones((3, 2))], "saw an array of float64"), ("scale", [1.0], "Tensor"),
                                  ("total", [vm.adt("Snoc")()], "`Snoc`"), ("total", [[1.5]], "expected int32"),
                                  ("total", [], "no value for l"), ("total", [[], 2], "saw 2 arguments"),
                                  ("total", [None], "NoneType"), ("count", [2**40], "int32")]:
            with self.subTest(entry=entry, args=args):
                with self.assertRaises(vm.InvalidArgument) as caught:
                    program[entry](*args)
                self.assertIn(part, str(caught.exception))
        with self.assertRaises(KeyError):
            program["nothing"]
        for source, error in [(b"", vm.InvalidFile), ("/nowhere.rvm", vm.FileError)]:
            with self.assertRaises(error):
                vm.load(source)
            with self.assertRaises(error):
                vm.verify(source)

    def test_wrong_types(self):
        vm, text = self.vm, "def @main() { 1 }"
        for call, part in [(lambda: vm.compile(5), "saw int"), (lambda: vm.compile(None), "saw NoneType"),
                           (lambda: vm.compile(text, entries="main"), "entries is a list"),
                           (lambda: vm.load(b"", trusted_keys="mine.pub"), "trusted_keys is a list"),
                           (lambda: vm.load(5), "int"), (lambda: vm.import_onnx(None), "NoneType"),
                           (lambda: self.program.session(fuel="much"), "str"), (lambda: self.program.session(full=1), "full")]:
            with self.assertRaisesRegex(TypeError, part):
                call()
        with self.assertRaises(vm.InvalidArgument) as caught:
            self.program["count"](1.5)
        self.assertEqual(str(caught.exception), "argument 1 (`%n`) of `count`: saw float 1.5; expected int32")

    def test_entries_given_twice(self):
        program = self.vm.compile("def @main() { 1 }", entries=["main", "main"], target="portable")
        self.assertEqual(list(program.entries), ["main"])

    def test_what_owns_memory_of_the_machine_is_not_copied(self):
        session = self.program.session(profile=True)
        for value in (session, self.program["pair"]([1])[0]._handle):
            for copy_of in (pickle.dumps, copy.copy, copy.deepcopy):
                with self.assertRaisesRegex(TypeError, "cannot be copied or pickled"):
                    copy_of(value)
        self.assertEqual(copy.deepcopy(self.program)["total"]([1, 2]), 3)
        self.assertEqual(pickle.loads(pickle.dumps(self.program["total"]))([1, 2]), 3)

    def test_text_that_is_no_utf8(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "a.relay")
            with open(path, "wb") as file:
                file.write(b"def @main() { \xff }")
            for source, shown, column in ((path, "\\xff", 15), ("def @main() { \0 }", "\\x00", 15)):
                with self.assertRaises(self.vm.CompileError) as caught:
                    self.vm.compile(source)
                error = caught.exception.diagnostics[0]
                self.assertEqual((error.kind, error.column), ("bad-character", column))
                self.assertIn(f"unexpected character `{shown}`", str(caught.exception))

    def test_names_of_models_that_are_no_utf8(self):
        import onnx
        from onnx import helper
        value = helper.make_tensor_value_info
        nodes = [helper.make_node("Add", ["xQQ", "y"], ["zQQ"], name="addQQ"), helper.make_node("OpQQ", ["zQQ"], ["w"], domain="own")]

        def model(*used):
            graph = helper.make_graph(used, "gQQ", [value(name, onnx.TensorProto.FLOAT, ["nQQ"]) for name in ("xQQ", "y")],
                                      [value(used[-1].output[0], onnx.TensorProto.FLOAT, None)])
            return helper.make_model(graph).SerializeToString().replace(b"QQ", b"\xff\0")

        self.assertIn("Add node `add\\xff\\x00`", self.vm.import_onnx(model(nodes[0])).text.replace("\\\\", "\\"))
        with self.assertRaisesRegex(self.vm.ImportFailed, r"own\.Op\\xff\\x00: this operator"):
            self.vm.import_onnx(model(*nodes))
        self.assertEqual([use.supported for use in self.vm.coverage(model(*nodes))], [True, False])

    def test_what_is_given_of_inputs(self):
        import onnx
        from onnx import helper
        f32, i64 = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64
        value = helper.make_tensor_value_info
        graph = helper.make_graph([helper.make_node("ReduceSum", ["x", "axes"], ["y"])], "g",
                                  [value("x", f32, ["n", 4]), value("axes", i64, [1])], [value("y", f32, None)])
        model = helper.make_model(graph)
        for axes in (0, [0], numpy.array([0], "int32")):
            module = self.vm.import_onnx(model, freeze={"axes": axes}, inputs={"x": (None, "k")})
            self.assertEqual(self.vm.compile(module, target="portable")(numpy.ones((3, 2), "float32")).tolist(), [[3, 3]])
        for given, part in [({"freeze": {"axes": [0.5]}}, "saw float64; expected int64"),
                            ({"freeze": {"axes": [[0]]}}, r"saw the shape \(1, 1\); expected the shape \(1\)"),
                            ({"inputs": {"x": (-1, 4)}}, "saw the extent `-1`"), ({"inputs": {"x": (1.5, 4)}}, "saw the extent `1.5`"),
                            ({"inputs": {"z": (1, 4)}}, "no input `z`"), ({"inputs": {"x": (1,)}}, "rank")]:
            with self.assertRaisesRegex(self.vm.ImportFailed, part):
                self.vm.import_onnx(model, **{"freeze": {"axes": [0]}, **given})

    def test_errors_of_programs(self):
        with self.assertRaises(self.vm.ProgramFailed) as caught:
            self.program["first"]([])
        self.assertIn("in `first` at ", caught.exception.backtrace)
        for limits, entry, limit in [({"fuel": 100}, "count", "fuel"), ({"memory_limit": 1 << 20}, "grow", "memory")]:
            with self.assertRaises(self.vm.ResourceExhausted) as caught:
                self.program.session(**limits)(2 * 10**9, entry=entry)
            self.assertEqual(caught.exception.limit, limit)
        with self.assertRaises(self.vm.DeadlineExceeded):
            self.program.session(time_limit=0.02)(2 * 10**9, entry="count")

    def test_compile_errors(self):
        with self.assertRaises(self.vm.CompileError) as caught:
            self.vm.compile("def @main(%x: int32) -> int32 {\n  %y + %z\n}")
        lines = [(d.line, d.column) for d in caught.exception.diagnostics if d.severity == "error"]
        self.assertEqual(lines, [(2, 3), (2, 8)])
        self.assertTrue(pickle.loads(pickle.dumps(caught.exception)).message)
        with self.assertRaises(self.vm.ImportFailed):
            self.vm.import_onnx(b"no model")
        with self.assertRaises(self.vm.ImportFailed):
            self.vm.import_torch(b"no model")
        with self.assertRaises(TypeError):
            self.vm.import_torch("model.pt2", (1,))

    @unittest.skipIf(importlib.util.find_spec("flatbuffers") is None, "the Python package flatbuffers is not installed")
    def test_tflite(self):
        writer = tflite_test.Writer()
        x, y = writer.tensor("x", [2]), writer.tensor("y", [2])
        writer.node("RELU", [x], [y])
        content = writer.build([x], [y])
        self.assertEqual(self.vm.compile(self.vm.import_tflite(content))([1, -2]).tolist(), [1, 0])
        self.assertEqual(self.vm.coverage(content), [self.vm.OperatorUse("RELU", 1, 0, [])])
        with tempfile.TemporaryDirectory() as folder:
            for ending in ("tflite", "bin"):
                path = os.path.join(folder, f"model.{ending}")
                with open(path, "wb") as file:
                    file.write(content)
                self.assertEqual(self.vm.import_tflite(path).text.count("nn.relu"), 1)
            self.assertEqual(self.vm.compile(os.path.join(folder, "model.tflite"))([3, -2]).tolist(), [3, 0])
        with self.assertRaises(self.vm.ImportFailed):
            self.vm.import_tflite(b"no model")

    def test_tf(self):
        graph = tensorflow_test.message(tensorflow_test.X, tensorflow_test.node("y", "Relu", "x"))
        self.assertEqual(self.vm.compile(self.vm.import_tf(graph))([1, -2]).tolist(), [1, 0])
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "graph.pb")
            with open(path, "wb") as file:
                file.write(graph)
            self.assertEqual(self.vm.compile(path)([3, -2]).tolist(), [3, 0])
            model = tensorflow_test.models()["dense.saved"]
            for name, content in model["file"].items():
                os.makedirs(os.path.dirname(os.path.join(folder, name)), exist_ok=True)
                with open(os.path.join(folder, name), "wb") as file:
                    file.write(bytes(content))
            for compiled in (self.vm.compile(self.vm.import_tf(folder)), self.vm.compile(folder)):
                numpy.testing.assert_allclose(compiled(model["in"]["0"]), model["out"]["0"], rtol=1e-4)
            names = ["a", "b"]
            with open(os.path.join(folder, "saved_model.pb"), "wb") as file:
                file.write(tensorflow_test.saved({"a": ("x", "y"), "b": ("x", "z")}, tensorflow_test.X, tensorflow_test.node("y", "Relu", "x"),
                                                 tensorflow_test.node("z", "Neg", "x")))
            self.assertEqual(self.vm.compile(self.vm.import_tf(folder, signature="b"))([1, -2]).tolist(), [-1, 2])
            self.assertEqual(self.vm.compile(self.vm.import_file(folder, signature=names))["b"]([1, -2]).tolist(), [-1, 2])
            self.assertEqual([use.name for use in self.vm.coverage(folder, signature=names)], ["Neg", "Placeholder", "Relu"])
            with self.assertRaisesRegex(self.vm.ImportFailed, "choose by --signature"):
                self.vm.import_tf(folder)
        with self.assertRaisesRegex(self.vm.ImportFailed, "the file is malformed"):
            self.vm.import_tf(b"no model")

    def test_keras(self):
        path = os.path.join(tools.ROOT, "tests/keras/dense.keras")
        with open(path, "rb") as file:
            content = file.read()
        arrays = numpy.load(os.path.join(tools.ROOT, "tests/keras/dense.npz"))
        for model in (path, content):
            output = self.vm.compile(self.vm.import_keras(model))(arrays["0.in.0"])
            numpy.testing.assert_allclose(output, arrays["0.out.0"], rtol=1e-5)
        self.assertEqual(self.vm.coverage(content), [self.vm.OperatorUse("BatchNormalization", 1, 0, []), self.vm.OperatorUse("Dense", 2, 0, [])])
        with open(os.path.join(tools.ROOT, "tests/keras/dense.h5"), "rb") as file:
            self.assertEqual(len(self.vm.coverage(file.read())), 2)
        with self.assertRaisesRegex(self.vm.ImportFailed, "it is no HDF5 file"):
            self.vm.import_keras(b"no model")

    def test_weights_of_their_own(self):
        """DarkNet and MXNet: a model and its weights, as paths and as bytes."""
        config = b"[net]\ninputs=2\n[connected]\noutput=1\nactivation=linear\n"
        weights = struct.pack("<3iq3f", 0, 2, 0, 0, 1, 2, 3)
        array = struct.pack("<IiIqqiiI2f", 0xF993FAC9, 0, 2, 1, 2, 1, 0, 0, 2, 3)
        params = struct.pack("<QQQ", 0x112, 0, 1) + array + struct.pack("<QQ", 1, 1) + b"w"
        symbol = json.dumps({"nodes": [{"op": "null", "name": "x", "inputs": []}, {"op": "null", "name": "w", "inputs": []},
                                       {"op": "dot", "name": "y", "attrs": {"transpose_b": "True"}, "inputs": [[0, 0, 0], [1, 0, 0]]}],
                             "heads": [[2, 0, 0]]})
        shape = {"x": ("n", 2)}
        with tempfile.TemporaryDirectory() as folder:
            paths = {name: os.path.join(folder, name) for name in ("m.cfg", "m.weights", "m-symbol.json", "m-0000.params")}
            for path, content in zip(paths.values(), (config, weights, symbol.encode(), params)):
                with open(path, "wb") as file:
                    file.write(content)
            for module in (self.vm.import_darknet(config, weights), self.vm.import_darknet(paths["m.cfg"]), self.vm.import_darknet(config, paths["m.weights"]),
                           self.vm.import_file(paths["m.cfg"])):
                self.assertEqual(self.vm.compile(module)([[1, 2]]).tolist(), [[9]])
            for module in (self.vm.import_mxnet(symbol, params, inputs=shape), self.vm.import_mxnet(paths["m-symbol.json"], inputs=shape),
                           self.vm.import_mxnet(symbol.encode(), paths["m-0000.params"], inputs=shape), self.vm.import_file(paths["m-symbol.json"], inputs=shape)):
                self.assertEqual(self.vm.compile(module)([[1, 2]]).tolist(), [[8]])
            self.assertEqual(self.vm.coverage(paths["m.cfg"]), [self.vm.OperatorUse("connected", 1, 0, [])])
        with self.assertRaisesRegex(self.vm.ImportFailed, "its weights are missing"):
            self.vm.import_darknet(config)
        with self.assertRaisesRegex(self.vm.ImportFailed, "give the shape of an input"):
            self.vm.import_mxnet(symbol, params)

    def test_progress(self):
        text = "def @main(%x: Tensor[(n), float32]) { (sum(%x), sort(%x), tanh(%x)) }"
        for level in range(4):
            seen = []
            self.vm.compile(text, opt_level=level, progress=lambda *stage: seen.append(stage))
            self.assertEqual(list(dict.fromkeys(stage for stage, _, _ in seen)), ["passes", "kernels"])
            kernels = [(done, total) for stage, done, total in seen if stage == "kernels"]
            self.assertEqual((kernels[0][0], kernels[-1][0]), (0, kernels[-1][1]))
            self.assertTrue(all(done <= total for _, done, total in seen))
        with self.assertRaises(KeyError):
            self.vm.compile(text, progress=lambda *_: {}["no"])

    def test_progress_on_a_terminal(self):
        from relayvm import _compiler

        class Terminal(io.StringIO):
            def isatty(self):
                return True

        with unittest.mock.patch.object(sys, "stderr", Terminal()) as terminal:
            bar = _compiler._Bar(delay=0)
            for done in (1, 2, 3):
                bar("passes", done, 3)
            bar("kernels", 1, 4)
            bar._bar.refresh()
            bar.close()
            self.assertRegex(terminal.getvalue(), r"kernels +25%\|.*\| 1/4 ")
            shown = terminal.getvalue()
            self.vm.compile("def @main() { 1 }")  # too short to show anything
            self.assertEqual(terminal.getvalue(), shown)
        with unittest.mock.patch.object(sys, "stderr", io.StringIO()) as file:
            bar = _compiler._Bar(delay=0)
            bar("kernels", 1, 4)
            bar.close()
            self.assertEqual(file.getvalue(), "")

    def test_exported_programs(self):
        """Without PyTorch, also one whose loop has a dynamic number of steps."""
        folder = os.path.join(tools.ROOT, "tests/torch")
        for name in ("mlp", "lstm_steps"):
            cases = numpy.load(f"{folder}/{name}.npz")
            model = self.vm.compile(self.vm.import_torch(f"{folder}/{name}.pt2"), target="portable")
            outputs = model(cases["1.in.0"])
            numpy.testing.assert_allclose(outputs[0] if name == "lstm_steps" else outputs, cases["1.out.0"],
                                          rtol=1e-4, atol=1e-5)

    def test_files_and_pickles(self):
        native = self.vm.compile("def @main(%x: Tensor[(n), float32]) -> Tensor[(n), float32] { tanh(%x) + 1f }")
        again = pickle.loads(pickle.dumps(native))
        numpy.testing.assert_array_equal(again([0.5, 1]), native([0.5, 1]))
        with self.assertRaises(self.vm.UntrustedCode):
            self.vm.load(native.tobytes())
        with tempfile.TemporaryDirectory() as folder:
            native.save(f"{folder}/x.rvm")
            self.vm.verify(f"{folder}/x.rvm")
            numpy.testing.assert_array_equal(self.vm.load(f"{folder}/x.rvm")([0.5]), native([0.5]))

    def test_signed_files(self):
        vm = self.vm
        native = vm.compile("def @main(%x: Tensor[(n), int32]) -> Tensor[(n), int32] { %x + 1 }", target="x86-64-v2")
        with tempfile.TemporaryDirectory() as folder:
            for name in ("mine", "other"):
                tools.must(tools.COMPILER, "keygen", f"{folder}/{name}")
            with open(f"{folder}/mine.key", encoding="ascii") as file:
                secret = bytes.fromhex(file.read().split()[1])
            for key in (f"{folder}/mine.key", secret):
                native.save(f"{folder}/x.rvm", sign_with=key)
                tools.must(tools.COMPILER, "verify", f"{folder}/x.rvm", "--key", f"{folder}/mine.pub")
                program = vm.load(f"{folder}/x.rvm", allow_native=False, trusted_keys=[f"{folder}/mine.pub"])
                self.assertEqual(program([2])[0], 3)
                self.assertEqual(pickle.loads(pickle.dumps(program))([2])[0], 3)
                with self.assertRaises(vm.UntrustedCode):
                    vm.load(f"{folder}/x.rvm", allow_native=False, trusted_keys=[f"{folder}/other.pub"])
            for key in (f"{folder}/mine.pub", b"short", f"{folder}/x.rvm"):
                with self.assertRaises(vm.InvalidArgument):
                    native.save(f"{folder}/y.rvm", sign_with=key)
            self.assertFalse(os.path.exists(f"{folder}/y.rvm"))

    def test_bfloat16(self):
        import ml_dtypes
        from relayvm_runtime import _dtypes
        program = self.vm.compile("def @main(%x: Tensor[(n), bfloat16]) { (%x + %x, sum(%x)) }", target="portable")
        x = numpy.array([1, 2.5, -3], ml_dtypes.bfloat16)
        for argument in (x, [1, 2.5, -3], x.view(numpy.uint16)):
            doubled, total = program(argument)
            self.assertEqual((doubled.dtype, total.dtype), (x.dtype, x.dtype))
            numpy.testing.assert_array_equal(doubled, x + x)
            self.assertEqual(total, 0.5)
        with self.assertRaises(self.vm.InvalidArgument):
            program(x.astype("float32"))
        numbers = numpy.random.default_rng(1).normal(size=1000).astype("float32")
        numpy.testing.assert_array_equal(_dtypes.bfloat16_bits(numbers), numbers.astype(ml_dtypes.bfloat16).view("uint16"))
        with unittest.mock.patch.object(_dtypes, "_ml_dtypes", None):  # it is not installed: bits
            numpy.testing.assert_array_equal(program(x.view("uint16"))[0], (x + x).view("uint16"))

    def test_float8(self):
        import ml_dtypes
        from relayvm_runtime import _dtypes
        program = self.vm.compile("def @main(%x: Tensor[(n), float8_e4m3fn]) { (%x + %x, max(%x)) }", target="portable")
        x = numpy.array([1, 2.5, -300], ml_dtypes.float8_e4m3fn)
        expected = numpy.array([2, 5, -448], ml_dtypes.float8_e4m3fn)
        for argument in (x, [1, 2.5, -300], x.view(numpy.uint8)):
            doubled, greatest = program(argument)
            self.assertEqual((doubled.dtype, greatest.dtype), (x.dtype, x.dtype))
            numpy.testing.assert_array_equal(doubled, expected)
            self.assertEqual(greatest, 2.5)
        with self.assertRaises(self.vm.InvalidArgument):
            program(x.astype("float32"))
        with unittest.mock.patch.object(_dtypes, "_ml_dtypes", None):
            numpy.testing.assert_array_equal(program(x.view("uint8"))[0], expected.view("uint8"))
            with self.assertRaisesRegex(self.vm.InvalidArgument, "ml_dtypes"):
                program([1, 2])

    def test_dlpack_of_dtypes_that_numpy_lacks(self):
        import ml_dtypes
        identity = self.vm.compile("def @main(%x: Tensor[(?, ?), bfloat16]) { (%x + %x, sum(%x)) }", target="portable")
        x = numpy.arange(12, dtype="float32").reshape(3, 4).astype(ml_dtypes.bfloat16)
        for versioned in (True, False):
            for view in (x, x.T, x[::2, 1:], x[:0]):
                given = ForeignTensor(view, 4, versioned)
                doubled, _ = identity(given)
                numpy.testing.assert_array_equal(doubled, view + view)
                self.assertEqual((doubled.dtype, given.deleted), (x.dtype, 1))
        small = x.astype(ml_dtypes.float8_e4m3fn)
        program = self.vm.compile("def @main(%x: Tensor[(n, m), float8_e4m3fn]) { %x }", target="portable")
        given = ForeignTensor(small, 10, True, read_only=True)
        same = program(given)
        numpy.testing.assert_array_equal(same, small)
        del same
        gc.collect()
        self.assertEqual(given.deleted, 1)
        for device, code, message in ((2, 4, "memory of a device"), (1, 12, "the code 12 of DLPack and 8 bits")):
            given = ForeignTensor(x if code == 4 else small, code, True, device=device)
            with self.assertRaisesRegex(self.vm.InvalidArgument, message):
                (identity if code == 4 else program)(given)
            self.assertEqual(given.deleted, given.made)

    def test_dlpack_of_results(self):
        import ml_dtypes
        program = self.vm.compile("def @main(%x: Tensor[(n), bfloat16]) { %x + %x }", target="portable")
        result = program(numpy.array([1, 2, 3, -4], ml_dtypes.bfloat16))
        bits = result.view("uint16").copy()
        for part in (result, result[1:], result[::2], result[:, None], result + result):
            capsule = part.__dlpack__(max_version=(1, 0))
            tensor = taken(capsule)
            self.assertEqual((tensor.major, tensor.flags & 1, tensor.tensor.dtype.code, tensor.tensor.dtype.bits), (1, 1, 4, 16))
            self.assertEqual(tuple(tensor.tensor.shape[:tensor.tensor.ndim]), part.shape)
            size = part.size
            copied = (ctypes.c_uint16 * size).from_address(tensor.tensor.data + tensor.tensor.byte_offset)
            numpy.testing.assert_array_equal(numpy.array(copied), numpy.ascontiguousarray(part).view("uint16").ravel())
            if part is result:
                self.assertEqual(tensor.tensor.data, result.ctypes.data)
            ctypes.CFUNCTYPE(None, ctypes.c_void_p)(tensor.deleter)(ctypes.addressof(tensor))
            part.__dlpack__(max_version=(1, 1), dl_device=(1, 0))  # nobody takes this one
        numpy.testing.assert_array_equal(result.view("uint16"), bits)
        self.assertEqual(result.__dlpack_device__(), (1, 0))
        for options in ({}, {"max_version": (0, 8)}, {"max_version": (1, 0), "dl_device": (2, 0)}):
            with self.assertRaises(BufferError):
                result.__dlpack__(**options)
        with self.assertRaises(BufferError):
            result[::2].__dlpack__(max_version=(1, 0), copy=False)
        numpy.testing.assert_array_equal(numpy.from_dlpack(result.astype("float32")), result.astype("float32"))

    def test_coverage(self):
        import onnx
        from onnx import helper
        f32 = onnx.TensorProto.FLOAT
        nodes = [helper.make_node("Relu", ["x"], ["a"]), helper.make_node("Frobnicate", ["a"], ["b"], name="one"),
                 helper.make_node("Relu", ["b"], ["c"]), helper.make_node("Frobnicate", ["c"], ["y"], name="two")]
        ports = [helper.make_tensor_value_info(name, f32, ["n"]) for name in "xy"]
        model = helper.make_model(helper.make_graph(nodes, "g", ports[:1], ports[1:]))
        uses = self.vm.coverage(model)
        self.assertEqual([(use.name, use.nodes, use.refused, use.supported) for use in uses],
                         [("Frobnicate", 2, 2, False), ("Relu", 2, 0, True)])
        self.assertEqual(uses[0].reasons, ["this operator is not supported"])
        with self.assertRaises(self.vm.ImportFailed) as caught:
            self.vm.import_onnx(model)
        self.assertIn(f"{uses[0].name}: {uses[0].reasons[0]} (`one`, `two`)", str(caught.exception))
        uses = self.vm.coverage(os.path.join(tools.ROOT, "tests/torch/mlp.pt2"))
        self.assertIn(("aten.linear.default", 2), [(use.name, use.nodes) for use in uses])
        self.assertTrue(all(use.supported for use in uses))
        with self.assertRaises(self.vm.ImportFailed):
            self.vm.coverage(b"no model")

    def test_errors_name_the_nodes_of_a_model(self):
        import onnx
        from onnx import helper
        x, y, z = (helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [None]) for name in "xyz")
        nodes = [helper.make_node("Relu", ["x"], ["r"]), helper.make_node("Add", ["r", "y"], ["z"], name="plus")]
        module = self.vm.import_onnx(helper.make_model(helper.make_graph(nodes, "g", [x, y], [z])))
        with self.assertRaises(self.vm.ProgramFailed) as caught:
            self.vm.compile(module)([1, 2], [1, 2, 3])
        self.assertIn("in `main` at Add node `plus` of model", str(caught.exception))

    def test_guards_that_are_not_checked_warn(self):
        content = torch_test.with_program(os.path.join(tools.ROOT, "tests/torch/shapes.pt2"),
                                          lambda program: program.update(guards_code=["L['x'].stride()[0] == 4"]))
        with self.assertWarnsRegex(UserWarning, "which is not checked"):
            self.vm.import_torch(content)

    def test_imports(self):
        vm = self.vm
        scale = vm.Module("free_var %w: Tensor[(2), float32]; def @main(%x: Tensor[(n, 2), float32]) { %x * %w }",
                          {"w": numpy.array([2, 3], "float32")})
        text = "def @main(%x: Tensor[(1, 2), float32]) { @scale(@scale(%x)) }"
        x = numpy.ones((1, 2), "float32")
        numpy.testing.assert_array_equal(vm.compile(text, imports={"scale": scale})(x), [[4, 9]])
        self.assertEqual(vm.Module(text, imports={"scale": scale}).check(), [])
        line = 'import "scale.relay" as @scale;\n'
        with self.assertRaisesRegex(vm.CompileError, "this text may not read files") as refused:
            vm.compile(line + text)
        self.assertEqual(refused.exception.diagnostics[0].kind, "import-refused")
        # The module in place of the file.
        numpy.testing.assert_array_equal(vm.compile(line + text, imports={"scale": scale})(x), [[4, 9]])
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "main.relay")
            for name, part in ((path, line + text), (os.path.join(folder, "scale.relay"), scale.text)):
                with open(name, "w", encoding="utf-8") as file:
                    file.write(part)
            params = {"scale.w": numpy.array([5, 1], "float32")}
            numpy.testing.assert_array_equal(vm.compile(path, params=params)(x), [[25, 1]])
            self.assertEqual(vm.Module(line + text, folder=folder).check(), [])
        for imports, error in (({"a b": scale}, ValueError), ({"a": vm.Module(text, imports={"b": scale})}, TypeError)):
            with self.assertRaises(error):
                vm.compile(text, imports=imports)
        with self.assertRaisesRegex(vm.CompileError, "no function is named `@scale`"):
            vm.compile(text)

    def test_checks_without_compiling(self):
        module = self.vm.parse("def @main( %x : int32 ) { %x }", name="a.relay")
        self.assertEqual(str(module).split("\n", 2)[2], "def @main(%x: int32) {\n  %x\n}\n")
        self.assertEqual(module.check(), [])
        (wrong,) = self.vm.Module("def @main() { %y }", name="b.relay").check()
        self.assertEqual((wrong.file, wrong.line, wrong.severity), ("b.relay", 1, "error"))
        with self.assertRaises(self.vm.CompileError):
            self.vm.parse("def")
        self.assertEqual(self.vm.compile(module, target="portable")(3), 3)

    def assert_self_contained(self, markup):
        """Well-formed, no script, nothing from elsewhere."""
        import xml.etree.ElementTree
        root = xml.etree.ElementTree.fromstring(markup)
        for element in root.iter():
            self.assertNotIn("script", element.tag)
            self.assertFalse({"src", "href", "onclick", "onload"} & set(element.attrib))
        return "".join(root.itertext())

    def test_notebooks(self):
        vm = self.vm
        text = self.assert_self_contained(self.program._repr_html_())
        self.assertIn("fn (%l: List[int32]) -> int32", text)
        module = vm.Module("def @f() { \"<script>&\" }", {"<b>": numpy.ones((2, 3), "float32")})
        text = self.assert_self_contained(module._repr_html_())
        self.assertIn("<script>&", text)
        self.assertIn("%<b>float322×324", text)
        session = self.program.session(profile=True)
        session([[1, 2]], entry="scale")
        text = self.assert_self_contained(session.profile._repr_html_())
        self.assertIn("multiply (1 calls)", text)
        self.assertIn("where the time of 1 run went", text)

    def test_stubs(self):
        """The stubs have the public names of the packages, no others, and their signatures."""
        import relayvm_runtime
        for package, others in ((relayvm_runtime, set()), (self.vm, set(relayvm_runtime.__all__))):
            with open(package.__file__ + "i", encoding="utf-8") as file:
                stub = ast.parse(file.read())
            declared = {node.name: node for node in stub.body if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
            self.assertEqual(set(declared), set(package.__all__) - others)
            for name, node in declared.items():
                with self.subTest(name):
                    self.compare_stub(getattr(package, name), node)

    def compare_stub(self, actual, stub):
        if isinstance(stub, ast.ClassDef):
            bases = ["NamedTuple"] if hasattr(actual, "_fields") else [base.__name__ for base in actual.__bases__ if base is not object]
            self.assertEqual(bases, [base.id for base in stub.bases])
            if hasattr(actual, "_fields"):
                self.assertEqual(list(actual._fields), [node.target.id for node in stub.body])
            methods = {node.name: node for node in stub.body if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))}
            public = {name for name, member in vars(actual).items()
                      if not name.startswith("_") and (callable(member) or isinstance(member, property))}
            self.assertEqual({name for name in methods if not name.startswith("_")}, public)
            for name, node in methods.items():
                self.compare_stub(inspect.getattr_static(actual, name), node)
            return
        if isinstance(actual, property):
            self.assertEqual([decorator.id for decorator in stub.decorator_list], ["property"])
            return
        self.assertEqual(inspect.iscoroutinefunction(actual), isinstance(stub, ast.AsyncFunctionDef))
        there, here = inspect.signature(actual), stub.args
        names = [a.arg for a in [*here.posonlyargs, *here.args, *here.kwonlyargs]]
        plain = [p for p in there.parameters.values() if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
        passes_on = any(p.kind == p.VAR_KEYWORD for p in there.parameters.values()) and here.kwarg is None
        self.assertEqual(names[:len(plain)] if passes_on else names, [p.name for p in plain], stub.name)
        self.assertEqual([p.name for p in plain if p.kind == p.KEYWORD_ONLY],
                         [] if passes_on else [a.arg for a in here.kwonlyargs], stub.name)
        wanted = [p.default for p in plain if p.default is not p.empty]
        given = [] if passes_on else [ast.literal_eval(d) for d in [*here.defaults, *here.kw_defaults] if d is not None]
        self.assertEqual(given, wanted, stub.name)

    def test_two_threads_run_at_once(self):
        """Each run ends only when it is cancelled, which happens when both have begun: neither holds the lock."""
        sessions = [self.program.session(), self.program.session()]
        ended = []

        def run(session):
            try:
                session(2 * 10**9, entry="count")
            except self.vm.Cancelled:
                ended.append(session)

        threads = [threading.Thread(target=run, args=(session,)) for session in sessions]
        for thread in threads:
            thread.start()
        for session in sessions:
            while True:  # another run is refused once its own has begun
                try:
                    session.stats
                except self.vm.InvalidArgument:
                    break
        for session, thread in zip(sessions, threads):
            while thread.is_alive():
                session.cancel()
                thread.join(0.001)
        self.assertEqual(len(ended), 2)
        self.assertEqual(sessions[0](5, entry="count"), 0)

    def test_cancelled_task(self):
        session = self.program.session()

        async def main():
            task = asyncio.create_task(session.call_async(2 * 10**9, entry="count"))
            await asyncio.sleep(0)
            task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await task
            return await session.call_async(3, entry="count")

        self.assertEqual(asyncio.run(main()), 0)

    def test_profile(self):
        session = self.program.session(profile=True)
        session([1, 2], entry="total")
        self.assertIn("total", session.profile.table())
        self.assertEqual(session.profile.data()["entry"], "total")
        self.assertGreater(session.stats.allocations, 0)

    def test_docstrings(self):
        from relayvm import _builder, _compiler, _types
        from relayvm_runtime import _dtypes, _values, oip
        import relayvm_runtime
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            with open(VALUES, encoding="utf-8") as file:
                text = file.read() + "def @main(%l: List[int32]) -> int32 { @total(%l) }"
            self.vm.compile(text, entries=["main"]).save("lists.rvm")
            for module in (self.vm, _builder, _compiler, _types, _dtypes, _values, oip, relayvm_runtime):
                report = io.StringIO()
                with contextlib.redirect_stdout(report):
                    done = doctest.testmod(module)
                self.assertEqual(done.failed, 0, report.getvalue())
                self.assertGreater(done.attempted, 0, module)

    def test_documents(self):
        for path in ("docs/python.md", "README.md"):
            with open(os.path.join(tools.ROOT, path), encoding="utf-8") as file:
                examples = re.findall(r"^```python\n(.*?)^```$", file.read(), re.MULTILINE | re.DOTALL)
            self.assertTrue(examples)
            for example in examples:
                with self.subTest(example), tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
                    printed = io.StringIO()
                    with contextlib.redirect_stdout(printed):
                        exec(compile(example, path, "exec"), {})
                    self.assertEqual(printed.getvalue().splitlines(), re.findall(r"print\(.*\)  # (.*)$", example, re.MULTILINE))

    def test_wheel_of_the_runtime(self):
        with tempfile.TemporaryDirectory() as folder:
            digests = []
            for name in ("a", "b"):
                tools.must(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-index",
                           "--no-build-isolation", "-w", f"{folder}/{name}", f"{PYTHON}/runtime")
                (wheel,) = os.listdir(f"{folder}/{name}")
                with open(f"{folder}/{name}/{wheel}", "rb") as file:
                    digests.append(hashlib.sha256(file.read()).hexdigest())
            self.assertEqual(*digests)
            with zipfile.ZipFile(f"{folder}/a/{wheel}") as archive:
                archive.extractall(f"{folder}/installed")
            newest = 0
            for name in os.listdir(f"{folder}/installed/relayvm_runtime"):
                if ".so" in name:
                    symbols = tools.must("objdump", "-T", f"{folder}/installed/relayvm_runtime/{name}")
                    newest = max([newest, *map(int, re.findall(r"GLIBC_2\.(\d+)", symbols))])
            self.assertGreaterEqual(int(re.search(r"-py3-none-manylinux_2_(\d+)_x86_64\.whl", wheel)[1]), newest)
            self.assertIn("librelayvm_python_signals.so", os.listdir(f"{folder}/installed/relayvm_runtime"))
            self.program.save(f"{folder}/p.rvm")
            # Only what the wheel has, and numpy.
            code = f"import relayvm_runtime as r; print(r.load('{folder}/p.rvm')['total']([1, 2]), r.__file__)"
            environment = {k: v for k, v in os.environ.items() if not k.startswith("RELAYVM")}
            done = tools.must(sys.executable, "-c", code, env={**environment, "PYTHONPATH": f"{folder}/installed"})
            self.assertEqual(done.split(), ["3", f"{folder}/installed/relayvm_runtime/__init__.py"])


if __name__ == "__main__":
    unittest.main()
