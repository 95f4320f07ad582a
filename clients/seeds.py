"""Everything random is keyed by seed, round, partition and purpose, so that it never depends on order."""

from typing import Literal

import numpy as np
import torch

Purpose = Literal[
    "shuffle", "augment", "model", "dropout", "cohort", "order", "attack", "round-up", "round-down", "noise"
]
_PURPOSES: dict[Purpose, int] = {
    "shuffle": 1, "augment": 2, "model": 3, "dropout": 4, "cohort": 5, "order": 6,
    "attack": 8, "round-up": 9, "round-down": 10, "noise": 11,
}  # fmt: skip


def key(purpose: Purpose, seed: int, server_round: int = 0, partition: int = 0) -> int:
    """A 63-bit seed that differs for every purpose, seed, round and partition."""
    sequence = np.random.SeedSequence([_PURPOSES[purpose], seed, server_round, partition])
    return int(sequence.generate_state(1, np.uint64)[0] >> np.uint64(1))


def numpy_generator(purpose: Purpose, seed: int, server_round: int = 0, partition: int = 0) -> np.random.Generator:
    """A private NumPy generator for one purpose."""
    return np.random.default_rng(key(purpose, seed, server_round, partition))


def torch_generator(purpose: Purpose, seed: int, server_round: int = 0, partition: int = 0) -> torch.Generator:
    """A private torch generator on the CPU for one purpose."""
    return torch.Generator().manual_seed(key(purpose, seed, server_round, partition))
