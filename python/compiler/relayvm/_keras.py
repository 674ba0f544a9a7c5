"""Saves and exports models of Keras in the user's process. The only file that needs Keras."""

import os
import tempfile

import keras


def saved_bytes(model):
    """The bytes of the .keras file that `model.save` writes."""
    if not isinstance(model, keras.Model):
        raise TypeError(f"saw {type(model).__name__}; expected a keras.Model of Keras 3, a path, or bytes")
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.keras")
        model.save(path)
        with open(path, "rb") as file:
            return file.read()


def exported_bytes(model):
    """What jax.export serializes of the model with unknown extents as names; None if the backend is not JAX, or if the model was
    never called, so that nobody knows its inputs."""
    if keras.backend.backend() != "jax" or not getattr(model, "inputs", None):
        return None
    import jax
    from jax import export

    from ._jax import exported_bytes as exported

    scope = export.SymbolicScope()

    def extents(number, shape):
        names = ["batch" if axis == 0 else f"x{number}_{axis}" for axis in range(len(shape))]
        return export.symbolic_shape(",".join(str(extent or name) for extent, name in zip(shape, names)), scope=scope)

    args = [jax.ShapeDtypeStruct(extents(number, given.shape), given.dtype) for number, given in enumerate(model.inputs)]
    call = lambda *values: keras.tree.flatten(model(keras.tree.pack_sequence_as(model.input, values), training=False))  # noqa: E731
    return exported(call, args)
