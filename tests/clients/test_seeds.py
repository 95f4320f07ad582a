"""Keys for randomness: differ wherever anything differs, and are the same everywhere else."""

from itertools import product
from typing import get_args

import pytest
import torch

from clients import seeds


def test_keys_differ_by_purpose_seed_round_and_partition_and_fit_in_63_bits():
    asked = list(product(get_args(seeds.Purpose), (0, 1), (0, 1, 2), (0, 1, 2)))
    keys = [seeds.key(*what) for what in asked]
    assert len(set(keys)) == len(asked)
    assert all(0 <= key < 2**63 for key in keys)


def test_a_key_does_not_depend_on_what_was_drawn_before():
    first = seeds.key("shuffle", 1, 2, 3)
    seeds.numpy_generator("shuffle", 1, 2, 3).random(100)
    assert seeds.key("shuffle", 1, 2, 3) == first


def test_generators_are_private_and_repeatable():
    before = torch.get_rng_state()
    drawn = [torch.rand(3, generator=seeds.torch_generator("augment", 5, 1, 2)) for _ in range(2)]
    numbers = [seeds.numpy_generator("cohort", 5, 1).random(3).tolist() for _ in range(2)]
    assert torch.equal(drawn[0], drawn[1])
    assert numbers[0] == numbers[1]
    assert torch.equal(torch.get_rng_state(), before)


def test_a_purpose_that_does_not_exist_is_an_error():
    with pytest.raises(KeyError, match="shufle"):
        seeds.key("shufle", 0)
