"""Forward passes whose weight gradient is computed from a pruned input (SparsyFed, Section 3; SWAT)."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

_SAMPLE = 65_536  # a share of it is within half a point of the true one: 2.5 standard deviations at one half


def threshold(magnitudes: Tensor, kept: float) -> Tensor:
    """The magnitude that the largest share `kept` reaches: exact up to 65,536 values, above that of a sample.

    The sample takes every n-th value in memory, n without a common factor with the number of values, so that it
    does not walk along with rows or channels.
    """
    flat = torch.as_strided(magnitudes, (magnitudes.numel(),), (1,)) if _dense(magnitudes) else magnitudes.flatten()
    step = max(1, flat.numel() // _SAMPLE)
    while step > 1 and math.gcd(step, flat.numel()) > 1:
        step += 1
    sample = flat[::step]
    count = min(max(round(kept * len(sample)), 1), len(sample))
    return sample.kthvalue(len(sample) - count + 1).values


def _dense(values: Tensor) -> bool:
    """Whether the values fill their memory without gaps, in whatever order."""
    return values.is_contiguous() or (values.dim() == 4 and values.is_contiguous(memory_format=torch.channels_last))


def prune(values: Tensor, kept: float) -> Tensor:
    """Only the largest magnitudes, a share of `kept`; the rest 0."""
    magnitudes = values.abs()
    return torch.where(magnitudes >= threshold(magnitudes, kept), values, 0)


class _PrunedLinear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, kept: float) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.kept, ctx.has_bias = kept, bias is not None
        return F.linear(x, weight, bias)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        flat = gradient.flatten(0, -2)  # (all positions, outputs)
        for_x = gradient @ weight if ctx.needs_input_grad[0] else None
        for_weight = flat.T @ prune(x, ctx.kept).flatten(0, -2) if ctx.needs_input_grad[1] else None
        return for_x, for_weight, flat.sum(0) if ctx.has_bias else None, None


class _PrunedConv(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, kept: float, shape: tuple[Any, ...]
    ) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.kept, ctx.shape, ctx.bias_size = kept, shape, None if bias is None else [len(bias)]
        return torch.convolution(x, weight, bias, *shape)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        if ctx.needs_input_grad[1]:
            x = prune(x, ctx.kept)
        gradients = torch.ops.aten.convolution_backward(
            gradient, x, weight, ctx.bias_size, *ctx.shape, ctx.needs_input_grad[:3]
        )
        return (*gradients, None, None)


def pruned_linear(layer: Any, kept: Sequence[float], x: Tensor) -> Tensor:
    """`nn.Linear` over (..., inputs)."""
    return _linear(x, layer.weight, layer.bias, kept[0])


def pruned_conv(layer: Any, kept: Sequence[float], x: Tensor) -> Tensor:
    """A convolution of any dimension, over a batch."""
    padding, share = layer.padding, kept[0]
    if isinstance(padding, str) or layer.padding_mode != "zeros":
        mode = "constant" if layer.padding_mode == "zeros" else layer.padding_mode
        padded = F.pad(x, layer._reversed_padding_repeated_twice, mode)
        if mode == "constant":
            share *= x.numel() / padded.numel()  # of the values that came in
        x, padding = padded, [0] * len(layer.kernel_size)
    shape = (layer.stride, padding, layer.dilation, False, [0] * len(layer.kernel_size), layer.groups)
    x, weight, bias = _cast(x, layer.weight, layer.bias)
    return _PrunedConv.apply(x, weight, bias, share, shape)  # type: ignore[no-any-return]


def pruned_attention(
    layer: Any, kept: Sequence[float], query: Tensor, key: Tensor, value: Tensor, **kwargs: Any
) -> tuple[Tensor, None]:
    """Self-attention with packed projections; it gives no attention weights. Raises ValueError for other forms."""
    packed = layer.in_proj_weight is not None and layer.bias_k is None and not layer.add_zero_attn
    if not packed or query is not key or key is not value or not layer.batch_first or query.dim() != 3:
        raise ValueError("prune_activations: only batch-first self-attention with packed projections can be pruned")
    projected = _linear(query, layer.in_proj_weight, layer.in_proj_bias, kept[0])
    q, k, v = (part.unflatten(-1, (layer.num_heads, -1)).transpose(1, 2) for part in projected.chunk(3, dim=-1))
    mask = _mask(query, kwargs.get("attn_mask"), kwargs.get("key_padding_mask"), layer.num_heads)
    mixed = F.scaled_dot_product_attention(q, k, v, mask, dropout_p=layer.dropout)  # (n, heads, length, width)
    out = layer.out_proj
    return _linear(mixed.transpose(1, 2).flatten(2), out.weight, out.bias, kept[1]), None


def _mask(x: Tensor, attention: Tensor | None, padding: Tensor | None, heads: int) -> Tensor | None:
    """What is added to the scores, (n, 1 or heads, length or 1, length): minus infinity where a mask is true."""
    if attention is not None and attention.dim() == 3:  # (n * heads, length, length)
        attention = attention.unflatten(0, (-1, heads))
    masks = [_added(x, mask) for mask in (attention, None if padding is None else padding[:, None, None, :])]
    given = [mask for mask in masks if mask is not None]
    return sum(given[1:], given[0]) if given else None


def _added(x: Tensor, mask: Tensor | None) -> Tensor | None:
    if mask is None or mask.dtype != torch.bool:
        return mask
    return torch.zeros(mask.shape, dtype=x.dtype).masked_fill_(mask, float("-inf"))


def _linear(x: Tensor, weight: Tensor, bias: Tensor | None, kept: float) -> Tensor:
    x, weight, bias = _cast(x, weight, bias)
    return _PrunedLinear.apply(x, weight, bias, kept)  # type: ignore[no-any-return]


def _cast(x: Tensor, weight: Tensor, bias: Tensor | None) -> tuple[Tensor, Tensor, Tensor | None]:
    """As autocast would cast for the plain layer: backward passes run outside of it."""
    if not torch.is_autocast_enabled("cpu"):
        return x, weight, bias
    kind = torch.get_autocast_dtype("cpu")
    return x.to(kind), weight.to(kind), None if bias is None else bias.to(kind)
