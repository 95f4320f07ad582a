"""What a round did and what it cost, as sent and as computed; never as configured."""

from dataclasses import dataclass, field
from statistics import fmean

from clients.messages import Reply
from clients.sparse import sparsity_of
from clients.weights import Weights
from strategies.consensus import Consensus, densities_of, kept_change


@dataclass
class RoundReport:
    """Facts of one round, filled in while it runs. Sizes in bytes as serialised, times in seconds.

    failed, rejected: partition to reason: no usable answer, or an answer that was refused.
    bytes_dense, bytes_dense_up: what the same messages would weigh dense and full, both ways and upward.
    steps: each client's step sizes where they were asked for (`clients.diagnostics`), row by row.
    memory_client: peak of the process that plays a client in MB, the largest; None where none tells.
    macs, macs_dense: multiply-accumulates of local training, as needed and as full dense training would need.
    values_down, zeros_down: prunable weights in the messages to clients, and how many of them are zero.
    sparsity_up, sparsity_model, mask_iou, kept_change, densities: see `pruned`.
    """

    round: int
    phase: str = "full"
    groups: tuple[int, ...] = ()
    sampled: tuple[int, ...] = ()
    completed: list[int] = field(default_factory=list)
    failed: dict[int, str] = field(default_factory=dict)
    rejected: dict[int, str] = field(default_factory=dict)
    bytes_down: int = 0
    bytes_up: int = 0
    bytes_dense: int = 0
    bytes_dense_up: int = 0
    macs: int = 0
    macs_dense: int = 0
    examples: int = 0
    loss_sum: float = 0.0
    seconds_train: float = 0.0
    seconds_server: float = 0.0
    memory_client: float | None = None
    steps: list[tuple[float, ...]] = field(default_factory=list)
    values_down: int = 0
    zeros_down: int = 0
    sparsity_up: float | None = None
    sparsity_model: float | None = None
    mask_iou: float | None = None
    kept_change: float | None = None
    densities: dict[str, float] | None = None

    @property
    def sparsity_down(self) -> float | None:
        """Share of zeros among the prunable weights that were sent to clients."""
        return self.zeros_down / self.values_down if self.values_down else None

    @property
    def regrowth(self) -> float | None:
        """How much sparsity averaging lost, 0 where the server pruned more than that.

        None in partial rounds, where replies hold a part of the model.
        """
        if self.phase == "partial" or self.sparsity_up is None or self.sparsity_model is None:
            return None
        return max(0.0, self.sparsity_up - self.sparsity_model)

    @property
    def train_loss(self) -> float | None:
        """Mean local training loss, weighted by examples; None where nobody's reply was accepted."""
        return self.loss_sum / self.examples if self.examples else None

    def sent(self, content_bytes: int, dense_bytes: int, values: int = 0, zeros: int = 0) -> None:
        """Count a message to a client, with so many prunable weights of which so many are zero."""
        self.bytes_down += content_bytes
        self.bytes_dense += dense_bytes
        self.values_down += values
        self.zeros_down += zeros

    def received(self, content_bytes: int, dense_bytes: int) -> None:
        """Count a message from a client, whether or not it is accepted."""
        self.bytes_up += content_bytes
        self.bytes_dense += dense_bytes
        self.bytes_dense_up += dense_bytes

    def accept(self, partition: int, reply: Reply) -> None:
        """Count an accepted reply's training."""
        self.completed.append(partition)
        self.examples += reply.examples
        self.loss_sum += reply.loss * reply.examples
        self.macs += reply.macs
        self.macs_dense += reply.macs_dense
        self.seconds_train += reply.seconds
        if reply.memory is not None:
            self.memory_client = max(reply.memory, self.memory_client or 0.0)
        if reply.steps:
            self.steps.append(reply.steps)

    def pruned(self, consensus: Consensus, before: Weights, after: Weights) -> None:
        """Take down what is sparse after a round.

        consensus: of the accepted replies, which gives their mean sparsity and how far their kept sets agree.
        before, after: the global model's prunable weights, which give its sparsity (over all, and by weight as
        densities) and how much its kept set changed.
        """
        self.sparsity_up, self.mask_iou = consensus.sparsity, consensus.mask_iou
        self.sparsity_model, self.densities = sparsity_of(after.values()), densities_of(after)
        self.kept_change = kept_change(before, after)

    def mean_steps(self, groups: int) -> list[list[float]]:
        """Step sizes, mean over the clients that made as many steps: a row per iteration, a column per group."""
        longest = max(map(len, self.steps), default=0)
        flat = [fmean(steps[at] for steps in self.steps if at < len(steps)) for at in range(longest)]
        return [flat[at : at + groups] for at in range(0, longest, groups)]
