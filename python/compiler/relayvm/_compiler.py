"""The C interface of relayvm_compiler.h, and what it gives."""

import contextlib
import ctypes
import json
import os
import queue
import re
import sys
import threading
import warnings
from ctypes import POINTER, c_char_p, c_int, c_int32, c_int64, c_size_t, c_uint32, c_void_p

import numpy
from relayvm_runtime import Error, Executable, _html
from relayvm_runtime._library import DType, declare, load
from relayvm_runtime._arguments import as_array
from relayvm_runtime._dtypes import EXTENSIONS, KINDS, dtype_of, extension


class _Tensor(ctypes.Structure):
    _fields_ = [("name", c_char_p), ("dtype", DType), ("rank", c_size_t), ("shape", POINTER(c_int64)),
                ("data", c_void_p)]


class _Shape(ctypes.Structure):
    _fields_ = [("name", c_char_p), ("extents", c_char_p)]


class _Text(ctypes.Structure):
    _fields_ = [("name", c_char_p), ("text", c_char_p), ("size", c_size_t)]


_PROGRESS = ctypes.CFUNCTYPE(None, c_void_p, c_char_p, c_size_t, c_size_t)
_POLL = ctypes.CFUNCTYPE(c_int, c_void_p)


class _CompileOptions(ctypes.Structure):
    _fields_ = [("struct_size", c_uint32), ("opt_level", c_int32), ("target", c_char_p), ("entries", POINTER(c_char_p)),
                ("entry_count", c_size_t), ("weights", POINTER(_Tensor)), ("weight_count", c_size_t),
                ("params_files", POINTER(c_char_p)), ("params_file_count", c_size_t), ("progress", _PROGRESS),
                ("progress_context", c_void_p), ("device", c_char_p), ("host_fallback", c_uint32), ("poll", _POLL),
                ("poll_context", c_void_p), ("imports", POINTER(_Text)), ("import_count", c_size_t),
                ("import_folder", c_char_p), ("batch", c_uint32), ("reserved", c_uint32), ("control", c_char_p)]


class _ImportOptions(ctypes.Structure):
    _fields_ = [("struct_size", c_uint32), ("reserved", c_uint32), ("frozen", POINTER(_Tensor)),
                ("frozen_count", c_size_t), ("shapes", POINTER(_Shape)), ("shape_count", c_size_t),
                ("weights", c_char_p), ("weights_size", c_size_t), ("signatures", POINTER(c_char_p)),
                ("signature_count", c_size_t), ("cache_dtype", c_char_p), ("activation_dtype", c_char_p)]


_lib = declare(load("librelayvm_compiler.so.1", os.path.dirname(__file__), "RELAYVM_COMPILER_LIBRARY"), {
    "rvm_compile": (c_void_p, [c_char_p, c_char_p, c_size_t, POINTER(_CompileOptions)]),
    "rvm_check_with": (c_void_p, [c_char_p, c_char_p, c_size_t, POINTER(_CompileOptions)]),
    "rvm_import": (c_void_p, [c_char_p, c_char_p, c_size_t, POINTER(_ImportOptions)]),
    "rvm_import_file": (c_void_p, [c_char_p, c_char_p, POINTER(_ImportOptions)]),
    "rvm_compilation_bytes": (c_void_p, [c_void_p, POINTER(c_size_t)]),
    "rvm_compilation_text": (c_char_p, [c_void_p]),
    "rvm_compilation_weight_count": (c_size_t, [c_void_p]),
    "rvm_compilation_weight": (c_int, [c_void_p, c_size_t, POINTER(_Tensor)]),
    "rvm_compilation_types": (c_char_p, [c_void_p]),
    "rvm_compilation_coverage": (c_char_p, [c_void_p]),
    "rvm_compilation_message": (c_char_p, [c_void_p]),
    "rvm_compilation_diagnostics": (c_char_p, [c_void_p]),
    "rvm_compilation_free": (None, [c_void_p]),
})


_MODELS = (".onnx", ".pt2", ".pt", ".torchscript", ".tflite", ".mlirbc", ".stablehlo", ".keras", ".h5", ".cfg", "-symbol.json", ".pb", ".gguf", "config.json")  # the endings of files that rvm_import_file reads


class Diagnostic:
    """One error or warning: `severity`, `kind` ("dim-mismatch"), `message`, `file`, `line` and `column` (from 1; 0:
    not known), and `notes`, which have a message and a place, too. Of an imported model, `file` names the node."""

    def __init__(self, severity="note", kind="", message="", file="", line=0, column=0, notes=()):
        self.severity, self.kind, self.message = severity, kind, message
        self.file, self.line, self.column = file, line, column
        if not line and (origin := re.fullmatch(r"(.*):(\d+)", file)):  # a line of a Builder's program
            self.file, self.line = origin[1], int(origin[2])
        self.notes = [Diagnostic(**note) for note in notes]

    def __repr__(self):
        places = [str(part) for part in (self.file, self.line, self.column) if part]
        return f"{':'.join(places)}{': ' if places else ''}{self.severity}: {self.message}"


class CompileError(Error):
    """A program or a model is wrong, or uses what is not supported. `diagnostics` lists everything at once."""

    def __init__(self, message, diagnostics=()):
        super().__init__(message, "compile-error")
        self.diagnostics = list(diagnostics)

    def __reduce__(self):
        return (type(self), (self.message, self.diagnostics))


class ImportFailed(CompileError):
    """A model cannot be imported; the message lists everything that is not supported."""


class _Result:
    """Owns an rvm_compilation. `error` is raised if that has errors; None: the caller looks at `diagnostics`."""

    def __init__(self, pointer, error):
        self.pointer = pointer
        self.diagnostics = [Diagnostic(**d) for d in json.loads(_lib.rvm_compilation_diagnostics(pointer))]
        self.message = _lib.rvm_compilation_message(pointer).decode(errors="replace").rstrip("\n")
        self.failed = any(d.severity == "error" for d in self.diagnostics)
        if error is not None:
            self.raise_errors(error)

    def raise_errors(self, error):
        if self.failed:
            raise error(self.message, self.diagnostics)

    @property
    def text(self):
        return _lib.rvm_compilation_text(self.pointer).decode()

    @property
    def program_bytes(self):
        size = c_size_t()
        data = _lib.rvm_compilation_bytes(self.pointer, ctypes.byref(size))
        return ctypes.string_at(data, size.value)

    def __del__(self, free=_lib.rvm_compilation_free):
        free(self.pointer)


def _tensors(values):
    """A C array of named tensors, and what must live as long."""
    kept, made = [], []
    for name, value in (values or {}).items():
        array = numpy.asarray(as_array(value), order="C")
        shape = (c_int64 * array.ndim)(*array.shape)
        kept.append((array, shape))
        made.append(_Tensor(name.encode(), dtype_of(array), array.ndim, shape, array.ctypes.data))
    return (_Tensor * len(made))(*made), kept


def _bytes(text):
    """Also of a file that is not UTF-8: the compiler says where."""
    return text.encode(errors="surrogateescape")


def _strings(values, what):
    if isinstance(values, (str, bytes)):
        raise TypeError(f"{what} is a list; saw {values!r}")
    return (c_char_p * len(values))(*(os.fsencode(value) for value in values))


def _is_path(source):
    if isinstance(source, os.PathLike):
        return True
    return isinstance(source, str) and "\n" not in source and (
        source.endswith((".relay", ".json", *_MODELS)) or any(os.path.isfile(os.path.join(source, name)) for name in ("config.json", "saved_model.pb")))


def _is_model(path):
    """Whether the path is that of a model: a file, or a folder with a config.json or a saved_model.pb."""
    return path.endswith(_MODELS) or os.path.isdir(path)


class Module:
    """A program that is not compiled yet: `text` in Relay, and `params`, the weights of its free variables.

    imports: Modules that are functions of it, by their names. folder: what paths of `import` in the text are relative to;
    None: it may not import files.

    >>> double = Module("def @main(%x: int32) { %x * 2 }")
    >>> Module("def @main(%x: int32) { @double(%x) + 1 }", imports={"double": double}).types()["main"]
    'fn (int32) -> int32'
    """

    def __init__(self, text, params=None, name="<text>", *, imports=None, folder=None):
        self.text, self.params, self.name = text, dict(params or {}), name
        self.imports, self.folder = dict(imports or {}), folder

    def check(self):
        """Its errors and warnings, a list of Diagnostic; empty if it is well formed and well typed.

        >>> Module("def @main(%x: int32) -> int32 { %x + 1f }").check()
        [<text>:1:38: error: `add`: operands have dtypes `int32` and `float32`; expected equal dtypes (use `cast`)]
        """
        return _check(self).diagnostics

    def types(self):
        """The types of its functions by name, also where the text leaves them out.

        >>> Module("def @main(%x: int32) { (%x, 1f) }").types()
        {'main': 'fn (int32) -> (int32, float32)'}
        """
        result = _check(self, CompileError)
        return json.loads(_lib.rvm_compilation_types(result.pointer))

    def __str__(self):
        return self.text

    def _repr_html_(self):
        return _html.module(self.text, self.params)


def _imports(module):
    """The fields of _CompileOptions for what a Module imports, the weights of that, and what must live as long."""
    texts, weights = [], {}
    for name, imported in module.imports.items():
        if not re.fullmatch(r"[A-Za-z_]\w*", name):
            raise ValueError(f"saw the name {name!r} of an import; expected letters, digits and `_`")
        if not isinstance(imported, Module) or imported.imports or imported.folder is not None:
            raise TypeError(f"import `{name}`: saw {imported!r}; expected a Module that imports nothing")
        text = _bytes(imported.text)
        texts.append(_Text(name.encode(), text, len(text)))
        weights.update({f"{name}.{weight}": value for weight, value in imported.params.items()})
    array = (_Text * len(texts))(*texts)
    folder = None if module.folder is None else os.fsencode(module.folder)
    return {"imports": array, "import_count": len(texts), "import_folder": folder}, weights, (texts, array, folder)


def _check(module, error=None):
    text = _bytes(module.text)
    fields, _, _kept = _imports(module)
    options = _CompileOptions(struct_size=ctypes.sizeof(_CompileOptions), opt_level=2, **fields)
    return _Result(_lib.rvm_check_with(module.name.encode(), text, len(text), ctypes.byref(options)), error)


def parse(text, name="<text>"):
    """Parses and types a program, and gives it as a Module in its canonical form.

    >>> print(parse("def @main(%x:int32)->int32{%x+(1)}"))
    #[version = "0.0.5"]
    <BLANKLINE>
    def @main(%x: int32) -> int32 {
      %x + 1
    }
    <BLANKLINE>

    Raises CompileError, which has all diagnostics with their places.
    """
    return Module(_check(Module(text, name=name), CompileError).text, name=name)


class _Bar:
    """How far a compilation of more than a second is, on standard error if that is a terminal, or in a notebook."""

    def __init__(self, delay=1):
        self._bar = None
        if "ipykernel" in sys.modules or (sys.stderr is not None and sys.stderr.isatty()):
            try:
                from tqdm.auto import tqdm
            except ImportError:
                return
            self._bar = tqdm(total=1, delay=delay, miniters=1, leave=False,
                             bar_format="{desc} {percentage:3.0f}%|{bar}| {n}/{total} [{elapsed}]")

    def __call__(self, stage, done, total):
        if self._bar is not None:
            if self._bar.desc != stage:  # reset() would show it before the delay is over
                self._bar.desc, self._bar.total, self._bar.n, self._bar.last_print_n = stage, total, 0, 0
            self._bar.update(done - self._bar.n)

    def close(self):
        if self._bar is not None:
            self._bar.close()


@contextlib.contextmanager
def _reporting(progress):
    """The functions that the library calls. An error of `progress` ends the compilation, and is raised then."""
    errors = []
    bar = None if progress else _Bar()
    show = progress or bar

    @_PROGRESS
    def report(_, stage, done, total):
        if not errors:
            try:
                show(stage.decode(), done, total)
            except BaseException as error:
                errors.append(error)

    @_POLL
    def poll(_):
        return bool(errors)

    try:
        yield report, poll
    except BaseException as error:  # of the thread that waits for the compilation, such as KeyboardInterrupt
        errors.append(error)
        raise
    finally:
        if bar is not None:
            bar.close()
    if errors:
        raise errors[0]


def _call(function):
    """Calls a function that takes long. In the main thread, handlers of signals run meanwhile: another thread calls it. If
    a handler raises an exception, its result is dropped."""
    if threading.current_thread() is not threading.main_thread():
        return function()
    done = queue.SimpleQueue()

    def call():
        try:
            done.put((function(), None))
        except BaseException as error:
            done.put((None, error))

    threading.Thread(target=call, name="relayvm").start()
    result, error = done.get()
    if error is not None:
        raise error
    return result


def compile(program, *, params=None, target="host", opt_level=2, entries=None, progress=None, device=None,
            host_fallback=False, imports=None, batch=False, control=None):
    """Compiles a program to an Executable.

    program: the text of a program, a path (.relay, .json, or a model as of import_file), or a Module. params: weights by name, or
    the path of a .npz, .safetensors, .npy or .params file. target: "host" for this CPU, "portable" for any, or a CPU such as
    "x86-64-v3"; "host,sm_80" names NVIDIA's GPUs, too. entries: functions to call from outside; by default main and those that nothing calls. progress: called
    with the name of a stage, how many of its parts are done, and how many there are; by default, on a terminal, a
    compilation of more than a second shows a bar. device: what runs on devices, as `relayvm compile --device` takes it:
    "gpu", "opencl:nn.*"; by default nothing. host_fallback: where there is no such device the executable runs on the host.
    imports: models and programs that are functions of this one, paths or Modules by name; a program that has a path may also
    `import` files itself. batch: make variants of kernels for many calls at once, as `relayvm compile --batch` does.
    control: "native" for machine code of functions beside their bytecode, "bytecode" for none; by default native from level
    2 on, for programs that loop or recur.

    >>> double = compile("def @main(%x: Tensor[(n), float32]) -> Tensor[(n), float32] { %x * 2f }")
    >>> double([1, 2, 3])
    array([2., 4., 6.], dtype=float32)

    Raises CompileError, which has all diagnostics with their places:

    >>> try:
    ...     compile("def @main(%x: int32) -> float32 { %x }")
    ... except CompileError as error:
    ...     print(error.diagnostics[0].line, error.diagnostics[0].kind)
    1 result-type-mismatch
    """
    name, text, fields, given = _given(program, params, entries, imports)
    with _reporting(progress) as (report, poll):
        options = _CompileOptions(ctypes.sizeof(_CompileOptions), opt_level, target.encode(), progress=report, poll=poll,
                                  device=None if device is None else device.encode(), host_fallback=host_fallback,
                                  batch=bool(batch), control=None if control is None else control.encode(), **fields)
        # The thread that compiles keeps what the options point to, also after an exception in this one.
        kept = (given, report, poll)
        result = _call(lambda: kept and _Result(_lib.rvm_compile(name, text, len(text), ctypes.byref(options)), None))
    result.raise_errors(CompileError)
    return Executable._load(result.program_bytes, True, (), device, host_fallback)


def _given(program, params, entries, imports):
    """Of what `compile` takes: the name and the text of the program, fields of _CompileOptions, and what must live as long."""
    program = _program(program, imports)
    fields, imported, texts = _imports(program)
    weights, files = {**imported, **program.params}, []
    if isinstance(params, (str, os.PathLike)):
        files = [params]
    else:
        weights.update(params or {})
    tensors, arrays = _tensors(weights)
    names, paths = _strings(entries or [], "entries"), _strings(files, "params")
    fields.update(entries=names, entry_count=len(names), weights=tensors, weight_count=len(tensors), params_files=paths,
                  params_file_count=len(paths))
    return program.name.encode(), _bytes(program.text), fields, (fields, texts, arrays)


def _program(program, imports):
    """What `compile` takes, as a Module."""
    if _is_path(program):
        path = os.fspath(program)
        program = _module(path)
        if not _is_model(path):
            program.folder = os.path.dirname(path) or "."
    elif isinstance(program, str):
        program = Module(program)
    elif not isinstance(program, Module):
        raise TypeError(f"saw {type(program).__name__}; expected the text of a program, a path, or a Module")
    if not imports:
        return program
    read = {name: given if isinstance(given, Module) else _module(given) for name, given in imports.items()}
    return Module(program.text, program.params, program.name, imports={**program.imports, **read}, folder=program.folder)


def _module(path):
    """The program in a file."""
    path = os.fspath(path)
    if _is_model(path):
        return _import(None, path, None, None)
    with open(path, encoding="utf-8", errors="surrogateescape") as file:
        return Module(file.read(), name=path)


def import_onnx(model, *, inputs=None, freeze=None):
    """Imports an ONNX model as a Module.

    model: a path, bytes, or an onnx.ModelProto. inputs: other extents of inputs, as in {"image": (1, 3, "h", "w")},
    None for one that is unknown. freeze: values of inputs that never change. Raises ImportFailed.
    """
    if hasattr(model, "SerializeToString"):
        model = model.SerializeToString()
    return _import("onnx", model, inputs, freeze)


def import_torch(model, args=None, kwargs=None, *, dynamic_shapes=None, inputs=None, freeze=None):
    """Imports a PyTorch model as a Module.

    model: a torch.nn.Module, which torch.export.export exports with `args`, `kwargs` and `dynamic_shapes`; an
    exported program; a ScriptModule; or the path or the bytes of what torch.export.save or torch.jit.save wrote, for which
    PyTorch is not needed. TorchScript has no shapes of inputs: `inputs` gives them.
    LSTM, GRU and RNN of a torch.nn.Module stay loops, also over a dynamic number of steps. A program that is refused is
    imported as `run_decompositions` of PyTorch makes it, if that helps. inputs, freeze: as of import_onnx. Raises
    ImportFailed.
    """
    if hasattr(model, "save_to_buffer"):  # a ScriptModule
        model = model.save_to_buffer()
    if isinstance(model, (str, os.PathLike, bytes, bytearray)):
        if args is not None or kwargs is not None or dynamic_shapes is not None:
            raise TypeError("args, kwargs and dynamic_shapes are for a torch.nn.Module; this program is exported already")
        return _import("torch", model, inputs, freeze)
    from ._torch import decomposed, exported, saved  # PyTorch is loaded only for this
    program = exported(model, args, kwargs, dynamic_shapes)
    try:
        return _import("torch", saved(program), inputs, freeze)
    except ImportFailed as failure:
        for simpler in decomposed(program):
            with contextlib.suppress(ImportFailed):
                return _import("torch", saved(simpler), inputs, freeze)
        raise failure from None


def import_tflite(model, *, signature=None, inputs=None, freeze=None):
    """Imports a TensorFlow Lite model as a Module.

    model: a path, or bytes. signature: the name of the signature that becomes `@main`, or a list of names, of which the others
    become functions of their names; None: "serving_default", or the only one. inputs, freeze: as of import_onnx. Raises
    ImportFailed.
    """
    return _import("tflite", model, inputs, freeze, signature=signature)


def import_keras(model, *, inputs=None, freeze=None):
    """Imports a Keras model as a Module.

    model: the path or the bytes of a .keras or .h5 file, for which Keras is not needed; or a keras.Model of Keras 3, which is
    saved to a temporary file. A model with layers that only Python has, such as Lambda and custom classes, is exported by JAX,
    if that is the backend of Keras. inputs, freeze: as of import_onnx. Raises ImportFailed.
    """
    if isinstance(model, (str, os.PathLike, bytes, bytearray)):
        return _import("keras", model, inputs, freeze)
    from ._keras import exported_bytes, saved_bytes  # Keras is loaded only for this
    content = saved_bytes(model)
    try:
        return _import("keras", content, inputs, freeze)
    except ImportFailed as failure:
        exported = exported_bytes(model)
        if exported is None:
            raise
        try:
            return _import("stablehlo", exported, inputs, freeze)
        except ImportFailed:
            raise failure from None


def import_tf(model, *args, signature=None, inputs=None, freeze=None):
    """Imports a model of TensorFlow as a Module.

    model: the path of a SavedModel (a folder) or of a frozen graph (`.pb`), or the bytes of the latter, for which TensorFlow is
    not needed; or a tf.function, a concrete function, a tf.Module with a `__call__`, or a keras.Model, which is saved to a
    temporary folder. args: example arguments or tf.TensorSpecs, for a tf.function without an input signature. signature: the
    name of the one of a SavedModel that becomes `@main`, or a list of names, of which the others become functions of their
    names; None: "serving_default", or the only one. The parameters are the inputs of the signature by name, in alphabetical
    order. inputs, freeze: as of import_onnx. Raises ImportFailed.
    """
    if isinstance(model, (bytes, bytearray)):
        return _import("tensorflow", model, inputs, freeze, signature=signature)
    if isinstance(model, (str, os.PathLike)):
        return _import("tensorflow", os.fspath(model), inputs, freeze, signature=signature)
    from ._tf import saved_model  # TensorFlow is loaded only for this
    with saved_model(model, args) as folder:
        return _import("tensorflow", folder, inputs, freeze, signature=signature)


def import_darknet(config, weights=None, *, inputs=None, freeze=None):
    """Imports a DarkNet model as a Module.

    config: a path (`.cfg`), or bytes. weights: the path or the bytes of its `.weights`; None: the file beside the
    configuration. inputs, freeze: as of import_onnx. Raises ImportFailed.
    """
    return _import("darknet", config, inputs, freeze, weights=weights)


def import_mxnet(symbol, params=None, *, inputs=None, freeze=None):
    """Imports a graph of MXNet or NNVM as a Module.

    symbol: a path (`-symbol.json`), or the text or the bytes of the JSON. params: the path or the bytes of its `.params`;
    None: `-0000.params` beside it. inputs: the extents of inputs, which such graphs do not have, as in {"data": (1, 3, 224,
    224)}. freeze: as of import_onnx. Raises ImportFailed.
    """
    if isinstance(symbol, str) and symbol.lstrip().startswith("{"):
        symbol = symbol.encode()
    return _import("mxnet", symbol, inputs, freeze, weights=params)


def import_stablehlo(model, *, inputs=None, freeze=None):
    """Imports a StableHLO program as a Module.

    model: a path or bytes: a portable artifact (MLIR bytecode, `.mlirbc`), or what `Exported.serialize()` of jax.export
    returned. inputs, freeze: as of import_onnx. Raises ImportFailed.
    """
    return _import("stablehlo", model, inputs, freeze)


def import_jax(function, *args, inputs=None, freeze=None):
    """Imports a function of JAX, or a jax.export.Exported, as a Module.

    args: example arguments, arrays or jax.ShapeDtypeStruct, in lists, tuples and dicts as the function takes them; the
    leaves are the parameters of `@main`, in order. Extents of jax.export.symbolic_shape keep their names. inputs, freeze:
    as of import_onnx. Raises ImportFailed. JAX is loaded only for this.
    """
    from ._jax import exported_bytes
    return _import("stablehlo", exported_bytes(function, args), inputs, freeze)


def import_file(path, *, signature=None, inputs=None, freeze=None, cache_dtype=None, activation_dtype=None):
    """Imports a model of any format that `relayvm import` takes, as a Module.

    path: an .onnx, .pt2, .pt, .torchscript, .tflite, .mlirbc, .stablehlo, .keras, .h5, .cfg, -symbol.json, .pb or .gguf file, a SavedModel, or a folder with a config.json and .safetensors files. signature: as
    of import_tf. inputs, freeze: as of import_onnx; a model that is weights alone has no such options. cache_dtype: "float16",
    "bfloat16" or "float32", that of the caches of a model that is weights alone; float16 for a decoder whose weights are not of
    float32, else float32. activation_dtype: "int8" or "float32", that of the rows that quantised weights of such a model
    multiply; int8 rounds them in blocks, as llama.cpp does, and is the default. Raises ImportFailed.
    """
    return _import(None, os.fspath(path), inputs, freeze, signature=signature, cache_dtype=cache_dtype,
                   activation_dtype=activation_dtype)


class OperatorUse:
    """How a model uses one operator: `name`, `nodes` (how many there are), `refused` (how many of them cannot be
    imported), and `reasons`, why. `supported`: none is refused."""

    def __init__(self, name, nodes, refused, reasons):
        self.name, self.nodes, self.refused, self.reasons = name, nodes, refused, list(reasons)

    @property
    def supported(self):
        return not self.refused

    def __eq__(self, other):
        return isinstance(other, OperatorUse) and vars(self) == vars(other)

    __hash__ = None

    def __repr__(self):
        why = f", refused: {self.refused} ({'; '.join(self.reasons)})" if self.refused else ""
        return f"{self.name}: {self.nodes} nodes{why}"


def coverage(model, *, signature=None, inputs=None, freeze=None):
    """The operators of a model, a list of OperatorUse by name.

    model: a path as of import_file, the bytes of such a file, or an onnx.ModelProto; signature: as of import_tf; inputs, freeze:
    as of import_onnx.
    What is refused is what import_onnx and `relayvm check` refuse. Raises ImportFailed for what is no model at all.
    """
    if hasattr(model, "SerializeToString"):
        model = model.SerializeToString()
    _, result = _import_result(_format(model), model, inputs, freeze, None, signature=signature)
    uses = [OperatorUse(**use) for use in json.loads(_lib.rvm_compilation_coverage(result.pointer))]
    if result.failed and not uses:
        raise ImportFailed(result.message, result.diagnostics)
    return uses


def _format(model):
    """The format of a model: of bytes by their beginning; None for a path whose ending says it."""
    if isinstance(model, (bytes, bytearray)):
        if model[:2] == b"PK" and b"model.weights.h5" in model[-4096:]:  # of the archive's directory, at its end
            return "keras"
        starts = {b"\x89H": "keras", b"PK": "torch", b"GG": "gguf", b"ML": "stablehlo"}
        # The place of the root table of what jax.export serialized, at the beginning. ONNX begins with tags of fields.
        root = int.from_bytes(model[:4], "little")
        is_exported = root % 4 == 0 and root < min(len(model), 1024) and b"ML\xefR" in model
        return starts.get(bytes(model[:2])) or ("tflite" if model[4:8] == b"TFL3" else "stablehlo" if is_exported else "onnx")
    path = os.fspath(model)
    return None if _is_model(path) and not path.endswith(".onnx") else "onnx"


def _import(format, model, inputs, freeze, **options):
    name, result = _import_result(format, model, inputs, freeze, ImportFailed, **options)
    for diagnostic in result.diagnostics:
        warnings.warn(f"{name}: {diagnostic.message}", stacklevel=3)
    return Module(result.text, _weights(result), name)


def _import_result(format, model, inputs, freeze, error, weights=None, signature=None, cache_dtype=None,
                   activation_dtype=None):
    format = format and format.encode()
    frozen, _kept = _tensors(freeze)
    shapes = (_Shape * len(inputs or {}))(*(
        _Shape(name.encode(), ",".join("?" if extent is None else str(extent) for extent in extents).encode())
        for name, extents in (inputs or {}).items()))
    if weights is not None and not isinstance(weights, (bytes, bytearray)):
        with open(weights, "rb") as file:
            weights = file.read()
    weights = None if weights is None else bytes(weights)
    names = [signature] if isinstance(signature, str) else signature or []
    signatures = (c_char_p * len(names))(*(name.encode() for name in names))
    options = _ImportOptions(ctypes.sizeof(_ImportOptions), 0, frozen, len(frozen), shapes, len(shapes), weights,
                             len(weights or b""), signatures, len(names),
                             *(None if dtype is None else str(dtype).encode() for dtype in (cache_dtype, activation_dtype)))
    if isinstance(model, (bytes, bytearray)):
        name, pointer = "<model>", _lib.rvm_import(format, bytes(model), len(model), ctypes.byref(options))
    else:
        name = os.fspath(model)
        pointer = _lib.rvm_import_file(format, os.fsencode(model), ctypes.byref(options))
    return name, _Result(pointer, error)


def _weights(result):
    weights, tensor = {}, _Tensor()
    for i in range(_lib.rvm_compilation_weight_count(result.pointer)):
        _lib.rvm_compilation_weight(result.pointer, i, ctypes.byref(tensor))
        weights[tensor.name.decode()] = _array(tensor)
    return weights


def _array(tensor):
    """A copy of a _Tensor."""
    code = tensor.dtype.code
    dtype = extension(code)
    if dtype is None and code in EXTENSIONS:
        raise ImportFailed(f"weight `{tensor.name.decode()}` is of {EXTENSIONS[code]}, which numpy has only with the "
                           "package ml_dtypes; install that, or use `relayvm import`")
    if dtype is None:
        dtype = numpy.dtype(f"{KINDS[code]}{tensor.dtype.bits // 8}")
    shape = tuple(tensor.shape[:tensor.rank])
    count = int(numpy.prod(shape, dtype=numpy.int64))
    data = ctypes.string_at(tensor.data, count * dtype.itemsize) if count else b""
    return numpy.frombuffer(data, dtype).reshape(shape)
