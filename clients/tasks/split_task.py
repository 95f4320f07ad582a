"""What tasks share that split one training set among clients: the split, its statistics, and the cache."""

from abc import ABC, abstractmethod
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Protocol

import numpy as np

from clients.tasks.cache import ExampleCache
from clients.tasks.partition import Partition, Split, Table, check_request, split_statistics
from clients.tasks.task import Examples


class Source(Protocol):
    """Where a task's data come from."""

    @property
    def table(self) -> Table:
        """Labels and id columns of the training set."""


@dataclass(frozen=True)
class SplitTask(ABC):
    """One training set split among clients, and one test set. Constructing it loads nothing.

    Attributes:
        name: short name.
        source: where the data come from.
        partition: how the training set is split among clients.
        data: folder of the source's files, as the configuration gave it to the source; None: its usual place.
        clients: number of partitions.
        examples: at most so many per client (partition draw: exactly so many); None for no limit.
        seed: of the split.
    """

    name: str
    source: Source
    partition: Partition
    _: KW_ONLY
    data: str | None = None
    clients: int = 10
    examples: int | None = None
    seed: int = 0
    _cache: ExampleCache = field(default_factory=ExampleCache, init=False, repr=False, compare=False)
    _splits: dict[int, Split] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_request(self.clients, self.examples)

    @property
    @abstractmethod
    def num_classes(self) -> int:
        """Labels run from 0 to one less."""

    @abstractmethod
    def _read_train(self, rows: np.ndarray) -> Examples:
        """These rows of the training set, in this order."""

    @abstractmethod
    def _read_test(self) -> Examples:
        """The whole test set."""

    def _split(self, clients: int | None) -> Split:
        count = self.clients if clients is None else clients
        if count not in self._splits:
            self._splits[count] = self.partition.split(self.source.table, count, self.examples, self.seed)
        return self._splits[count]

    def client_examples(self, partition: int, clients: int | None = None) -> Examples:
        """Local training examples of one partition, kept in memory and shared between calls."""
        split = self._split(clients)
        if not 0 <= partition < len(split):
            raise ValueError(f"partition {partition}: must be from 0 to {len(split) - 1}")
        return self._cache.get((partition, len(split)), lambda: self._read_train(split[partition]))

    def test_examples(self) -> Examples:
        """The whole test set, kept in memory and shared between calls."""
        return self._cache.get("test", self._read_test)

    def split_statistics(self, clients: int | None = None) -> dict[str, Any]:
        """How the training data are split: examples and class counts per partition, and the overlap."""
        return split_statistics(self.source.table.labels, self._split(clients), self.num_classes)


def check_fixed(**values: tuple[Any, Any]) -> None:
    """Raises ValueError for a fact of the data, as the task was given it, that its source has otherwise.

    values: as given, false where it was not, and as the source has it.
    """
    for name, (given, fixed) in values.items():
        if given and given != fixed:
            raise ValueError(f"task.{name}={given}: its data have {fixed}; leave it out")
