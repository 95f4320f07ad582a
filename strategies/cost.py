"""What a round did and what it cost, as sent and as computed; never as configured."""

from dataclasses import dataclass, field
from statistics import fmean

from clients.messages import Reply


@dataclass
class RoundReport:
    """Facts of one round, filled in while it runs. Sizes in bytes as serialised, times in seconds.

    failed, rejected: partition to reason: no usable answer, or an answer that was refused.
    bytes_dense, bytes_dense_up: what the same messages would weigh dense and full, both ways and upward.
    steps: each client's step sizes where they were asked for (`clients.diagnostics`), row by row.
    memory_client: peak of the process that plays a client in MB, the largest; None where none tells.
    macs, macs_dense: multiply-accumulates of local training, as needed and as full dense training would need.
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

    @property
    def train_loss(self) -> float | None:
        """Mean local training loss, weighted by examples; None where nobody's reply was accepted."""
        return self.loss_sum / self.examples if self.examples else None

    def sent(self, content_bytes: int, dense_bytes: int) -> None:
        """Count a message to a client."""
        self.bytes_down += content_bytes
        self.bytes_dense += dense_bytes

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

    def mean_steps(self, groups: int) -> list[list[float]]:
        """Step sizes, mean over the clients that made as many steps: a row per iteration, a column per group."""
        longest = max(map(len, self.steps), default=0)
        flat = [fmean(steps[at] for steps in self.steps if at < len(steps)) for at in range(longest)]
        return [flat[at : at + groups] for at in range(0, longest, groups)]
