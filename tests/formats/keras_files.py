"""Saves a Keras model in the formats of its frameworks; needs tensorflow-cpu and tf2onnx, and jax for StableHLO.

Keras has one backend in a process: `save` wants KERAS_BACKEND=tensorflow, `save_stablehlo` jax.
"""

import numpy as np


def save(model, path, saved):
    """Writes PATH.keras, .tflite, .pb (a frozen graph) and .onnx, and a SavedModel at `saved`."""
    import tensorflow as tf
    import tf2onnx
    from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

    model.save(f"{path}.keras")
    model.export(saved, verbose=False)
    with open(f"{path}.tflite", "wb") as file:
        file.write(tf.lite.TFLiteConverter.from_keras_model(model).convert())
    function = tf.function(lambda image: model(image, training=False)).get_concrete_function(tf.TensorSpec(model.input_shape, name="image"))
    frozen = convert_variables_to_constants_v2(function)
    graph = frozen.graph.as_graph_def()
    with open(f"{path}.pb", "wb") as file:
        file.write(graph.SerializeToString())
    with tf.Graph().as_default() as converted:
        tf.import_graph_def(graph, name="")
        names = [[tensor.name for tensor in tensors] for tensors in (frozen.inputs, frozen.outputs)]
        proto = tf2onnx.tfonnx.process_tf_graph(converted, input_names=names[0], output_names=names[1], opset=17)
        with open(f"{path}.onnx", "wb") as file:
            file.write(tf2onnx.optimizer.optimize_graph(proto).make_model("network").SerializeToString())


def save_stablehlo(path):
    """Writes PATH.mlirbc from PATH.keras."""
    import jax
    import keras

    model = keras.models.load_model(f"{path}.keras")
    batch = model.input_shape[0] or jax.export.symbolic_shape("b")[0]
    images = jax.ShapeDtypeStruct((batch, *model.input_shape[1:]), np.float32)
    exported = jax.export.export(jax.jit(lambda image: model(image, training=False)))(images)
    with open(f"{path}.mlirbc", "wb") as file:
        file.write(exported.mlir_module_serialized)
