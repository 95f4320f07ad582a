"""What a task owes the rest: a model, a client's local examples, a test set, and how a batch is prepared."""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Examples:
    """Labelled examples as they are stored, before `Task.prepare`.

    inputs: (n, ...), compact (images stay uint8); targets: (n,) int64 class indexes.
    """

    inputs: Tensor
    targets: Tensor

    def __post_init__(self) -> None:
        if len(self.inputs) != len(self.targets):
            raise ValueError(f"{len(self.inputs)} inputs but {len(self.targets)} targets: must be equal")

    def __len__(self) -> int:
        return len(self.targets)


def class_indexes(labels: np.ndarray, num_classes: int, origin: str) -> np.ndarray:
    """Labels as int64, refused unless integers in range; `origin` opens what errors say."""
    if not np.issubdtype(labels.dtype, np.integer):
        raise ValueError(f"{origin}: labels are {labels.dtype}, must be integers")
    wrong = labels[(labels < 0) | (labels >= num_classes)]
    if len(wrong):
        raise ValueError(f"{origin}: a label is {wrong[0]}, must be 0 to {num_classes - 1}")
    return labels.astype(np.int64)


class Task(Protocol):
    """A supervised classification problem, split among clients."""

    @property
    def name(self) -> str:
        """Short name, as in the configuration."""

    @property
    def clients(self) -> int:
        """How many partitions a simulation has."""

    @property
    def augments(self) -> bool:
        """Whether `augment` changes anything."""

    def build_model(self, seed: int) -> nn.Module:
        """A freshly initialised model on the CPU; the same seed gives the same bits."""

    def client_examples(self, partition: int, clients: int | None = None) -> Examples:
        """Local training examples of one partition out of `clients` (default: the task's own number).

        Kept in memory after the first call.
        """

    def device_examples(self, path: str) -> Examples:
        """All training examples that a device keeps at `path`."""

    def blank(self) -> Tensor:
        """One model input, (1, ...), of no meaning: to count what a pass costs, without any data."""

    def test_examples(self) -> Examples:
        """Examples for the central evaluation of the global model."""

    def prepare(self, inputs: Tensor) -> Tensor:
        """Stored inputs to model inputs (float, normalised); the same for training and evaluation."""

    def augment(self, inputs: Tensor, generator: torch.Generator) -> Tensor:
        """Random change of a prepared training batch; returns it unchanged where the task has none."""

    def split_statistics(self, clients: int | None = None) -> dict[str, Any]:
        """How the training data are split: examples and class counts per partition (plain JSON types)."""
