"""Writes the fixtures of jax_test.py: exported functions of JAX, and what JAX computes with them.

    python tests/jax/make.py [NAME...]

Needs JAX (0.10.2 wrote those that are committed), which no test needs. NAME.stablehlo is what jax.export serializes,
NAME.mlirbc the artifact in it alone, NAME.npz the cases: `CASE.in.N` and `CASE.out.N` are tensors in the order of @main's
parameters and results. Programs that are committed for one form alone are named in ARTIFACTS.
"""

import os
import sys

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from jax import export, lax  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
FUNCTIONS = {}
ARTIFACTS = ("dense", "lstm")  # also written without what jax.export adds
RANDOM = np.random.default_rng(7)
# Locations of the source are no part of the fixtures.
jax.config.update("jax_traceback_in_locations_limit", 0)
jax.config.update("jax_include_full_tracebacks_in_locations", False)
jax.config.update("jax_hlo_source_file_canonicalization_regex", ".*")


def fixture(function):
    """`function` gives a function, a list of argument tuples, and specs; without those the first arguments are exported."""
    FUNCTIONS[function.__name__] = function
    return function


def floats(*shape):
    return RANDOM.standard_normal(shape).astype("float32")


def spec(*shape, dtype="float32"):
    return jax.ShapeDtypeStruct(shape, dtype)


@fixture
def elementwise():
    def function(x, y, n, m, p):
        special = jnp.stack([jnp.exp(x), jnp.log1p(jnp.abs(x)), jnp.sqrt(jnp.abs(y)), jnp.sin(x), jnp.cbrt(y), jnp.round(x * 3), lax.erf(x), jnp.tanh(y), jax.nn.sigmoid(x), jnp.expm1(x), jnp.ceil(y), jnp.sign(x)])
        pairs = jnp.stack([x / y, jnp.maximum(x, y), jnp.arctan2(x, y), lax.rem(x, y), jnp.where(p, x, y), jnp.clip(x, -0.5, 0.7), jnp.abs(x) ** y])
        whole = jnp.stack([n // m, n % m, n & m, n ^ m, n << 2, n >> 1, lax.shift_right_logical(n, m % 5), lax.population_count(n), lax.clz(n), jnp.minimum(n, m), lax.div(n, m), -n, ~n])
        flags = jnp.stack([x < y, n == m, p & (x > 0), ~p, p ^ (y > 0), jnp.isfinite(x), x != y])
        return special, pairs, whole, flags, n.astype("float16"), (x * 9).astype("int8"), p.astype("int32"), lax.bitcast_convert_type(x, jnp.uint32), lax.shift_right_arithmetic(n.astype("uint32"), (m % 5).astype("uint32"))
    x, y = floats(3, 4), floats(3, 4)
    numbers = lambda: RANDOM.integers(-50, 50, (3, 4)).astype("int32")
    divisors = np.int32([[0, 3, -3, 7], [1, -1, 5, 2], [9, -9, 4, 6]])
    return function, [(x, y, numbers(), divisors, x > 0)], None


@fixture
def moves():
    def function(x, i):
        return (x.T[::-1, 1:], jnp.concatenate([x, x[:1]], 0), jnp.pad(x, ((1, 2), (0, 1)), constant_values=2), lax.pad(x, jnp.float32(7), ((1, -1, 2), (-1, 0, 0))), jnp.roll(x, 1, 1),
                lax.dynamic_slice(x, (i, i - 2), (2, 3)), lax.dynamic_update_slice(x, x[:1, :2] * 2, (i, i)), jnp.broadcast_to(x[:, None], (4, 2, 5)), jnp.tile(x, (1, 2)), x[i], jnp.arange(6.0).reshape(2, 3) + x[0, 0])
    return function, [(floats(4, 5), np.int32(i)) for i in (1, 9, -3)], None


@fixture
def reductions():
    def function(x, n, p):
        floats_of = (x.sum(), x.mean(1), x.max(0), x.min(1), x.prod(0), jnp.argmax(x, 1), jnp.argmin(x), jnp.cumsum(x, 0), lax.cummax(x, 1), x.std(1), jax.nn.logsumexp(x, 1))
        others = (n.sum(1), n.max(), jnp.argmin(n, 0), p.any(0), p.all(1), p.sum(), lax.reduce_xor(n, (1,)), lax.reduce(x, np.float32(1), lambda a, b: a * b + a - a, (0,)))
        return floats_of + others
    x = floats(4, 5)
    holes = np.where(x > 1, np.float32("nan"), x)
    n = RANDOM.integers(-9, 9, (4, 5)).astype("int32")
    return function, [(x, n, x > 0), (holes, n, x < 2)], None


@fixture
def indices():
    def function(x, i, j, u):
        return (x[i], x[i, j], x[:, j], jnp.take(x, i, axis=1, mode="clip"), jnp.take_along_axis(x, j[None, :], 1), x.at[i].add(u), x.at[i].set(u, mode="drop"), x.at[:, j].max(1.5), x.at[i, j].multiply(2.0),
                x.at[1:3, ::2].min(0.0), jax.vmap(lambda row, k: row[k])(x[:3], j), jax.vmap(lambda row, k: lax.dynamic_slice(row, (k,), (2,)))(x[:3], i), jax.grad(lambda v: (v[i] ** 2).sum())(x))
    return function, [(floats(4, 5), np.int32(i), np.int32(j), floats(3, 5)) for i, j in (([0, 2, 2], [1, 4, 0]), ([-1, 3, 7], [4, -2, 9]))], None


@fixture
def orders():
    def function(x, n):
        keys = lax.sort((n, x, jnp.arange(20, dtype="int32").reshape(4, 5)), dimension=1, num_keys=2)
        return (jnp.sort(x, 1), jnp.argsort(x, 0), jnp.sort(x, descending=True), *lax.top_k(x, 3), *keys, jnp.sort(n, 0), jnp.median(x, 1))
    x = floats(4, 5)
    special = np.where(x > 1, np.float32("nan"), np.where(x < -0.8, np.float32(-0.0), x))
    n = RANDOM.integers(0, 3, (4, 5)).astype("int32")
    return function, [(x, n), (special, n)], None


@fixture
def windows():
    def function(x, k, d):
        conv = lax.conv_general_dilated(x, k, (2, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
        depthwise = lax.conv_general_dilated(x, d, (1, 1), [(1, 0), (0, 1)], rhs_dilation=(1, 2), feature_group_count=3, dimension_numbers=("NHWC", "HWIO", "NHWC"))
        up = lax.conv_transpose(x, k, (2, 2), "SAME")
        pooled = lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 2, 1), (1, 2, 1, 1), "SAME")
        sums = lax.reduce_window(x, 0.0, lax.add, (1, 2, 2, 1), (1, 1, 2, 1), "VALID")
        loss = lambda a, b: (jax.nn.relu(lax.conv_general_dilated(a, b, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))) ** 2).sum()
        pool = lambda a: (lax.reduce_window(a, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID") ** 2).sum()
        return (conv, depthwise, up, pooled, sums, *jax.grad(loss, (0, 1))(x, k), jax.grad(pool)(x))
    return function, [(floats(2, 6, 7, 3), floats(3, 3, 3, 4), floats(2, 2, 1, 6))], None


@fixture
def products():
    def function(x, y, q, k, n):
        return (x @ y, jnp.einsum("bqhd,bkhd->bhqk", q, k), jnp.tensordot(q, k, [[0, 1], [0, 1]]), jnp.outer(x[0], y[:, 0]), x[0] @ y, jnp.vdot(x, x), lax.dot_general(n, n, (((1,), (1,)), ((), ())), preferred_element_type=jnp.int32),
                jnp.matmul(q[:, :, 0], k[:, :, 1].transpose(0, 2, 1)))
    return function, [(floats(3, 4), floats(4, 5), floats(2, 3, 2, 4), floats(2, 3, 2, 4), RANDOM.integers(-99, 99, (2, 3)).astype("int8"))], None


@fixture
def loops():
    def function(x, n, p):
        until = lax.while_loop(lambda s: (s[1] < n) & (jnp.sum(s[0]) < 90), lambda s: (lax.cond(s[1] % 2 == 0, lambda v: v * 1.5 + 1, lambda v: jnp.flip(v), s[0]), s[1] + 1), (x, 0))
        scanned = lax.scan(lambda c, v: (c * 0.5 + v, (jnp.sin(c), v.sum())), x, jnp.outer(x, x), reverse=True)
        chosen = lax.switch(n, [jnp.sin, jnp.cos, lambda v: v[::-1]], x)
        return (*until, *jax.tree_util.tree_leaves(scanned), chosen, lax.cond(p, jnp.exp, jnp.negative, x), jax.grad(lambda v: lax.scan(lambda c, w: (jnp.tanh(c * w), c), v[0], v)[1].sum())(x),
                lax.map(lambda v: v * n, x))
    return function, [(floats(4), np.int32(n), np.bool_(n > 2)) for n in (1, 5, -2)], None


@fixture
def matrices():
    def function(a, b):
        spd = a @ jnp.swapaxes(a, 1, 2) + 2 * jnp.eye(4)
        lower = jnp.linalg.cholesky(spd)
        q, r = jnp.linalg.qr(a[:, :, :3])
        return (lower, jnp.linalg.solve(a, b), jnp.linalg.inv(spd), jnp.linalg.det(a), *jnp.linalg.slogdet(spd), q @ r, jnp.abs(r), jax.scipy.linalg.solve_triangular(lower[0], b[0], lower=True),
                jax.scipy.linalg.solve_triangular(lower[1], b[1], lower=True, trans=1), lax.linalg.triangular_solve(lower, b.transpose(0, 2, 1), left_side=False, lower=True, transpose_a=True), jnp.linalg.cholesky(-spd))
    return function, [(floats(2, 4, 4), floats(2, 4, 3))], None


@fixture
def factors():
    """Routines of LAPACK. The signs of vectors are free, so that they are multiplied."""
    def function(a, b):
        symmetric = a + jnp.swapaxes(a, 1, 2)
        values, vectors = jnp.linalg.eigh(symmetric)
        results = [values, vectors * values[:, None] @ jnp.swapaxes(vectors, 1, 2), lax.linalg.cholesky(symmetric + 9 * jnp.eye(4), symmetrize_input=False)]
        for x in (b, jnp.swapaxes(b, 1, 2)):
            for full in (False, True):
                u, s, vt = jnp.linalg.svd(x, full_matrices=full)
                results += [s, u[:, :, :3] * s[:, None] @ vt[:, :3], jnp.swapaxes(u, 1, 2) @ u, vt @ jnp.swapaxes(vt, 1, 2)]
        return *results, jnp.linalg.svd(b, compute_uv=False), jnp.linalg.pinv(b), jnp.linalg.matrix_rank(b), jnp.linalg.norm(b[0], 2)
    return function, [(floats(2, 4, 4), floats(2, 5, 3))], None


@fixture
def spectra():
    """Complex numbers: transforms, functions, products, control flow. They come and go as pairs along a last axis."""
    def function(x, z, w):
        signal = x.reshape(-1)
        frames = jax.scipy.signal.stft(signal, nperseg=16)[2]
        parts = [jnp.fft.fft(z), jnp.fft.ifft(z), jnp.fft.rfft(x), jnp.fft.irfft(z), jnp.fft.irfft(z, 9), jnp.fft.fft2(z), jnp.fft.irfft2(z), frames, jax.scipy.signal.istft(frames, nperseg=16)[1]]
        small = z * 0.4
        parts += [f(small) for f in (jnp.exp, jnp.log, jnp.sqrt, jnp.sin, jnp.cos, jnp.tan, jnp.tanh, jnp.sinh, jnp.arctan, jnp.expm1, jnp.log1p, jnp.sign, jnp.abs, jnp.angle, jnp.conj, jnp.isfinite, lax.rsqrt, jax.nn.sigmoid)]
        parts += [z * z / (z + 2) - x, z ** 3, small ** (z * 0.3), z @ w, jnp.einsum("ij,jk->ki", z, w), jnp.convolve(z[0], w[0]), z == z.at[1].set(0), jnp.cumsum(z, 1), jnp.mean(z, 0)]
        parts += [jnp.where(z.real > 0, z, 1j * z), z.at[1].set(0).at[:, 2].add(1j)[::-1, 1:5].T, z[jnp.array([2, 0])], lax.complex(x, x * 2).real]
        carried, steps = lax.scan(lambda state, row: (state * 0.9 + row, state * row), z[0], z)
        rolled = lax.fori_loop(0, 4, lambda i, state: state * (1 + 0.1j) + i, z)
        return *parts, carried, steps, rolled, lax.cond(x[0, 0] > 0, lambda v: v * 1j, lambda v: v, z)
    complexes = lambda *shape: floats(*shape) + 1j * floats(*shape)
    return function, [(floats(3, 8), complexes(3, 8).astype("complex64"), complexes(8, 5).astype("complex64"))], None


@fixture
def bits():
    def function(x, y, z):
        widened = lax.bitcast_convert_type(x, jnp.uint16), lax.bitcast_convert_type(x, jnp.int8), lax.bitcast_convert_type(y, jnp.float16)
        narrowed = lax.bitcast_convert_type(z, jnp.float32), lax.bitcast_convert_type(lax.bitcast_convert_type(x, jnp.uint8), jnp.int32)
        best = *lax.approx_max_k(x, 2), *lax.approx_min_k(x, 3, reduction_dimension=0, aggregate_to_topk=False)
        return *widened, *narrowed, *best
    return function, [(floats(4, 6), RANDOM.integers(-2**31, 2**31, (3,)).astype("int32"), floats(5, 2).astype("float16"))], None


@fixture
def random():
    def function(key):
        first, second = jax.random.split(key)
        return jax.random.normal(first, (3, 4)), jax.random.randint(second, (5,), 0, 100), jax.random.permutation(first, 7), jax.random.bernoulli(second, 0.3, (6,))
    return function, [(np.uint32([0, 42]),), (np.uint32([9, 1]),)], None


@fixture
def training():
    def loss(params, x, labels):
        (w, b), (v, c) = params
        logits = jax.nn.gelu(x @ w + b) @ v + c
        return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], 1))

    def step(params, x, labels):
        value, gradient = jax.value_and_grad(loss)(params, x, labels)
        return value, jax.tree_util.tree_map(lambda p, g: p - 0.1 * g, params, gradient)
    params = [(floats(4, 6), floats(6)), (floats(6, 3), floats(3))]
    return step, [(params, floats(5, 4), np.int32([0, 2, 1, 1, 0]))], None


@fixture
def dense():
    w = floats(4, 3)
    b, = export.symbolic_shape("batch")
    return lambda x: jax.nn.softmax(jnp.tanh(x @ w) + jnp.ones((x.shape[0], 3)), axis=-1) / x.shape[0], [(floats(n, 4),) for n in (2, 5)], (spec(b, 4),)


@fixture
def lstm():
    u, w, bias = floats(5, 24) * 0.3, floats(6, 24) * 0.3, floats(24) * 0.3

    def cell(state, x):
        h, c = state
        i, f, o, g = jnp.split(x @ u + h @ w + bias, 4, -1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    def function(xs):
        start = jnp.zeros((xs.shape[1], 6), jnp.float32)
        return lax.scan(cell, (start, start), xs)
    t, b = export.symbolic_shape("time, batch")
    return function, [(floats(n, m, 5),) for n, m in ((1, 2), (7, 3))], (spec(t, b, 5),)


@fixture
def extents():
    m, n = export.symbolic_shape("m, n")

    def function(x, y):
        joined = jnp.concatenate([x, y[:, : x.shape[1]]])
        return (joined.reshape(2, -1).sum(1), jnp.arange(y.shape[1] * 2) + x.shape[0], x[x.shape[0] // 2 :], y - y.mean(1, keepdims=True), jnp.pad(x, ((0, x.shape[1]), (1, 0))), jnp.sort(x, 0)[::2],
                jnp.cumsum(y, 1), x @ x.T, lax.dynamic_slice_in_dim(y, 1, x.shape[1], 1), jnp.argmax(y, 1), x.at[0].set(1.0))
    return function, [(floats(2 * a, b), floats(2 * a, b + 3)) for a, b in ((2, 3), (1, 4))], (spec(2 * m, n), spec(2 * m, n + 3))


@fixture
def refused():
    """Not imported: what is refused, of several kinds."""
    def function(x):
        return jnp.linalg.eigvals(x), jnp.prod(lax.complex(x, x)), lax.rng_bit_generator(jnp.zeros(4, "uint32"), (3,))[1]
    return function, [(floats(3, 3),)], None


def write(name):
    function, cases, specs = FUNCTIONS[name]()
    exported = export.export(jax.jit(function, keep_unused=True), platforms=["cpu"])(*(specs or cases[0]))
    with open(os.path.join(HERE, f"{name}.stablehlo"), "wb") as file:
        file.write(exported.serialize())
    if name in ARTIFACTS:
        with open(os.path.join(HERE, f"{name}.mlirbc"), "wb") as file:
            file.write(exported.mlir_module_serialized)
    arrays = {}
    for number, arguments in enumerate(cases):
        results = jax.jit(function)(*arguments)
        for kind, values in (("in", arguments), ("out", results)):
            for i, leaf in enumerate(jax.tree_util.tree_leaves(values)):
                leaf = np.asarray(leaf)
                arrays[f"{number}.{kind}.{i}"] = np.stack([leaf.real, leaf.imag], -1) if leaf.dtype.kind == "c" else leaf
    if name != "refused":
        np.savez_compressed(os.path.join(HERE, f"{name}.npz"), **arrays)


if __name__ == "__main__":
    for one in sys.argv[1:] or FUNCTIONS:
        write(one)
