"""Initial weights that depend on a seed alone."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """What torch draws on the CPU inside depends on the seed alone; its global generator is left as it was."""
    with torch.random.fork_rng(devices=[]):
        # Not torch.manual_seed, which would reach the generators of accelerators as well.
        torch.default_generator.manual_seed(seed)
        yield
