"""A model of several signatures: what they share, the inputs of two calls of each, and the order of the calls."""

import numpy as np
import tensorflow as tf


class Coder(tf.Module):
    """Words as vectors and back, by one table; `encode` counts its calls, and `decode` reads the number."""

    def __init__(self):
        super().__init__()
        self.table = tf.Variable(np.random.default_rng(3).standard_normal((20, 8)), dtype=tf.float32, name="table")
        self.calls = tf.Variable(0, name="calls")

    @tf.function(input_signature=[tf.TensorSpec([None], tf.int32, "x")])
    def encode(self, x):
        self.calls.assign_add(1)
        return {"vectors": tf.gather(self.table, x)}

    @tf.function(input_signature=[tf.TensorSpec([None, 8], tf.float32, "x")])
    def decode(self, x):
        return {"calls": self.calls + 0, "scores": tf.matmul(x, self.table, transpose_b=True)}

    def signatures(self):
        return {"encode": self.encode, "decode": self.decode}


CALLS = [("decode", np.eye(3, 8, dtype=np.float32)), ("encode", np.int32([2, 0, 19])), ("encode", np.int32([5])),
         ("decode", np.ones((1, 8), np.float32))]
