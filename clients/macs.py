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
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from clients.partial import FrozenNorm, training_only
from clients.per_model import per_model
from clients.prefix import split

LAYERS = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)


def forward_macs(layer: Any, output: Tensor) -> int:
    """Multiply-accumulates of one layer's forward pass that gave `output`. Linear(100, 10), one example: 1,000."""
    per_output = math.prod(layer.weight.shape[1:])  # inputs that meet in one output value
    return int(output.numel() * per_output)


def attention_macs(layer: nn.MultiheadAttention, inputs: Sequence[Tensor]) -> tuple[list[int], int, int]:
    """Forward counts of the three input projections, of either product without weights, and of the output projection.

    inputs: query, (batch, length, width) or (length, batch, width); key and value the same with length and widths of
    their own.
    """
    width, batch = layer.embed_dim, inputs[0].shape[0 if layer.batch_first else 1]
    tokens, keys = inputs[0].numel() // width, inputs[1].numel() // layer.kdim
    return [given.numel() * width for given in inputs], tokens * (keys // batch) * width, tokens * width**2


@dataclass(frozen=True)
class LayerMacs:
    """Multiply-accumulates of one product: of a layer with the weight of that name, or of two activations (None)."""

    weight: str | None
    forward: int
    input_gradient: int
    weight_gradient: int

    @property
    def total(self) -> int:
        """Of a training step, dense."""
        return self.forward + self.input_gradient + self.weight_gradient


def macs_by_layer(model: nn.Module, *inputs: Tensor) -> tuple[LayerMacs, ...]:
    """One forward and backward pass of `model(*inputs)` with the present `requires_grad`, product by product."""
    found: list[LayerMacs] = []

    def count(name: str, layer: Any, args: tuple[Tensor, ...], output: Any) -> None:
        prefix = f"{name}." if name else ""
        if isinstance(layer, nn.MultiheadAttention):
            found.extend(_attention(prefix, layer, args[:3]))
        else:
            forward = forward_macs(layer, output)
            found.append(_product(f"{prefix}weight", forward, args[0].requires_grad, layer.weight.requires_grad))

    _visit_layers(model, count, *inputs)
    return tuple(found)


def _product(weight: str | None, forward: int, passes: int, learns: bool) -> LayerMacs:
    """passes: to how many inputs the gradient does."""
    return LayerMacs(weight, forward, forward * passes, forward * learns)


def _attention(prefix: str, layer: nn.MultiheadAttention, inputs: Sequence[Tensor]) -> Iterator[LayerMacs]:
    """inputs: query, key, value."""
    projections, product, out = attention_macs(layer, inputs)
    one = layer.in_proj_weight is not None
    names = ("in_proj_weight",) * 3 if one else ("q_proj_weight", "k_proj_weight", "v_proj_weight")
    gets = []  # whether the projected query, key and value get a gradient
    for name, forward, given in zip(names, projections, inputs, strict=True):
        passes, learns = given.requires_grad, getattr(layer, name).requires_grad
        yield _product(prefix + name, forward, passes, learns)
        gets.append(passes or learns)
    query, key, value = gets
    yield _product(None, product, query + key, False)  # the scores
    yield _product(None, product, (query or key) + value, False)  # their mix of the values
    yield _product(f"{prefix}out_proj.weight", out, any(gets), layer.out_proj.weight.requires_grad)


def not_counted(model: nn.Module) -> list[str]:
    """Layers with weight matrices of their own that are not counted, each with its type; a look-up costs none."""
    known = (*LAYERS, nn.MultiheadAttention, nn.Embedding, nn.EmbeddingBag)
    return [
        f"{name or 'the model'} ({type(module).__name__})"
        for name, module in model.named_modules()
        if not isinstance(module, known) and any(p.dim() > 1 for p in module.parameters(recurse=False))
    ]


def training_macs(model: nn.Module, *inputs: Tensor) -> int:
    """Multiply-accumulates of one forward and backward pass of `model(*inputs)` with the present `requires_grad`."""
    return sum(layer.total for layer in macs_by_layer(model, *inputs))


def inference_macs(model: nn.Module, *inputs: Tensor) -> int:
    """Multiply-accumulates of a forward pass alone."""
    return sum(layer.forward for layer in macs_by_layer(model, *inputs))


@per_model
def layers_per_example(
    model: nn.Module,
    shape: tuple[int, ...],
    dtype: torch.dtype,
    trained: tuple[str, ...],
    frozen_norm: FrozenNorm,
    cached: bool,
) -> tuple[tuple[LayerMacs, ...], tuple[LayerMacs, ...]]:
    """What is computed once per local round (forward only), and in every epoch, for a model input (1, ...).

    cached: whether the frozen prefix runs only once (`clients.prefix`).
    """
    example = torch.zeros(shape, dtype=dtype)
    with training_only(model, trained, frozen_norm):
        parts = split(model, trained, frozen_norm) if cached else None
        if parts is None:
            return (), macs_by_layer(model, example)
        with torch.no_grad():
            given = parts.prefix(example)
        return macs_by_layer(parts.prefix, example), macs_by_layer(parts.suffix, *given)


def macs_per_example(*args: Any) -> tuple[int, int]:
    """Once per local round, and in every epoch; the arguments are those of `layers_per_example`."""
    once, each = layers_per_example(*args)
    return sum(layer.forward for layer in once), sum(layer.total for layer in each)


def _visit_layers(model: nn.Module, visit: Any, *inputs: Tensor) -> None:
    """Call `visit(name, layer, its inputs, its output)` in one forward pass in eval mode; the model stays as it was."""
    modes = [(module, module.training) for module in model.modules()]
    fast = torch.backends.mha.get_fastpath_enabled()
    with ExitStack() as stack:
        for name, module in model.named_modules():
            if isinstance(module, (*LAYERS, nn.MultiheadAttention)):
                hook = partial(_hand_on, visit, name)
                stack.callback(module.register_forward_hook(hook, with_kwargs=True).remove)
        try:
            torch.backends.mha.set_fastpath_enabled(False)  # it would pass the attention modules by, hooks and all
            model.eval()
            with torch.enable_grad():
                model(*inputs)
        finally:
            torch.backends.mha.set_fastpath_enabled(fast)
            for module, mode in modes:
                module.training = mode


def _hand_on(
    visit: Any, name: str, layer: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any
) -> None:
    """A hook that knows its layer's name and gives no output of its own; a model may name what it hands a layer."""
    named = [kwargs[own] for own in ("input", "query", "key", "value") if own in kwargs]
    visit(name, layer, (*args, *named), output)
