"""A model of Keras inside a module, as users wrap one to give it a signature. The graph restores other variables than its functions
capture, and two of them have one name: only the objects of the model say which value is whose."""

import keras
import numpy as np
import tensorflow as tf

GIVEN = np.random.default_rng(5).standard_normal((3, 4)).astype(np.float32)


def layers(seed):
    random = np.random.default_rng(seed)
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(4, name="dense"), keras.layers.BatchNormalization(name="norm")])
    for variable in model.variables:
        variable.assign(random.uniform(0.5, 1.5, variable.shape))
    return model


class Wrapped(tf.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = layers(1), layers(2)

    @tf.function(input_signature=[tf.TensorSpec([None, 4], tf.float32, "x")])
    def run(self, x):
        return self.first(x, training=False) * 2 + self.second(x, training=False)
