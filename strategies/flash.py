"""FLASH: one mask, found in the first round, for all the rounds that follow.

Babakniya, Kundu, Prakash, Niu, Avestimehr, *Revisiting Sparsity Hunting in Federated Learning: Why Does Sparsity
Consensus Matter?*, TMLR 2023. In the first round clients prune what they trained; the server prunes each layer of
the averaged model to the mean density that clients reached in it. From then on zeros stay zero.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from clients.plan import RoundPlan, SparseTraining
from clients.sparse import check_floor, check_share, largest
from clients.weights import Weights
from strategies.fedavg import FedAvgStrategy


class FlashStrategy(FedAvgStrategy):
    """A fixed mask of `sparsity`.

    warmup_epochs: local epochs of the first round, None for the usual number. floor: see `SparsyFedStrategy`.
    """

    def __init__(
        self,
        *args: Any,
        sparsity: float = 0.95,
        warmup_epochs: int | None = None,
        floor: float = 0.2,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        check_share("sparsity", sparsity)
        check_floor(floor)
        if warmup_epochs is not None and warmup_epochs < 1:
            raise ValueError(f"warmup_epochs={warmup_epochs}: must be at least 1")
        self._search = SparseTraining(sparsity, floor=floor)
        self.warmup_epochs = warmup_epochs
        self._has_mask = False  # not seen from the weights: an initial model may have zeros by chance

    def plan(self, server_round: int) -> RoundPlan:
        """Find the mask as long as there is none; then train within it."""
        plan = super().plan(server_round)
        if self._has_mask:
            return replace(plan, sparse=SparseTraining(weights="fixed"))
        return replace(plan, sparse=self._search, epochs=self.warmup_epochs)

    def settle(self, plan: RoundPlan, weights: Weights) -> Weights:
        """The averaged model; the first one pruned to the layers' densities, which fixes the mask."""
        if self._has_mask:
            return weights
        pruned = dict(weights)
        for name, density in self.consensus.densities.items():
            array = weights[name]
            kept = largest(np.abs(array).ravel(), round(density * array.size)).reshape(array.shape)
            pruned[name] = np.where(kept, array, array.dtype.type(0))
        self._has_mask = True
        return pruned

    def state(self) -> dict[str, Any]:
        """See `FedAvgStrategy.state`."""
        return {**super().state(), "has_mask": self._has_mask}

    def restore(self, state: Mapping[str, Any]) -> None:
        """See `FedAvgStrategy.restore`."""
        super().restore(state)
        self._has_mask = bool(state["has_mask"])
