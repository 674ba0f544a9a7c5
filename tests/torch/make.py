"""Writes the fixtures of torch_test.py: exported programs and what PyTorch computes with them.

    python tests/torch/make.py [NAME...]

Needs PyTorch (2.15 wrote those that are committed), which no test needs. NAME.pt2 is the program as it was traced, NAME_core.pt2 the
same in core ATen operators, NAME.npz the cases: `CASE.in.N` and `CASE.out.N` are tensors in the order of @main's parameters and results.
"""

import contextlib
import functools
import importlib.util
import json
import os
import sys
import warnings
import zipfile

import numpy
import torch
from torch import nn
from torch._higher_order_ops import scan, while_loop
from torch.export import Dim

HERE = os.path.dirname(os.path.abspath(__file__))
warnings.filterwarnings("ignore")
B, T = Dim("batch", min=1, max=64), Dim("time", min=2, max=200)
MODELS = {}
TRACED = ("lstm", "gru", "lstm_steps", "layers", "edges", "losses", "composites", "writes")  # in core operators they are large
STATEFUL = ("counter", "lengths", "rows")  # their buffers are parameters and results
DRAWN = ("draws",)  # their results depend on a seed


def fixture(function):
    """`function` gives the module, a list of argument tuples of which the first is exported, and dynamic shapes."""
    MODELS[function.__name__] = function
    return function


@fixture
def mlp():
    module = nn.Sequential(nn.Linear(6, 16), nn.GELU(), nn.LayerNorm(16), nn.Dropout(0.1), nn.Linear(16, 4),
                           nn.Softmax(dim=-1))
    return module, [(torch.randn(n, 6),) for n in (3, 1, 7)], ({0: B},)


class Cnn(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU(inplace=True),
                                  nn.MaxPool2d(2))
        self.depth = nn.Conv2d(8, 16, 3, stride=2, padding=1, groups=8)
        self.norm = nn.GroupNorm(4, 16)
        self.up = nn.ConvTranspose2d(16, 6, 2, stride=2)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.head = nn.Linear(6, 5)
        for buffer in (self.stem[1].running_mean, self.stem[1].running_var):
            nn.init.uniform_(buffer, 0.5, 1.5)

    def forward(self, x):
        x = self.norm(nn.functional.silu(self.depth(self.stem(x))))
        y = nn.functional.interpolate(self.up(x), scale_factor=2, mode="bilinear", align_corners=False)
        return self.head(self.pool(y).flatten(1)), nn.functional.avg_pool2d(y, 3, stride=2, padding=1)


@fixture
def cnn():
    return Cnn(), [(torch.randn(n, 3, 16, 16),) for n in (2, 1, 5)], ({0: B},)


class Lstm(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(4, 5, num_layers=2, bidirectional=True, batch_first=True)

    def forward(self, x):
        y, (h, c) = self.rnn(x)
        return y, h, c


@fixture
def lstm():
    return Lstm(), [(torch.randn(n, 6, 4),) for n in (2, 3)], ({0: B},)


class Gru(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(4, 5)
        self.simple = nn.RNN(5, 3, nonlinearity="relu", bias=False)

    def forward(self, x):
        y, h = self.rnn(x)
        return h, self.simple(y)[0]


@fixture
def lstm_steps():
    """As import_torch of Python exports it: a loop over a dynamic number of steps."""
    return Lstm(), [(torch.randn(n, t, 4),) for n, t in ((2, 6), (3, 9), (1, 2))], ({0: B, 1: T},)


@fixture
def gru():
    return Gru(), [(torch.randn(7, n, 4),) for n in (2, 3)], ({1: B},)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(11, 8)
        self.attend = nn.MultiheadAttention(8, 2, batch_first=True)
        self.norm = nn.LayerNorm(8)

    def forward(self, tokens):
        x = self.embed(tokens)
        mask = torch.triu(torch.full((tokens.shape[1], tokens.shape[1]), float("-inf")), diagonal=1)
        y, _ = self.attend(x, x, x, attn_mask=mask, need_weights=False)
        return self.norm(x + y), tokens.ne(0).sum(-1)


@fixture
def attention():
    return Attention(), [(torch.randint(0, 11, s),) for s in ((2, 6), (1, 3), (4, 17))], ({0: B, 1: T},)


class Branches(nn.Module):
    def __init__(self):
        super().__init__()
        self.left, self.right = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x, y):
        return torch.cond(x.sum() > 0, lambda a, b: torch.tanh(self.left(a)) + b, lambda a, b: self.right(a - b), (x, y))


@fixture
def branches():
    cases = [(torch.randn(n, 4).abs() * sign, torch.randn(n, 4)) for n, sign in ((2, 1), (3, -1), (1, 1))]
    return Branches(), cases, ({0: B}, {0: B})


class Decoder(nn.Module):
    """Doubles until a limit: how often depends on the values."""

    def __init__(self):
        super().__init__()
        self.cell = nn.Linear(4, 4)

    def forward(self, x, limit):
        def goes_on(count, state):
            return (state.abs().sum() < limit) & (count < 20)

        def step(count, state):
            return count + 1, state * 2 + torch.tanh(self.cell(state))

        return while_loop(goes_on, step, (torch.zeros((), dtype=torch.int64), x))


@fixture
def decoder():
    cases = [(torch.rand(n, 4), torch.tensor(float(limit))) for n, limit in ((2, 30), (3, 1000), (1, 0))]
    return Decoder(), cases, ({0: B}, None)


class Scanned(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.Linear(4, 4)

    def forward(self, h, xs):
        def step(carry, x):
            carry = torch.tanh(self.cell(carry) + x)
            return carry, carry * 2

        return scan(step, h, xs)


@fixture
def scanned():
    return Scanned(), [(torch.randn(n, 4), torch.randn(t, n, 4)) for t, n in ((6, 2), (3, 1), (9, 5))], \
        ({0: B}, {0: T, 1: B})


class Counter(nn.Module):
    """Has state: a moving mean and a count."""

    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(3))
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))

    def forward(self, x):
        self.count.add_(1)
        self.mean.mul_(0.5).add_(x.mean(0), alpha=0.5)
        return x - self.mean, self.count * 10


@fixture
def counter():
    return Counter(), [(torch.randn(n, 3),) for n in (2, 4)], ({0: B},)


class Lengths(nn.Module):
    """Writes to a buffer through the results of conversions that change nothing, as caches of fixed size count."""

    def __init__(self):
        super().__init__()
        self.register_buffer("length", torch.zeros((), dtype=torch.int64))

    def forward(self, x, start):
        length = self.length.copy_(start).to(torch.int64)
        before = length + 0
        length.add_(x.shape[0])
        other = length.to(torch.int64, copy=True)
        other.mul_(10)
        return x * before, self.length * 1, other


@fixture
def lengths():
    return Lengths(), [(torch.randn(n, 3), torch.tensor(n * 2)) for n in (2, 4)], ({0: B}, None)


class Shapes(nn.Module):
    """Arithmetic of extents."""

    def forward(self, x, y):
        n = x.shape[0]
        joined = torch.cat([x, y[:n]], dim=1).reshape(n * 2, -1)
        halves = joined.view(2, n, 4).transpose(0, 1).flatten(1)
        return joined, halves[:, 1:-1], torch.arange(n, dtype=torch.float32) / n, y.new_zeros(n, 2) + n, y.std(0)


@fixture
def shapes():
    return Shapes(), [(torch.randn(n, 4), torch.randn(2 * n, 4)) for n in (3, 2, 8)], ({0: T}, {0: 2 * T})


class Picks(nn.Module):
    """Elements picked and written by index, order, reductions."""

    def forward(self, x, index):
        values, places = x.topk(2, dim=1)
        ordered, order = x.sort(dim=1, descending=True)
        written = x.clone()
        written[index] = 1.5
        rows = torch.arange(x.shape[0])
        return (values, places, ordered, order, x[index], x[rows, x.argmax(1)], written, x[:, [2, 0]],
                x.scatter_add(1, places, values), torch.where(x > 0, x, 0), x.clamp(-0.5, 0.5), x.cumsum(1),
                x.masked_fill(x < 0, -1), x.max(dim=1)[0], x.var(1, correction=0), x.norm(dim=1), x.roll(1, 1))


@fixture
def picks():
    cases = [(torch.randn(n, 5), torch.tensor(i)) for n, i in ((4, [0, -1, 2]), (6, [5, 1, 0]))]
    return Picks(), cases, ({0: T}, None)


class Dynamic(nn.Module):
    """Extents that only the values tell."""

    def forward(self, x, count):
        n = count.item()
        torch._check(n >= 1)
        torch._check(n <= 5)
        places = torch.nonzero(x[:, 0] > 0)
        return torch.full((n, 2), 1.5) * n, places, torch.arange(n)


@fixture
def dynamic():
    return Dynamic(), [(torch.randn(t, 3), torch.tensor(n)) for t, n in ((6, 3), (9, 5))], ({0: T}, None)


class Extents(nn.Module):
    """Extents that differ between branches, that are 0, smaller than what is picked from, or known from values alone."""

    def forward(self, x, index, counts):
        chosen = torch.cond(x.sum() > 0, lambda a: a[:1].clone(), lambda a: torch.cat([a, a]), (x,))
        return (chosen * 2, x.gather(1, index), torch.gather(x, -1, index[:1]),
                torch.cat([x.repeat(0, 1), x]), x.repeat(2, 1, 0).sum(-1), torch.tile(x, (0, 2)).sum(0),
                x.repeat_interleave(0, 1).sum(1), x.repeat_interleave(counts, 0),
                x.repeat_interleave(counts[:1], 0), x[:, 0].repeat_interleave(counts), torch.repeat_interleave(counts))


@fixture
def extents():
    index = torch.tensor([[2, 0], [-1 % 4, 1]])
    return Extents(), [(torch.randn(3, 4).abs() * sign, index, torch.tensor(counts))
                       for sign, counts in ((1, [2, 0, 1]), (-1, [1, 0, 3]), (1, [2, 1, 1]))], (None, None, None)


class Widths(nn.Module):
    """Widths of borders and of parts, and shifts, along axes whose extents only the running model knows."""

    def forward(self, x, counts):
        pad, extent = nn.functional.pad, x.shape[0]
        sizes = counts.tolist()
        for size in sizes:
            torch._check(size >= 0)
        torch._check(sum(sizes) == 6)
        first = torch.sym_ite(sizes[0] > 1, 3, 2)
        return (pad(x, (0, 0, 0, -extent % 8)), pad(x, (1, 0, extent, 2), value=1.5), pad(x[None], (0, 0, -extent % 4, 1), mode="replicate"),
                pad(x, (0, 0, 1, sizes[0]), value=-1.0), x.roll((2, -1), (0, 1)), x.roll(-9, 0), x.roll(4),
                *torch.split(torch.arange(12.0).reshape(6, 2), sizes), x.sum() * first)


@fixture
def widths():
    return Widths(), [(torch.randn(t, 3), torch.tensor(counts)) for t, counts in ((5, [1, 2, 3]), (2, [4, 1, 1]), (8, [2, 3, 1]))], ({0: T}, None)


class Each(nn.Module):
    """Applies each of a list of functions."""

    def __init__(self, functions):
        super().__init__()
        self.functions = functions

    def forward(self, *args):
        return [function(*args) for function in self.functions]


@fixture
def elementwise():
    unary = [getattr(torch, name) for name in (
        "abs ceil floor isinf isnan logical_not neg relu sign sgn trunc acos asin asinh atan atanh cos cosh erf exp "
        "expm1 sigmoid sin sinh tan tanh round square isfinite positive").split()]
    positive = [lambda x, y, i, f=getattr(torch, name): f(x.abs() + 1.1) for name in
                "acosh log log10 log1p log2 rsqrt sqrt reciprocal".split()]
    binary = [lambda x, y, i, f=getattr(torch, name): f(x, y) for name in
              "atan2 eq fmod ge gt le lt maximum minimum mul ne remainder add sub div floor_divide rsub "
              "logical_and logical_or logical_xor true_divide".split()]
    bits = [lambda x, y, i: i & 3, lambda x, y, i: i | 3, lambda x, y, i: i ^ 3, lambda x, y, i: ~i,
            lambda x, y, i: i << 2, lambda x, y, i: i >> 1, lambda x, y, i: i / 2, lambda x, y, i: i // 2,
            lambda x, y, i: torch.div(i, 2, rounding_mode="trunc"), lambda x, y, i: i + 1.5, lambda x, y, i: i * x,
            lambda x, y, i: 2 - i, lambda x, y, i: i % 3, lambda x, y, i: torch.exp(i), lambda x, y, i: i.sum(),
            lambda x, y, i: (i > 2) & (i < 5), lambda x, y, i: (i > 2) + (i < 4), lambda x, y, i: i.to(torch.float16) + 1]
    more = [lambda x, y, i: torch.add(x, y, alpha=2), lambda x, y, i: torch.sub(x, y, alpha=0.5),
            lambda x, y, i: torch.addcmul(x, y, y, value=0.5), lambda x, y, i: torch.addcdiv(x, y, y.abs() + 1),
            lambda x, y, i: x.clamp(min=-0.2), lambda x, y, i: x.clamp_max(0.3), lambda x, y, i: torch.lerp(x, y, 0.3),
            lambda x, y, i: x ** 2, lambda x, y, i: x ** 3, lambda x, y, i: x.abs() ** 1.7, lambda x, y, i: 2 ** x,
            lambda x, y, i: x.abs() ** y, lambda x, y, i: torch.round(x, decimals=1), lambda x, y, i: x.clone().fill_(2),
            lambda x, y, i: x.clone().zero_(), lambda x, y, i: x.clone().copy_(y[0]), lambda x, y, i: x.type_as(i),
            lambda x, y, i: torch.where(x > y, x, y), lambda x, y, i: torch.where(x > 0, 1.0, i),
            lambda x, y, i: x.masked_fill(y > 0, 3)]
    cases = [(torch.rand(n, 5) * 1.8 - 0.9, torch.randn(n, 5), torch.randint(0, 9, (n, 5))) for n in (2, 3)]
    return Each([lambda x, y, i, f=f: f(x) for f in unary] + positive + binary + bits + more), cases, \
        (({0: B},) * 3,)


@fixture
def special():
    """Special functions, and arithmetic that Relay composes. x is from -4 to 4, p from 0 to 1."""
    s = torch.special
    unary = [getattr(torch, name) for name in "angle deg2rad digamma erfc exp2 frac i0 lgamma rad2deg signbit sinc".split()]
    unary += [getattr(s, name) for name in (
        "bessel_j0 bessel_j1 entr erfcx i0e i1 i1e log_ndtr modified_bessel_i0 modified_bessel_i1 ndtr "
        "spherical_bessel_j0").split()]
    positive = [lambda x, p, i, f=getattr(s, name): f(p * 4 + 0.1) for name in (
        "bessel_y0 bessel_y1 modified_bessel_k0 modified_bessel_k1 scaled_modified_bessel_k0 "
        "scaled_modified_bessel_k1").split()]
    far = [lambda x, p, i, f=getattr(s, name): f(x.abs() * 8 + 4) for name in (
        "bessel_j0 bessel_j1 bessel_y0 bessel_y1 modified_bessel_k0 scaled_modified_bessel_k1 i0e i1e gammaln psi").split()]
    degrees = [lambda x, p, i, f=getattr(s, name): f(x / 4, i.abs() % 6) for name in (
        "chebyshev_polynomial_t chebyshev_polynomial_u chebyshev_polynomial_v chebyshev_polynomial_w "
        "hermite_polynomial_h hermite_polynomial_he laguerre_polynomial_l legendre_polynomial_p "
        "shifted_chebyshev_polynomial_t shifted_chebyshev_polynomial_u shifted_chebyshev_polynomial_v "
        "shifted_chebyshev_polynomial_w").split()]
    odd = torch.tensor([0.0, -0.0, 1.0, 2.0, -1.0, -2.5, float("inf"), float("-inf"), float("nan"), 0.5])
    edges = [lambda x, p, i, f=f: f(odd) for f in (
        torch.lgamma, torch.erfinv, s.i0e, s.log_ndtr, torch.signbit, torch.angle, torch.erfc, s.entr, torch.frexp,
        torch.nan_to_num, s.ndtri, lambda y: torch.copysign(torch.ones(10), y), lambda y: torch.hypot(y, y.flip(0)),
        lambda y: torch.logaddexp(y, y), lambda y: torch.heaviside(y, torch.full((10,), 0.5)), lambda y: s.xlog1py(y, y),
        lambda y: torch.nextafter(y, torch.zeros(10)), lambda y: torch.nextafter(y, torch.ones(10)),
        lambda y: torch.igamma(y, torch.ones(10)), lambda y: torch.igammac(torch.ones(10), y),
        lambda y: torch.sinc(y[:6]))]
    more = [lambda x, p, i: torch.erfinv(2 * p - 1), lambda x, p, i: s.ndtri(p), lambda x, p, i: s.ndtri(p * 1e-4),
            lambda x, p, i: torch.logit(p), lambda x, p, i: torch.logit(x, eps=0.1), lambda x, p, i: torch.hypot(x, p),
            lambda x, p, i: torch.copysign(p, x), lambda x, p, i: torch.copysign(i, -1.5), lambda x, p, i: torch.ldexp(x, i),
            lambda x, p, i: torch.frexp(x), lambda x, p, i: torch.float_power(p, 1.5), lambda x, p, i: torch.atan2(i, i + 1),
            lambda x, p, i: torch.logaddexp(x, p), lambda x, p, i: torch.logaddexp2(x, p), lambda x, p, i: torch.gcd(i, i.flip(0)),
            lambda x, p, i: torch.lcm(i, i.flip(0)), lambda x, p, i: torch.gcd(i, i * 0), lambda x, p, i: torch.xlogy(i, p),
            lambda x, p, i: s.xlog1py(x, p), lambda x, p, i: x.logcumsumexp(1), lambda x, p, i: torch.nextafter(x, p),
            lambda x, p, i: torch.igamma(p * 9, x.abs() * 3), lambda x, p, i: torch.igammac(p * 9, x.abs() * 3),
            lambda x, p, i: s.zeta(p * 3 + 1.1, p + 0.1), lambda x, p, i: s.zeta(torch.tensor(3.0), x),
            lambda x, p, i: torch.mvlgamma(p + 2, 3), lambda x, p, i: torch.digamma(i + 0.25), lambda x, p, i: torch.lgamma(i),
            lambda x, p, i: torch.lgamma(x.double() * 20), lambda x, p, i: torch.heaviside(i, i + 5),
            lambda x, p, i: x.histc(5), lambda x, p, i: x.histc(4, -1, 1), lambda x, p, i: torch.histogram(x, 3),
            lambda x, p, i: torch.histogram(x, torch.tensor([-2.0, 0.0, 0.5, 3.0]), weight=p, density=True),
            lambda x, p, i: i.abs().flatten().bincount(minlength=12), lambda x, p, i: i[0].abs().bincount(p[0])]
    more += [lambda x, p, i, n=n: torch.polygamma(n, x) for n in (0, 1, 2, 4)]
    cases = [(torch.rand(n, 5) * 8 - 4, torch.rand(n, 5) * 0.98 + 0.01, torch.randint(-30, 30, (n, 5))) for n in (2, 2)]
    functions = [lambda x, p, i, f=f: f(x) for f in unary] + positive + far + degrees + edges + more
    return Each(functions), cases, None


@fixture
def matrices():
    """Linear algebra of a batch of well conditioned matrices a, of b, and of tall and wide ones."""
    g = torch.linalg

    def symmetric(a):
        return a @ a.mT + torch.eye(4)

    def again(factors):
        """What does not depend on the signs of the factors."""
        return functools.reduce(torch.matmul, factors)

    functions = [
        lambda a, b, t: g.det(a), lambda a, b, t: g.slogdet(a), lambda a, b, t: torch.logdet(symmetric(a)),
        lambda a, b, t: g.solve(a, b), lambda a, b, t: g.solve(a[0], b[0, :, 0]), lambda a, b, t: g.solve(a, b.mT, left=False),
        lambda a, b, t: g.solve(a[0], b), lambda a, b, t: g.inv(a), lambda a, b, t: g.inv_ex(a), lambda a, b, t: g.cholesky(symmetric(a)),
        lambda a, b, t: g.cholesky(symmetric(a), upper=True), lambda a, b, t: g.cholesky_ex(symmetric(a) - 2)[1],
        lambda a, b, t: torch.cholesky_solve(b, g.cholesky(symmetric(a))),
        lambda a, b, t: torch.cholesky_inverse(g.cholesky(symmetric(a), upper=True), upper=True),
        lambda a, b, t: g.solve_triangular(a.tril(), b, upper=False), lambda a, b, t: g.solve_triangular(a, b, upper=True),
        lambda a, b, t: g.solve_triangular(a, b.mT, upper=True, left=False),
        lambda a, b, t: g.solve_triangular(a, b, upper=False, unitriangular=True),
        lambda a, b, t: torch.triangular_solve(b, a, transpose=True)[0], lambda a, b, t: g.lu_factor(a),
        lambda a, b, t: g.lu_factor(t), lambda a, b, t: g.lu(t), lambda a, b, t: g.lu(t.mT), lambda a, b, t: g.lu_solve(*g.lu_factor(a), b),
        lambda a, b, t: g.lu_solve(*g.lu_factor(a), b, adjoint=True),
        lambda a, b, t: g.lu_solve(*g.lu_factor(a), b.mT, left=False), lambda a, b, t: torch.lu_unpack(*g.lu_factor(t)),
        lambda a, b, t: g.matrix_power(a, 5), lambda a, b, t: g.matrix_power(a, -2), lambda a, b, t: g.matrix_power(a, 0),
        lambda a, b, t: g.matrix_exp(a), lambda a, b, t: g.matrix_exp(a[0] / 50), lambda a, b, t: g.qr(t), lambda a, b, t: g.qr(t.mT),
        lambda a, b, t: g.qr(t, mode="complete"), lambda a, b, t: torch.geqrf(t), lambda a, b, t: torch.geqrf(t.mT),
        lambda a, b, t: g.householder_product(*torch.geqrf(t)), lambda a, b, t: torch.ormqr(*torch.geqrf(t), t),
        lambda a, b, t: torch.ormqr(*torch.geqrf(t), t.mT, left=False, transpose=True),
        lambda a, b, t: g.eigvalsh(symmetric(a)), lambda a, b, t: g.eigh(symmetric(a), UPLO="U")[1].abs(),
        lambda a, b, t: g.svdvals(t), lambda a, b, t: g.svdvals(t.mT),
        lambda a, b, t: again((lambda u, s, v: (u, torch.diag_embed(s), v))(*g.svd(t, full_matrices=False))),
        lambda a, b, t: (lambda u, s, v: u @ u.mT)(*g.svd(t * (torch.arange(3) > 0))),
        lambda a, b, t: (lambda u, s, v: v @ v.mT)(*g.svd(t.mT)), lambda a, b, t: torch.svd(t)[1],
        lambda a, b, t: g.pinv(t), lambda a, b, t: g.pinv(t.mT), lambda a, b, t: torch.pinverse(t * (torch.arange(3) > 0)),
        lambda a, b, t: g.pinv(a, hermitian=True), lambda a, b, t: g.matrix_rank(a, hermitian=True),
        lambda a, b, t: g.polar(t), lambda a, b, t: g.matrix_sqrth(symmetric(a)),
        lambda a, b, t: g.matrix_rank(t), lambda a, b, t: g.matrix_rank(t * (torch.arange(3) > 0)),
        lambda a, b, t: g.cond(a), lambda a, b, t: g.cond(a, 1), lambda a, b, t: g.cond(a, "fro")]
    functions += [lambda a, b, t, p=p: g.matrix_norm(t, p) for p in ("fro", "nuc", 1, -1, 2, -2, float("inf"))]
    cases = [(torch.randn(2, 4, 4) + 3 * torch.eye(4), torch.randn(2, 4, 3), torch.randn(2, 5, 3)) for _ in range(2)]
    return Each(functions), cases, None


@fixture
def systems():
    """Matrices of any extent."""
    functions = [lambda a, b: torch.linalg.solve(a, b), lambda a, b: torch.linalg.det(a),
                 lambda a, b: torch.linalg.cholesky(a @ a.mT), lambda a, b: torch.linalg.eigvalsh(a + a.mT)]
    cases = [(torch.randn(n, n) + 3 * torch.eye(n), torch.randn(n, 2)) for n in (3, 5, 8)]
    return Each(functions), cases, (({0: T, 1: T}, {0: T}),)


class Draws(nn.Module):
    """Random numbers: torch_test.py compares their moments."""

    def forward(self, x, p):
        f = nn.functional
        with torch.no_grad():
            return (torch.rand(x.shape[0], 4), torch.randn(x.shape[0], 4), torch.rand_like(x), torch.randn_like(x),
                    torch.randint(-3, 5, (x.shape[0],)), torch.randint_like(x, 7), torch.bernoulli(p), torch.bernoulli(x, 0.25),
                    x.clone().uniform_(-1, 3), x.clone().normal_(2, 0.5), torch.normal(x, 0.1), torch.normal(1.0, p),
                    x.clone().exponential_(2), x.clone().geometric_(0.25), x.clone().log_normal_(0, 0.5),
                    x.clone().cauchy_(1, 2), torch.randperm(x.shape[0]), torch.multinomial(torch.tensor([0.0, 1.0, 3.0]), 400, True),
                    torch.multinomial(p[:, 0], 3), f.dropout(x, 0.25, True), f.alpha_dropout(x, 0.5, True),
                    f.dropout1d(x, 0.5, True), f.rrelu(-x, training=True))


@fixture
def draws():
    return Draws(), [(torch.full((400, 8), 2.0), torch.full((400, 8), 0.75))], ({0: Dim("n", min=2, max=1000)}, {0: Dim("n", min=2, max=1000)})


@fixture
def layers():
    f = nn.functional
    ones, scale, shift = torch.rand(7), torch.rand(4) + 0.5, torch.rand(4)
    weight, weight1, weight3 = torch.randn(6, 2, 3, 3), torch.randn(6, 4, 3), torch.randn(2, 4, 2, 2, 2)
    activations = [getattr(f, name) for name in (
        "celu elu gelu hardsigmoid hardswish hardtanh leaky_relu logsigmoid mish relu6 selu softplus softsign silu").split()]
    functions = [lambda x, v, z, g=g: g(x) for g in activations] + [
        lambda x, v, z: f.glu(x, 1), lambda x, v, z: f.gelu(x, approximate="tanh"), lambda x, v, z: f.threshold(x, 0.1, 2),
        lambda x, v, z: f.prelu(x, torch.arange(4.0)), lambda x, v, z: f.softmax(x, 1),
        lambda x, v, z: f.log_softmax(x, -1), lambda x, v, z: f.conv2d(x, weight, groups=2, padding="same"),
        lambda x, v, z: f.conv2d(x, weight, stride=2, padding=1, dilation=2, groups=2),
        lambda x, v, z: f.conv1d(v, weight1, padding=1), lambda x, v, z: f.conv1d(v[0], weight1),
        lambda x, v, z: f.conv3d(z, weight3), lambda x, v, z: f.conv_transpose1d(v, weight1.transpose(0, 1), stride=2),
        lambda x, v, z: f.conv_transpose2d(x, weight.transpose(0, 1).reshape(4, 3, 3, 3), stride=2, output_padding=1),
        lambda x, v, z: f.max_pool1d(v, 2), lambda x, v, z: f.max_pool3d(z, 2),
        lambda x, v, z: f.max_pool2d(x, 3, stride=2, padding=1, return_indices=True),
        lambda x, v, z: f.max_pool2d(x, 3, stride=2, ceil_mode=True), lambda x, v, z: f.avg_pool1d(v, 3, 2),
        lambda x, v, z: f.avg_pool2d(x, 3, padding=1, count_include_pad=False), lambda x, v, z: f.avg_pool3d(z, 2),
        lambda x, v, z: f.adaptive_avg_pool2d(x, (3, 2)), lambda x, v, z: f.adaptive_avg_pool1d(v, 1),
        lambda x, v, z: f.adaptive_max_pool2d(x, 1), lambda x, v, z: f.batch_norm(x, shift, scale),
        lambda x, v, z: f.group_norm(x, 2, scale, shift), lambda x, v, z: f.instance_norm(x),
        lambda x, v, z: f.layer_norm(x, (6, 7)), lambda x, v, z: f.rms_norm(x, (7,), ones),
        lambda x, v, z: f.interpolate(x, scale_factor=2), lambda x, v, z: f.interpolate(x, size=(5, 9)),
        lambda x, v, z: f.interpolate(x, size=(5, 9), mode="bilinear", align_corners=True),
        lambda x, v, z: f.interpolate(x, size=(9, 9), mode="bicubic"),
        lambda x, v, z: f.interpolate(v, scale_factor=2, mode="linear"),
        lambda x, v, z: f.interpolate(z, scale_factor=2, mode="trilinear"),
        lambda x, v, z: f.grid_sample(x, v.reshape(-1, 4, 4, 2).tanh(), align_corners=False),
        lambda x, v, z: f.pad(x, (1, 2, 0, 1), value=3.0), lambda x, v, z: f.pad(v, (1, 2), mode="reflect"),
        lambda x, v, z: f.pad(x, (1, 2, 1, 0), mode="replicate"), lambda x, v, z: f.pixel_shuffle(x, 2),
        lambda x, v, z: f.pixel_unshuffle(x[:, :, :, :6], 2), lambda x, v, z: v @ v.transpose(1, 2),
        lambda x, v, z: torch.einsum("bcl,bdl->bcd", v, v), lambda x, v, z: v[0, 0].dot(v[0, 1]),
        lambda x, v, z: v[0] @ v[0, 0], lambda x, v, z: torch.baddbmm(v @ v.mT, v, v.mT, beta=0.5, alpha=2),
        lambda x, v, z: torch.addmv(v[0, :, 0], v[0], v[0, 1]), lambda x, v, z: torch.bmm(v, v.mT),
        lambda x, v, z: f.scaled_dot_product_attention(v, v, v, is_causal=True),
        lambda x, v, z: f.scaled_dot_product_attention(v, v, v, attn_mask=(v @ v.mT) > 0, scale=0.3),
        lambda x, v, z: f.linear(v[0, 0], weight1[:3, :, 0].repeat(1, 2)), lambda x, v, z: f.dropout(x, training=False)]
    cases = [(torch.randn(n, 4, 6, 7), torch.randn(n, 4, 8), torch.randn(n, 4, 4, 4, 4)) for n in (2, 3)]
    return Each(functions), cases, (({0: B},) * 3,)


@fixture
def tensors():
    def scattered(reduce):
        return lambda x, i: x.scatter_reduce(1, i % 6, x, reduce=reduce)

    functions = [
        lambda x, i: x.sum(0), lambda x, i: x.sum(), lambda x, i: x.mean((0, 2), keepdim=True), lambda x, i: x.prod(1),
        lambda x, i: x.amax((1, 2)), lambda x, i: x.amin(1), lambda x, i: (x > 0).any(1), lambda x, i: (x > -9).all(),
        lambda x, i: x.max(), lambda x, i: x.min(dim=2), lambda x, i: x.max(dim=1, keepdim=True), lambda x, i: x.argmax(),
        lambda x, i: x.argmin(2), lambda x, i: x.std(1), lambda x, i: torch.var_mean(x, 2), lambda x, i: x.norm(p=1, dim=1),
        lambda x, i: torch.linalg.vector_norm(x, ord=3, dim=2), lambda x, i: x.norm(p=float("inf"), dim=1),
        lambda x, i: x.logsumexp(1), lambda x, i: x.cumprod(1), lambda x, i: i.cumsum(1), lambda x, i: x.argsort(1),
        lambda x, i: x.topk(2, largest=False), lambda x, i: x.var(1, correction=2), lambda x, i: x.flatten(),
        lambda x, i: x.flatten(1), lambda x, i: x.unflatten(1, (2, -1)), lambda x, i: x[:, None].squeeze(),
        lambda x, i: x.unsqueeze(-1).squeeze(-1), lambda x, i: x.permute(2, 0, 1), lambda x, i: x.transpose(0, -1),
        lambda x, i: x[0].t(), lambda x, i: x.mT, lambda x, i: x[:, :1].expand(-1, 3, -1), lambda x, i: x[0, 0].expand_as(x),
        lambda x, i: x.repeat(1, 2, 1), lambda x, i: x.tile(2), lambda x, i: x.repeat_interleave(2, dim=1),
        lambda x, i: torch.cat([x, i], 1), lambda x, i: torch.stack([x, i], -1), lambda x, i: x.split(4, 1),
        lambda x, i: x.split([1, 5], 1), lambda x, i: x.chunk(4, 1), lambda x, i: x.unbind(1)[2], lambda x, i: x[:, 1:-1:2],
        lambda x, i: x[..., -2:], lambda x, i: x.narrow(1, 2, 3), lambda x, i: x.select(1, -2), lambda x, i: x.flip(1, 2),
        lambda x, i: x.roll((1, -1), (1, 2)), lambda x, i: x.tril(), lambda x, i: x.triu(1), lambda x, i: x.diagonal(0, 1, 2),
        lambda x, i: x.select_scatter(x[:, 0], 1, 2), lambda x, i: x.slice_scatter(x[:, :2], 1, 2, 4),
        lambda x, i: torch.full((2, x.shape[0]), 3), lambda x, i: torch.ones(3), lambda x, i: x.new_ones(2, 2),
        lambda x, i: x.new_full((2,), 4.0), lambda x, i: torch.zeros_like(x), lambda x, i: torch.ones_like(i),
        lambda x, i: torch.full_like(x, 2), lambda x, i: torch.arange(1, x.shape[0] + 5, 2), lambda x, i: torch.eye(3, 4),
        lambda x, i: torch.arange(0.0, 1.0, 0.25), lambda x, i: torch.scalar_tensor(2.5), lambda x, i: x.shape[0] * 2,
        lambda x, i: torch.nn.functional.one_hot(i[:, 0, 0] % 4, 5), lambda x, i: x.gather(1, i % 6),
        lambda x, i: x.index_select(1, torch.tensor([3, 0])), lambda x, i: x[:, [1, 2], [3, 0]], lambda x, i: x[[0, 1], :, [3, 0]],
        lambda x, i: x[x > 0.5], lambda x, i: x.take_along_dim(i % 6, 1), scattered("sum"), scattered("amax"),
        lambda x, i: x.scatter(1, i[:, :2] % 6, 9.0), lambda x, i: x.scatter_add(1, i % 6, x),
        lambda x, i: x.index_add(1, torch.tensor([0, 2]), x[:, :2], alpha=2), lambda x, i: (x > 0).nonzero(),
        lambda x, i: x.index_copy(1, torch.tensor([5, 1]), x[:, :2]), lambda x, i: x.index_fill(2, torch.tensor([-1, 0]), 7),
        lambda x, i: x.index_put((torch.tensor([0, 1]), torch.tensor([2, 2])), x[0, :2], accumulate=True),
        lambda x, i: x.masked_scatter(x > 0, x.flatten().flip(0)), lambda x, i: torch.cdist(x, x[:, :2]),
        lambda x, i: torch.cdist(x, x[:, :2], p=1.0)]
    cases = [(torch.randn(n, 6, 4), torch.randint(0, 60, (n, 6, 4))) for n in (2, 2)]
    return Each(functions), cases, None


@fixture
def composites():
    """Operators that exports keep although others make them up."""
    f, affine = nn.functional, torch.fake_quantize_per_tensor_affine
    functions = [
        lambda x, v: x.transpose(1, 2).reshape_as(x), lambda x, v: torch.linalg.norm(x), lambda x, v: torch.linalg.norm(x, dim=-1),
        lambda x, v: torch.linalg.norm(x, ord=1, dim=1, keepdim=True), lambda x, v: torch.linalg.norm(x, ord=float("inf"), dim=(1, 2)),
        lambda x, v: torch.linalg.norm(x, dim=(0, 2)), lambda x, v: torch.linalg.norm(x[0], ord="fro"), lambda x, v: torch.linalg.norm(v, ord=3),
        lambda x, v: torch.linalg.matmul(x, x.mT), lambda x, v: torch.linalg.vecdot(x, x + 1), lambda x, v: torch.linalg.vecdot(x, x, dim=1),
        lambda x, v: torch.linalg.diagonal(x, offset=1), lambda x, v: torch.linalg.diagonal(x, dim1=0, dim2=1),
        lambda x, v: torch.row_stack([v, v]), lambda x, v: torch.msort(x), lambda x, v: torch.argwhere(x > 0),
        lambda x, v: torch.trapezoid(x, dx=0.5), lambda x, v: torch.trapezoid(x, v.cumsum(0), dim=1), lambda x, v: torch.trapezoid(x, x * x, dim=0),
        lambda x, v: torch.cumulative_trapezoid(x, dim=1), lambda x, v: torch.cumulative_trapezoid(x, v.cumsum(0), dim=1),
        lambda x, v: affine(x, 0.1, 3, 0, 255), lambda x, v: affine(x, torch.tensor(0.2), torch.tensor(-1, dtype=torch.int32), -8, 7),
        lambda x, v: torch.fake_quantize_per_channel_affine(x, v.abs() + 0.1, torch.arange(6, dtype=torch.int32), 1, 0, 15),
        lambda x, v: f.fold(x.reshape(2, 12, 2).repeat(1, 1, 3), (5, 6), (2, 3), padding=1, stride=(3, 2)),
        lambda x, v: f.fold(x.reshape(4, 12)[:, :8], (4, 4), 2, dilation=2, padding=1, stride=(2, 1)), lambda x, v: f.dropout(x * 2, 0.5, False, inplace=True),
        lambda x, v: torch._weight_norm(x, v.reshape(1, 6, 1), 1), lambda x, v: torch._weight_norm(x, x[:, :1, :1], 0),
        lambda x, v: torch._weight_norm(x, v[:1], -1),
        lambda x, v: torch._grouped_mm(x.reshape(12, 4), x.reshape(3, 4, 4), offs=torch.tensor([3, 3, 12], dtype=torch.int32)),
        lambda x, v: torch._grouped_mm(x, x.mT)]
    return Each(functions), [(torch.randn(2, 6, 4), torch.randn(6).abs()) for _ in range(2)], None


@fixture
def edges():
    """Masked rows, windows that hang over, the order of NaN, scales that are no quotients, moments of few elements."""
    f = nn.functional

    def attention(mask, **options):
        return lambda v, m, x, s, i: f.scaled_dot_product_attention(v, v, v, attn_mask=mask(m), **options)

    def resized(dims, scale, mode, **options):
        return lambda v, m, x, s, i: f.interpolate({3: v, 4: x, 5: x[:, None]}[dims], scale_factor=scale, mode=mode, **options)

    functions = [
        attention(lambda m: m), attention(lambda m: m > -1), attention(lambda m: (m > -1)[:, :1], scale=0.7),
        lambda v, m, x, s, i: f.scaled_dot_product_attention(v[:, None].expand(-1, 4, -1, -1), v[:, None].expand(-1, 2, -1, -1),
                                                             v[:, None].expand(-1, 2, -1, -1), m[:, None], enable_gqa=True),
        lambda v, m, x, s, i: f.scaled_dot_product_attention(v, v, v, is_causal=True),
        lambda v, m, x, s, i: torch.ops.aten._safe_softmax(m, -1), lambda v, m, x, s, i: f.softmax(m, -1),
        lambda v, m, x, s, i: f.avg_pool1d(v, 3, 2, ceil_mode=True), lambda v, m, x, s, i: f.avg_pool1d(v, 3, 3, 1, ceil_mode=True),
        lambda v, m, x, s, i: f.avg_pool2d(x, (2, 3), (3, 2), ceil_mode=True),
        lambda v, m, x, s, i: f.avg_pool2d(x, 3, 2, 1, ceil_mode=True, count_include_pad=False),
        lambda v, m, x, s, i: f.avg_pool3d(x[:, None], (2, 3, 2), (3, 2, 2), (1, 1, 0), ceil_mode=True),
        lambda v, m, x, s, i: s.sort(descending=True, stable=True), lambda v, m, x, s, i: s.sort(stable=True),
        lambda v, m, x, s, i: s.argsort(stable=True, dim=0, descending=True), lambda v, m, x, s, i: s.topk(3)[0],
        lambda v, m, x, s, i: s.topk(2, largest=False)[0],
        resized(3, 1.7, "nearest"), resized(4, (1.7, 0.6), "nearest"), resized(5, 1.3, "nearest"), resized(4, 3, "nearest"),
        resized(3, 1.7, "linear"), resized(4, (1.7, 0.6), "bilinear"), resized(4, 1.7, "bilinear", align_corners=True),
        resized(4, (0.7, 1.3), "bicubic"), resized(5, (1.7, 1.3, 0.7), "trilinear"),
        resized(4, 1.7, "bilinear", recompute_scale_factor=True), resized(4, 1.7, "nearest", recompute_scale_factor=True),
        lambda v, m, x, s, i: v[:, :1].var(1), lambda v, m, x, s, i: v[:, :0].std(1), lambda v, m, x, s, i: torch.var_mean(v[:, :0], 1),
        lambda v, m, x, s, i: v[:, :2].var(1, correction=2), lambda v, m, x, s, i: v[:, :2].std(1, correction=5),
        lambda v, m, x, s, i: torch.std_mean(v[:, :1], 1, keepdim=True), lambda v, m, x, s, i: v[:, :0].var(1, correction=0),
        lambda v, m, x, s, i: (i - 9).scatter_reduce(1, i % 4, i - 9, reduce="mean"),
        lambda v, m, x, s, i: f.pad(v, (7, 7), mode="reflect"), lambda v, m, x, s, i: f.pad(v, (-2, 5), mode="circular")]
    mask = torch.tensor([[0, 0, -1, 0], [-1, -1, -1, -1], [0, -1, -1, 0], [-1, 0, 0, 0]]) * float("inf")
    mask = mask.nan_to_num(nan=0.0, neginf=-float("inf"))
    cases = []
    for n in (2, 3):
        scores = torch.randn(n, 5)
        scores[0, 1] = scores[1, 4] = scores[1, 0] = float("nan")
        cases.append((torch.randn(n, 4, 8), torch.stack([mask.roll(k, 0) for k in range(n)]), torch.randn(n, 4, 6, 7), scores,
                      torch.randint(0, 20, (n, 6))))
    return Each(functions), cases, (({0: B},) * 5,)


@fixture
def writes():
    """Writes to parts of tensors, which the whole, the part and other parts have afterwards."""

    def written(part, write):
        def function(x):
            whole = x * 1
            before, target = whole[:, :2], part(whole)
            write(target, x)
            return whole, target + 1, before * 2

        return function

    def fill(target, x):
        target.fill_(3)

    def double(target, x):
        target.mul_(2)

    def both(x):
        whole = x * 1
        part = whole[0]
        whole.add_(1)
        part[1:].neg_()
        whole[:, 1] = x[:, 0]
        whole[1, 2, 3:] = 7
        return whole, part, part.sum()

    def masked(target, x):
        target[x[:, 1] > 0] = 9

    parts = [
        lambda y: y[:, 1], lambda y: y[:, ::2], lambda y: y[1:], lambda y: y.transpose(0, 1)[1], lambda y: y.permute(2, 0, 1)[0],
        lambda y: y.view(-1)[3:7], lambda y: y.chunk(2, -1)[1], lambda y: y.unbind(1)[2], lambda y: y.split(3, 1)[1],
        lambda y: y.split_with_sizes((1, 3), 1)[0], lambda y: y.unsqueeze(0).squeeze(0)[0], lambda y: y[0].diagonal(), lambda y: y.movedim(0, 2)[1],
        lambda y: y[0][1][2:4], lambda y: y.flatten(1)[:, 5], lambda y: y.unflatten(2, (2, 3))[:, :, 1], lambda y: y.as_strided((2, 3), (5, 2), 1),
        lambda y: y.reshape(4, -1)[1], lambda y: y[..., :3].reshape(2, 12)[0], lambda y: y.transpose(0, 1).reshape(2, 24)[1],
        lambda y: y[:, 1:3].reshape(2, -1)[0], lambda y: y.mT.contiguous()[0], lambda y: y.contiguous()[1], lambda y: y[..., -1], lambda y: y.mT[:, 0]]
    functions = [written(part, double) for part in parts] + [written(parts[i], fill) for i in (0, 1, 7)]
    functions += [written(parts[0], masked), written(lambda y: y[:, 1], lambda target, x: target.copy_(x[:, 3])),
                  written(lambda y: y[:, :1], lambda target, x: target.copy_(x[0, 0])), both]
    return Each(functions), [(torch.randn(2, 4, 6),) for _ in range(2)], None


class Rows(nn.Module):
    """Writes to rows of a buffer, as caches do."""

    def __init__(self):
        super().__init__()
        self.register_buffer("rows", torch.zeros(4, 3))

    def forward(self, x):
        self.rows[1:3].copy_(x)
        self.rows[0].add_(x[1])
        return self.rows * 2


@fixture
def rows():
    return Rows(), [(torch.randn(2, 3),) for _ in range(2)], None


@fixture
def orders():
    """Order, distinct elements, searches."""
    levels = torch.tensor([-1.0, 0.0, 0.0, 2.0])
    functions = [
        lambda x, i: x.cummax(0), lambda x, i: x.cummin(1), lambda x, i: i.cummax(1), lambda x, i: torch.fmin(x, x / x.relu()),
        lambda x, i: torch.fmax(i, x), lambda x, i: x.kthvalue(2, 0), lambda x, i: x.kthvalue(3, 1, keepdim=True),
        lambda x, i: x.median(), lambda x, i: x.median(1), lambda x, i: (x / x.relu()).nanmedian(0)[0],
        lambda x, i: (x / x.relu()).median(0)[0], lambda x, i: i.mode(1)[0], lambda x, i: i.mode(0, keepdim=True)[0],
        lambda x, i: i.unique(return_inverse=True, return_counts=True), lambda x, i: i.unique(dim=0),
        lambda x, i: i.unique_consecutive(return_inverse=True, return_counts=True),
        lambda x, i: (i // 4).unique_consecutive(dim=0, return_counts=True),
        lambda x, i: torch.searchsorted(levels, x), lambda x, i: torch.searchsorted(levels, 0.0, right=True, out_int32=True),
        lambda x, i: torch.searchsorted(x.sort(1)[0], x, side="right"), lambda x, i: torch.bucketize(x, levels, right=True),
        lambda x, i: torch.isin(i, torch.tensor([3, 5])), lambda x, i: torch.isin(i, 3, invert=True),
        lambda x, i: torch.nonzero_static(i > 4, size=4), lambda x, i: torch.nonzero_static(i > 90, size=2, fill_value=7),
        lambda x, i: x[0, 0].topk(1), lambda x, i: x[0, 0].sort(), lambda x, i: torch.cat([x, x.topk(0)[0]], 1), lambda x, i: torch.dist(x, i.float(), 3),
        lambda x, i: torch.count_nonzero(i > 4, 1)]
    cases = [(torch.randn(4, 6), torch.randint(0, 9, (4, 6))) for _ in range(2)]
    return Each(functions), cases, None


@fixture
def views():
    """Strides, windows, axes moved, tensors split and stacked, products."""
    f = torch.nn.functional
    functions = [
        lambda x: x.unfold(1, 3, 2), lambda x: x.unfold(0, 2, 1), lambda x: torch.as_strided(x, (3, 2), (5, 2), 1),
        lambda x: torch.as_strided_copy(x, (2, 2), (1, 1)), lambda x: torch.as_strided_scatter(x, x[0, 0, :2], (2,), (7,), 3),
        lambda x: torch.narrow_copy(x, 1, 1, 2), lambda x: torch.unbind_copy(x, 1)[1], lambda x: torch.permute_copy(x, (2, 0, 1)),
        lambda x: torch.unsafe_chunk(x, 2, 1), lambda x: x.movedim(0, -1), lambda x: x.movedim((0, 1), (2, 0)),
        lambda x: x.swapaxes(0, 2), lambda x: x.swapdims(0, 1), lambda x: x.rot90(1, (0, 2)), lambda x: x.rot90(-1), lambda x: x.rot90(2),
        lambda x: torch.tensor_split(x, 3, 1), lambda x: torch.tensor_split(x, (1, 3), 1), lambda x: torch.hsplit(x, 2),
        lambda x: torch.hstack([x, x]), lambda x: torch.vstack([x[0, 0], x[0, 1]]), lambda x: torch.dstack([x[0], x[1]]),
        lambda x: torch.column_stack([x[0, 0], x[0, 1]]), lambda x: torch.atleast_3d(x[0, 0], x[0]),
        lambda x: torch.meshgrid(x[0, 0], x[0, :, 0], indexing="xy"), lambda x: torch.meshgrid(x[0, 0], x[0, :, 0], indexing="ij"),
        lambda x: torch.cartesian_prod(x[0, 0], x[0, :, 0]), lambda x: torch.block_diag(x[0], x[0, 0], x[1]),
        lambda x: torch.broadcast_tensors(x, x[:1, :, :1]), lambda x: x.sum_to_size(4, 1),
        lambda x: x.fliplr(), lambda x: x.flipud(),
        lambda x: torch.diag_embed(x, 1), lambda x: torch.diag_embed(x, -2, 0, 2), lambda x: torch.diagflat(x[0, 0], 1),
        lambda x: x[0].trace(),
        lambda x: f.unfold(x[:, None], (2, 3), padding=1, stride=(1, 2)),
        lambda x: f.channel_shuffle(x[:, :, None], 2),
        lambda x: torch.tensordot(x, x, ([0, 2], [0, 2])), lambda x: torch.inner(x, x[0]), lambda x: torch.outer(x[0, 0], x[0, :, 0]),
        lambda x: torch.kron(x[0], x[1, :2]), lambda x: torch.cross(x[..., :3], x[..., 2:], dim=-1), lambda x: torch.vdot(x[0, 0], x[0, 1]),
        lambda x: torch.addbmm(x[0] @ x[1].mT, x, x.mT, beta=2, alpha=0.5), lambda x: torch.addr(x[0], x[0, :, 0], x[0, 0], beta=0.5),
        lambda x: torch.linalg.multi_dot([x[0], x[1].mT, x[0]]), lambda x: x.take(torch.tensor([-1, 3])),
        lambda x: x.put(torch.tensor([-1, 3]), x[0, 0, :2], accumulate=True), lambda x: torch.arctan(x),
        lambda x: torch.renorm(x, 2, 0, 3.0), lambda x: torch.renorm(x, 1, -1, 5.0), lambda x: x[0].renorm(float("inf"), 1, 1.0)]
    return Each(functions), [(torch.randn(2, 4, 5),) for _ in range(2)], None


@fixture
def cells():
    """Single steps of recurrent networks, pools with indices, statistics of a batch, folded elements."""
    f, lstm, gru, tanh = torch.nn.functional, nn.LSTMCell(5, 3), nn.GRUCell(5, 3, bias=False), nn.RNNCell(5, 3)
    relu, table = nn.RNNCell(5, 3, nonlinearity="relu"), torch.randn(6, 4)

    def reduced(reduce, include_self):
        return lambda x, i: x.scatter_reduce(1, i[:, :, 0], x[:, :3], reduce=reduce, include_self=include_self)

    def indexed(reduce, include_self):
        return lambda x, i: x.index_reduce(1, torch.tensor([3, 0, 3]), x[:, :3], reduce, include_self=include_self)

    functions = [
        lambda x, i: lstm(x, (x[:, :3], x[:, 1:4])), lambda x, i: gru(x, x[:, :3]), lambda x, i: tanh(x, x[:, :3]),
        lambda x, i: relu(x, x[:, :3]),
        *(reduced(name, own) for name in ("sum", "prod", "mean", "amax", "amin") for own in (False, True)),
        *(indexed(name, own) for name in ("prod", "mean", "amax", "amin") for own in (False, True)),
        lambda x, i: x[0, 0].scatter(0, i[0, 0, 0] * 0, 3.0), lambda x, i: x[0].gather(0, i[0, 0, 0]),
        lambda x, i: f.avg_pool2d(x.reshape(2, 4, 5), 2, ceil_mode=True, padding=1, divisor_override=3),
        lambda x, i: f.avg_pool2d(i.reshape(8, 3, 2), 2, divisor_override=3),
        lambda x, i: f.max_pool2d(x.reshape(2, 4, 5), 3, 2, ceil_mode=True, padding=1, return_indices=True),
        lambda x, i: f.max_pool1d((i - 9).flatten(1), 2, padding=1, return_indices=True),
        lambda x, i: f.adaptive_max_pool2d(x.reshape(2, 4, 5), (3, 2), return_indices=True),
        lambda x, i: f.interpolate(x[:, None], size=7, mode="nearest-exact"), lambda x, i: f.batch_norm(x, None, None, training=True),
        lambda x, i: torch.ops.aten._native_batch_norm_legit_functional(x, x[0], x[1], x[2], x[3].exp(), True, 0.1, 1e-5),
        lambda x, i: f.embedding_bag(i[0], table, mode="max"), lambda x, i: f.embedding_bag(i[0, 0], table, i[0, 0, :1] * 0, mode="mean"),
        lambda x, i: f.embedding_bag(i[0], table, mode="sum", per_sample_weights=x[:3, :2])]
    return Each(functions), [(torch.randn(8, 5), torch.randint(0, 5, (8, 3, 2))) for _ in range(2)], None


@fixture
def losses():
    """Losses and distances, which core operators spell out; gradients of samples, quantiles, what is written and unpooled."""
    f = torch.nn.functional
    halves, weight, classes = torch.tensor([0.25, 0.5, 0.9]), torch.tensor([0.5, 2.0, 1.0, 0.25, 3.0]), torch.randn(3, 4, 5)

    def each(loss, **settings):
        return [lambda x, y, i, r=r: loss(x, y, reduction=r, **settings) for r in ("none", "mean", "sum")]

    def of_classes(loss, **settings):
        return [lambda x, y, i, r=r: loss(x, i, reduction=r, **settings) for r in ("none", "mean", "sum")]

    functions = [
        *each(f.mse_loss), *each(f.l1_loss), *each(f.smooth_l1_loss, beta=0.5), *each(f.huber_loss, delta=0.7),
        lambda x, y, i: f.smooth_l1_loss(x, y, beta=0.0),
        lambda x, y, i: f.kl_div(x, y.softmax(1), reduction="batchmean"), lambda x, y, i: f.kl_div(x, y, reduction="sum", log_target=True),
        lambda x, y, i: f.poisson_nll_loss(x, i[:, None].float(), full=True), lambda x, y, i: f.poisson_nll_loss(x.exp(), y.exp(), log_input=False),
        lambda x, y, i: f.binary_cross_entropy(x.sigmoid(), y.sigmoid(), weight=weight), lambda x, y, i: f.binary_cross_entropy(x.sign().relu(), y.sigmoid()),
        *each(f.binary_cross_entropy_with_logits, weight=weight, pos_weight=weight), lambda x, y, i: f.soft_margin_loss(x, y.sign()),
        lambda x, y, i: f.hinge_embedding_loss(x, y.sign(), margin=0.5), lambda x, y, i: f.margin_ranking_loss(x, x.flip(0), y.sign(), margin=0.2),
        lambda x, y, i: f.cosine_similarity(x, y[:1], dim=1), lambda x, y, i: f.cosine_embedding_loss(x, y, y[:, 0].sign(), margin=0.1),
        *(lambda x, y, i, p=p: f.pairwise_distance(x, y, p=p, keepdim=True) for p in (0.0, 1.0, 2.0, 3.0, float("inf"))),
        lambda x, y, i: f.triplet_margin_loss(x, y, x.flip(0), p=1.0, swap=True, reduction="none"),
        *of_classes(f.nll_loss, weight=weight, ignore_index=2), *of_classes(f.cross_entropy, weight=weight, label_smoothing=0.1, ignore_index=1),
        *of_classes(f.cross_entropy), *of_classes(f.multi_margin_loss, p=2, margin=0.4, weight=weight),
        lambda x, y, i: f.cross_entropy(x, y.softmax(1), weight=weight, label_smoothing=0.2), lambda x, y, i: f.cross_entropy(x[0], i[0]),
        lambda x, y, i: f.nll_loss(x[:, :, None] * y[:, None, :3], i[:, None].expand(4, 3)), lambda x, y, i: f.multi_margin_loss(x[0], i[0]),
        lambda x, y, i: f.multilabel_margin_loss(x, torch.stack([i, i - 1, i * 0 - 1, i, i], 1)), lambda x, y, i: f.multilabel_margin_loss(x[0], i[:1].expand(5)),
        lambda x, y, i: x.diff(n=2, dim=0), lambda x, y, i: torch.diff(i, prepend=i[:2], append=i[1:]), lambda x, y, i: (x > 0).diff(),
        lambda x, y, i: torch.gradient(x), lambda x, y, i: torch.gradient(x, spacing=0.5, dim=1, edge_order=2),
        lambda x, y, i: torch.gradient(x, spacing=[0.5, 2.0]), lambda x, y, i: torch.gradient(i, dim=0),
        lambda x, y, i: x.quantile(0.3), lambda x, y, i: x.quantile(halves, dim=0, keepdim=True), lambda x, y, i: (x / x.relu()).quantile(halves, dim=1),
        *(lambda x, y, i, m=m: (x / x.relu()).nanquantile(halves, dim=1, interpolation=m) for m in ("linear", "lower", "higher", "midpoint", "nearest")),
        lambda x, y, i: torch.aminmax(x, dim=1, keepdim=True), lambda x, y, i: torch.aminmax(i), lambda x, y, i: (x / x.relu()).nansum(1),
        lambda x, y, i: (x / x.relu()).nanmean(0), lambda x, y, i: torch.isclose(x, x + y * 1e-5), lambda x, y, i: torch.isclose(x / x, x / x, equal_nan=True),
        lambda x, y, i: torch.isclose(i, i + 1, atol=1.0), lambda x, y, i: torch.linspace(3, -2, 7), lambda x, y, i: torch.linspace(9, 0, 4, dtype=torch.int64),
        lambda x, y, i: torch.linspace(x[0, 0], y[0, 0], 1), lambda x, y, i: torch.logspace(-1, 2, 5, base=2), lambda x, y, i: x.masked_select(y > 0),
        lambda x, y, i: x.masked_select(y[:1] > 0), lambda x, y, i: torch.combinations(x[0]), lambda x, y, i: torch.combinations(i, 3, True), lambda x, y, i: torch.combinations(i, 4),
        *(lambda x, y, i, o=o: torch.diagonal_scatter(x, y.diagonal(o), o) for o in (-2, 0, 1)),
        lambda x, y, i: torch.diagonal_scatter(classes, x[:, :2], 1, 2, 0), lambda x, y, i: f.bilinear(x, y, torch.ones(2, 5, 5).cumsum(1), x[0, :2]),
        lambda x, y, i: f.max_unpool2d(*f.max_pool2d(x.reshape(1, 4, 5), 2, return_indices=True), 2, output_size=(4, 5)),
        lambda x, y, i: f.max_unpool3d(*f.max_pool3d(x[:, :4].reshape(1, 1, 2, 2, 4), (1, 2, 2), return_indices=True), (1, 2, 2)),
        lambda x, y, i: f.hardshrink(x, 0.3), lambda x, y, i: f.softshrink(x, 0.3), lambda x, y, i: torch.real(x),
        lambda x, y, i: torch.lu_solve(y[:, :1], *torch.linalg.lu_factor(x[:, :4])),
        lambda x, y, i: torch.ops.aten._softmax_backward_data(x, y.softmax(1), 1, torch.float32),
        lambda x, y, i: torch.ops.aten._log_softmax_backward_data(x, y.log_softmax(1), 1, torch.float32),
        lambda x, y, i: torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(classes[None], classes[None], classes[None])[1],
        lambda x, y, i: torch.ops.aten.max_pool2d_with_indices_backward(
            y[None, :3, :4], x[None], [2, 2], [1, 1], [0, 0], [1, 1], False, f.max_pool2d(x[None], 2, 1, return_indices=True)[1])]
    return Each(functions), [(torch.randn(4, 5), torch.randn(4, 5), torch.randint(0, 5, (4,))) for _ in range(2)], None


def rolled():
    """`_rolled` of the Python package, without the library that the package loads."""
    path = os.path.join(HERE, "../../python/compiler/relayvm/_torch.py")
    spec = importlib.util.spec_from_file_location("relayvm_torch", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module._rolled()  # pylint: disable=protected-access


class Complexes(nn.Module):
    """Arithmetic with complex numbers, inputs, a parameter and a view among them. Others see them as pairs of their parts."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.complex(torch.randn(3, 4), torch.randn(3, 4)))
        self.register_buffer("turned", torch.complex(torch.randn(8, 3), torch.randn(8, 3)).T[:, :4])

    def parts_of(self, z, filled):
        whole = filled + z
        whole[:, 1:3].mul_(2j)
        whole[0] = z[1].conj()
        placed = torch.zeros_like(z)
        placed[torch.tensor([2, 0])] = z[:2]
        return whole, placed, torch.cat([z, z.real]), torch.stack([z, z.conj()]), torch.where(z.real > 0, z, 1 + z)

    def forward(self, z, pairs, x):
        a, b = torch.view_as_complex(pairs), self.weight
        filled = torch.full((3, 4), 1 - 2j)
        return [
            a + z, a - 2 * z, 1 - a, a * b, a * 2.5, a * 1j, a / b, 1 / a, a / x, a @ b.T, a.T.reshape(6, 2)[1:], a[1], a * self.turned,
            torch.einsum("ij,kj->ik", a, b), torch.einsum("ij,kj->ik", a, x.to(torch.complex64)), nn.functional.linear(a, b),
            torch.polar(x.abs(), x), torch.complex(x, 2 * x), a.abs(), a.angle(), torch.exp(a), torch.log(a), a ** 2, a ** 3, a ** 0.5,
            a.sqrt(), torch.sgn(a), a.conj() * a, (a * a.conj()).real, a.real + a.imag, a == z, a != a, a.sum(), a.mean(0), -a, a.cumsum(1),
            torch.view_as_real(z).sum(-1), x.to(torch.complex64).abs(), a.reciprocal(), a.square(), a.roll(1, 0), a.flip(1), a.unbind(1)[2],
            a.chunk(2, 1)[1], torch.zeros(3, 4, dtype=torch.complex64) + 1, a.unsqueeze(1).expand(3, 2, 4), a.mT, a[torch.tensor([2, 1])],
            nn.functional.pad(a, (1, 2)), a.tril(), *self.parts_of(z, filled)]


@fixture
def complexes():
    return Complexes(), [(torch.complex(torch.randn(3, 4), torch.randn(3, 4)), torch.randn(3, 4, 2), torch.randn(3, 4)) for _ in range(2)], None


@fixture
def spectra():
    """Fourier transforms, of extents with and without factors, and of frames of signals."""
    fft = torch.fft

    def frames(x, **options):
        return torch.stft(x.flatten(1), 12, 5, return_complex=True, window=torch.hann_window(12), **options)

    def back(x, **options):
        return torch.istft(frames(x) * 2, 12, 5, window=torch.hann_window(12), **options)

    def modes(x):
        few = torch.zeros(2, 6, 6, dtype=torch.complex64)
        few[:, :2, :3] = fft.rfft2(x)[:, :2, :3]
        return fft.irfft2(few, s=(6, 10))

    functions = [
        fft.fft, lambda x: fft.fft(x, n=7, dim=1, norm="ortho"), lambda x: fft.fft(x.repeat(1, 1, 7)), lambda x: fft.fft(x[..., :1].repeat(1, 1, 67)),
        lambda x: fft.fft(x[..., :1].double().repeat(1, 1, 521)), lambda x: fft.ifft(fft.fft(x, norm="forward")), fft.rfft, lambda x: fft.rfft(x, dim=0),
        lambda x: fft.irfft(fft.rfft(x, norm="ortho"), n=9, norm="forward"), lambda x: fft.irfft(x + 1j, n=2), lambda x: fft.irfft(x + 1j, n=1), fft.fft2,
        lambda x: fft.ifft2(fft.fft2(x) * 1j), lambda x: fft.rfft2(x, s=(4, 8)), lambda x: fft.irfft2(fft.rfft2(x)), fft.fftn, lambda x: fft.rfftn(x, dim=(0, 2)),
        lambda x: fft.irfftn(fft.rfftn(x)), lambda x: fft.fftshift(x, dim=2), lambda x: fft.ifftshift(fft.fft(x)), lambda x: x + fft.fftfreq(10, d=0.5),
        lambda x: x[..., :6] * fft.rfftfreq(10), lambda x: fft.fft(fft.fft(x, dim=-1), dim=-2).real, frames, lambda x: frames(x, normalized=True),
        lambda x: frames(x, onesided=False, center=False), lambda x: frames(x, pad_mode="constant").abs(), lambda x: torch.stft(x[0, 0], 8, return_complex=True),
        lambda x: torch.stft(x.flatten(1), 16, 4, win_length=10, window=torch.hamming_window(10), return_complex=True), back, lambda x: back(x, length=53),
        lambda x: back(x, length=70), modes, lambda x: x.double() * torch.blackman_window(10, dtype=torch.float64) + torch.bartlett_window(10),
        lambda x: x * torch.kaiser_window(10, periodic=False, beta=6.0) + torch.hamming_window(10, periodic=False, alpha=0.6)]
    return Each(functions), [(torch.randn(2, 6, 10),) for _ in range(2)], None


def flat(values):
    return [value if isinstance(value, torch.Tensor) else torch.tensor(value)
            for value in torch.utils._pytree.tree_leaves(values)]


def scrub(path):
    """Leaves out what depends on where the program was made: stack traces and sample inputs."""
    with zipfile.ZipFile(path) as archive:
        entries = [(info.filename, archive.read(info)) for info in archive.infolist()]

    def scrubbed(value):
        if isinstance(value, list):
            return [scrubbed(element) for element in value]
        if not isinstance(value, dict):
            return value
        return {key: {"nn_module_stack": inner["nn_module_stack"]} if key == "metadata" and "nn_module_stack" in inner
                else {} if key == "metadata" else scrubbed(inner) for key, inner in value.items()}

    with zipfile.ZipFile(path, "w") as archive:
        for name, content in entries:
            if name.endswith("models/model.json"):
                content = json.dumps(scrubbed(json.loads(content))).encode()
            if "/sample_inputs/" not in name:
                archive.writestr(zipfile.ZipInfo(name), content)


def write(name, core):
    torch.manual_seed(7)
    module, cases, dynamic_shapes = MODELS[name]()
    module.eval()
    with rolled() if name == "lstm_steps" else contextlib.nullcontext():
        exported = torch.export.export(module, cases[0], dynamic_shapes=dynamic_shapes)
    if core:
        exported = exported.run_decompositions()
    path = os.path.join(HERE, name + ("_core" if core else ""))
    exported.example_inputs = None
    torch.export.save(exported, path + ".pt2")
    scrub(path + ".pt2")
    if core or name in DRAWN:
        return
    arrays = {}
    for number, case in enumerate(cases):
        state = [buffer.detach().clone() for buffer in module.buffers()] if name in STATEFUL else []
        results = flat(module(*case))
        after = [buffer.detach().clone() for buffer in module.buffers()] if name in STATEFUL else []
        for kind, tensors in (("in", [*case, *state]), ("out", [*results, *after])):
            for i, tensor in enumerate(tensors):
                tensor = tensor.detach().resolve_conj()
                arrays[f"{number}.{kind}.{i}"] = (torch.view_as_real(tensor) if tensor.is_complex() else tensor).numpy()
    numpy.savez_compressed(path + ".npz", **arrays)


def main():
    for name in sys.argv[1:] or MODELS:
        write(name, core=False)
        if name not in TRACED:
            write(name, core=True)


if __name__ == "__main__":
    main()
