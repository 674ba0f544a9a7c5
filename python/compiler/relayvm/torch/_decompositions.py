"""Operators of PyTorch's fused fast paths and gradients, in terms of others that RelayVM has."""

import functools

import torch
from torch._decomp import core_aten_decompositions
from torch.nn import functional

aten = torch.ops.aten


@functools.cache
def usual():
    """Decompositions for all graphs."""
    backward = {operator: function for operator, function in core_aten_decompositions().items() if "backward" in str(operator)}
    return {**backward, aten.embedding_dense_backward.default: _embedding_backward,
            aten._native_multi_head_attention.default: _attention,
            aten._transformer_encoder_layer_fwd.default: _encoder_layer}


@functools.cache
def most():
    """Decompositions for graphs with operators that RelayVM does not have."""
    return {**core_aten_decompositions(), **usual()}


def _embedding_backward(grad, indices, count, padding, scale_by_frequency):
    if scale_by_frequency:
        return NotImplemented
    rows, width = indices.reshape(-1), grad.shape[-1]
    grad = grad.reshape(-1, width)
    if padding >= 0:
        grad = torch.where((rows == padding).unsqueeze(-1), 0, grad)
    return grad.new_zeros((count, width)).index_add(0, rows, grad)


def _heads(x, count):
    return x.unflatten(-1, (count, x.shape[-1] // count)).transpose(-2, -3)


def _kept(mask, mask_type):
    """The positions that attention sees. `mask_type`: 0 for a mask of queries and keys, 1 of batch and keys, 2 of all axes."""
    if mask is None:
        return None
    kept = mask.to(torch.bool).logical_not()
    return kept[:, None, None, :] if mask_type == 1 else kept


def _attention(query, key, value, width, heads, weight, bias, out_weight, out_bias, mask=None, need_weights=True,
               average_weights=True, mask_type=None):
    if query is not key or key is not value:
        return NotImplemented
    q, k, v = (_heads(x, heads) for x in functional.linear(query, weight, bias).chunk(3, -1))
    kept, weights = _kept(mask, mask_type), None
    if need_weights:
        scores = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
        weights = torch.softmax(scores if kept is None else scores.masked_fill(~kept, float("-inf")), -1)
        result = weights @ v
        weights = weights.mean(1) if average_weights else weights
    else:
        result = functional.scaled_dot_product_attention(q, k, v, kept)
    result = functional.linear(result.transpose(-2, -3).flatten(-2), out_weight, out_bias)
    return result, query.new_empty(0) if weights is None else weights


def _encoder_layer(x, width, heads, qkv_weight, qkv_bias, out_weight, out_bias, use_gelu, norm_first, epsilon, scale_1, shift_1,
                   scale_2, shift_2, weight_1, bias_1, weight_2, bias_2, mask=None, mask_type=None):
    def attend(x):
        return _attention(x, x, x, width, heads, qkv_weight, qkv_bias, out_weight, out_bias, mask, False, True, mask_type)[0]

    def feed(x):
        inner = functional.linear(x, weight_1, bias_1)
        return functional.linear(functional.gelu(inner) if use_gelu else functional.relu(inner), weight_2, bias_2)

    for part, scale, shift in (attend, scale_1, shift_1), (feed, scale_2, shift_2):
        if norm_first:
            x = x + part(functional.layer_norm(x, (width,), scale, shift, epsilon))
        else:
            x = functional.layer_norm(x + part(x), (width,), scale, shift, epsilon)
    return x
