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
            aten.convolution_backward.default: _convolution_backward,
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


def _convolution_backward(grad, x, weight, bias_sizes, stride, padding, dilation, transposed, output_padding, groups, mask):
    if x.dim() not in (3, 4):
        return NotImplemented
    space = x.dim() - 2
    kernel = weight.shape[2:]
    grad_x = grad_weight = grad_bias = None
    if mask[0] and transposed:
        grad_x = aten.convolution(grad, weight, None, stride, padding, dilation, False, [0] * space, groups)
    elif mask[0]:
        # Rows at the end that no window reaches.
        rest = [0 if stride[i] == 1 else x.shape[2 + i] + 2 * padding[i] - dilation[i] * (kernel[i] - 1) - 1
                - (grad.shape[2 + i] - 1) * stride[i] for i in range(space)]
        if not all(isinstance(count, int) for count in rest):
            return NotImplemented
        grad_x = aten.convolution(grad, weight, None, stride, padding, dilation, True, rest, groups)
    if mask[1]:
        image, windows = (x, grad) if transposed else (grad, x)
        grad_weight = _kernel_gradient(image, windows, kernel, stride, padding, dilation, groups).reshape(weight.shape)
    if mask[2]:
        grad_bias = grad.sum([0, *range(2, x.dim())])
    return grad_x, grad_weight, grad_bias


def _kernel_gradient(image, x, kernel, stride, padding, dilation, groups):
    """Sums of the products of the elements of an image, each with the window of `x` at its place."""
    if x.dim() == 3:
        x = x.unsqueeze(2)
        kernel, stride, padding, dilation = [1, *kernel], [1, *stride], [0, *padding], [1, *dilation]
    windows = aten.im2col(x, kernel, dilation, padding, stride)  # batch, channels and kernel, places
    left = image.flatten(2).unflatten(1, (groups, -1)).permute(1, 2, 0, 3).flatten(2)
    right = windows.unflatten(1, (groups, -1)).permute(1, 0, 3, 2).flatten(1, 2)
    return left @ right


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
