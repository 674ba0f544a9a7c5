"""RelayVM in programs of PyTorch: the backend of `torch.compile(model, backend="relayvm")`, and Module."""

try:
    import torch as _pytorch
except ImportError as error:
    raise ImportError("relayvm.torch needs PyTorch 2.8 or newer, which is not installed; `pip install torch`") from error

from ._settings import FallbackWarning, check_version

check_version(_pytorch.__version__)

from ._backend import backend  # noqa: E402
from ._module import Module, compile  # noqa: E402

__all__ = ["FallbackWarning", "Module", "backend", "compile", "record"]


def record(program, *args, **kwargs):
    """Runs a torch.export.ExportedProgram, and gives the tensors of all its nodes as arrays by name: what relayvm.compare takes
    as a reference where PyTorch is not installed. bfloat16 and float8 become float32."""
    from .._torch import record as tensors_of
    names = [spec.arg.name for spec in program.graph_signature.input_specs if spec.kind.name == "USER_INPUT"]
    return tensors_of(program, dict(zip(names, _pytorch.utils._pytree.tree_leaves((args, kwargs)))))
