"""What a sparse local round does before and after training, and what it costs."""

from collections.abc import Collection, Mapping, Sequence

import numpy as np
from torch import nn

from clients.macs import LayerMacs
from clients.plan import RoundPlan, SparseTraining
from clients.sparse import keep_largest
from clients.sparse_layers import SparseLayer, join, prunable
from clients.weights import Weights, load_weights, weights_of


def prune_received(model: nn.Module, plan: RoundPlan) -> None:
    """Prune the model to the client's own sparsity, where the plan asks for it; the first round is dense."""
    if plan.sparse and plan.sparse.prune_received and plan.round > 1:
        load_weights(model, _pruned(weights_of(model), model, plan.sparse))


def pruned_update(model: nn.Module, plan: RoundPlan, trained: Collection[str], exchanged: Collection[str]) -> Weights:
    """What goes up: the arrays that were trained, pruned once, by one Top-K over the whole model.

    In a partial round the slice is sent with what that Top-K leaves of it, and the rest of the model is not touched.
    """
    if plan.sparse is None:
        return weights_of(model, set(trained))
    pruned = _pruned(weights_of(model, set(exchanged)), model, plan.sparse)
    return {name: array for name, array in pruned.items() if name in set(trained)}


def measured_densities(model: nn.Module, layers: Mapping[str, SparseLayer]) -> dict[str, float]:
    """Share of each weight that was not zero: mean over the training steps, or now where it took part in none."""
    if not layers:
        return {}
    names = [join(name, *place) for name, layer in layers.items() for place in layer.places]
    densities = {name: float(np.count_nonzero(array) / array.size) for name, array in weights_of(model, names).items()}
    for name, layer in layers.items():
        for place, column in zip(layer.places, zip(*layer.densities, strict=True), strict=False):
            densities[join(name, *place)] = sum(column) / len(column)
    return densities


def needed_macs(layers: Sequence[LayerMacs], sparse: SparseTraining | None, densities: Mapping[str, float]) -> float:
    """Multiply-accumulates of a training step over these layers, at each one's measured density.

    The weight gradient is needed only where a weight may change (not at zeros that stay zero), and, with pruned
    activations, only from the share of the input that was kept, which is the layer's density too. One of the two
    is credited, not their product, for no kernel that we know of makes use of both. Linear(100, 10) at density
    0.05: 50 forward. Dense kernels, which PyTorch has, save none of this.
    """
    credited = sparse is not None and (sparse.prune_activations or sparse.weights in ("powerprop", "spectral", "fixed"))
    total = 0.0
    for layer in layers:
        density = densities.get(layer.weight or "", 1.0)
        total += (layer.forward + layer.input_gradient) * density + layer.weight_gradient * (density if credited else 1)
    return total


def _pruned(weights: Weights, model: nn.Module, sparse: SparseTraining) -> Weights:
    names = [name for name in prunable(model) if name not in sparse.dense]
    return keep_largest(weights, max(0.0, sparse.sparsity - sparse.extra), names, sparse.floor)
