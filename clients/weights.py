"""Named arrays: a model's state as plain data, and all arithmetic on it."""

import hashlib
import warnings
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

Weights = dict[str, NDArray[Any]]
"""A model's parameters and buffers by name, in the model's canonical (state dict) order; may be partial."""

_FEW = 1 << 16
"""Values of an array that are averaged in float64, because it costs nothing there."""
STATISTICS = ("running_mean", "running_var", "num_batches_tracked")


def is_statistic(name: str) -> bool:
    """Whether an array is a normalisation layer's running statistic rather than something that is trained."""
    return name.rpartition(".")[2] in STATISTICS


def arrays_of(model: nn.Module) -> dict[str, torch.Tensor]:
    """The model's parameters and persistent buffers by name, in state dict order, not copied.

    An array that two modules share has the name of the first: it is trained, sent and averaged once.
    """
    arrays: dict[str, torch.Tensor] = {}
    seen: set[int] = set()
    for name, tensor in model.state_dict(keep_vars=True).items():
        if id(tensor) not in seen:
            seen.add(id(tensor))
            arrays[name] = tensor.detach()
    return arrays


def weights_of(model: nn.Module, names: Collection[str] | None = None) -> Weights:
    """A copy of the parameters and persistent buffers, all or those in `names`, in state dict order."""
    return {
        name: tensor.detach().cpu().numpy().copy()
        for name, tensor in arrays_of(model).items()
        if names is None or name in names
    }


def load_weights(model: nn.Module, weights: Mapping[str, NDArray[Any]]) -> None:
    """Copy arrays into the model; what `weights` does not name keeps its value.

    Raises ValueError, before anything is changed, for a name or a shape that the model does not have.
    """
    state = arrays_of(model)
    for name, array in weights.items():
        if name not in state:
            raise ValueError(f"unknown array {name!r}: the model has {', '.join(state)}")
        if tuple(array.shape) != tuple(state[name].shape):
            raise ValueError(f"{name}: shape {tuple(array.shape)} given, {tuple(state[name].shape)} allowed")
    for name, array in weights.items():
        np.copyto(state[name].numpy(), array, casting="unsafe")


class RunningMean:
    """Weighted mean of named arrays, each over those who sent it, holding one accumulator.

    Each client moves the mean towards its arrays by the share of its weight in the weights so far. So one client's
    mean is that client's arrays, bit for bit, and the mean of equal arrays is what each sent, but that -0.0 may
    become 0.0. Arrays of up to 65,536 values are averaged in float64, and rounded once. Larger ones of float32 stay
    float32, which takes a third of the time; relative errors against float64 sums are then (root mean square) 0.6e-7
    over 10 clients and 5e-7 over 1,000; rounding alone makes 0.3e-7. Integers are rounded to the nearest.
    """

    def __init__(self) -> None:
        self._means: Weights = {}
        self._totals: dict[str, float] = {}
        self._dtypes: dict[str, np.dtype[Any]] = {}

    def add(self, weights: Mapping[str, NDArray[Any]], weight: float) -> None:
        """Add one client's arrays with its weight, which must be positive and finite.

        Raises ValueError, before anything is added, for another weight, and for shapes other than those before.
        """
        if not 0 < weight < float("inf"):
            raise ValueError(f"weight {weight}: must be positive and finite")
        for name, array in weights.items():
            if name in self._means and array.shape != self._means[name].shape:
                raise ValueError(f"{name}: shape {array.shape} given, {self._means[name].shape} before")
        for name, array in weights.items():
            if name not in self._means:
                precise = np.float64 if array.size <= _FEW else np.float32
                self._means[name] = np.array(array, np.result_type(array, precise))
                self._totals[name] = weight
                self._dtypes[name] = array.dtype
                continue
            self._totals[name] += weight
            mean = torch.from_numpy(self._means[name])
            mean.lerp_(_tensor(array, self._means[name].dtype), weight / self._totals[name])

    def result(self) -> Weights:
        """The mean: only arrays that somebody sent, in the order in which they first came. Nothing is left here."""
        means, self._means = self._means, {}
        return {name: self._rounded(mean, self._dtypes[name]) for name, mean in means.items()}

    @staticmethod
    def _rounded(mean: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
        return np.asarray(np.rint(mean) if dtype.kind in "iub" else mean, dtype)


def weighted_mean(pairs: Iterable[tuple[Weights, float]]) -> Weights:
    """Mean of named arrays, each weighted over the pairs that name it. McMahan et al. 2017, Algorithm 1."""
    mean = RunningMean()
    for weights, weight in pairs:
        mean.add(weights, weight)
    return mean.result()


# Arrays from the wire are read-only, and so is every use of a tensor that is made of one.
warnings.filterwarnings("ignore", message="The given NumPy array is not writable")


def _tensor(array: NDArray[Any], dtype: np.dtype[Any]) -> torch.Tensor:
    """The array as a tensor of that type, which shares its memory where it can and is not to be written."""
    return torch.from_numpy(np.asarray(array, dtype, order="C"))


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
