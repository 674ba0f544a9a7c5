"""Programs of TensorFlow with control flow: `PROGRAMS` by name, each a function of tensors and its example arguments.

Each is written with tf.cond, tf.while_loop, tf.TensorArray and the like, which TensorFlow writes as functions (While, If,
TensorList) or, with `disable_control_flow_v2`, as frames (Enter, Switch, Merge, TensorArray).
"""

import numpy as np
import tensorflow as tf

PROGRAMS = {}


def program(*arguments, name=None):
    def add(function):
        PROGRAMS[name or function.__name__] = (function, arguments)
        return function
    return add


def f(*shape, seed=0):
    return np.random.default_rng(seed + sum(shape)).standard_normal(shape).astype("float32")


def i(value):
    return np.asarray(value, "int32")


# ---- loops

@program(i(1), i(2), i(2))
def figure2(i, j, k):
    """The loop of the paper's figure 2."""
    condition = lambda i, j, k: tf.equal(tf.not_equal(tf.less(i + j, 10), tf.less(j * k, 100)), tf.greater_equal(k, i + j))
    return tf.while_loop(condition, lambda i, j, k: (i + j, j + k, k + 1), (i, j, k))


@program(i(10))
def count(n):
    return tf.while_loop(lambda k, s: k < n, lambda k, s: (k + 1, s + k), (0, 0))[1]


@program(f(3), i(5))
def doubles(x, n):
    return tf.while_loop(lambda k, y: k < n, lambda k, y: (k + 1, y + x), (0, tf.zeros_like(x)))[1]


@program(f(4, 4), i(3))
def powers(x, n):
    return tf.while_loop(lambda k, y: k < n, lambda k, y: (k + 1, tf.matmul(y, x)), (0, tf.eye(4)))[1]


@program(i(27))
def collatz(n):
    body = lambda k, steps: (tf.where(tf.equal(k % 2, 0), k // 2, 3 * k + 1), steps + 1)
    return tf.while_loop(lambda k, steps: k > 1, body, (n, 0))[1]


@program(f(5))
def until_small(x):
    return tf.while_loop(lambda y: tf.reduce_max(tf.abs(y)) > 0.01, lambda y: y * 0.5, (x,))[0]


@program(np.float32(2.0))
def newton(a):
    body = lambda x, k: (0.5 * (x + a / x), k + 1)
    return tf.while_loop(lambda x, k: tf.abs(x * x - a) > 1e-5, body, (a, 0))


@program(i(48), i(36))
def euclid(a, b):
    return tf.while_loop(lambda a, b: tf.not_equal(b, 0), lambda a, b: (b, a % b), (a, b))[0]


@program(f(3, 4), i(4))
def nested(x, n):
    def outer(k, y):
        inner = tf.while_loop(lambda j, z: j < k, lambda j, z: (j + 1, z * 0.5 + tf.cast(j, tf.float32)), (0, y))
        return k + 1, inner[1]
    return tf.while_loop(lambda k, y: k < n, outer, (0, x))[1]


@program(i(4))
def thrice_nested(n):
    def outer(a, s):
        def middle(b, s):
            inner = tf.while_loop(lambda c, s: c < b, lambda c, s: (c + 1, s + a * c), (0, s))
            return b + 1, inner[1]
        return a + 1, tf.while_loop(lambda b, s: b < a, middle, (0, s))[1]
    return tf.while_loop(lambda a, s: a < n, outer, (0, 0))[1]


@program(f(4), i(3), i(2))
def one_after_another(x, n, m):
    y = tf.while_loop(lambda k, y: k < n, lambda k, y: (k + 1, y + 1), (0, x))[1]
    return tf.while_loop(lambda k, y: k < m, lambda k, y: (k + 1, y * 2), (0, y))[1]


@program(f(2), i(3))
def growing(x, n):
    shapes = (tf.TensorShape([]), tf.TensorShape([None]))
    return tf.while_loop(lambda k, y: k < n, lambda k, y: (k + 1, tf.concat([y, x], 0)), (0, x), shape_invariants=shapes)[1]


@program(f(8))
def halving(x):
    body = lambda y: (y[: tf.shape(y)[0] // 2] + y[tf.shape(y)[0] // 2:],)
    return tf.while_loop(lambda y: tf.shape(y)[0] > 1, body, (x,), shape_invariants=(tf.TensorShape([None]),))[0]


@program(f(3), i(0))
def never(x, n):
    return tf.while_loop(lambda k, y: k < n, lambda k, y: (k + 1, y * 3), (0, x))[1]


@program(f(3), i(20))
def bounded(x, n):
    return tf.while_loop(lambda k, y: k < n, lambda k, y: (k + 1, y + 1), (0, x), maximum_iterations=7)[1]


@program(f(6), np.float32(1.5))
def break_by_condition(x, limit):
    def goes_on(k, total, done):
        return tf.logical_and(k < 6, tf.logical_not(done))
    def body(k, total, done):
        total = total + tf.abs(x[k])
        return k + 1, total, total > limit
    return tf.while_loop(goes_on, body, (0, 0.0, False))[:2]


@program(f(5, 3))
def rows_by_index(x):
    return tf.while_loop(lambda k, s: k < 5, lambda k, s: (k + 1, s * 0.5 + x[k]), (0, tf.zeros([3])))[1]


@program(f(3), f(3, seed=7), i(6))
def swaps(a, b, n):
    return tf.while_loop(lambda k, a, b: k < n, lambda k, a, b: (k + 1, b, a + b), (0, a, b))[1:]


@program(f(4, 4))
def power_iteration(x):
    def body(k, v):
        v = tf.linalg.matvec(x, v)
        return k + 1, v / tf.sqrt(tf.reduce_sum(v * v))
    return tf.while_loop(lambda k, v: k < 8, body, (0, tf.ones([4])))[1]


@program(f(2, 3), i(5))
def unused_state(x, n):
    return tf.while_loop(lambda k, y, z: k < n, lambda k, y, z: (k + 1, y + 1, z), (0, x, x * 2))[1:]


@program(i([3, 1, 2]))
def loop_of_vector(n):
    return tf.while_loop(lambda k: tf.reduce_any(k > 0), lambda k: tf.maximum(k - 1, 0), (n,))


# ---- branches

@program(np.float32(1.0), f(3))
def choose(a, x):
    return tf.cond(a > 0, lambda: x + 1, lambda: x * 2)


@program(np.float32(-1.0), f(3), name="choose_other")
def _choose_other(a, x):
    return tf.cond(a > 0, lambda: x + 1, lambda: x * 2)


@program(np.float32(1.0))
def choose_constants(a):
    return tf.cond(a > 0, lambda: tf.constant([1.0, 2.0]), lambda: tf.constant([3.0, 4.0]))


@program(np.float32(0.5), f(3))
def choose_several(a, x):
    return tf.cond(a > 0, lambda: (x, x + 1), lambda: (x * 2, x * 3))


@program(np.float32(0.5), np.float32(-0.5), f(3))
def choose_nested(a, b, x):
    inner = lambda: tf.cond(b > 0, lambda: x + 1, lambda: x - 1)
    return tf.cond(a > 0, inner, lambda: x * 2)


@program(np.float32(-0.5), np.float32(0.5), f(3), name="choose_nested_both")
def _choose_nested_both(a, b, x):
    first = lambda: tf.cond(b > 0, lambda: x + 1, lambda: x - 1)
    second = lambda: tf.cond(b > 0, lambda: x * 3, lambda: tf.nn.relu(x))
    return tf.cond(a > 0, first, second)


@program(np.float32(0.5), f(3))
def choose_twice(a, x):
    y = tf.cond(a > 0, lambda: x + 1, lambda: x * 2)
    return tf.cond(a > 1, lambda: y - 1, lambda: y * y)


@program(np.float32(0.5), f(4))
def choose_extent(a, x):
    return tf.cond(a > 0, lambda: x[:2], lambda: x)


@program(i(1), f(3))
def cases(k, x):
    return tf.switch_case(k, [lambda: x, lambda: x + 1, lambda: x * 2])


@program(i(9), f(3), name="cases_default")
def _cases_default(k, x):
    return tf.switch_case(k, [lambda: x, lambda: x + 1, lambda: x * 2])


@program(np.float32(0.3), f(3))
def case_of_conditions(a, x):
    return tf.case([(a > 1, lambda: x), (a > 0.2, lambda: x + 5)], default=lambda: x * 2)


@program(np.float32(1.0), f(3))
def same_result(a, x):
    return tf.cond(a > 0, lambda: x, lambda: x)


@program(np.float32(1.0), f(2, 3), f(3, 2))
def choose_products(a, x, y):
    return tf.cond(a > 0, lambda: tf.reduce_sum(tf.matmul(x, y)), lambda: tf.reduce_sum(x))


# ---- both

@program(i(8))
def cond_in_while(n):
    body = lambda k, s: (k + 1, tf.cond(tf.equal(k % 2, 0), lambda: s + k, lambda: s * 2))
    return tf.while_loop(lambda k, s: k < n, body, (0, 1))[1]


@program(np.float32(1.0), i(5))
def while_in_cond(a, n):
    loop = lambda: tf.while_loop(lambda k, s: k < n, lambda k, s: (k + 1, s + a), (0, a))[1]
    return tf.cond(a > 0, loop, lambda: a * 2)


@program(np.float32(-1.0), i(5))
def while_in_other(a, n):
    loop = lambda x: tf.while_loop(lambda k, s: k < n, lambda k, s: (k + 1, s + x), (0, x))[1]
    return tf.cond(a > 0, lambda: loop(a), lambda: loop(a * 3))


@program(i(6), f(3))
def cond_in_nested(n, x):
    def outer(k, y):
        def inner(j, z):
            return j + 1, tf.cond(j > 1, lambda: z + 1, lambda: z * tf.cast(k, tf.float32))
        return k + 1, tf.while_loop(lambda j, z: j < 3, inner, (0, y))[1]
    return tf.while_loop(lambda k, y: k < n, outer, (0, x))[1]


@program(i(4), f(3))
def loop_in_cond_in_loop(n, x):
    def body(k, y):
        inner = lambda: tf.while_loop(lambda j, z: j < k, lambda j, z: (j + 1, z + 1), (0, y))[1]
        return k + 1, tf.cond(k > 1, inner, lambda: y * 2)
    return tf.while_loop(lambda k, y: k < n, body, (0, x))[1]


@program(i(7))
def fizz(n):
    def body(k, s):
        three, five = tf.equal(k % 3, 0), tf.equal(k % 5, 0)
        return k + 1, s + tf.cond(three, lambda: tf.cond(five, lambda: 15, lambda: 3), lambda: tf.cond(five, lambda: 5, lambda: k))
    return tf.while_loop(lambda k, s: k < n, body, (1, 0))[1]


# ---- arrays

@program(i(5), f(3))
def array_of_rows(n, x):
    array = tf.TensorArray(tf.float32, size=n, element_shape=[3])
    body = lambda k, a: (k + 1, a.write(k, x * tf.cast(k, tf.float32)))
    return tf.while_loop(lambda k, a: k < n, body, (0, array))[1].stack()


@program(i(5), f(3))
def array_of_unknown(n, x):
    array = tf.TensorArray(tf.float32, size=n)
    body = lambda k, a: (k + 1, a.write(k, x + tf.cast(k, tf.float32)))
    return tf.while_loop(lambda k, a: k < n, body, (0, array))[1].stack()


@program(f(6, 3))
def scan_sums(x):
    source = tf.TensorArray(tf.float32, size=6).unstack(x)
    array = tf.TensorArray(tf.float32, size=6)
    def body(k, s, a):
        s = s + source.read(k)
        return k + 1, s, a.write(k, s)
    return tf.while_loop(lambda k, s, a: k < 6, body, (0, tf.zeros([3]), array))[2].stack()


@program(f(6, 3))
def backwards(x):
    source = tf.TensorArray(tf.float32, size=6).unstack(x)
    array = tf.TensorArray(tf.float32, size=6)
    body = lambda k, a: (k - 1, a.write(k, source.read(5 - k)))
    return tf.while_loop(lambda k, a: k >= 0, body, (5, array))[1].stack()


@program(i(6))
def dynamic_array(n):
    array = tf.TensorArray(tf.float32, size=0, dynamic_size=True)
    body = lambda k, a: (k + 1, a.write(k, tf.cast(k * k, tf.float32)))
    return tf.while_loop(lambda k, a: k < n, body, (0, array))[1].stack()


@program(i(6))
def fibonacci(n):
    array = tf.TensorArray(tf.int32, size=n, clear_after_read=False, element_shape=[]).write(0, 1).write(1, 1)
    body = lambda k, a: (k + 1, a.write(k, a.read(k - 1) + a.read(k - 2)))
    return tf.while_loop(lambda k, a: k < n, body, (2, array))[1].stack()


@program(f(4, 3))
def array_concat(x):
    array = tf.TensorArray(tf.float32, size=2, element_shape=[2, 3]).write(0, x[:2]).write(1, x[2:] * 2)
    return array.concat()


@program(f(5, 2))
def array_gather(x):
    return tf.TensorArray(tf.float32, size=5, clear_after_read=False).unstack(x).gather([3, 0, 3])


@program(f(5, 2))
def array_size(x):
    array = tf.TensorArray(tf.float32, size=5).unstack(x)
    return array.stack() * tf.cast(array.size(), tf.float32)


@program(f(5, 3))
def mapped(x):
    return tf.map_fn(lambda row: tf.reduce_sum(row) * row, x)


@program(f(5, 3))
def folded(x):
    return tf.foldl(lambda a, row: a * 0.5 + row, x)


@program(f(5, 3))
def folded_right(x):
    return tf.foldr(lambda a, row: a * 0.5 + row, x)


@program(f(5, 3))
def scanned(x):
    return tf.scan(lambda a, row: a + row, x)


@program(f(4, 2, 3), f(3, 5), f(5, 5))
def recurrent(x, w, u):
    states = tf.TensorArray(tf.float32, size=4)
    source = tf.TensorArray(tf.float32, size=4).unstack(x)
    def body(k, h, a):
        h = tf.tanh(tf.matmul(source.read(k), w) + tf.matmul(h, u))
        return k + 1, h, a.write(k, h)
    _, last, states = tf.while_loop(lambda k, h, a: k < 4, body, (0, tf.zeros([2, 5]), states))
    return states.stack(), last


@program(f(3, 4))
def bubble_sort(x):
    def pass_of(k, y):
        def step(j, z):
            a, b = z[j], z[j + 1]
            low, high = tf.minimum(a, b), tf.maximum(a, b)
            z = tf.tensor_scatter_nd_update(z, [[j], [j + 1]], [low, high])
            return j + 1, z
        return k + 1, tf.while_loop(lambda j, z: j < 3, step, (0, y))[1]
    return tf.while_loop(lambda k, y: k < 4, pass_of, (0, x[0]))[1]


@program(f(6), i(2))
def cond_writes(x, n):
    array = tf.TensorArray(tf.float32, size=6, element_shape=[])
    def body(k, a):
        value = tf.cond(k > n, lambda: x[k] * 2, lambda: tf.constant(0.0))
        return k + 1, a.write(k, value)
    return tf.while_loop(lambda k, a: k < 6, body, (0, array))[1].stack()


@program(i(4), f(2, 2))
def arrays_in_nested(n, x):
    array = tf.TensorArray(tf.float32, size=n)
    def body(k, a):
        y = tf.while_loop(lambda j, y: j < k, lambda j, y: (j + 1, tf.matmul(y, x)), (0, x))[1]
        return k + 1, a.write(k, y)
    return tf.while_loop(lambda k, a: k < n, body, (0, array))[1].stack()


@program(f(7))
def primes_like(x):
    def body(k, kept, a):
        good = x[k] > 0
        a = tf.cond(good, lambda: a.write(kept, x[k]), lambda: a)
        return k + 1, kept + tf.cast(good, tf.int32), a
    array = tf.TensorArray(tf.float32, size=7, element_shape=[])
    return tf.while_loop(lambda k, kept, a: k < 7, body, (0, 0, array))[2].stack()


# ---- without loops, beside variables of functions

@program(f(2, 3))
def calls(x):
    @tf.function
    def twice(y):
        return y * 2
    return twice(twice(x)) + 1


@program(f(2, 3), i(3))
def call_in_loop(x, n):
    @tf.function
    def step(y):
        return tf.sin(y) + x
    return tf.while_loop(lambda k, y: k < n, lambda k, y: (k + 1, step(y)), (0, x))[1]
