"""Small networks of Keras that make.py saves: `NETWORKS` by name, each a function that makes the model, and its input."""

import numpy as np
import keras

L = keras.layers


def f(*shape):
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype("float32")


def dense():
    return keras.Sequential([keras.Input((6,)), L.Dense(8, activation="gelu"), L.LayerNormalization(), L.Dense(3, activation="softmax")])


def images():
    return keras.Sequential([keras.Input((None, None, 2)), L.Conv2D(4, 3, padding="same"), L.BatchNormalization(), L.ReLU(6), L.DepthwiseConv2D(3, depth_multiplier=2),
                             L.MaxPooling2D(2), L.Conv2DTranspose(3, 2, strides=2), L.UpSampling2D(2), L.GlobalAveragePooling2D()])


def volumes():
    return keras.Sequential([keras.Input((6, 6, 6, 1)), L.Conv3D(2, 3, padding="same"), L.MaxPool3D(2), L.AvgPool3D(2), L.Flatten(), L.Dense(2)])


def attention():
    x = given = keras.Input((None, 8))
    x = L.LayerNormalization()(x + L.MultiHeadAttention(2, 4)(x, x))
    return keras.Model(given, L.Dense(3)(L.GlobalAveragePooling1D()(x)))


def recurrent():
    return keras.Sequential([keras.Input((None, 3)), L.LSTM(4, return_sequences=True), L.GRU(3)])


def both_ways():
    return keras.Sequential([keras.Input((5, 3)), L.Bidirectional(L.LSTM(3))])


def words():
    return keras.Sequential([keras.Input((5,), dtype="int32"), L.Embedding(9, 4), L.Conv1D(3, 3, padding="causal"), L.GlobalMaxPooling1D()])


NETWORKS = {
    "dense": (dense, f(3, 6)),
    "images": (images, f(2, 8, 6, 2)),
    "volumes": (volumes, f(1, 6, 6, 6, 1)),
    "attention": (attention, f(2, 5, 8)),
    "recurrent": (recurrent, f(2, 6, 3)),
    "both_ways": (both_ways, f(2, 5, 3)),
    "words": (words, np.random.default_rng(1).integers(0, 9, (2, 5)).astype("int32")),
}


def make(name):
    """The model, with weights that differ from those it begins with, and its input."""
    keras.utils.set_random_seed(1)
    function, given = NETWORKS[name]
    model = function()
    random = np.random.default_rng(2)
    for weight in model.weights:
        weight.assign(random.uniform(0.5, 1.5, weight.shape) if "variance" in weight.path else random.normal(0, 0.4, weight.shape))
    return model, given
