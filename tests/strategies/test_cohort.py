"""Who takes part: by partition, seed and round, and by nothing else."""

import random

import numpy as np
import pytest
import torch

from strategies.cohort import Cohort

HUNDRED = list(range(100))


def test_everyone_by_default_in_order():
    assert Cohort().sample(1, [3, 1, 2]) == [1, 2, 3]


@pytest.mark.parametrize(
    ("fraction", "min_clients", "there", "count"),
    [(0.2, 1, 100, 20), (0.25, 1, 10, 2), (0.001, 1, 100, 1), (0.1, 7, 20, 7), (0.5, 9, 5, 5)],
)
def test_how_many(fraction, min_clients, there, count):
    sampled = Cohort(fraction, min_clients).sample(3, list(range(there)))
    assert len(set(sampled)) == count
    assert sampled == sorted(sampled)
    assert set(sampled) <= set(range(there))


def test_the_same_by_seed_and_round_whatever_the_order_and_the_global_generators():
    first = [Cohort(0.2, seed=4).sample(number, HUNDRED) for number in range(1, 6)]
    for generator in (random.seed, np.random.seed, torch.manual_seed):
        generator(99)
    assert [Cohort(0.2, seed=4).sample(number, HUNDRED[::-1]) for number in range(1, 6)] == first
    assert len({tuple(sampled) for sampled in first}) == 5
    assert Cohort(0.2, seed=5).sample(1, HUNDRED) != first[0]


def test_the_global_generators_are_left_alone():
    before = random.getstate(), np.random.get_state()[1].tolist()
    Cohort(0.2).sample(1, HUNDRED)
    assert (random.getstate(), np.random.get_state()[1].tolist()) == before


def test_partitions_that_are_gone_are_not_sampled():
    there = [2, 30, 77]
    assert set(Cohort(0.5).sample(1, there)) <= set(there)


def test_over_many_rounds_everyone_comes():
    cohort = Cohort(0.2)
    times = np.bincount([p for number in range(1, 201) for p in cohort.sample(number, HUNDRED)], minlength=100)
    # 200 rounds at 20 %: 40 each, standard deviation sqrt(200 * 0.2 * 0.8) = 5.7; fixed seed, six of them
    assert times.sum() == 4000
    assert times.min() > 40 - 34
    assert times.max() < 40 + 34


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"fraction": 0.0}, "fraction=0.0: must be above 0 and at most 1"),
        ({"fraction": 20}, "fraction=20: must be above 0 and at most 1"),
        ({"fraction": float("nan")}, "fraction=nan"),
        ({"min_clients": 0}, "min_clients=0: must be at least 1"),
        ({"max_failed_rounds": 0}, "max_failed_rounds=0: must be at least 1"),
        ({"start_timeout": 0.0}, "start_timeout=0.0: must be above 0 seconds"),
        ({"round_timeout": float("inf")}, "round_timeout=inf: must be above 0 seconds"),
    ],
)
def test_a_bad_value_is_an_error_that_gives_it(values, message):
    with pytest.raises(ValueError, match=message):
        Cohort(**values)
