"""Saves networks of keras.applications with random weights in each format: python save.py FOLDER NETWORK...

Needs tensorflow-cpu, keras, jax and tf2onnx. NETWORK is in SIZES. Writes NETWORK.keras, .pb (a frozen graph), .saved (a SavedModel), .tflite,
.mlirbc and .onnx, all for one image, and NETWORK.npz with the image and what Keras computes.
"""

import os
import subprocess
import sys

import numpy as np

SIZES = {"MobileNet": 224, "MobileNetV2": 224, "MobileNetV3Small": 224, "EfficientNetB0": 224, "ResNet50": 224, "DenseNet121": 224,
         "InceptionV3": 299, "Xception": 299}


def tensorflow(folder, name):
    import keras
    import tensorflow as tf
    import tf2onnx
    from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

    random = np.random.default_rng(0)
    shape = (1, SIZES[name], SIZES[name], 3)
    network = getattr(keras.applications, name)(weights=None, input_shape=shape[1:])
    for layer in network._flatten_layers():
        if isinstance(layer, keras.layers.BatchNormalization):
            for variable in layer.weights:  # of fresh layers all are zeros or ones
                variable.assign(random.uniform(0.5, 1.5, variable.shape))
    inputs = keras.Input(batch_shape=shape)
    model = keras.Model(inputs, network(inputs))
    image = random.uniform(-1, 1, shape).astype(np.float32)
    path = os.path.join(folder, name)
    model.save(f"{path}.keras")
    model.export(f"{path}.saved", verbose=False)
    with open(f"{path}.tflite", "wb") as file:
        file.write(tf.lite.TFLiteConverter.from_keras_model(model).convert())
    function = tf.function(lambda x: model(x, training=False)).get_concrete_function(tf.TensorSpec(shape, name="x"))
    frozen = convert_variables_to_constants_v2(function)
    graph = frozen.graph.as_graph_def()
    with open(f"{path}.pb", "wb") as file:
        file.write(graph.SerializeToString())
    with tf.Graph().as_default() as converted:
        tf.import_graph_def(graph, name="")
        names = [[tensor.name for tensor in tensors] for tensors in (frozen.inputs, frozen.outputs)]
        proto = tf2onnx.tfonnx.process_tf_graph(converted, input_names=names[0], output_names=names[1], opset=17)
        with open(f"{path}.onnx", "wb") as file:
            file.write(tf2onnx.optimizer.optimize_graph(proto).make_model(name).SerializeToString())
    np.savez(f"{path}.npz", image=image, classes=model(image).numpy())


def stablehlo(folder, name):
    import jax
    import keras

    path = os.path.join(folder, name)
    model = keras.models.load_model(f"{path}.keras")
    exported = jax.export.export(jax.jit(lambda x: model(x, training=False)))(jax.ShapeDtypeStruct((1, SIZES[name], SIZES[name], 3), np.float32))
    with open(f"{path}.mlirbc", "wb") as file:
        file.write(exported.mlir_module_serialized)


def main():
    if sys.argv[1] in ("tensorflow", "stablehlo"):
        return globals()[sys.argv[1]](*sys.argv[2:])
    for name in sys.argv[2:]:
        for step, backend in (("tensorflow", "tensorflow"), ("stablehlo", "jax")):
            environment = {**os.environ, "KERAS_BACKEND": backend, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""}
            subprocess.run([sys.executable, __file__, step, sys.argv[1], name], check=True, env=environment)


if __name__ == "__main__":
    main()
