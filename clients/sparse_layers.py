"""Layers that compute with re-parameterised weights and prune their activations (SparsyFed, Guastella et al. 2025).

Inside `sparse_layers` a convolution, linear or attention layer sees theta where its state dict keeps w: a hook puts
theta before the parameter for the time of each forward pass, so that names, optimizer, messages and averages only
ever know w. With pruned activations, the forward pass takes the whole input; for the backward pass only its
largest values are kept, as large a share as the layer's own weights that are not zero, and the weight gradient
is computed from them. The input gradient uses theta, which is sparse already. In eval mode nothing is pruned.

Deviation: above 65,536 values the threshold is that of a regular sample, drawn anew for each batch; the share that
is kept is within half a point of the exact one, at a fraction of its time.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from clients.plan import SparseTraining
from clients.pruned_layers import pruned_attention, pruned_conv, pruned_linear, threshold
from clients.sparse import powerprop, spectral_exponent

CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
Places = tuple[tuple[str, str], ...]
"""Where a layer's weights stand: path of a module below it, and the parameter's name there."""


@dataclass
class SparseLayer:
    """What one layer does inside `sparse_layers`; it holds no module, so that copies of a model have their own.

    theta: by place, from a stored weight to what the layer computes with.
    """

    places: Places
    theta: tuple[Callable[[Tensor], Tensor], ...]
    densities: list[list[float]] = field(default_factory=list)
    """Share of theta that is not zero, by place, in each training step."""

    def enter(self, layer: nn.Module, inputs: Any) -> None:
        """Put theta before the parameters."""
        shares = []
        for (path, name), theta in zip(self.places, self.theta, strict=True):
            module = layer.get_submodule(path)
            value = theta(module._parameters[name])  # type: ignore[arg-type]
            module.__dict__[name] = value  # found before the parameter of the same name
            if layer.training and torch.is_grad_enabled():
                shares.append(int(torch.count_nonzero(value)) / value.numel())
        if shares:
            self.densities.append(shares)

    def leave(self, layer: nn.Module, inputs: Any, output: Any) -> None:
        """Let the parameters be seen again."""
        for path, name in self.places:
            layer.get_submodule(path).__dict__.pop(name, None)

    def forward(self, layer: nn.Module, plain: Callable[..., Any], *inputs: Any, **kwargs: Any) -> Any:
        """The layer's forward pass with pruned activations, `plain` where nothing is to be pruned."""
        if not layer.training or not torch.is_grad_enabled() or min(self.densities[-1]) == 1:
            return plain(*inputs, **kwargs)
        if isinstance(layer, nn.MultiheadAttention):
            return pruned_attention(layer, self.densities[-1], *inputs, **kwargs)
        pruned = pruned_conv if isinstance(layer, CONVOLUTIONS) else pruned_linear
        return pruned(layer, self.densities[-1], *inputs, *kwargs.values())  # one input, which a model may name


@contextmanager
def sparse_layers(model: nn.Module, sparse: SparseTraining | None) -> Iterator[dict[str, SparseLayer]]:
    """Let the model's layers compute as `sparse` says; yields them by name. The state dict stays as it is.

    To be entered with the received weights in the model. None changes nothing.
    """
    if sparse is None:
        yield {}
        return
    layers: dict[str, SparseLayer] = {}
    with ExitStack() as stack:
        for layer_name, layer, places in _layers(model):
            names = [join(layer_name, *place) for place in places]
            stored = [model.get_parameter(name) for name in names]
            thetas = tuple(_theta(sparse, name, w) for name, w in zip(names, stored, strict=True))
            own = layers[layer_name] = SparseLayer(places, thetas)
            stack.callback(layer.register_forward_pre_hook(own.enter).remove)
            stack.callback(layer.register_forward_hook(own.leave, always_call=True).remove)
            if sparse.prune_activations:
                layer.__dict__["forward"] = partial(own.forward, layer, layer.forward)
                stack.callback(layer.__dict__.pop, "forward")
        yield layers


def prunable(model: nn.Module) -> tuple[str, ...]:
    """Names of the weights that may be pruned: of convolutions and linear layers, attention's projections included."""
    return tuple(join(name, *place) for name, _, places in _layers(model) for place in places)


def _layers(model: nn.Module) -> Iterator[tuple[str, nn.Module, Places]]:
    """The layers that hold prunable weights, each with its name and where they stand."""
    inner: set[nn.Module] = set()
    for name, module in model.named_modules():
        if isinstance(module, nn.MultiheadAttention):
            inner.add(module.out_proj)  # attention takes its weight without calling it
            own = ("in_proj_weight", "q_proj_weight", "k_proj_weight", "v_proj_weight")
            packed = tuple(("", weight) for weight in own if getattr(module, weight) is not None)
            yield name, module, (*packed, ("out_proj", "weight"))
        elif isinstance(module, (nn.Linear, *CONVOLUTIONS)) and module not in inner:
            yield name, module, (("", "weight"),)


def join(*parts: str) -> str:
    """A name from its parts, leaving out empty ones."""
    return ".".join(part for part in parts if part)


def _theta(sparse: SparseTraining, name: str, received: Tensor) -> Callable[[Tensor], Tensor]:
    """From a stored weight to what its layer computes with. received: its value at the start of the round."""
    if sparse.weights == "powerprop":
        return partial(powerprop, beta=sparse.beta)
    if sparse.weights == "spectral":
        return partial(powerprop, beta=spectral_exponent(received))
    if name in sparse.dense:
        return _as_it_is
    if sparse.weights == "swat":
        return partial(_straight_through, kept=1 - sparse.sparsity)
    if sparse.weights == "fixed":
        return partial(torch.mul, (received.detach() != 0).to(received.dtype))
    return _as_it_is


def _as_it_is(w: Tensor) -> Tensor:
    return w


def _straight_through(w: Tensor, kept: float) -> Tensor:
    """The largest share `kept` of w, with a gradient to all of it (SWAT: Raihan and Aamodt 2020)."""
    with torch.no_grad():
        magnitude = w.abs()
        pruned = torch.where(magnitude >= threshold(magnitude, kept), 0.0, -w)
    return w + pruned
