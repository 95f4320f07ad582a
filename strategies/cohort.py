"""Who takes part in a round."""

from dataclasses import dataclass

from clients import seeds


class RunFailed(RuntimeError):
    """The run cannot do its work; the message is one line for the person who started it."""


@dataclass(frozen=True)
class Cohort:
    """Samples clients by partition id, never by node id, which Flower draws anew at each start.

    fraction: share of the clients that a round samples, but at least `min_clients`.
    min_clients: how many must be there, and how many accepted replies a round needs to count.
    start_timeout: seconds to wait for them before each round; round_timeout: seconds for a round's replies.
    max_failed_rounds: so many failed rounds in a row end the run.
    max_update_norm: replies that move the model further (L2, over all that they send) are refused; None for any.
    """

    fraction: float = 1.0
    min_clients: int = 1
    start_timeout: float = 300.0
    round_timeout: float = 3600.0
    max_failed_rounds: int = 3
    max_update_norm: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 < self.fraction <= 1:
            raise ValueError(f"fraction={self.fraction}: must be above 0 and at most 1")
        for name in ("min_clients", "max_failed_rounds"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)}: must be at least 1")
        for name in ("start_timeout", "round_timeout"):
            if not 0 < getattr(self, name) < float("inf"):
                raise ValueError(f"{name}={getattr(self, name)}: must be above 0 seconds")
        if self.max_update_norm is not None and not 0 < self.max_update_norm < float("inf"):
            raise ValueError(f"max_update_norm={self.max_update_norm}: must be above 0, or null for any")

    def sample(self, server_round: int, partitions: list[int]) -> list[int]:
        """This round's partitions, sorted; drawn by a generator of its own, keyed by seed and round."""
        count = max(self.min_clients, round(self.fraction * len(partitions)))
        if count >= len(partitions):
            return sorted(partitions)
        generator = seeds.numpy_generator("cohort", self.seed, server_round)
        return sorted(int(p) for p in generator.choice(sorted(partitions), size=count, replace=False))
