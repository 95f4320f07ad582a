"""Freezing: in a partial round nothing outside the chosen layer groups may move (FedPart, Section 3.1).

Frozen means three things here, because each alone leaks: no gradient is asked for, so that autograd skips the
work; the parameter is not in the optimizer, so that neither momentum nor weight decay moves it; and a frozen
normalisation layer does not update its running statistics.
"""

from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from typing import Literal

import torch
from torch import Tensor, nn

from clients.weights import STATISTICS

FrozenNorm = Literal["eval", "batch"]
_TRACKS = "track_running_stats"


@contextmanager
def training_only(
    model: nn.Module, trainable: Collection[str], frozen_norm: FrozenNorm = "eval"
) -> Iterator[list[nn.Parameter]]:
    """Training mode in which only the parameters named in `trainable` learn; yields those parameters.

    frozen_norm: how normalisation layers outside the slice normalise: `eval` with their running statistics,
    `batch` with the batch's own, as the paper's reference does. Neither changes the running statistics.
    Modes and switches are afterwards as they were before; gradients are dropped.
    """
    chosen = set(trainable)
    modes = [(module, module.training) for module in model.modules()]
    named = dict(model.named_parameters())
    switches = [(parameter, parameter.requires_grad) for parameter in named.values()]
    model.train()
    slices = [] if chosen >= named.keys() else norms(model)
    frozen = [module for name, module in slices if not _own_names(name, module) & chosen]
    for module in frozen:
        if frozen_norm == "eval":
            module.eval()
        else:
            setattr(module, _TRACKS, False)  # train mode then normalises by batch and updates nothing
    for name, parameter in named.items():
        parameter.requires_grad_(name in chosen)
    try:
        yield [parameter for name, parameter in named.items() if name in chosen]
    finally:
        for module in frozen:
            setattr(module, _TRACKS, True)
        for module, mode in modes:
            module.training = mode
        for parameter, switch in switches:
            parameter.requires_grad_(switch)
            parameter.grad = None


def norms(model: nn.Module) -> list[tuple[str, nn.Module]]:
    """The normalisation layers that keep running statistics, by name."""
    return [
        (name, module)
        for name, module in model.named_modules()
        if isinstance(getattr(module, "running_mean", None), Tensor)
    ]


@torch.no_grad()
def estimate_statistics(model: nn.Module, batches: Iterable[Tensor]) -> None:
    """Replace all running statistics by their mean over `batches` of model inputs, each batch counting once.

    The policy `batch_norm=local` never shares statistics: whoever needs them measures them on its own data.
    """
    layers = [module for _, module in norms(model)]
    momenta = [layer.momentum for layer in layers]
    model.eval()
    for layer in layers:
        layer.reset_running_stats()  # type: ignore[operator]
        layer.momentum = None  # type: ignore[assignment]  # torch: None is the cumulative mean
        layer.train()
    try:
        for batch in batches:
            model(batch)
    finally:
        for layer, momentum in zip(layers, momenta, strict=True):
            layer.momentum = momentum
            layer.eval()


def _own_names(name: str, module: nn.Module) -> set[str]:
    """Full names of a module's own parameters and statistics."""
    prefix = f"{name}." if name else ""
    own = [own for own, _ in module.named_parameters(recurse=False)]
    return {prefix + part for part in [*own, *STATISTICS]}
