"""Multiply-accumulates of local training, as needed at the real freezing.

Counted per convolution, linear and attention layer, which is where the work is; normalisation, activation and
optimizer steps are left out, as in the papers. One training step of a layer costs up to three times its forward
count:

    forward           always
    input gradient    only where something below still learns, so that the gradient has to pass
    weight gradient   only where the layer's own weight learns

Whether the gradient passes is asked of autograd itself, so that branches (a residual shortcut) are right. The two
products of attention without weights (scores, and their mix of the values) cost their forward count again for
each of their two inputs, where a gradient passes through them.
"""

import math
from contextlib import ExitStack
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor, nn

from clients.partial import FrozenNorm, training_only
from clients.prefix import split

LAYERS = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)


def forward_macs(layer: Any, output: Tensor) -> int:
    """Multiply-accumulates of one layer's forward pass that gave `output`. Linear(100, 10), one example: 1,000."""
    per_output = math.prod(layer.weight.shape[1:])  # inputs that meet in one output value
    return int(output.numel() * per_output)


def attention_macs(layer: nn.MultiheadAttention, query: Tensor, key: Tensor) -> tuple[int, int, int]:
    """Forward counts of the input projections, of the two products without weights, and of the output projection.

    query: (batch, length, width) or (length, batch, width); key the same with its own length.
    """
    width, batch = layer.embed_dim, query.shape[0 if layer.batch_first else 1]
    tokens, keys = query.numel() // width, key.numel() // width
    return tokens * width**2 + 2 * keys * width**2, 2 * tokens * (keys // batch) * width, tokens * width**2


def training_macs(model: nn.Module, *inputs: Tensor) -> int:
    """Multiply-accumulates of one forward and backward pass of `model(*inputs)` with the present `requires_grad`."""

    def count(layer: Any, args: tuple[Tensor, ...], output: Any) -> int:
        if isinstance(layer, nn.MultiheadAttention):
            projections, products, out = attention_macs(layer, args[0], args[1])
            passes, learns = args[0].requires_grad, layer.in_proj_weight.requires_grad
            through = passes or learns
            return (
                projections * (1 + int(passes) + int(learns))
                + products * (1 + 2 * int(through))
                + out * (1 + int(through) + int(layer.out_proj.weight.requires_grad))
            )
        return forward_macs(layer, output) * (1 + int(args[0].requires_grad) + int(layer.weight.requires_grad))

    return _sum_over_layers(model, count, *inputs)


def inference_macs(model: nn.Module, inputs: Tensor) -> int:
    """Multiply-accumulates of a forward pass alone."""

    def count(layer: Any, args: tuple[Tensor, ...], output: Any) -> int:
        if isinstance(layer, nn.MultiheadAttention):
            return sum(attention_macs(layer, args[0], args[1]))
        return forward_macs(layer, output)

    return _sum_over_layers(model, count, inputs)


@lru_cache(maxsize=256)
def macs_per_example(
    model: nn.Module,
    shape: tuple[int, ...],
    dtype: torch.dtype,
    trained: tuple[str, ...],
    frozen_norm: FrozenNorm,
    cached: bool,
) -> tuple[int, int]:
    """Once per local round, and in every epoch, for a model input of this shape (1, ...) and dtype.

    cached: whether the frozen prefix runs only once (`clients.prefix`).
    """
    example = torch.zeros(shape, dtype=dtype)
    with training_only(model, trained, frozen_norm):
        parts = split(model, trained, frozen_norm) if cached else None
        if parts is None:
            return 0, training_macs(model, example)
        with torch.no_grad():
            given = parts.prefix(example)
        return inference_macs(parts.prefix, example), training_macs(parts.suffix, *given)


def _sum_over_layers(model: nn.Module, count: Any, *inputs: Tensor) -> int:
    """Sum of `count(layer, its inputs, its output)` over one forward pass in eval mode; the model stays as it was."""
    total = 0

    def hook(layer: nn.Module, args: tuple[Any, ...], output: Any) -> None:
        nonlocal total
        total += count(layer, args, output)

    modes = [(module, module.training) for module in model.modules()]
    fast = torch.backends.mha.get_fastpath_enabled()
    with ExitStack() as stack:
        for module in model.modules():
            if isinstance(module, (*LAYERS, nn.MultiheadAttention)):
                stack.callback(module.register_forward_hook(hook).remove)
        try:
            torch.backends.mha.set_fastpath_enabled(False)  # it would pass the attention modules by, hooks and all
            model.eval()
            with torch.enable_grad():
                model(*inputs)
        finally:
            torch.backends.mha.set_fastpath_enabled(fast)
            for module, mode in modes:
                module.training = mode
    return total
