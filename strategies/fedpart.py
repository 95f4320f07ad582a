"""FedPart: train, send and average one layer group a round.

Wang, Liu, Niu, Guo, Tang, *Why Go Full? Elevating Federated Learning Through Partial Network Updates*,
NeurIPS 2024 (arXiv 2410.11559), Section 3. Implemented: the schedule with warm-up, rounds per layer and full
rounds between cycles; sequential, reverse, random and listed order; several adjacent groups together.

Deviations: running statistics of normalisation layers belong to their group and are averaged like its weights
(the paper's reference never shares them), and layers outside the slice normalise with theirs in evaluation mode
unless `client.frozen_norm=batch`.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from clients.plan import RoundPlan
from strategies.fedavg import FedAvgStrategy
from strategies.layers import LayerSchedule, Order


class FedPartStrategy(FedAvgStrategy):
    """Full rounds to warm up, then cycles of partial rounds, shallow to deep, with full rounds between.

    Only group indexes are sent: both sides derive the same groups by `clients.layers.layer_groups`. Merging
    needs nothing of its own, for arrays that nobody sent keep their value. For `warmup`, `rounds_per_layer`,
    `full_between`, `groups_per_round` and `order` see `LayerSchedule`.
    """

    def __init__(
        self,
        *args: Any,
        warmup: int = 5,
        rounds_per_layer: int = 2,
        full_between: int = 5,
        groups_per_round: int = 1,
        order: Order | Sequence[int] = "sequential",
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.schedule = LayerSchedule(
            len(self.groups),
            warmup,
            rounds_per_layer,
            full_between,
            groups_per_round,
            order,
            self.cohort.seed,
        )

    def plan(self, server_round: int) -> RoundPlan:
        """Train the groups that the schedule names for this round, or everything."""
        return replace(super().plan(server_round), groups=self.schedule(server_round))
