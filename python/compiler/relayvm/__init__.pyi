# The public names of relayvm, with types: those of relayvm_runtime and of the compiler. tests/python_test.py compares
# them with the package.
from typing import Any, Callable, Iterable, Iterator, Mapping, Sequence

from relayvm_runtime import *
from relayvm_runtime import _Argument, Error, Executable, _Path
from relayvm_runtime import __version__ as __version__

def compile(program: Module | _Path, *, params: Mapping[str, _Argument] | _Path | None = None, target: str = "host",
            opt_level: int = 2, entries: Sequence[str] | None = None,
            progress: Callable[[str, int, int], object] | None = None, device: str | None = None,
            host_fallback: bool = False, imports: Mapping[str, Module | _Path] | None = None,
            batch: bool = False, control: str | None = None) -> Executable: ...
def parse(text: str, name: str = "<text>") -> Module: ...
def quantize(program: Module | _Path, *, scheme: str = "w8", data: Iterable[Any] | None = None, entry: str = "main",
             observer: str = "mse", error: float | None = None,
             metric: Callable[[list[Any], list[Any]], float] | None = None, keep: Sequence[str] = (), group: int = 32,
             force: bool = False, params: Mapping[str, _Argument] | _Path | None = None, target: str = "host",
             opt_level: int = 2, entries: Sequence[str] | None = None,
             imports: Mapping[str, Module | _Path] | None = None) -> Quantized: ...

class Quantized:
    executable: Executable
    report: dict[str, Any]
    @property
    def module(self) -> Module: ...

# `onnx.ModelProto`, `torch.nn.Module` and `torch.export.ExportedProgram` are Any: neither package is needed.
def import_onnx(model: _Path | bytes | bytearray | Any, *,
                inputs: Mapping[str, Sequence[int | str | None]] | None = None,
                freeze: Mapping[str, _Argument] | None = None) -> Module: ...
def import_tflite(model: _Path | bytes | bytearray, *,
                  inputs: Mapping[str, Sequence[int | str | None]] | None = None,
                  freeze: Mapping[str, _Argument] | None = None) -> Module: ...
def import_torch(model: _Path | bytes | bytearray | Any, args: Sequence[Any] | None = None,
                 kwargs: Mapping[str, Any] | None = None, *, dynamic_shapes: Any = None,
                 inputs: Mapping[str, Sequence[int | str | None]] | None = None,
                 freeze: Mapping[str, _Argument] | None = None) -> Module: ...
def import_file(path: _Path, *, inputs: Mapping[str, Sequence[int | str | None]] | None = None,
                freeze: Mapping[str, _Argument] | None = None) -> Module: ...
def import_tokenizer(path: _Path) -> Module: ...
def compare(model: _Path | bytes | bytearray | Any, inputs: Mapping[str, _Argument] | None = None, *,
            reference: str | _Path | Mapping[str, _Argument] | None = None, tolerance: float | None = None,
            shapes: Mapping[str, Sequence[int]] | None = None, freeze: Mapping[str, _Argument] | None = None, all: bool = False,
            seed: int = 0, target: str = "host", opt_level: int = 2, threads: int = 1) -> Comparison: ...
def coverage(model: _Path | bytes | bytearray | Any, *,
             inputs: Mapping[str, Sequence[int | str | None]] | None = None,
             freeze: Mapping[str, _Argument] | None = None) -> list[OperatorUse]: ...

class Module:
    text: str
    params: dict[str, Any]
    name: str
    imports: dict[str, Module]
    folder: _Path | None
    def __init__(self, text: str, params: Mapping[str, _Argument] | None = None, name: str = "<text>", *,
                 imports: Mapping[str, Module] | None = None, folder: _Path | None = None) -> None: ...
    def check(self) -> list[Diagnostic]: ...
    def types(self) -> dict[str, str]: ...

# A Type, its text, or a dtype.
_TypeLike = Type | str | type | Any
# What stands for a value in a program that is being built: also numbers, arrays, and tuples and lists of values.
_ValueLike = Value | _Argument | tuple[Any, ...] | list[Any]

def tensor(*extents: int | str | None, dtype: str | type | Any = "float32") -> Type: ...

class Type:
    text: str
    def __init__(self, text: str) -> None: ...
    @property
    def shape(self) -> tuple[int | str | None, ...] | None: ...
    @property
    def dtype(self) -> str | None: ...
    @property
    def fields(self) -> tuple[Type, ...] | None: ...
    @property
    def result(self) -> Type | None: ...

class Value:
    @property
    def type(self) -> Type: ...
    @property
    def shape(self) -> tuple[int | str | None, ...] | None: ...
    @property
    def dtype(self) -> str | None: ...
    @property
    def T(self) -> Value: ...
    def astype(self, dtype: str | type | Any) -> Value: ...
    def read(self) -> Value: ...
    def write(self, value: _ValueLike) -> None: ...
    def __call__(self, *args: _ValueLike) -> Value: ...
    def __iter__(self) -> Iterator[Value]: ...
    def __getitem__(self, index: Any) -> Value: ...

class DataType:
    def __getitem__(self, args: _TypeLike | tuple[_TypeLike, ...]) -> Type: ...
    def __getattr__(self, name: str) -> Value: ...

class Builder:
    name: str
    op: Any
    prelude: Any
    def __init__(self, name: str = "<builder>") -> None: ...
    def function(self, body: Callable[..., _ValueLike] | None = None, *, name: str | None = None,
                 type_params: Sequence[str] = ()) -> Any: ...
    def define(self, name: str, params: Mapping[str, _TypeLike], body: Callable[..., _ValueLike], *,
               result: _TypeLike | None = None, type_params: Sequence[str] = ()) -> Value: ...
    def weight(self, name: str, value: _Argument | Type) -> Value: ...
    def import_onnx(self, model: _Path | bytes | bytearray | Module | Any, name: str | None = None, *,
                    inputs: Mapping[str, Sequence[int | str | None]] | None = None,
                    freeze: Mapping[str, _Argument] | None = None) -> Value: ...
    def import_torch(self, model: _Path | bytes | bytearray | Module | Any, name: str | None = None,
                     args: Sequence[Any] | None = None, kwargs: Mapping[str, Any] | None = None, *,
                     dynamic_shapes: Any = None, inputs: Mapping[str, Sequence[int | str | None]] | None = None,
                     freeze: Mapping[str, _Argument] | None = None) -> Value: ...
    def import_module(self, module: Module, name: str) -> Value: ...
    def new_type(self, name: str, *type_params: str, **constructors: Sequence[_TypeLike | DataType]) -> DataType: ...
    def if_(self, condition: _ValueLike, then: Callable[[], _ValueLike] | _ValueLike,
            otherwise: Callable[[], _ValueLike] | _ValueLike) -> Value: ...
    def match(self, value: _ValueLike, clauses: Mapping[str, Callable[..., _ValueLike] | _ValueLike], *,
              complete: bool = True) -> Value: ...
    def fn(self, body: Callable[..., _ValueLike], *types: _TypeLike) -> Value: ...
    def ref(self, value: _ValueLike) -> Value: ...
    def finish(self) -> Module: ...

class OperatorUse:
    name: str
    nodes: int
    refused: int
    reasons: list[str]
    def __init__(self, name: str, nodes: int, refused: int, reasons: Sequence[str]) -> None: ...
    @property
    def supported(self) -> bool: ...

class Diagnostic:
    severity: str
    kind: str
    message: str
    file: str
    line: int
    column: int
    notes: list[Diagnostic]
    def __init__(self, severity: str = "note", kind: str = "", message: str = "", file: str = "", line: int = 0,
                 column: int = 0, notes: Sequence[dict[str, Any]] = ()) -> None: ...

class Difference:
    name: str
    node: str | None
    operator: str | None
    shape: tuple[int, ...]
    dtype: str
    error: float
    at: tuple[int, ...] | None
    ours: Any
    theirs: Any
    agrees: bool
    why: str | None

class Comparison:
    outputs: list[Difference]
    nodes: list[Difference]
    first: Difference | None
    alone: list[Difference] | str | None
    fused: Difference | None
    @property
    def agrees(self) -> bool: ...
    def save(self, folder: _Path) -> None: ...

class CompileError(Error):
    diagnostics: list[Diagnostic]
    def __init__(self, message: str, diagnostics: Sequence[Diagnostic] = ()) -> None: ...

class ImportFailed(CompileError): ...
