"""SparsyFed's arithmetic: re-parameterised weights, and exact pruning by magnitude.

Guastella, Sani, Iacob, Mora, Bellavista, Lane, *SparsyFed: Sparse Adaptive Federated Training*, ICLR 2025
(arXiv 2504.05153). Re-parameterisation: Schwarz et al., *Powerpropagation*, NeurIPS 2021. The layers that compute
with it, and prune their activations, are in `clients.sparse_layers`.
"""

from collections.abc import Collection, Mapping
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from clients.weights import Weights

Values = TypeVar("Values", Tensor, NDArray[Any])


def powerprop(w: Values, beta: float) -> Values:
    """Theta = sign(w) |w|^beta, what a layer computes with where `w`, a tensor or array, is stored, pruned and sent.

    The gradient is scaled by beta |w|^(beta - 1), so zeros stay zero and large weights grow; it is 0 at zero,
    whatever beta. beta = 1 gives `w` itself. Raises ValueError for beta below 1.
    """
    if not 1 <= beta < float("inf"):
        raise ValueError(f"beta={beta}: must be at least 1")
    if beta == 1:
        return w
    if isinstance(w, np.ndarray):
        return np.asarray(powerprop(torch.from_numpy(w), beta).numpy())
    theta: Tensor = _Powerprop.apply(w, beta)
    return theta


class _Powerprop(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, w: Tensor, beta: float) -> Tensor:
        ctx.beta, magnitude = beta, w.abs()
        # Two square roots take a third of the time of a power.
        scale = magnitude.sqrt_().sqrt_() if beta == 1.25 else magnitude.pow_(beta - 1)
        ctx.save_for_backward(scale)
        return w * scale

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (scale,) = ctx.saved_tensors
        return gradient.mul(scale).mul_(ctx.beta), None


def inverse_powerprop(theta: Tensor, beta: float) -> Tensor:
    """The `w` whose `powerprop` is `theta`: a model so initialised starts as the usual one does."""
    return theta if beta == 1 else theta.sign() * theta.abs().pow(1 / beta)


def spectral_exponent(w: Tensor) -> float:
    """SparsyFed's beta without a hyper-parameter: 1 + mean(|w| / sigma), sigma the spectral norm of |w| as a matrix."""
    matrix = w.detach().abs().flatten(1).double()  # (outputs, all else)
    if matrix.shape[0] > matrix.shape[1]:
        matrix = matrix.T
    sigma = float(torch.linalg.eigvalsh(matrix @ matrix.T)[-1].clamp(min=0).sqrt())
    return 1 + float(matrix.mean()) / sigma if sigma else 1.0


def reparameterise(weights: Weights, names: Collection[str], beta: float | None, inverse: bool = False) -> Weights:
    """The arrays that layers compute with (`powerprop` of those in `names`), or for `inverse` those to be stored.

    beta: None takes each array's `spectral_exponent`.
    """
    function = inverse_powerprop if inverse else powerprop
    changed = {}
    for name in names:
        w = torch.from_numpy(np.array(weights[name]))
        changed[name] = function(w, spectral_exponent(w) if beta is None else beta).numpy()
    return {name: changed.get(name, array) for name, array in weights.items()}


def keep_largest(
    weights: Mapping[str, NDArray[Any]], sparsity: float, names: Collection[str], floor: float = 0.0
) -> Weights:
    """Global unstructured Top-K: of the N values in the arrays `names`, round((1 - sparsity) N) stay, the rest are 0.

    Largest magnitudes first, ties to the lower index in the arrays' order. NaN is never pruned away, so that it is
    seen. floor: from 0 to 1, the part of the target density that every array has at least, of its own largest: with
    0 an array may be emptied, with 1 all become as sparse as the whole.
    Arrays outside `names` are returned as they are. Raises ValueError for a sparsity outside [0, 1), and for names
    that no array has.
    """
    check_share("sparsity", sparsity)
    wanted = set(names)
    if unknown := sorted(wanted - weights.keys()):
        raise ValueError(f"names={unknown}: must be among {', '.join(weights)}")
    chosen = [name for name in weights if name in wanted]
    if sparsity == 0 or not chosen:
        return dict(weights)
    magnitudes = np.concatenate([np.abs(_as_float(weights[name])).ravel() for name in chosen])
    ends = np.cumsum([weights[name].size for name in chosen])
    count = round((1 - sparsity) * len(magnitudes))
    if floor:
        for part in np.split(magnitudes, ends[:-1]):  # views: what a floor keeps comes before all else
            part[largest(part, int(floor * count / len(magnitudes) * len(part)))] = np.inf
    kept = np.split(largest(magnitudes, count), ends[:-1])
    masks = {name: mask.reshape(weights[name].shape) for name, mask in zip(chosen, kept, strict=True)}
    return {
        name: np.where(masks[name], array, array.dtype.type(0)) if name in masks else array
        for name, array in weights.items()
    }


def _as_float(array: NDArray[Any]) -> NDArray[Any]:
    """In a type of at least float32 that holds its values."""
    return np.asarray(array, np.result_type(array, np.float32))


def largest(magnitudes: NDArray[Any], count: int) -> NDArray[np.bool_]:
    """Where the `count` largest of a vector stand; ties go to the lower index."""
    size = len(magnitudes)
    if not 0 < count < size:
        return np.full(size, count >= size)
    threshold = np.partition(magnitudes, size - count)[size - count]
    kept = np.asarray(~(magnitudes <= threshold))  # NaN is above everything, as in the partition
    missing = count - int(np.count_nonzero(kept))
    kept[np.flatnonzero(magnitudes == threshold)[:missing]] = True
    return kept


def sparsity_of(arrays: Collection[NDArray[Any]]) -> float | None:
    """Share of zeros over all these arrays; None where there is no value."""
    size = sum(array.size for array in arrays)
    return 1 - sum(int(np.count_nonzero(array)) for array in arrays) / size if size else None


def check_share(name: str, value: float) -> None:
    """Refuse a share outside [0, 1) with a ValueError that says what a percentage was meant to be."""
    if not 0 <= value < 1:
        meant = f"; {value / 100:g} for {value:g} %" if 1 < value < 100 else ""
        raise ValueError(f"{name}={value}: must be at least 0 and below 1{meant}")


def check_floor(floor: float) -> None:
    """Refuse a floor outside [0, 1] with a ValueError."""
    if not 0 <= floor <= 1:
        raise ValueError(f"floor={floor}: must be from 0 to 1")
