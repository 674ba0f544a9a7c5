"""RelayVM in programs of PyTorch: the backend of `torch.compile(model, backend="relayvm")`, and Module."""

try:
    import torch as _pytorch
except ImportError as error:
    raise ImportError("relayvm.torch needs PyTorch 2.8 or newer, which is not installed; `pip install torch`") from error

from ._settings import FallbackWarning, check_version

check_version(_pytorch.__version__)

from ._backend import backend  # noqa: E402
from ._module import Module, compile  # noqa: E402

__all__ = ["FallbackWarning", "Module", "backend", "compile"]
