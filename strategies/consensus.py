"""How far the clients of a round agree on which weights to keep (SparsyFed, Guastella et al. 2025)."""

from collections.abc import Collection, Mapping
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clients.sparse import sparsity_of
from clients.weights import Weights


class Consensus:
    """The kept sets, weights that are not zero, of a round's replies. Holds one bit per weight and reply.

    prunable: names of the weights that are looked at, where a reply has them.
    """

    def __init__(self, prunable: Collection[str]) -> None:
        self._prunable = prunable
        self._kept: list[tuple[tuple[str, ...], NDArray[np.uint8]]] = []
        self._sparsities: list[float] = []
        self._densities: list[dict[str, float]] = []

    def add(self, weights: Weights) -> None:
        """Take note of one reply."""
        arrays = {name: weights[name] for name in self._prunable if name in weights}
        sparsity = sparsity_of(arrays.values())
        if sparsity is not None:
            self._sparsities.append(sparsity)
            self._densities.append(densities_of(arrays))
            kept = np.concatenate([(array != 0).ravel() for array in arrays.values()])
            self._kept.append((tuple(arrays), np.packbits(kept)))

    @property
    def sparsity(self) -> float | None:
        """Mean share of zeros in the replies."""
        return sum(self._sparsities) / len(self._sparsities) if self._sparsities else None

    @property
    def densities(self) -> dict[str, float]:
        """Mean share of each weight that replies keep, over those that have it."""
        names = dict.fromkeys(name for row in self._densities for name in row)
        columns = {name: [row[name] for row in self._densities if name in row] for name in names}
        return {name: sum(column) / len(column) for name, column in columns.items()}

    @property
    def mask_iou(self) -> float | None:
        """Mean over all pairs of replies of what both keep over what either keeps; None where there is no pair.

        Replies with other weights, of clients that trained other layer groups, are no pair.
        """
        pairs = [
            _count(one & other) / max(_count(one | other), 1)  # two that keep nothing cannot be, see `keep_largest`
            for (names, one), (other_names, other) in combinations(self._kept, 2)
            if names == other_names
        ]
        return sum(pairs) / len(pairs) if pairs else None


def kept_change(before: Mapping[str, NDArray[Any]], after: Mapping[str, NDArray[Any]]) -> float:
    """Share of weights kept before or after that are not kept both times: one minus the IoU of the kept sets."""
    both = sum(int(np.count_nonzero((before[name] != 0) & (after[name] != 0))) for name in after)
    either = sum(int(np.count_nonzero((before[name] != 0) | (after[name] != 0))) for name in after)
    return 1 - both / either if either else 0.0


def densities_of(weights: Mapping[str, NDArray[Any]]) -> dict[str, float]:
    """Share of each array that is not zero."""
    return {name: float(np.count_nonzero(array) / array.size) for name, array in weights.items()}


def _count(bits: NDArray[np.uint8]) -> int:
    return int(np.bitwise_count(bits).sum())
