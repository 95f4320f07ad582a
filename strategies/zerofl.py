"""ZeroFL: sparse local training of a dense model, of which the largest weights go up.

Qiu, Fernandez-Marques, de Gusmao, Gao, Parcollet, Lane, *ZeroFL: Efficient On-Device Training for Federated Learning
with Local Sparsity*, ICLR 2022. Clients train with SWAT (Raihan and Aamodt 2020): forward and backward passes take
each layer's largest weights and, for the weight gradient, the largest activations, while all weights learn; so does
evaluation. Up go the largest weights at the target sparsity and `mask_ratio` of all beside them. Deviation: where a
client sends nothing, its part in the average is the value that the server sent, so that the global model stays dense,
as in the paper, and does not shrink.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from clients.plan import RoundPlan, SparseTraining
from clients.sparse import check_share, keep_largest
from clients.weights import Weights
from strategies.fedavg import FedAvgStrategy


class ZeroFLStrategy(FedAvgStrategy):
    """sparsity: of local training. mask_ratio: share of all weights that is sent beside the largest."""

    def __init__(self, *args: Any, sparsity: float = 0.95, mask_ratio: float = 0.1, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        check_share("sparsity", sparsity)
        check_share("mask_ratio", mask_ratio)
        self._sparse = SparseTraining(sparsity, mask_ratio, weights="swat", prune_activations=True)

    def plan(self, server_round: int) -> RoundPlan:
        """Train everything with SWAT."""
        return replace(super().plan(server_round), sparse=self._sparse)

    def stands_for(self, update: Weights) -> Weights:
        """The update, with the server's own values where the client sent none."""
        return {
            name: np.where(array == 0, self.weights[name], array) if name in self.prunable else array
            for name, array in update.items()
        }

    def effective(self) -> Weights:
        """Each layer's largest weights, which are what clients compute with."""
        return keep_largest(self.weights, self._sparse.sparsity, self.prunable, floor=1.0)
