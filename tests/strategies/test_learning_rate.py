"""The clients' rate by round, and that the plan carries it."""

import numpy as np

from strategies.cohort import Cohort
from strategies.fedavg import FedAvgStrategy
from strategies.learning_rate import rate_of_round
from strategies.roster import SimulatedRoster


def rates(first, final, rounds):
    return [rate_of_round(number, first, final, rounds) for number in range(1, rounds + 1)]


def test_by_hand():
    # from 0.8 to 0.1 in three steps: each halves
    assert np.allclose(rates(0.8, 0.1, 4), [0.8, 0.4, 0.2, 0.1], rtol=1e-15)


def test_both_ends_are_exact_and_every_step_has_the_same_ratio():
    seen = rates(0.5, 0.01, 700)
    assert (seen[0], seen[-1]) == (0.5, 0.01)
    assert np.allclose(np.diff(np.log(seen)), np.log(0.01 / 0.5) / 699)


def test_without_a_final_rate_it_stays():
    assert set(rates(0.3, None, 9)) == {0.3}


def test_one_round_has_the_first_rate_and_rounds_beyond_the_last_have_the_final_one():
    assert rates(0.5, 0.1, 1) == [0.5]
    assert rate_of_round(12, 0.5, 0.1, 10) == 0.1


def test_the_plan_carries_it():
    model = {"w.weight": np.zeros((1, 2), np.float32)}
    strategy = FedAvgStrategy(model, SimulatedRoster(1), Cohort(), 0.4, final_learning_rate=0.1, rounds=3)
    assert [strategy.plan(number).learning_rate for number in (1, 3)] == [0.4, 0.1]
    assert np.isclose(strategy.plan(2).learning_rate, 0.2)
