"""Programs for live.py: functions of jax.numpy, jax.nn and jax.lax, gradients and networks, layers of Keras, artifacts of each version."""

import functools
import os
import sys

import jax
import jax.numpy as jnp
import numpy as np
from jax import export, lax

RANDOM = np.random.default_rng(3)


def floats(*shape, dtype="float32"):
    return np.asarray(jnp.asarray(RANDOM.standard_normal(shape), dtype))


def integers(*shape, low=-5, high=6, dtype="int32"):
    return RANDOM.integers(low, high, shape).astype(dtype)


def numpy_functions():
    x, y, positive = floats(4, 5), floats(4, 5), np.abs(floats(4, 5)) + np.float32(0.1)
    ints, others, matrix = integers(4, 5), integers(4, 5, low=1), floats(5, 5)
    for name in ("abs absolute arccos arcsin arctan arccosh arcsinh arctanh cbrt ceil cos cosh deg2rad degrees exp exp2 expm1 fabs floor isfinite isinf isnan log log10 log1p "
                 "log2 negative positive rad2deg radians reciprocal rint round sign signbit sin sinc sinh sqrt square tan tanh trunc nan_to_num i0").split():
        data = positive if name in ("log", "log10", "log2", "sqrt", "reciprocal", "log1p") else np.clip(x, -0.9, 0.9) if name in ("arccos", "arcsin", "arctanh") else positive + 1 if name == "arccosh" else x
        yield name, getattr(jnp, name), [data]
    for name in ("add arctan2 copysign divide equal float_power floor_divide fmax fmin fmod greater greater_equal heaviside hypot ldexp less less_equal logaddexp logaddexp2 maximum minimum "
                 "mod multiply nextafter not_equal power remainder subtract true_divide isclose").split():
        yield name, getattr(jnp, name), [positive, np.abs(y)] if name in ("float_power", "power") else [x, ints] if name == "ldexp" else [x, y]
    for name in "add bitwise_and bitwise_or bitwise_xor floor_divide gcd lcm mod multiply power remainder right_shift left_shift subtract divide fmod".split():
        yield f"{name} of integers", getattr(jnp, name), [np.abs(ints), others % 7 + 1] if name in ("power", "left_shift", "right_shift") else [ints, others]
    for name in "all any amax amin argmax argmin average count_nonzero cumprod cumsum logsumexp max mean median min nanmax nanmean nanmin nansum nanstd nanprod nanargmax ptp prod std sum var".split():
        function = jax.nn.logsumexp if name == "logsumexp" else getattr(jnp, name)
        yield f"{name} axis 1", functools.partial(function, axis=1), [x]
        yield f"{name} of integers", functools.partial(function, axis=0), [ints]
    holes = np.where(floats(4, 5) > 0.5, np.float32("nan"), x)
    for name in "argmax argmin max min nanmax nansum nanmean nanargmin sort argsort cumsum median".split():
        yield f"{name} of NaN", functools.partial(getattr(jnp, name), axis=1), [holes]
    for name in ("transpose ravel flipud fliplr rot90 diff gradient tril triu sort argsort unwrap cov corrcoef trace diagonal flip squeeze atleast_3d rollaxis").split():
        arguments = {"rollaxis": [1]}.get(name, [])
        yield name, lambda a, f=getattr(jnp, name), more=arguments: f(a, *more), [matrix]
    yield "where", lambda c, a, b: jnp.where(c > 0, a, b), [x, y, x]
    yield "take", lambda a, i: jnp.take(a, i, axis=1), [x, integers(3, 2, low=-7, high=8)]
    yield "take clip", lambda a, i: jnp.take(a, i, axis=0, mode="clip"), [x, integers(6)]
    yield "take wrap", lambda a, i: jnp.take(a, i, axis=0, mode="wrap"), [x, integers(6)]
    yield "take_along_axis", lambda a, i: jnp.take_along_axis(a, i, axis=1), [x, integers(4, 3, low=0, high=5)]
    yield "index rows", lambda a, i: a[i], [x, integers(3, low=0, high=4)]
    yield "index pairs", lambda a, i, j: a[i, j], [x, integers(3, low=0, high=4), integers(3, low=-5, high=5)]
    yield "index mask", lambda a: a[:, ::-2][1:, jnp.array([0, 1])], [x]
    yield "index scalar", lambda a, i: a[i], [x, np.int32(2)]
    yield "index columns", lambda a, i: a[:, i], [x, np.int32(-1)]
    yield "at set", lambda a, i, v: a.at[i].set(v), [x, integers(3, low=-6, high=8), floats(3, 5)]
    yield "at add", lambda a, i, v: a.at[i].add(v), [x, integers(7, low=-6, high=8), floats(7, 5)]
    yield "at columns", lambda a, i, v: a.at[:, i].add(v), [x, integers(3, low=0, high=5), floats(4, 3)]
    yield "at max", lambda a, i, j, v: a.at[i, j].max(v), [x, integers(7, low=0, high=4), integers(7, low=0, high=5), floats(7)]
    yield "at min", lambda a, i, v: a.at[i].min(v), [ints, integers(3, low=0, high=4), integers(3, 5)]
    yield "at multiply", lambda a, i, v: a.at[i].multiply(v), [x, integers(5, low=0, high=4), floats(5, 5)]
    yield "at slice", lambda a, v: a.at[1:3, ::2].set(v), [x, floats(2, 3)]
    yield "at apply", lambda a: a.at[jnp.array([0, 2])].apply(jnp.sin), [x]
    yield "at get fill", lambda a, i: a.at[i].get(mode="fill", fill_value=7), [x, integers(5, low=-9, high=9)]
    yield "concatenate", lambda a, b: jnp.concatenate([a, b], 1), [x, y]
    yield "stack", lambda a, b: jnp.stack([a, b], 1), [x, y]
    yield "split", lambda a: jnp.split(a, [1, 3], 1), [x]
    yield "pad", lambda a: jnp.pad(a, [(1, 2), (0, 3)]), [x]
    for mode in ("edge", "reflect", "symmetric", "wrap", "maximum", "mean", "linear_ramp"):
        yield f"pad {mode}", lambda a, m=mode: jnp.pad(a, [(1, 2), (2, 1)], mode=m), [x]
    yield "roll", lambda a: jnp.roll(a, 2, 1), [x]
    yield "roll by value", lambda a, n: jnp.roll(a, n, 1), [x, np.int32(3)]
    yield "repeat", lambda a: jnp.repeat(a, 3, 1), [x]
    yield "tile", lambda a: jnp.tile(a, (2, 3)), [x]
    yield "outer", jnp.outer, [x[0], y[1]]
    yield "kron", jnp.kron, [x[:2], y[:2]]
    yield "dot", lambda a, b: jnp.dot(a, b.T), [x, y]
    yield "matmul", jnp.matmul, [floats(2, 3, 4), floats(2, 4, 5)]
    yield "matmul vector", jnp.matmul, [floats(2, 3, 4), floats(4)]
    yield "vdot", jnp.vdot, [x, y]
    yield "tensordot", lambda a, b: jnp.tensordot(a, b, [[0, 2], [1, 0]]), [floats(2, 3, 4), floats(4, 2, 5)]
    for equation, shapes in (("ij,jk->ik", ((2, 3), (3, 4))), ("bhqd,bhkd->bhqk", ((2, 3, 4, 5), (2, 3, 6, 5))), ("bqhd,bkhd->bhqk", ((2, 4, 3, 5), (2, 6, 3, 5))), ("ii->i", ((4, 4),)), ("ij->", ((3, 4),)),
                             ("abc,cd,de->abe", ((2, 3, 4), (4, 5), (5, 2))), ("i,j->ij", ((3,), (4,))), ("bij,bj->bi", ((2, 3, 4), (2, 4)))):
        yield f"einsum {equation}", functools.partial(jnp.einsum, equation), [floats(*shape) for shape in shapes]
    yield "searchsorted", jnp.searchsorted, [np.sort(x[0]), y[0]]
    yield "digitize", jnp.digitize, [x[0], np.sort(y[0])]
    yield "histogram", lambda a: jnp.histogram(a, 4)[0], [x]
    yield "bincount", lambda a: jnp.bincount(a, length=8), [integers(20, low=0, high=8)]
    yield "unique", lambda a: jnp.unique(a, size=6), [ints]
    yield "lexsort", lambda a, b: jnp.lexsort((a, b)), [ints[0], others[0] % 3]
    yield "sort descending", lambda a: jnp.sort(a, descending=True), [x]
    yield "sort of zeros", lambda a: jnp.argsort(a), [np.float32([0, -0.0, 1, -0.0, 0, np.nan, -1, -np.inf])]
    yield "quantile", lambda a: jnp.quantile(a, jnp.array([0.2, 0.7])), [x]
    yield "percentile", lambda a: jnp.percentile(a, 30, axis=1), [x]
    yield "interp", jnp.interp, [x[0], np.sort(y[0]), floats(5)]
    yield "convolve", lambda a, b: jnp.convolve(a, b), [floats(8), floats(3)]
    yield "correlate", lambda a, b: jnp.correlate(a, b, mode="same"), [floats(8), floats(3)]
    yield "polyval", jnp.polyval, [floats(4), floats(5)]
    yield "cross", jnp.cross, [floats(4, 3), floats(4, 3)]
    yield "vander", lambda a: jnp.vander(a, 4), [floats(5)]
    yield "tri", lambda a: jnp.tri(4, 5) * a, [x]
    yield "meshgrid", lambda a, b: jnp.meshgrid(a, b), [x[0], y[1]]
    yield "arange linspace eye", lambda a: (jnp.arange(5) + a[0], jnp.linspace(0, 1, 5) * a[0], jnp.eye(5) * a[0]), [x]
    yield "apply_along_axis", lambda a: jnp.apply_along_axis(jnp.cumsum, 0, a), [x]
    yield "vectorize", jnp.vectorize(lambda a: a * 2 + 1), [x]
    yield "nonzero", lambda a: jnp.nonzero(a > 0, size=8), [x]
    yield "packbits", lambda a: jnp.packbits(a > 0, axis=1), [x]
    yield "unpackbits", jnp.unpackbits, [integers(6, low=0, high=255, dtype="uint8")]
    yield "popcount", lambda a: lax.population_count(a), [integers(6, low=-1000, high=1000)]
    yield "clz", lambda a: lax.clz(a), [integers(6, low=-1000, high=1000)]
    yield "isin", jnp.isin, [ints, others[0]]
    yield "select", lambda a: jnp.select([a > 1, a > 0], [a, a * 2], 7.0), [x]
    yield "piecewise", lambda a: jnp.piecewise(a, [a < 0, a >= 0], [jnp.sin, jnp.cos]), [x]
    yield "triu_indices", lambda a: a[jnp.triu_indices(4)], [floats(4, 4)]
    yield "block", lambda a, b: jnp.block([[a, b], [b, a]]), [x, y]


def network_functions():
    x = floats(3, 8)
    for name in ("celu elu gelu glu hard_sigmoid hard_silu hard_swish hard_tanh identity leaky_relu log_sigmoid log_softmax mish relu relu6 selu sigmoid silu soft_sign softmax softplus sparse_plus "
                 "sparse_sigmoid squareplus standardize logsumexp").split():
        yield f"nn.{name}", getattr(jax.nn, name), [x]
    yield "nn.gelu exact", functools.partial(jax.nn.gelu, approximate=False), [x]
    yield "nn.one_hot", lambda i: jax.nn.one_hot(i, 6), [integers(5, low=-2, high=8)]
    q, k, v = floats(2, 5, 3, 4), floats(2, 6, 3, 4), floats(2, 6, 3, 4)
    yield "nn.dot_product_attention", jax.nn.dot_product_attention, [q, k, v]
    yield "nn.attention causal", functools.partial(jax.nn.dot_product_attention, is_causal=True), [q, q, q]
    for name in "digamma erf erfc erf_inv expit gammaln i0e i1 i1e log_ndtr logit ndtr ndtri xlog1py xlogy zeta entr betainc".split():
        function = getattr(jax.scipy.special, name, None) or getattr(lax, name)
        unit = np.clip(np.abs(x), 0.05, 0.9)
        yield f"special.{name}", function, [unit + 1, unit] if name == "zeta" else [unit, unit] if name.startswith("xl") else [unit, unit, unit] if name == "betainc" else [unit]
    yield "lax.top_k", lambda a: lax.top_k(a, 3), [x]
    yield "lax.reduce any body", lambda a: lax.reduce(a, np.float32(1), lambda p, q: p * q + 0 * p, (1,)), [x]
    yield "lax.reduce xor", lambda a: lax.reduce_xor(a, (0,)), [integers(5, 4)]
    yield "lax.reduce and", lambda a: lax.reduce_and(a, (0,)), [integers(5, 4)]
    yield "lax.reduce two", lambda a, b: lax.reduce((a, b), (np.float32(0), np.float32(0)), lambda p, q: (p[0] + q[0], jnp.maximum(p[1], q[1])), (0,)), [x, x]
    for name in "cummax cummin cumlogsumexp cumprod cumsum".split():
        yield f"lax.{name}", functools.partial(getattr(lax, name), axis=1), [x]
    yield "lax.cumsum reverse", lambda a: lax.cumsum(a, axis=0, reverse=True), [x]
    yield "lax.associative_scan", lambda a: lax.associative_scan(jnp.multiply, a, axis=1), [x]
    image, kernel = floats(2, 3, 8, 9), floats(4, 3, 3, 2)
    for strides, padding, lhs, rhs in (((1, 1), "SAME", None, None), ((2, 1), "VALID", None, None), ((1, 2), [(1, 2), (0, 1)], None, (2, 1)), ((1, 1), [(1, 1), (2, 0)], (2, 3), None), ((1, 1), [(-1, 0), (0, -1)], None, None)):
        yield f"conv {strides} {padding} {lhs} {rhs}", lambda a, b, s=strides, p=padding, l=lhs, r=rhs: lax.conv_general_dilated(a, b, s, p, l, r), [image, kernel]
    yield "conv NHWC", lambda a, b: lax.conv_general_dilated(a, b, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")), [floats(2, 8, 9, 3), floats(3, 2, 3, 4)]
    yield "conv groups", lambda a, b: lax.conv_general_dilated(a, b, (1, 1), "SAME", feature_group_count=2), [floats(2, 4, 8, 9), floats(6, 2, 3, 3)]
    yield "conv depthwise", lambda a, b: lax.conv_general_dilated(a, b, (1, 1), "SAME", feature_group_count=4), [floats(2, 4, 8, 9), floats(8, 1, 3, 3)]
    yield "conv 1d", lambda a, b: lax.conv_general_dilated(a, b, (1,), "SAME"), [floats(2, 4, 8), floats(6, 4, 3)]
    yield "conv 3d", lambda a, b: lax.conv_general_dilated(a, b, (1, 1, 1), "SAME"), [floats(2, 2, 4, 5, 6), floats(3, 2, 2, 2, 3)]
    yield "conv transpose", lambda a, b: lax.conv_transpose(a, b, (2, 2), "SAME"), [floats(2, 5, 6, 3), floats(3, 3, 3, 4)]
    loss = lambda a, b: jnp.sum(lax.conv_general_dilated(a, b, (2, 1), "SAME") ** 2)
    yield "grad conv", jax.grad(loss, (0, 1)), [image, kernel]
    groups = lambda a, b: jnp.sum(lax.conv_general_dilated(a, b, (1, 1), "SAME", feature_group_count=2) ** 2)
    yield "grad conv groups", jax.grad(groups, (0, 1)), [floats(2, 4, 5, 6), floats(6, 2, 3, 3)]
    for name, initial, function in (("max", -np.inf, lax.max), ("min", np.inf, lax.min), ("add", 0.0, lax.add), ("mul", 1.0, lax.mul)):
        pool = lambda a, i=initial, f=function: lax.reduce_window(a, np.float32(i), f, (1, 1, 3, 2), (1, 1, 2, 1), "SAME")
        yield f"pool {name}", pool, [image]
        if name in ("max", "add"):
            yield f"grad pool {name}", jax.grad(lambda a, p=pool: jnp.sum(p(a) ** 2)), [image]
    yield "pool NHWC", lambda a: lax.reduce_window(a, -np.float32(np.inf), lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID"), [floats(2, 8, 6, 3)]
    yield "pool dilated", lambda a: lax.reduce_window(a, np.float32(0), lax.add, (1, 1, 2, 2), (1, 1, 1, 1), [(0, 0), (0, 0), (1, 0), (0, 2)], (1, 1, 2, 1), (1, 1, 1, 3)), [image]
    yield "image.resize", lambda a: jax.image.resize(a, (2, 3, 5, 12), "bilinear"), [image]
    yield "image.resize nearest", lambda a: jax.image.resize(a, (2, 3, 16, 4), "nearest"), [image]
    yield "map_coordinates", lambda a, c: jax.scipy.ndimage.map_coordinates(a, [c[0], c[1]], order=1), [floats(6, 7), np.abs(floats(2, 5))]


def control_functions():
    x, xs = floats(4), floats(6, 4)
    yield "while", lambda a: lax.while_loop(lambda s: (s[1] < 10) & (jnp.sum(s[0]) < 50), lambda s: (s[0] * 1.5 + 1, s[1] + 1), (a, 0)), [x]
    yield "fori", lambda a, n: lax.fori_loop(0, n, lambda i, s: s + jnp.sin(s * i), a), [x, np.int32(5)]
    yield "fori static", lambda a: lax.fori_loop(2, 7, lambda i, s: s.at[i % 4].add(i), a), [x]
    yield "scan", lambda a, b: lax.scan(lambda c, v: (c * 0.9 + v, jnp.tanh(c)), a, b), [x, xs]
    yield "scan reverse", lambda a, b: lax.scan(lambda c, v: (c * 0.9 + v, (c, v.sum())), a, b, reverse=True), [x, xs]
    yield "scan unroll", lambda a, b: lax.scan(lambda c, v: (c * 0.9 + v, c), a, b, unroll=4), [x, xs]
    yield "scan in scan", lambda a, b: lax.scan(lambda c, v: (lax.scan(lambda d, w: (d + w * c.sum(), d), c, jnp.outer(v, v))[0], c), a, b), [x, xs]
    yield "map", lambda b: lax.map(lambda v: jnp.cumsum(v) * 2, b), [xs]
    for flag in (True, False):
        yield f"cond {flag}", lambda p, a: lax.cond(p, lambda v: v * 2, lambda v: v - 1, a), [np.bool_(flag), x]
    for index in (-3, 0, 1, 2, 9):
        yield f"switch {index}", lambda i, a: lax.switch(i, [jnp.sin, jnp.cos, lambda v: v[::-1]], a), [np.int32(index), x]
    yield "cond in while", lambda a: lax.while_loop(lambda s: s[1] < 8, lambda s: (lax.cond(s[1] % 2 == 0, jnp.sin, jnp.flip, s[0]), s[1] + 1), (a, 0)), [x]
    yield "vmap while", jax.vmap(lambda v: lax.while_loop(lambda s: s < 20, lambda s: s * 2 + 1, v)), [np.abs(x)]
    yield "vmap cond", jax.vmap(lambda v: lax.cond(v > 0, jnp.sin, jnp.cos, v)), [x]
    yield "grad scan", jax.grad(lambda a, b: jnp.sum(lax.scan(lambda c, v: (jnp.tanh(c * v), c * 2), a, b)[1]), (0, 1)), [x, xs]
    yield "grad cond", jax.grad(lambda a: jnp.sum(lax.cond(a[0] > 0, jnp.sin, jnp.cos, a))), [x]
    yield "grad while forward", lambda a: jax.jvp(lambda v: lax.fori_loop(0, 5, lambda i, s: jnp.sin(s) * v, v), (a,), (a,)), [x]
    yield "grad sort", jax.grad(lambda a: jnp.sum(jnp.sort(a) * jnp.arange(4.0))), [x]
    yield "grad gather", jax.grad(lambda a, i: jnp.sum(a[i] ** 2)), [xs, integers(9, low=0, high=6)]
    yield "grad cumsum", jax.grad(lambda a: jnp.sum(jnp.cumsum(a) ** 3)), [x]
    yield "hessian", jax.hessian(lambda a: jnp.sum(jnp.tanh(a) * a[::-1] ** 2)), [x]
    yield "jacobian", jax.jacfwd(lambda a: jnp.sin(a) * a[::-1]), [x]
    yield "checkpoint", jax.grad(jax.checkpoint(lambda a: jnp.sum(jnp.sin(jnp.cos(a))))), [x]
    yield "custom_jvp", jax.grad(lambda a: jnp.sum(jax.nn.relu(a) * jax.nn.softplus(a))), [x]
    key = np.uint32([3, 7])
    for name, draw in (("uniform", jax.random.uniform), ("normal", jax.random.normal), ("bits", jax.random.bits), ("gumbel", jax.random.gumbel), ("exponential", jax.random.exponential)):
        yield f"random.{name}", lambda k, d=draw: d(k, (5,)), [key]
    yield "random.split", lambda k: jax.random.split(k, 3), [key]
    yield "random.randint", lambda k: jax.random.randint(k, (7,), 2, 40), [key]
    yield "random.permutation", lambda k: jax.random.permutation(k, 9), [key]
    yield "random.categorical", lambda k, a: jax.random.categorical(k, a, shape=(8,)), [key, x]
    yield "random.choice", lambda k, a: jax.random.choice(k, a, (3,), replace=False), [key, x]
    yield "random.bernoulli", lambda k: jax.random.bernoulli(k, 0.3, (9,)), [key]
    yield "random.truncated_normal", lambda k: jax.random.truncated_normal(k, -1, 1, (5,)), [key]
    yield "random.gamma", lambda k: jax.random.gamma(k, 2.0, (3,)), [key]


def networks():
    """Networks of flax.nnx and by hand, and their gradients."""
    sizes = ((6, 16), (16, 3))
    params = [(floats(*size) * 0.3, floats(size[1]) * 0.1) for size in sizes]

    def mlp(p, x):
        for i, (w, b) in enumerate(p):
            x = x @ w + b
            x = jax.nn.relu(x) if i + 1 < len(p) else x
        return x

    x, labels = floats(5, 6), integers(5, low=0, high=3)
    yield "mlp", mlp, [params, x]
    loss = lambda p, a, t: -jnp.mean(jax.nn.log_softmax(mlp(p, a))[jnp.arange(a.shape[0]), t])
    yield "mlp gradient", jax.value_and_grad(loss), [params, x, labels]
    step = lambda p, a, t: jax.tree_util.tree_map(lambda v, g: v - 0.1 * g, p, jax.grad(loss)(p, a, t))
    yield "mlp step", step, [params, x, labels]
    try:
        from flax import nnx
    except ImportError:
        return
    rngs = nnx.Rngs(0)

    class Cnn(nnx.Module):
        def __init__(self):
            self.conv, self.norm, self.head = nnx.Conv(1, 4, (3, 3), rngs=rngs), nnx.BatchNorm(4, use_running_average=True, rngs=rngs), nnx.Linear(4 * 16, 3, rngs=rngs)

        def __call__(self, image):
            y = nnx.max_pool(nnx.relu(self.norm(self.conv(image))), (2, 2), (2, 2))
            return self.head(nnx.avg_pool(y, (1, 1)).reshape(y.shape[0], -1))

    class Block(nnx.Module):
        def __init__(self):
            self.attention = nnx.MultiHeadAttention(2, 8, decode=False, rngs=rngs)
            self.first, self.second = nnx.LayerNorm(8, rngs=rngs), nnx.LayerNorm(8, rngs=rngs)
            self.up, self.down = nnx.Linear(8, 16, rngs=rngs), nnx.Linear(16, 8, rngs=rngs)

        def __call__(self, tokens):
            y = tokens + self.attention(self.first(tokens))
            return y + self.down(nnx.gelu(self.up(self.second(y))))

    for name, model, data in (("flax cnn", Cnn(), floats(2, 8, 8, 1)), ("flax block", Block(), floats(2, 5, 8)), ("flax lstm", nnx.RNN(nnx.LSTMCell(4, 6, rngs=rngs)), floats(2, 7, 4)),
                              ("flax gru", nnx.RNN(nnx.GRUCell(4, 6, rngs=rngs)), floats(2, 7, 4)), ("flax embed", nnx.Embed(10, 4, rngs=rngs), integers(3, 5, low=0, high=10)),
                              ("flax group norm", nnx.GroupNorm(4, num_groups=2, rngs=rngs), floats(2, 5, 4)), ("flax conv transpose", nnx.ConvTranspose(2, 3, (3, 3), (2, 2), rngs=rngs), floats(2, 5, 5, 2))):
        yield name, lambda a, m=model: m(a), [data]
        if data.dtype.kind == "f":
            yield f"{name} gradient", jax.grad(lambda a, m=model: jnp.sum(m(a) ** 2)), [data]


def dtypes():
    """Operators over dtypes."""
    for dtype in ("int8", "int16", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "bfloat16", "float64", "bool"):
        if dtype in ("int64", "uint64", "float64"):
            continue  # JAX has them with x64 alone
        low = 0 if dtype[0] in "ub" else -100
        a, b = [jnp.asarray(RANDOM.integers(low, 2 if dtype == "bool" else 100, (4, 5))).astype(dtype) for _ in range(2)]
        a, b = np.asarray(a), np.asarray(b)
        for name in "add subtract multiply maximum minimum equal less greater_equal".split():
            if dtype != "bool" or name != "subtract":
                yield f"{dtype} {name}", getattr(jnp, name), [a, b]
        for name in "sum prod max min argmax argmin sort argsort cumsum any all".split():
            yield f"{dtype} {name}", functools.partial(getattr(jnp, name), axis=1), [a]
        for target in ("int32", "float32", "bool", "uint8", "int8", "float16"):
            yield f"{dtype} to {target}", lambda v, t=target: v.astype(t), [np.abs(a) if target == "uint8" else a]
        if dtype != "bool":
            yield f"{dtype} dot", lambda p, q: p @ q.T, [a, b]
            yield f"{dtype} floor_divide", jnp.floor_divide, [a, b]
            yield f"{dtype} remainder", jnp.remainder, [a, b]


def symbolic():
    """Programs of symbolic extents: (name, function, arguments, specs)."""
    b, t, n = export.symbolic_shape("b, t, n")
    spec = lambda *shape: jax.ShapeDtypeStruct(shape, np.float32)
    w = floats(4, 3)
    yield "sym dense", lambda x: jnp.tanh(x @ w) + jnp.ones((x.shape[0], 3)), [floats(5, 4)], [spec(b, 4)]
    yield "sym softmax", lambda x: jax.nn.softmax(x * 2, axis=-1) / x.shape[1], [floats(5, 6)], [spec(b, n)]
    yield "sym reshape", lambda x: jnp.concatenate([x, x]).reshape(2, -1).sum(0)[:1], [floats(6)], [spec(n)]
    yield "sym arange", lambda x: x * jnp.arange(x.shape[0])[:, None] + jnp.arange(x.shape[1] * 2)[::2], [floats(4, 5)], [spec(b, n)]
    yield "sym attention", lambda x: jnp.einsum("bqd,bkd->bqk", x, x) @ x, [floats(2, 5, 4)], [spec(b, t, 4)]
    yield "sym mean", lambda x: (x - x.mean(0)) / jnp.sqrt(x.var(1, keepdims=True) + 1e-5), [floats(5, 6)], [spec(b, n)]
    yield "sym scan", lambda x: lax.scan(lambda c, v: (jnp.tanh(v @ w @ w.T + c), c), jnp.zeros((x.shape[1], 4)), x), [floats(7, 2, 4)], [spec(t, b, 4)]
    yield "sym pad", lambda x: jnp.pad(x, [(1, 2), (0, x.shape[0])]), [floats(3, 4)], [spec(b, n)]
    yield "sym rows", lambda x: x[x.shape[0] // 2:] * 2, [floats(6, 4)], [spec(2 * b, 4)]
    yield "sym take", lambda x, i: x[i], [floats(6, 4), integers(3, low=0, high=6)], [spec(n, 4), jax.ShapeDtypeStruct((b,), np.int32)]
    yield "sym sort", lambda x: jnp.sort(x, axis=0), [floats(6, 4)], [spec(n, 4)]
    yield "sym cumsum", lambda x: jnp.cumsum(x, axis=0), [floats(6, 4)], [spec(n, 4)]
    yield "sym argmax", lambda x: jnp.argmax(x, axis=1), [floats(6, 4)], [spec(n, b)]
    yield "sym conv", lambda x: lax.conv_general_dilated(x, floats(4, 3, 3, 3), (1, 1), "SAME"), [floats(2, 3, 8, 8)], [spec(b, 3, 8, 8)]
    yield "sym last", lambda x: x[:, -1], [floats(2, 5, 3)], [spec(b, t, 3)]
    yield "sym dynamic", lambda x, i: lax.dynamic_slice(x, (i, 0), (2, x.shape[1])), [floats(6, 4), np.int32(9)], [spec(6, n), jax.ShapeDtypeStruct((), np.int32)]
    yield "sym update", lambda x: x.at[0].set(1.0), [floats(6, 4)], [spec(n, 4)]
    yield "sym flip", lambda x: x[::-1, ::2], [floats(6, 5)], [spec(n, 5)]


def functions(counts, group):
    for family in (numpy_functions, network_functions, control_functions, networks, dtypes):
        for name, function, arguments in family():
            if group in f"{family.__name__} {name}":
                counts.check(name, function, arguments)
    for name, function, arguments, specs in symbolic():
        if group in f"symbolic {name}":
            counts.check(name, function, arguments, specs)


def keras(counts, group):
    """The layers of tests/keras/layers.py, with a batch of 2 and a symbolic one."""
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "keras"))
    import layers
    b, = export.symbolic_shape("b")
    for name, build in layers.LAYERS.items():
        if group not in name:
            continue
        for batch in (2, None):
            model = build(batch)
            layers.random_weights(model)
            values = layers.random_inputs(model)
            call = lambda *given, model=model: model(given[0] if len(given) == 1 else list(given), training=False)
            specs = [jax.ShapeDtypeStruct((batch or b, *value.shape[1:]), value.dtype) for value in values]
            counts.check(f"{name}, batch {batch}", call, values, specs)


def versions(counts, group):
    """Artifacts of all minor versions from the first one that is promised to be read on, which give one result."""
    import make
    from jax._src.lib.mlir.dialects import hlo
    first, last = ([int(part) for part in version.split(".")[:2]] for version in (hlo.get_minimum_version(), hlo.get_current_version()))
    known = [f"{major}.{minor}.0" for major in range(first[0], last[0] + 1) for minor in range(first[1] if major == first[0] else 0, last[1] + 1 if major == last[0] else 21)]
    for name, build in make.FUNCTIONS.items():
        if group not in name or name == "refused":
            continue
        function, cases, specs = build()
        exported = export.export(jax.jit(function, keep_unused=True), platforms=["cpu"])(*(specs or cases[0]))
        want = [np.asarray(leaf) for leaf in jax.tree_util.tree_leaves(jax.jit(function)(*cases[0]))]
        for version in known:
            try:
                content = hlo.serialize_portable_artifact_str(exported.mlir_module(), version)
            except Exception as error:  # pylint: disable=broad-exception-caught
                counts.note(f"{name} {version}", "skipped", str(error))
                continue
            counts.compare(f"{name} {version}", content, cases[0], want)
