"""How a training set is split among clients: row numbers from labels alone, no example is touched.

A split is one array of row numbers per client, computed from a `Table` of labels (and id columns). Every draw
comes from `numpy.random.SeedSequence([seed, stream, index])`: a seed gives the same split in every process.
The splits with skewed labels, made by Flower Datasets, are in `flower_partition`. `Iid` is one line of NumPy,
held equal to Flower's `IidPartitioner` by a test, because importing Flower Datasets takes seconds that every
process of the default run would pay.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Protocol

import numpy as np

Split = tuple[np.ndarray, ...]


class Stream(IntEnum):
    """What a generator is for; keeps draws for different purposes independent of each other."""

    SHUFFLE = 1
    CAP = 2
    DRAW = 3
    ATTEMPT = 4
    SIZE = 5
    CLIENT = 6


@dataclass(frozen=True)
class Table:
    """What a split may look at. labels: (n,) integers; columns: further arrays (n,) by name, such as ids."""

    labels: np.ndarray
    columns: Mapping[str, np.ndarray] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.labels)


class Partition(Protocol):
    """A way to split a table among clients."""

    def split(self, table: Table, clients: int, examples: int | None, seed: int) -> Split:
        """Row numbers per client, at most `examples` each; what cannot be done is a ValueError."""


def generator(seed: int, stream: Stream, index: int = 0) -> np.random.Generator:
    """The private generator for one purpose (and one client or attempt) under a seed."""
    if seed < 0:
        raise ValueError(f"seed={seed}: must be 0 or more")
    return np.random.default_rng(np.random.SeedSequence([seed, stream, index]))


def check_request(clients: int, examples: int | None) -> None:
    """Refuse fewer than one client or fewer than one example per client."""
    if clients < 1:
        raise ValueError(f"task.clients={clients}: must be 1 or more")
    if examples is not None and examples < 1:
        raise ValueError(f"task.examples={examples}: must be 1 or more, or null for no limit")


def check_enough(table: Table, clients: int) -> None:
    """Refuse more clients than rows, for splits whose parts do not overlap."""
    if clients > len(table):
        raise ValueError(f"task.clients={clients}: must be at most {len(table)}, the number of training examples")


def capped(parts: Iterable[np.ndarray], examples: int | None, seed: int) -> Split:
    """Each part in a random order of its own, cut to `examples` rows; None keeps them all."""
    return tuple(generator(seed, Stream.CAP, client).permutation(part)[:examples] for client, part in enumerate(parts))


@dataclass(frozen=True)
class Iid:
    """A random split into equal parts (sizes differ by one at most)."""

    def split(self, table: Table, clients: int, examples: int | None, seed: int) -> Split:
        """Disjoint parts that together are the whole table, then at most `examples` of each."""
        check_request(clients, examples)
        check_enough(table, clients)
        shuffled = generator(seed, Stream.SHUFFLE).permutation(len(table))
        return capped(np.array_split(shuffled, clients), examples, seed)


@dataclass(frozen=True)
class Draw:
    """Each client draws its examples from the whole table: none twice, but clients may share some.

    The FedPart paper's setting (500 examples for each of 40 clients, "sampled IID with possible overlap").
    A client's draw depends on the seed and its number, not on how many clients there are.
    """

    def split(self, table: Table, clients: int, examples: int | None, seed: int) -> Split:
        """Exactly `examples` rows per client, which must be given."""
        check_request(clients, examples)
        if examples is None or examples > len(table):
            raise ValueError(f"task.examples={examples}: partition=draw needs a number from 1 to {len(table)}")
        return tuple(
            generator(seed, Stream.DRAW, client).choice(len(table), examples, replace=False)
            for client in range(clients)
        )


def split_statistics(labels: np.ndarray, split: Split, num_classes: int) -> dict[str, Any]:
    """Sizes, class counts per client, and `overlap`: how many rows more than one client holds."""
    uses = np.bincount(np.concatenate(split), minlength=len(labels))
    return {
        "clients": len(split),
        "examples": [len(part) for part in split],
        "classes": [np.bincount(labels[part], minlength=num_classes).tolist() for part in split],
        "overlap": int((uses > 1).sum()),
    }
