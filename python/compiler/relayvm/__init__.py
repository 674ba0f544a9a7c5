"""Compiles and runs Relay programs.

>>> import relayvm
>>> count = relayvm.compile('''
... type List[A] { Cons(A, List[A]), Nil, }
... def @main(%l: List[int32]) -> int32 { match (%l) { Nil => 0, Cons(%x, %rest) => %x + @main(%rest) } }''')
>>> int(count([1, 2, 3]))
6
"""

import importlib

from relayvm_runtime import *  # noqa: F403
from relayvm_runtime import __all__ as _runtime
from relayvm_runtime import __version__ as __version__

from ._builder import Builder, DataType
from ._compare import Comparison, Difference, compare
from ._compiler import (CompileError, Diagnostic, ImportFailed, Module, OperatorUse, compile, coverage,
                        import_darknet, import_file, import_jax, import_keras, import_mxnet, import_onnx, import_stablehlo, import_tf, import_tflite, import_torch, parse)
from ._magic import load_ipython_extension  # noqa: F401
from ._quantize import Quantized, quantize
from ._tokenizer import import_tokenizer
from ._types import Type, tensor
from ._value import Value

__all__ = [*_runtime, "Builder", "Comparison", "CompileError", "DataType", "Diagnostic", "Difference", "ImportFailed", "Module",
           "OperatorUse", "Quantized", "Type", "Value", "compare", "compile", "coverage", "import_darknet", "import_file", "import_jax", "import_keras", "import_mxnet",
           "import_onnx", "import_stablehlo", "import_tf", "import_tflite", "import_tokenizer", "import_torch", "parse", "quantize", "tensor"]


def __getattr__(name):
    """Imports `relayvm.torch`, which needs PyTorch, when it is first used."""
    if name == "torch":
        return importlib.import_module(".torch", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
