"""Saves networks of keras.applications with random weights in each format: python save.py FOLDER NETWORK...

Needs tensorflow-cpu, keras, jax and tf2onnx. NETWORK is in SIZES. Writes NETWORK.keras, .pb (a frozen graph), .saved (a SavedModel), .tflite,
.mlirbc and .onnx, all for one image, and NETWORK.npz with the image and what Keras computes.
"""

import os
import subprocess
import sys

import numpy as np

FORMATS = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "tests/formats")
SIZES = {"MobileNet": 224, "MobileNetV2": 224, "MobileNetV3Small": 224, "EfficientNetB0": 224, "ResNet50": 224, "DenseNet121": 224,
         "InceptionV3": 299, "Xception": 299}


def tensorflow(folder, name):
    import keras
    import keras_files

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
    keras_files.save(model, path, f"{path}.saved")
    np.savez(f"{path}.npz", image=image, classes=model(image).numpy())


def stablehlo(folder, name):
    import keras_files

    keras_files.save_stablehlo(os.path.join(folder, name))


def main():
    if sys.argv[1] in ("tensorflow", "stablehlo"):
        return globals()[sys.argv[1]](*sys.argv[2:])
    for name in sys.argv[2:]:
        for step, backend in (("tensorflow", "tensorflow"), ("stablehlo", "jax")):
            environment = {**os.environ, "PYTHONPATH": FORMATS, "KERAS_BACKEND": backend, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""}
            subprocess.run([sys.executable, __file__, step, sys.argv[1], name], check=True, env=environment)


if __name__ == "__main__":
    main()
