"""Exports functions of JAX in the user's process. The only file that needs JAX."""

import jax
from jax import export


def exported_bytes(function, args):
    """What jax.export serializes of a function for these arguments, or of what it exported already."""
    if isinstance(function, export.Exported):
        if args:
            raise TypeError("example arguments are for a function; this program is exported already")
        exported = function
    else:
        # Arguments that the function does not use stay parameters. Only what runs on a CPU is of use here.
        exported = export.export(jax.jit(function, keep_unused=True), platforms=["cpu"])(*args)
    try:
        return bytes(exported.serialize())
    except ImportError:  # without the package flatbuffers: the program has no names of extents that are expressions
        return bytes(exported.mlir_module_serialized)
