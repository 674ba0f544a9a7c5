"""Saves functions and modules of TensorFlow in the user's process. The only file that needs TensorFlow."""

import contextlib
import tempfile

import tensorflow as tf


@contextlib.contextmanager
def saved_model(model, args):
    """A temporary folder with the SavedModel of a function, a module or a Keras model."""
    with tempfile.TemporaryDirectory() as folder:
        if hasattr(model, "export") and hasattr(model, "layers"):
            model.export(folder, verbose=False)
        else:
            function = model.__call__ if isinstance(model, tf.Module) else model
            if not hasattr(function, "graph"):  # that only concrete functions have
                if not hasattr(function, "get_concrete_function"):
                    raise TypeError(f"saw {type(model).__name__}; expected a tf.function, a concrete function, a tf.Module whose "
                                    "`__call__` is a tf.function, a keras.Model, a path, or bytes")
                function = function.get_concrete_function(*args)
            # A module keeps the variables of a function alive, and what is saved needs one.
            holder = model if isinstance(model, tf.Module) else tf.Module()
            holder.exported_function = function
            holder.exported_variables = function.graph.variables
            tf.saved_model.save(holder, folder, signatures=function)
        yield folder
