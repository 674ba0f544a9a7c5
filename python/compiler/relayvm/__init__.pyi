# The public names of relayvm, with types: those of relayvm_runtime and of the compiler. tests/python_test.py compares
# them with the package.
from typing import Any, Mapping, Sequence

from relayvm_runtime import *
from relayvm_runtime import _Argument, Error, Executable, _Path
from relayvm_runtime import __version__ as __version__

def compile(program: Module | _Path, *, params: Mapping[str, _Argument] | _Path | None = None, target: str = "host",
            opt_level: int = 2, entries: Sequence[str] | None = None) -> Executable: ...
def parse(text: str, name: str = "<text>") -> Module: ...

# `onnx.ModelProto`, `torch.nn.Module` and `torch.export.ExportedProgram` are Any: neither package is needed.
def import_onnx(model: _Path | bytes | bytearray | Any, *,
                inputs: Mapping[str, Sequence[int | str | None]] | None = None,
                freeze: Mapping[str, _Argument] | None = None) -> Module: ...
def import_torch(model: _Path | bytes | bytearray | Any, args: Sequence[Any] | None = None,
                 kwargs: Mapping[str, Any] | None = None, *, dynamic_shapes: Any = None,
                 inputs: Mapping[str, Sequence[int | str | None]] | None = None,
                 freeze: Mapping[str, _Argument] | None = None) -> Module: ...
def coverage(model: _Path | bytes | bytearray | Any, *,
             inputs: Mapping[str, Sequence[int | str | None]] | None = None,
             freeze: Mapping[str, _Argument] | None = None) -> list[OperatorUse]: ...

class Module:
    text: str
    params: dict[str, Any]
    name: str
    def __init__(self, text: str, params: Mapping[str, _Argument] | None = None, name: str = "<text>") -> None: ...
    def check(self) -> list[Diagnostic]: ...

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

class CompileError(Error):
    diagnostics: list[Diagnostic]
    def __init__(self, message: str, diagnostics: Sequence[Diagnostic] = ()) -> None: ...

class ImportFailed(CompileError): ...
