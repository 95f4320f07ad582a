"""When FedPart trains which layer groups (Wang et al. 2024, Section 3.1 and Appendix A)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from clients import seeds

Order = Literal["sequential", "reverse", "random"]


@dataclass(frozen=True)
class LayerSchedule:
    """Maps a round, from 1 and without end, to the layer groups that it trains.

    First `warmup` full rounds. Then cycles without end: each stretch of `groups_per_round` adjacent groups is
    trained for `rounds_per_layer` rounds, shallow to deep, and `full_between` full rounds follow.

    order: of the stretches within a cycle: `sequential`, `reverse`, `random` (drawn anew for each cycle, from
    `seed`), or a list of the group indexes themselves, which may repeat or leave out groups.
    """

    num_groups: int
    warmup: int = 5
    rounds_per_layer: int = 2
    full_between: int = 5
    groups_per_round: int = 1
    order: Order | Sequence[int] = "sequential"
    seed: int = 0

    def __post_init__(self) -> None:
        least = {
            "num_groups": 1,
            "warmup": 0,
            "rounds_per_layer": 1,
            "full_between": 0,
            "groups_per_round": 1,
        }
        for name, value in least.items():
            if getattr(self, name) < value:
                raise ValueError(f"{name}={getattr(self, name)}: must be at least {value}")
        if self.groups_per_round > self.num_groups:
            raise ValueError(
                f"groups_per_round={self.groups_per_round}: must be at most {self.num_groups}, the model's groups"
            )
        if isinstance(self.order, str):
            if self.order not in ("sequential", "reverse", "random"):
                raise ValueError(f"order={self.order}: must be sequential, reverse, random or a list of indexes")
        elif not self.order or not all(0 <= index < self.num_groups for index in self.order):
            raise ValueError(f"order={list(self.order)}: must list layer groups from 0 to {self.num_groups - 1}")

    def __call__(self, server_round: int) -> tuple[int, ...] | None:
        """Indexes of the groups that round `server_round` (from 1) trains, None for the full model."""
        if server_round < 1:
            raise ValueError(f"round {server_round}: rounds count from 1")
        since = server_round - 1 - self.warmup
        if since < 0:
            return None
        partial = len(self._stretches(0)) * self.rounds_per_layer
        cycle, position = divmod(since, partial + self.full_between)
        if position >= partial:
            return None
        return self._stretches(cycle)[position // self.rounds_per_layer]

    def _stretches(self, cycle: int) -> list[tuple[int, ...]]:
        """The stretches of adjacent groups that one cycle trains, in order."""
        listed = range(self.num_groups) if isinstance(self.order, str) else self.order
        size = self.groups_per_round
        stretches = [tuple(sorted(set(listed[at : at + size]))) for at in range(0, len(listed), size)]
        if self.order == "reverse":
            stretches.reverse()
        if self.order == "random":
            generator = seeds.numpy_generator("order", self.seed, cycle)
            stretches = [stretches[index] for index in generator.permutation(len(stretches))]
        return stretches
