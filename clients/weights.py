"""Named arrays: a model's state as plain data, and all arithmetic on it."""

import hashlib
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import nn

Weights = dict[str, NDArray[Any]]
"""A model's parameters and buffers by name, in the model's canonical (state dict) order; may be partial."""

STATISTICS = ("running_mean", "running_var", "num_batches_tracked")


def is_statistic(name: str) -> bool:
    """Whether an array is a normalisation layer's running statistic rather than something that is trained."""
    return name.rpartition(".")[2] in STATISTICS


def weights_of(model: nn.Module, names: Collection[str] | None = None) -> Weights:
    """A copy of the parameters and persistent buffers, all or those in `names`, in state dict order."""
    return {
        name: tensor.detach().cpu().numpy().copy()
        for name, tensor in model.state_dict().items()
        if names is None or name in names
    }


def load_weights(model: nn.Module, weights: Mapping[str, NDArray[Any]]) -> None:
    """Copy arrays into the model; what `weights` does not name keeps its value.

    Raises ValueError, before anything is changed, for a name or a shape that the model does not have.
    """
    state = model.state_dict()
    for name, array in weights.items():
        if name not in state:
            raise ValueError(f"unknown array {name!r}: the model has {', '.join(state)}")
        if tuple(array.shape) != tuple(state[name].shape):
            raise ValueError(f"{name}: shape {tuple(array.shape)} given, {tuple(state[name].shape)} allowed")
    for name, array in weights.items():
        np.copyto(state[name].numpy(), array, casting="unsafe")


class RunningMean:
    """Weighted mean of named arrays, each over those who sent it, holding one accumulator.

    Sums are kept in float64, where a float32 value times a count is exact, so that one client's mean is that
    client's arrays bit for bit. Integer arrays are rounded to the nearest integer.
    """

    def __init__(self) -> None:
        self._sums: dict[str, NDArray[Any]] = {}
        self._totals: dict[str, float] = {}
        self._dtypes: dict[str, np.dtype] = {}

    def add(self, weights: Mapping[str, NDArray[Any]], weight: float) -> None:
        """Add one client's arrays with its weight, which must be positive and finite."""
        if not 0 < weight < float("inf"):
            raise ValueError(f"weight {weight}: must be positive and finite")
        for name, array in weights.items():
            if name in self._sums:
                self._sums[name] += np.multiply(array, weight, dtype=np.float64)
                self._totals[name] += weight
            else:
                self._sums[name] = np.multiply(array, weight, dtype=np.float64)
                self._totals[name] = weight
                self._dtypes[name] = array.dtype

    def result(self) -> Weights:
        """The mean so far: only arrays that somebody sent, in the order in which they first came."""
        return {name: self._mean(name) for name in self._sums}

    def _mean(self, name: str) -> NDArray[Any]:
        mean, dtype = self._sums[name] / self._totals[name], self._dtypes[name]
        rounded = np.rint(mean) if dtype.kind in "iub" else mean
        return np.asarray(rounded, dtype)  # NumPy makes scalars of 0-d results


def weighted_mean(pairs: Iterable[tuple[Weights, float]]) -> Weights:
    """Mean of named arrays, each weighted over the pairs that name it. McMahan et al. 2017, Algorithm 1."""
    mean = RunningMean()
    for weights, weight in pairs:
        mean.add(weights, weight)
    return mean.result()


def not_finite(weights: Mapping[str, NDArray[Any]]) -> list[str]:
    """Names of the arrays that hold NaN or infinity."""
    return [name for name, array in weights.items() if not np.isfinite(array).all()]


def fingerprint(weights: Mapping[str, NDArray[Any]]) -> str:
    """sha256 over names, dtypes, shapes and bytes, in order: equal exactly when the models are equal."""
    digest = hashlib.sha256()
    for name, array in weights.items():
        digest.update(f"{name} {array.dtype.str} {array.shape};".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()
