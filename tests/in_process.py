"""The runtime as a library in this process, for tests that make thousands of small calls."""

import importlib
import os
import sys

import relayvm


def load(model, **options):
    """The executable in the file `model`; calls of its entries take and give numpy arrays."""
    os.environ.setdefault("RELAYVM_LIBRARY", relayvm.built("//capi:librelayvm.so.1"))
    folder = os.path.join(relayvm.ROOT, "python", "runtime")
    if folder not in sys.path:
        sys.path.append(folder)
    return importlib.import_module("relayvm_runtime").load(model, **options)
