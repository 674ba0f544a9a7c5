"""Calls of operators whose gradients PyTorch has, too: pytorch.npz holds what it gives, make.py made it.

The inputs are multiples of 1/8, exact in every floating-point dtype, and hit kinks and ties on purpose.
"""

import collections

import numpy as np

# `relay` is the call with %a, %b, ...; `torch` the same as a function of torch, its functional module and the inputs.
# `is_smooth`: its second derivatives are compared, too.
Case = collections.namedtuple("Case", "name relay torch shapes is_smooth low high")
CASES = []


def _case(name, relay, torch, *shapes, smooth=False, low=-2.0, high=2.0):
    CASES.append(Case(name, relay, torch, shapes, smooth, low, high))


def inputs(case):
    generator = np.random.default_rng(sum(map(ord, case.name)))
    steps = int((case.high - case.low) * 8)
    return [case.low + generator.integers(0, steps + 1, shape) / 8 for shape in case.shapes]


def weights(case, shape):
    """What the elements of the result are multiplied with before they are summed."""
    return np.random.default_rng(1 + sum(map(ord, case.name))).integers(-8, 9, shape) / 8


# ---- kinks and ties
_case("relu", "nn.relu(%a)", lambda t, f, a: f.relu(a), (4, 9))
_case("leaky_relu", "nn.leaky_relu(%a, alpha=0.25f)", lambda t, f, a: f.leaky_relu(a, 0.25), (4, 9))
_case("prelu", "nn.prelu(%a, %b, axis=1)", lambda t, f, a, b: f.prelu(a, b), (4, 5), (5,))
_case("elu", "nn.elu(%a, alpha=0.5f)", lambda t, f, a: f.elu(a, 0.5), (4, 9))
_case("abs", "abs(%a)", lambda t, f, a: a.abs(), (4, 9))
_case("clip", "clip(%a, a_min=-1f, a_max=0.5f)", lambda t, f, a: a.clamp(-1, 0.5), (4, 9))
_case("maximum", "maximum(%a, %b)", lambda t, f, a, b: t.maximum(a, b), (6, 9), (6, 9), low=-0.5, high=0.5)
_case("minimum", "minimum(%a, %b)", lambda t, f, a, b: t.minimum(a, b), (6, 9), (6, 9), low=-0.5, high=0.5)
_case("max", "max(%a, axis=1)", lambda t, f, a: a.amax(1), (6, 9), low=-0.5, high=0.5)
_case("min", "min(%a)", lambda t, f, a: a.amin(), (6, 9), low=-0.5, high=0.5)
_case("sort", "sort(%a, axis=-1)", lambda t, f, a: a.sort(dim=-1, stable=True).values, (3, 9))
_case("topk", 'topk(%a, k=3, axis=-1, ret_type="values")', lambda t, f, a: a.topk(3, -1).values, (3, 5))
_case("prod", "prod(%a, axis=[1])", lambda t, f, a: a.prod(1), (9, 4), smooth=True, low=-0.5, high=0.5)
_case("cumprod", "cumprod(%a, axis=1)", lambda t, f, a: a.cumprod(1), (9, 6), low=-0.5, high=0.5)
_case("max_pool2d", "nn.max_pool2d(%a, pool_size=[3, 2], strides=[2, 1], padding=[1, 0])",
      lambda t, f, a: f.max_pool2d(a, (3, 2), (2, 1), (1, 0)), (2, 2, 6, 7), low=-0.5, high=0.5)
_case("max_pool1d", "nn.max_pool1d(%a, pool_size=[3], strides=[2])",
      lambda t, f, a: f.max_pool1d(a, 3, 2), (2, 2, 9), low=-0.5, high=0.5)
_case("max_pool3d", "nn.max_pool3d(%a, pool_size=[2, 2, 2], strides=[2, 1, 2])",
      lambda t, f, a: f.max_pool3d(a, 2, (2, 1, 2)), (1, 2, 4, 4, 5), low=-0.5, high=0.5)
_case("power", "power(%a, %b)", lambda t, f, a, b: t.pow(a, b), (5, 5), (5, 5), smooth=True, low=0.5)

# ---- smooth functions
_case("gelu", "nn.gelu(%a)", lambda t, f, a: f.gelu(a), (4, 9), smooth=True)
_case("gelu_tanh", 'nn.gelu(%a, approximate="tanh")',
      lambda t, f, a: f.gelu(a, approximate="tanh"), (4, 9), smooth=True)
_case("silu", "nn.silu(%a)", lambda t, f, a: f.silu(a), (4, 9), smooth=True)
_case("softplus", "nn.softplus(%a, beta=2f)", lambda t, f, a: f.softplus(a, 2.0), (4, 9), smooth=True)
_case("sigmoid", "sigmoid(%a)", lambda t, f, a: a.sigmoid(), (4, 9), smooth=True)
_case("tanh", "tanh(%a)", lambda t, f, a: a.tanh(), (4, 9), smooth=True)
_case("erf", "erf(%a)", lambda t, f, a: a.erf(), (4, 9), smooth=True)
_case("log1p", "log1p(%a)", lambda t, f, a: a.log1p(), (4, 9), smooth=True, low=-0.5)
_case("expm1", "expm1(%a)", lambda t, f, a: a.expm1(), (4, 9), smooth=True)
_case("atan2", "atan2(%a, %b)", lambda t, f, a, b: t.atan2(a, b), (5, 5), (5, 5), smooth=True, low=0.25)
_case("divide", "%a / %b", lambda t, f, a, b: a / b, (5, 5), (5,), smooth=True, low=0.5)
_case("logsumexp", "logsumexp(%a, axis=[1])", lambda t, f, a: a.logsumexp(1), (4, 9), smooth=True)
_case("softmax", "nn.softmax(%a, axis=-1)", lambda t, f, a: a.softmax(-1), (4, 9), smooth=True)
_case("log_softmax", "nn.log_softmax(%a, axis=-1)", lambda t, f, a: a.log_softmax(-1), (4, 9), smooth=True)
_case("layer_norm", "nn.layer_norm(%a, %b, %c, axis=-1)",
      lambda t, f, a, b, c: f.layer_norm(a, b.shape, b, c), (4, 9), (9,), (9,), smooth=True)
_case("group_norm", "nn.group_norm(%a, %b, %c, num_groups=3)",
      lambda t, f, a, b, c: f.group_norm(a, 3, b, c), (2, 6, 3, 2), (6,), (6,), smooth=True)
_case("instance_norm", "nn.instance_norm(%a, %b, %c)",
      lambda t, f, a, b, c: f.instance_norm(a, weight=b, bias=c), (2, 3, 4, 2), (3,), (3,), smooth=True)
_case("lrn", "nn.lrn(%a, size=3, alpha=0.5f, beta=0.75f, bias=2f)",
      lambda t, f, a: f.local_response_norm(a, 3, 0.5, 0.75, 2.0), (2, 5, 2, 2), smooth=True)

# ---- contractions and windows
_case("dense", "nn.dense(%a, %b)", lambda t, f, a, b: f.linear(a, b), (3, 4), (5, 4), smooth=True)
_case("einsum", 'einsum((%a, %b), equation="bij,bjk->ki")',
      lambda t, f, a, b: t.einsum("bij,bjk->ki", a, b), (2, 3, 4), (2, 4, 5), smooth=True)
_case("einsum_diagonal", 'einsum((%a, %b), equation="iij,j->i")',
      lambda t, f, a, b: t.einsum("iij,j->i", a, b), (3, 3, 4), (4,), smooth=True)
_case("conv1d", "nn.conv1d(%a, %b, strides=[2], padding=[1, 2], dilation=[2])",
      lambda t, f, a, b: f.conv1d(f.pad(a, (1, 2)), b, stride=2, dilation=2), (2, 3, 10), (4, 3, 3), smooth=True)
_case("conv2d", "nn.conv2d(%a, %b, strides=[2, 1], padding=[1, 1], groups=2)",
      lambda t, f, a, b: f.conv2d(a, b, stride=(2, 1), padding=1, groups=2), (2, 4, 5, 6), (6, 2, 3, 3), smooth=True)
_case("conv3d", "nn.conv3d(%a, %b, strides=[2, 1, 1], padding=[1, 0, 1], dilation=[1, 2, 1])",
      lambda t, f, a, b: f.conv3d(a, b, stride=(2, 1, 1), padding=(1, 0, 1), dilation=(1, 2, 1)), (1, 2, 5, 6, 4), (3, 2, 2, 3, 2), smooth=True)
_case("conv_transpose1d", "nn.conv1d_transpose(%a, %b, strides=[2], padding=[1])",
      lambda t, f, a, b: f.conv_transpose1d(a, b, stride=2, padding=1), (2, 3, 5), (3, 2, 4), smooth=True)
_case("conv_transpose3d", "nn.conv3d_transpose(%a, %b, strides=[2, 1, 1])",
      lambda t, f, a, b: f.conv_transpose3d(a, b, stride=(2, 1, 1)), (1, 2, 2, 3, 2), (2, 3, 2, 2, 2), smooth=True)
_case("avg_pool1d", "nn.avg_pool1d(%a, pool_size=[3], strides=[2], padding=[1], count_include_pad=True)",
      lambda t, f, a: f.avg_pool1d(a, 3, 2, 1), (2, 2, 9))
_case("avg_pool3d", "nn.avg_pool3d(%a, pool_size=[2, 3, 2], strides=[1, 2, 2], padding=[1, 1, 0])",
      lambda t, f, a: f.avg_pool3d(a, (2, 3, 2), (1, 2, 2), (1, 1, 0), count_include_pad=False), (1, 2, 3, 5, 4))
_case("adaptive_avg_pool2d", "nn.adaptive_avg_pool2d(%a, output_size=[3, 2])",
      lambda t, f, a: f.adaptive_avg_pool2d(a, (3, 2)), (1, 2, 7, 5))
_case("adaptive_max_pool2d", "nn.adaptive_max_pool2d(%a, output_size=[3, 2])",
      lambda t, f, a: f.adaptive_max_pool2d(a, (3, 2)), (1, 2, 6, 4), low=-0.5, high=0.5)
_case("adaptive_max_pool1d", "nn.adaptive_max_pool1d(%a, output_size=[3])",
      lambda t, f, a: f.adaptive_max_pool1d(a, 3), (1, 2, 6))

# ---- resizing and moves
_case("resize_linear", 'image.resize2d(%a, size=[7, 3], method="linear")',
      lambda t, f, a: f.interpolate(a, (7, 3), mode="bilinear", align_corners=False), (1, 2, 4, 5))
_case("resize_cubic", 'image.resize2d(%a, size=[7, 6], method="cubic", cubic_alpha=-0.75f)',
      lambda t, f, a: f.interpolate(a, (7, 6), mode="bicubic", align_corners=False), (1, 2, 4, 5))
_case("resize_corners", 'image.resize1d(%a, size=[7], method="linear", coordinate_transformation_mode="align_corners")',
      lambda t, f, a: f.interpolate(a, 7, mode="linear", align_corners=True), (1, 2, 4))
_case("upsampling", "nn.upsampling(%a, scale_h=2f, scale_w=3f)",
      lambda t, f, a: f.interpolate(a, scale_factor=(2, 3), mode="nearest"), (1, 2, 3, 2))
_case("pad_reflect", 'nn.pad(%a, cast(0f, dtype="{dtype}"), pad_width=[[0, 0], [2, 1]], pad_mode="reflect")',
      lambda t, f, a: f.pad(a, (2, 1), mode="reflect"), (3, 5))
_case("pad_edge", 'nn.pad(%a, cast(0f, dtype="{dtype}"), pad_width=[[0, 0], [2, 3]], pad_mode="edge")',
      lambda t, f, a: f.pad(a, (2, 3), mode="replicate"), (3, 5))
_case("pad_wrap", 'nn.pad(%a, cast(0f, dtype="{dtype}"), pad_width=[[0, 0], [2, 3]], pad_mode="wrap")',
      lambda t, f, a: f.pad(a, (2, 3), mode="circular"), (3, 5))
_case("depth_to_space", 'nn.depth_to_space(%a, block_size=2, mode="CDR")',
      lambda t, f, a: f.pixel_shuffle(a, 2), (1, 8, 2, 3))
_case("cumsum", "cumsum(%a, axis=1)", lambda t, f, a: a.cumsum(1), (4, 5))
_case("variance", "variance(%a, axis=[1], unbiased=True)", lambda t, f, a: a.var(1), (4, 5), smooth=True)
