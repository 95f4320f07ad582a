"""Splits with skewed labels or natural clients, made by Flower Datasets' partitioners.

The partitioners see a table of row numbers and labels (or ids) only. Flower Datasets is imported when a split
is made, not before, because it takes seconds and devices with their own data have no use for it.
"""

import contextlib
import io
import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from clients.tasks.partition import Split, Stream, Table, capped, check_enough, check_request, generator

# Flower's Dirichlet partitioner draws 11 times before it gives up.
_DRAWS_PER_ATTEMPT: Final = 11
_ATTEMPTS: Final = 10


def _parts(partitioner: Any, columns: Mapping[str, np.ndarray], clients: int) -> list[np.ndarray]:
    import datasets

    partitioner.dataset = datasets.Dataset.from_dict(dict(columns))
    # Silenced: a progress bar, and warnings at every redraw about what is an error here in the end.
    with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore")
        return [np.asarray(partitioner.load_partition(n)[:]["row"], np.int64) for n in range(clients)]


def _shuffled(table: Table, seed: int) -> dict[str, np.ndarray]:
    # The partitioners deal out a class in table order, so the table comes to them shuffled.
    rows = generator(seed, Stream.SHUFFLE).permutation(len(table))
    return {"row": rows, "label": table.labels[rows]}


@dataclass(frozen=True)
class Dirichlet:
    """Each class is dealt out in shares drawn from Dirichlet(alpha): the smaller alpha, the more skew.

    Yurochkin et al., arXiv 1905.12022, redrawn until every client has `min_size` examples.
    """

    alpha: float = 0.5
    min_size: int = 10

    def __post_init__(self) -> None:
        if not 0 < self.alpha < math.inf:
            raise ValueError(f"partition.alpha={self.alpha}: must be a number above 0")
        if self.min_size < 0:
            raise ValueError(f"partition.min_size={self.min_size}: must be 0 or more")

    def split(self, table: Table, clients: int, examples: int | None, seed: int) -> Split:
        """Disjoint parts that together are the whole table, then at most `examples` of each."""
        check_request(clients, examples)
        check_enough(table, clients)
        attempts = _ATTEMPTS if clients * self.min_size <= len(table) else 0
        for attempt in range(attempts):
            parts = self._attempt(table, clients, seed, attempt)
            if parts is not None:
                return capped(parts, examples, seed)
        raise ValueError(
            f"partition.alpha={self.alpha}: no split of {len(table)} examples among {clients} clients gives "
            f"each at least {self.min_size} ({attempts * _DRAWS_PER_ATTEMPT} draws tried); raise "
            f"partition.alpha, or lower partition.min_size or task.clients"
        )

    def _attempt(self, table: Table, clients: int, seed: int, attempt: int) -> list[np.ndarray] | None:
        from flwr_datasets.partitioner import DirichletPartitioner

        partitioner = DirichletPartitioner(
            num_partitions=clients,
            partition_by="label",
            alpha=float(self.alpha),
            min_partition_size=self.min_size,
            self_balancing=False,
            shuffle=False,
            seed=int(generator(seed, Stream.ATTEMPT, attempt).integers(2**63)),
        )
        try:
            parts = _parts(partitioner, _shuffled(table, seed), clients)
        except ValueError:
            return None
        # At an alpha next to 0 the shares are NaN, which Flower turns into parts that overlap.
        covers = np.array_equal(np.sort(np.concatenate(parts)), np.arange(len(table)))
        return parts if covers else None


@dataclass(frozen=True)
class Pathological:
    """Each client has examples of exactly `classes` classes, the first of them its number modulo the classes.

    Li et al., arXiv 2102.02079. With `clients * classes` below the number of classes some classes go unused.
    """

    classes: int = 2

    def __post_init__(self) -> None:
        if self.classes < 1:
            raise ValueError(f"partition.classes={self.classes}: must be 1 or more")

    def split(self, table: Table, clients: int, examples: int | None, seed: int) -> Split:
        """Disjoint parts, then at most `examples` of each."""
        check_request(clients, examples)
        check_enough(table, clients)
        there = len(np.unique(table.labels))
        if self.classes > there:
            raise ValueError(f"partition.classes={self.classes}: must be at most {there}, the number of classes")
        from flwr_datasets.partitioner import PathologicalPartitioner

        partitioner = PathologicalPartitioner(
            num_partitions=clients,
            partition_by="label",
            num_classes_per_partition=self.classes,
            class_assignment_mode="first-deterministic",
            shuffle=False,
            seed=int(generator(seed, Stream.ATTEMPT).integers(2**63)),
        )
        try:
            parts = _parts(partitioner, _shuffled(table, seed), clients)
        except ValueError as error:
            raise ValueError(
                f"partition.classes={self.classes}: too many clients ({clients}) want the same class of the "
                f"{len(table)} examples; lower partition.classes or task.clients"
            ) from error
        return capped(parts, examples, seed)


@dataclass(frozen=True)
class Natural:
    """One client per value of an id column (a speaker, a writer), in the order of the ids."""

    column: str

    def split(self, table: Table, clients: int, examples: int | None, seed: int) -> Split:
        """The rows of each of the first `clients` ids, then at most `examples` of each."""
        check_request(clients, examples)
        if self.column not in table.columns:
            there = ", ".join(sorted(table.columns)) or "none"
            raise ValueError(f"partition.column={self.column}: no such id column; there are: {there}")
        ids = table.columns[self.column]
        count = len(np.unique(ids))
        if clients > count:
            raise ValueError(f"task.clients={clients}: must be at most {count}, the ids in column {self.column}")
        from flwr_datasets.partitioner import NaturalIdPartitioner

        partitioner = NaturalIdPartitioner(partition_by="id")
        return capped(_parts(partitioner, {"row": np.arange(len(ids)), "id": ids}, clients), examples, seed)
