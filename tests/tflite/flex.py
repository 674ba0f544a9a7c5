"""Writes flex.npz.xz: models of TensorFlow Lite that TensorFlow converted, with what TensorFlow computes for them.

    python tests/tflite/flex.py

Needs tensorflow-cpu (2.21.0 with Keras 3.15.1 made those that are committed), which no test needs. They have operators of
TensorFlow (Flex), which neither LiteRT nor the interpreter of that package runs, and several signatures. `NAME.model` are the
bytes, `NAME.SIGNATURE.in.N` and `NAME.SIGNATURE.out.N` the inputs and outputs of a call.
"""

import io
import lzma
import os
import sys
import tempfile

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import keras  # noqa: E402
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "tensorflow"))

from signatures import CALLS, Coder  # noqa: E402

MAIN = "serving_default"


def square(x):
    return x[:, :3] @ tf.transpose(x[:, :3]) + 3 * tf.eye(3)


def triangle(x):
    return tf.linalg.band_part(x[:, :3], -1, 0) + 3 * tf.eye(3)


def image(x):
    return tf.reshape(x, [1, 3, 4, 1])


# Functions of a (3, 4) tensor.
FUNCTIONS = {
    "bincount": lambda x: tf.math.bincount(tf.cast(tf.abs(x) * 3, tf.int32), minlength=5),
    "bits": lambda x: tf.bitwise.bitwise_and(tf.cast(x * 9, tf.int32), 5),
    "cholesky": lambda x: tf.linalg.cholesky(square(x)),
    "crop": lambda x: tf.image.crop_and_resize(image(x), [[0.1, 0.0, 0.9, 1.2], [1.0, 1.0, 0.0, 0.0]], [0, 0], [5, 3]),
    "cumprod": lambda x: tf.math.cumprod(x, axis=1),
    "determinant": lambda x: tf.linalg.det(square(x)),
    "dilation": lambda x: tf.nn.dilation2d(image(x), tf.reshape(tf.range(4.0), [2, 2, 1]), [1, 1, 1, 1], "SAME", "NHWC", [1, 1, 1, 1]),
    "elements": lambda x: (tf.math.erf(x), tf.math.tan(x), tf.math.sinh(x), tf.math.cosh(x)),
    "inverse": lambda x: tf.linalg.inv(square(x)),
    "map": lambda x: tf.map_fn(lambda row: tf.reduce_sum(row) * row, x),
    "patches": lambda x: tf.image.extract_patches(image(x), [1, 2, 3, 1], [1, 2, 1, 1], [1, 1, 1, 1], "SAME"),
    "qr": lambda x: tf.matmul(*tf.linalg.qr(x)),
    "scan": lambda x: tf.scan(lambda before, row: tf.tanh(before + row), x),
    "solve": lambda x: (tf.linalg.triangular_solve(triangle(x), x), tf.linalg.triangular_solve(triangle(x), x, adjoint=True)),
    "top": lambda x: tf.math.in_top_k([1, 2, 0], x, 2),
}


def networks():
    """Recurrent layers of an unknown batch, whose results are TensorLists."""
    for name, length, layer in (("gru", 6, keras.layers.GRU(4)), ("lstm", None, keras.layers.LSTM(3, return_sequences=True)),
                                ("both", 5, keras.layers.Bidirectional(keras.layers.LSTM(2, return_sequences=True)))):
        given = keras.Input((length, 5))
        yield name, keras.Model(given, layer(given))


class Tied(tf.Module):
    """Two signatures that read the same weights."""

    def __init__(self):
        super().__init__()
        self.weights = tf.constant(np.random.default_rng(2).standard_normal((64, 48)), tf.float32)

    @tf.function(input_signature=[tf.TensorSpec((1, 64), tf.float32, "x")])
    def encode(self, x):
        return {"y": tf.matmul(x, self.weights)}

    @tf.function(input_signature=[tf.TensorSpec((3, 64), tf.float32, "x")])
    def decode(self, x):
        return {"y": tf.tanh(tf.matmul(x, self.weights))}


def converted(converter):
    converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS, tf.lite.OpsSet.SELECT_TF_OPS]
    converter._experimental_lower_tensor_list_ops = False  # pylint: disable=protected-access
    return converter.convert()


def main():
    random, arrays = np.random.default_rng(5), {}

    def store(name, signature, inputs, outputs):
        for kind, values in (("in", inputs), ("out", outputs)):
            for number, value in enumerate(values):
                arrays[f"{name}.{signature}.{kind}.{number}"] = np.asarray(value)

    for name, function in FUNCTIONS.items():
        x = random.standard_normal((3, 4)).astype("float32")
        concrete = tf.function(function, input_signature=[tf.TensorSpec((3, 4), tf.float32, "x")]).get_concrete_function()
        arrays[f"{name}.model"] = np.frombuffer(converted(tf.lite.TFLiteConverter.from_concrete_functions([concrete])), np.uint8)
        store(name, MAIN, [x], tf.nest.flatten(function(tf.constant(x))))
    keras.utils.set_random_seed(3)
    for name, model in networks():
        x = random.standard_normal((2, model.inputs[0].shape[1] or 7, 5)).astype("float32")
        arrays[f"{name}.model"] = np.frombuffer(converted(tf.lite.TFLiteConverter.from_keras_model(model)), np.uint8)
        store(name, MAIN, [x], [model(x)])
    module = Coder()
    with tempfile.TemporaryDirectory() as folder:
        tf.saved_model.save(module, folder, signatures=module.signatures())
        converter = tf.lite.TFLiteConverter.from_saved_model(folder)
        converter.experimental_enable_resource_variables = True
        arrays["coder.model"] = np.frombuffer(converted(converter), np.uint8)
    for number, (signature, x) in enumerate(CALLS):
        results = getattr(module, signature)(tf.constant(x))
        store("coder", f"{number}:{signature}", [x], [results[key] for key in sorted(results)])
    module = Tied()
    with tempfile.TemporaryDirectory() as folder:
        tf.saved_model.save(module, folder, signatures={"encode": module.encode, "decode": module.decode})
        arrays["tied.model"] = np.frombuffer(converted(tf.lite.TFLiteConverter.from_saved_model(folder)), np.uint8)
    content = io.BytesIO()
    np.savez(content, **arrays)
    with lzma.open(os.path.join(HERE, "flex.npz.xz"), "wb") as file:
        file.write(content.getvalue())


if __name__ == "__main__":
    main()
