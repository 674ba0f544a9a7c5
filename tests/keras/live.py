"""Compares imported Keras models with Keras: `python tests/keras/live.py [--applications] [NAME_PART...]`.

Needs keras, jax and h5py, as in `pip install keras jax h5py`, and built libraries. Each model of layers.py is compared with a batch
of 2 and with an unknown one, as .keras and as .h5; applications with random weights on one image. Prints what differs, and a count.
"""

import os
import sys
import tempfile
import warnings

os.environ["KERAS_BACKEND"] = "jax"
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
os.environ.setdefault("RELAYVM_LIBRARY", os.path.join(ROOT, "bazel-bin/capi/librelayvm.so.1"))
os.environ.setdefault("RELAYVM_COMPILER_LIBRARY", os.path.join(ROOT, "bazel-bin/capi/compiler/librelayvm_compiler.so.1"))
sys.path[:0] = [os.path.dirname(os.path.abspath(__file__)), *(os.path.join(ROOT, "python", part) for part in ("runtime", "compiler"))]

import jax  # noqa: E402
import keras  # noqa: E402
import layers  # noqa: E402
import numpy as np  # noqa: E402
import relayvm  # noqa: E402

jax.config.update("jax_default_matmul_precision", "highest")
APPLICATIONS = {
    "ConvNeXtTiny": 96, "DenseNet121": 96, "DenseNet169": 96, "DenseNet201": 96, "EfficientNetB0": 96, "EfficientNetB1": 96, "EfficientNetB2": 96,
    "EfficientNetB3": 96, "EfficientNetV2B0": 96, "EfficientNetV2B1": 96, "EfficientNetV2S": 96, "InceptionResNetV2": 96, "InceptionV3": 96,
    "MobileNet": 96, "MobileNetV2": 96, "MobileNetV3Large": 96, "MobileNetV3Small": 96, "NASNetMobile": 224, "ResNet50": 96, "ResNet50V2": 96,
    "ResNet101": 96, "ResNet101V2": 96, "ResNet152": 96, "VGG16": 64, "VGG19": 64, "Xception": 96}


def distance(model, path, values, of_greatest=False):
    """The largest relative distance between the outputs of the file at `path` and those of the model. `of_greatest`: relative to the greatest."""
    expected = layers.outputs_of(model, values)
    got = relayvm.compile(relayvm.import_keras(path))(*values)
    got = [np.asarray(one) for one in (got if isinstance(got, tuple) else (got,))]
    assert len(got) == len(expected), f"{len(got)} outputs; expected {len(expected)}"
    most = 0.0
    for a, b in zip(got, expected):
        assert a.shape == b.shape, f"shape {a.shape}; expected {b.shape}"
        a, b = a.astype("float64"), b.astype("float64")
        scale = 1 + np.abs(b)
        most = max(most, float(np.max(np.abs(a - b) / (scale.max(initial=1) if of_greatest else scale), initial=0)))
    return most


def compare(name, model, near, endings, folder):
    failures = []
    layers.random_weights(model)
    values = layers.random_inputs(model)
    for ending in endings:
        path = os.path.join(folder, f"model.{ending}")
        try:
            model.save(path)
        except Exception as error:  # noqa: BLE001
            print(f"{name}: Keras cannot save it as .{ending}: {str(error)[:100]}", flush=True)
            continue
        try:
            far = distance(model, path, values)
            if not far <= near:
                failures.append(f"{ending}: differs by {far:.2g}")
        except Exception as error:  # noqa: BLE001
            failures.append(f"{ending}: {str(error)[:400]}")
    for failure in failures:
        print(f"{name}: {failure}", flush=True)
    return not failures


def run_layers(parts, folder):
    right = count = 0
    for name, build in layers.LAYERS.items():
        if parts and not any(part in name for part in parts):
            continue
        for batch in (2, None):
            keras.backend.clear_session()
            count += 1
            right += compare(f"{name}, batch {batch}", build(batch), 1e-5, ("keras", "h5"), folder)
    return right, count


def draw_weights(model):
    """Gives a network weights that keep the size of what passes: with those that Keras draws, all scores are alike."""
    rng = np.random.default_rng(0)
    for layer in model._flatten_layers(include_self=False):  # pylint: disable=protected-access
        if isinstance(layer, keras.layers.Normalization) or layer.weights and hasattr(layer, "layers"):
            continue
        for weight in layer.weights:
            shape = weight.shape
            if len(shape) > 1:
                inputs = np.prod(shape[:2]) if isinstance(layer, keras.layers.DepthwiseConv2D) else np.prod(shape[:-1])
                value = rng.standard_normal(shape) * np.sqrt(1.2 / inputs)
            elif weight.name in ("gamma", "moving_variance"):
                value = rng.uniform(0.5, 1.5, shape)
            else:
                value = rng.standard_normal(shape) * 0.1
            weight.assign(value.astype("float32"))


def run_applications(parts, folder):
    right = count = 0
    for name, size in APPLICATIONS.items():
        if parts and not any(part in name for part in parts):
            continue
        keras.backend.clear_session()
        count += 1
        model = getattr(keras.applications, name)(weights=None, input_shape=(size, size, 3), classifier_activation=None)
        draw_weights(model)
        values = [np.random.default_rng(0).uniform(0, 255, (1, size, size, 3)).astype("float32")]
        path = os.path.join(folder, "model.keras")
        model.save(path)
        far = distance(model, path, values, of_greatest=True)
        print(f"{name}: {far:.2g}", flush=True)
        right += far <= 1e-4
    return right, count


def main(arguments):
    warnings.simplefilter("ignore")
    parts = [argument for argument in arguments if not argument.startswith("--")]
    run = run_applications if "--applications" in arguments else run_layers
    with tempfile.TemporaryDirectory() as folder:
        right, count = run(parts, folder)
    print(f"{right} of {count} are equal")
    return 0 if right == count else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
