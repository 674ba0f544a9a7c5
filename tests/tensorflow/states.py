"""Models that change their variables: each a tf.Module, and the inputs of three runs."""

import numpy as np
import tensorflow as tf


class Totals(tf.Module):
    """Sums so far, and the number of runs: what is read before and behind an assignment differs."""

    def __init__(self):
        super().__init__()
        self.total = tf.Variable([1., 2.], name="total")
        self.count = tf.Variable(0, name="count")

    @tf.function(input_signature=[tf.TensorSpec([2], tf.float32, "x")])
    def run(self, x):
        before = self.total * 1.
        self.total.assign_add(x)
        self.count.assign(self.count + 1)
        return {"y0": before, "y1": self.total + 0., "y2": self.count * 1}


class Branches(tf.Module):
    """Branches that write to variables, in functions of functions."""

    def __init__(self):
        super().__init__()
        self.low = tf.Variable(0., name="low")
        self.high = tf.Variable(0., name="high")
        self.scale = tf.Variable(2., name="scale")  # stays

    @tf.function
    def note(self, x):
        if x > self.high:
            self.high.assign(x)
            self.low.assign_sub(1.)
        elif x < self.low:
            self.low.assign(x)
        return self.high - self.low

    @tf.function(input_signature=[tf.TensorSpec([], tf.float32, "x")])
    def run(self, x):
        chosen = tf.switch_case(tf.cast(x, tf.int32), [lambda: self.low.assign_add(.5), lambda: self.high.assign(x * 2.)])
        return {"y0": self.note(x) * self.scale, "y1": chosen + 0.}


class Loops(tf.Module):
    """A loop that writes to a variable, which its condition reads."""

    def __init__(self):
        super().__init__()
        self.rows = tf.Variable(np.zeros((3, 2), np.float32), name="rows")

    @tf.function(input_signature=[tf.TensorSpec([2], tf.float32, "x")])
    def run(self, x):
        steps = 0
        while tf.reduce_sum(self.rows) < 20. and steps < 5:
            self.rows.assign(tf.concat([self.rows[1:], x[None] + tf.cast(steps, tf.float32)], 0))
            steps += 1
        return {"y0": self.rows * 1., "y1": steps}


STATES = {
    "totals": (Totals, [np.float32([3, 4]), np.float32([-1, .5]), np.float32([7, 7])]),
    "branches": (Branches, [np.float32(3), np.float32(-4), np.float32(1)]),
    "loops": (Loops, [np.float32([1, 2]), np.float32([2, 1]), np.float32([-30, -30])]),
}
