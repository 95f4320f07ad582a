"""Multiply-accumulates of local training, as needed at the real freezing.

Counted per convolution and linear layer, which is where the work is; normalisation, activation and optimizer
steps are left out, as in the papers. One training step of a layer costs up to three times its forward count:

    forward           always
    input gradient    only where something below still learns, so that the gradient has to pass
    weight gradient   only where the layer's own weight learns

Whether the gradient passes is asked of autograd itself, so that branches (a residual shortcut) are right.
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


def training_macs(model: nn.Module, *inputs: Tensor) -> int:
    """Multiply-accumulates of one forward and backward pass of `model(*inputs)` with the present `requires_grad`."""
    total = 0

    def count(layer: Any, args: tuple[Tensor, ...], output: Tensor) -> None:
        nonlocal total
        passes = 1 + int(args[0].requires_grad) + int(layer.weight.requires_grad)
        total += passes * forward_macs(layer, output)

    _run_with_hook(model, count, *inputs)
    return total


def inference_macs(model: nn.Module, inputs: Tensor) -> int:
    """Multiply-accumulates of a forward pass alone."""
    total = 0

    def count(layer: Any, args: tuple[Tensor, ...], output: Tensor) -> None:
        nonlocal total
        total += forward_macs(layer, output)

    _run_with_hook(model, count, inputs)
    return total


@lru_cache(maxsize=256)
def macs_per_example(
    model: nn.Module, shape: tuple[int, ...], trained: tuple[str, ...], frozen_norm: FrozenNorm, cached: bool
) -> tuple[int, int]:
    """Once per local round, and in every epoch, for one example of `shape` (without the batch dimension).

    cached: whether the frozen prefix runs only once (`clients.prefix`).
    """
    example = torch.zeros(1, *shape)
    with training_only(model, trained, frozen_norm):
        parts = split(model, trained, frozen_norm) if cached else None
        if parts is None:
            return 0, training_macs(model, example)
        with torch.no_grad():
            given = parts.prefix(example)
        return inference_macs(parts.prefix, example), training_macs(parts.suffix, *given)


def _run_with_hook(model: nn.Module, hook: Any, *inputs: Tensor) -> None:
    """One forward pass in eval mode with `hook` on every counted layer; leaves the model as it was."""
    modes = [(module, module.training) for module in model.modules()]
    with ExitStack() as stack:
        for module in model.modules():
            if isinstance(module, LAYERS):
                handle = module.register_forward_hook(hook)
                stack.callback(handle.remove)
        try:
            model.eval()
            with torch.enable_grad():
                model(*inputs)
        finally:
            for module, mode in modes:
                module.training = mode
