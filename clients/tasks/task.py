"""What a task owes the rest: a model, a client's local examples, a test set, and how a batch is prepared."""

from collections.abc import Sequence
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


Classes = int | Sequence[str]
"""How many classes there are, or their names in the order of their indexes."""


def count_classes(classes: Classes) -> int:
    """How many classes there are; fewer than two, and names that are there twice, are a ValueError."""
    count = classes if isinstance(classes, int) else len(classes)
    if count < 2:
        raise ValueError(f"classes={classes}: must be 2 or more, or the names of as many")
    if not isinstance(classes, int) and len(set(classes)) < count:
        raise ValueError(f"classes={list(classes)}: a name is there twice")
    return count


def class_indexes(labels: np.ndarray, classes: Classes, origin: str) -> np.ndarray:
    """Labels as int64, refused unless integers in range or names of classes; `origin` opens what errors say."""
    if len(labels) and isinstance(labels.flat[0], str):
        labels = _named(labels, classes, origin)
    if not np.issubdtype(labels.dtype, np.integer):
        raise ValueError(f"{origin}: labels are {labels.dtype}, must be integers")
    last = count_classes(classes) - 1
    wrong = labels[(labels < 0) | (labels > last)]
    if len(wrong):
        raise ValueError(f"{origin}: a label is {wrong[0]}, must be 0 to {last}")
    return labels.astype(np.int64)


def _named(labels: np.ndarray, classes: Classes, origin: str) -> np.ndarray:
    """Indexes of labels that are text."""
    found = dict.fromkeys(labels.tolist())
    if isinstance(classes, int):
        names = ",".join(" ".join(str(name).split()) for name in list(found)[:3])
        raise ValueError(
            f"{origin}: labels are text, must be integers; or name the classes: task.classes=[{names},...] "
            "(task=images, task=texts)"
        )
    indexes = {name: index for index, name in enumerate(classes)}
    if strangers := [name for name in found if name not in indexes]:
        raise ValueError(f"{origin}: a label is {strangers[0]!r}, must be one of {', '.join(classes)}")
    return np.array([indexes[name] for name in labels.tolist()], np.int64)


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
