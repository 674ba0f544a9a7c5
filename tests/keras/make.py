"""Makes the files of tests/keras: models of Keras, and what Keras computes with them. `python tests/keras/make.py [NAME...]`.

Needs keras, jax and h5py. A case is a model in a .keras or .h5 file and a .npz with inputs `N.in.I` and outputs `N.out.I`.
"""

import json
import os
import sys
import zipfile

os.environ["KERAS_BACKEND"] = "jax"
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

import h5py  # noqa: E402
import jax  # noqa: E402
import keras  # noqa: E402
import layers  # noqa: E402
import numpy as np  # noqa: E402
from keras import layers as L  # noqa: E402

jax.config.update("jax_default_matmul_precision", "highest")


def dense():
    return keras.Sequential([keras.Input((4,), name="x"), L.Dense(3, activation="relu"), L.BatchNormalization(), L.Dense(2, activation="softmax")])


def images():
    x = keras.Input((9, 8, 2), name="image")
    y = L.Conv2D(4, 3, padding="same", strides=2, activation="relu")(x)
    y = L.DepthwiseConv2D(3, padding="same")(y)
    y = L.Add()([y, L.Conv2D(4, 1)(y)])
    y = L.SeparableConv2D(3, 2)(y)
    y = L.UpSampling2D(2)(L.MaxPooling2D(2)(y))
    y = L.Conv2DTranspose(2, 3, strides=2, padding="same")(L.ZeroPadding2D(1)(y))
    return keras.Model(x, [L.GlobalAveragePooling2D()(y), L.Flatten()(L.Cropping2D(1)(y))])


def nested():
    """A model as a layer that is called twice, a layer that is shared, and operators between layers."""
    a, b = keras.Input((4,), name="a"), keras.Input((4,), name="b")
    inner = keras.Sequential([keras.Input((4,)), L.Dense(3, activation="gelu"), L.LayerNormalization()], name="inner")
    x = keras.Input((3,))
    outer = keras.Model(x, [L.Dense(2)(x), L.PReLU()(x)], name="two")
    shared = L.Dense(3, name="shared")
    first, second = outer(inner(a)), outer(inner(b))
    return keras.Model([a, b], [shared(first[1]) * 2 + shared(second[1]), L.Concatenate()([first[0], second[0]])])


def words():
    """Masks through recurrent layers of both directions, over any number of steps."""
    x = keras.Input((None,), dtype="int32", name="words")
    y = L.Embedding(7, 4, mask_zero=True)(x)
    y = L.Bidirectional(L.LSTM(3, return_sequences=True))(y)
    y = L.GRU(3, return_sequences=True, go_backwards=True)(L.Dropout(0.3)(y))
    last, state = L.SimpleRNN(2, return_state=True)(y)
    return keras.Model(x, [L.TimeDistributed(L.Dense(2))(y), last, state])


def attention():
    x = keras.Input((None, 6), name="x")
    y = L.Masking()(x)
    y = L.MultiHeadAttention(2, 3)(y, y, use_causal_mask=True)
    y = L.LayerNormalization()(L.Add()([x, y]))
    return keras.Model(x, L.Attention()([y, y]))


def stateful():
    x = keras.Input((3, 4), batch_size=2, name="x")
    return keras.Model(x, L.LSTM(3, stateful=True)(x))


def refused():
    x = keras.Input((64, 1), name="x")
    return keras.Model(x, L.Lambda(lambda value: value + 1)(L.STFTSpectrogram(frame_length=16, frame_step=8, fft_length=16)(x)))


CASES = {"dense.keras": dense, "dense.h5": dense, "images.keras": images, "nested.keras": nested, "nested.h5": nested, "words.keras": words,
         "attention.keras": attention}


def old_config(config):
    """A config of one Functional model as Keras 2 writes it."""
    def layer(given):
        own = {"name": given["config"]["name"], "trainable": True, **{k: v for k, v in given["config"].items() if k in KEPT}}
        if given["class_name"] == "InputLayer":
            own = {"batch_input_shape": given["config"]["batch_shape"], "dtype": given["config"]["dtype"], "name": given["config"]["name"]}
        nodes = []
        for node in given["inbound_nodes"]:
            refs = []
            for argument in node["args"]:
                for one in argument if isinstance(argument, list) else [argument]:
                    refs.append([*one["config"]["keras_history"], {}])
            nodes.append(refs)
        return {"class_name": given["class_name"], "config": own, "name": own["name"], "inbound_nodes": nodes}

    as_list = lambda refs: [refs] if isinstance(refs[0], str) else refs  # noqa: E731
    return {"class_name": "Model", "config": {"name": config["name"], "layers": [layer(one) for one in config["layers"] if one["module"] == "keras.layers"],
                                              "input_layers": as_list(config["input_layers"]), "output_layers": as_list(config["output_layers"])}}


KEPT = {"units", "activation", "recurrent_activation", "use_bias", "return_sequences", "go_backwards", "stateful", "input_dim", "output_dim",
        "mask_zero", "axis", "epsilon", "center", "scale", "rate", "reset_after", "trainable"}


def old(path):
    """A .h5 file of Keras 2: its config, its version, datasets with names that end in `:0`, strings of fixed length."""
    x = keras.Input((5,), dtype="int32", name="words")
    y = L.LSTM(3, recurrent_activation="sigmoid", return_sequences=True)(L.Embedding(6, 4, mask_zero=True, name="embedding")(x))
    y = L.Dropout(0.5)(y)
    a, b = L.GRU(2, reset_after=False, name="a")(y), L.GRU(2, reset_after=True, name="b")(y)
    z = L.BatchNormalization()(L.Add()([a, b]))
    model = keras.Model(x, L.Dense(2, activation="tanh")(z))
    layers.random_weights(model)
    with h5py.File(path, "w") as file:
        file.attrs["keras_version"] = np.bytes_("2.15.0")
        file.attrs["backend"] = np.bytes_("tensorflow")
        file.attrs["model_config"] = np.bytes_(json.dumps(old_config(model.get_config())))
        group = file.create_group("model_weights")
        group.attrs["layer_names"] = np.array([layer.name for layer in model.layers], "S")
        for layer in model.layers:
            weights = [*layer.trainable_weights, *layer.non_trainable_weights]
            own = group.create_group(layer.name)
            own.attrs["weight_names"] = np.array([weight.path + ":0" for weight in weights], "S")
            for i, weight in enumerate(weights):
                value = np.asarray(weight)
                packed = {"compression": "gzip", "shuffle": True, "chunks": tuple(max(1, n - 1) for n in value.shape)} if i % 2 else {}
                own.create_dataset(weight.path + ":0", data=value, **packed)
    return model


def save(name, model):
    """Saves a model; archives are packed, but for one that is as Keras writes it."""
    path = os.path.join(HERE, name)
    model.save(path)
    if name == "dense.keras" or not name.endswith(".keras"):
        return
    with zipfile.ZipFile(path) as archive:
        entries = [(entry, archive.read(entry)) for entry in archive.namelist()]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for entry, content in entries:
            archive.writestr(zipfile.ZipInfo(entry), content, zipfile.ZIP_DEFLATED)


def write(name, model, extents=(5, 3)):
    arrays = {}
    for number, (batch, extent) in enumerate(zip((2, 3), extents)):
        if model.inputs[0].shape[0] is not None and number:
            break
        values = layers.random_inputs(model, batch, extent, seed=number)
        for kind, tensors in (("in", values), ("out", layers.outputs_of(model, values))):
            arrays.update({f"{number}.{kind}.{i}": tensor for i, tensor in enumerate(tensors)})
    np.savez_compressed(os.path.join(HERE, os.path.splitext(name)[0] + ".npz"), **arrays)


def main(names):
    for name, build in CASES.items():
        if not names or name in names:
            keras.utils.set_random_seed(0)
            keras.backend.clear_session()
            model = build()
            layers.random_weights(model)
            save(name, model)
            write(name, model)
    keras.backend.clear_session()
    if not names or "keras2.h5" in names:
        write("keras2.h5", old(os.path.join(HERE, "keras2.h5")))
    for name, build in (("stateful.keras", stateful), ("refused.keras", refused)):
        if not names or name in names:
            keras.backend.clear_session()
            model = build()
            layers.random_weights(model)
            save(name, model)
    model = stateful()
    layers.random_weights(model)
    values = [layers.random_inputs(model, 2, 3, seed=number) for number in range(2)]
    arrays = {f"{number}.in.0": value[0] for number, value in enumerate(values)}
    arrays.update({f"{number}.out.0": layers.outputs_of(model, value)[0] for number, value in enumerate(values)})
    np.savez_compressed(os.path.join(HERE, "stateful.npz"), **arrays)


if __name__ == "__main__":
    main(sys.argv[1:])
