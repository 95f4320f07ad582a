"""Federations of one small array whose replies are written by hand."""

import numpy as np
from flwr.app import ArrayRecord

from strategies.cohort import Cohort
from strategies.fedavg import FedAvgStrategy
from strategies.roster import SimulatedRoster
from tests.tiny import answer, asked

W = {"w.weight": np.zeros((1, 2), np.float32), "n": np.array(0)}


def strategy_of(clients=3, weights=W, **cohort):
    return FedAvgStrategy(weights, SimulatedRoster(clients), Cohort(**cohort), 0.1)


def play(strategy, grid, rounds=1):
    strategy.start(grid, ArrayRecord(), num_rounds=rounds)
    return strategy


def w(*values, n=0):
    return {"w.weight": np.array([values], np.float32), "n": np.array(n)}


def from_clients(answers):
    """Replies by partition: a function of the message."""
    return lambda message: answers[asked(message).partition](message)


def good(weights, examples=1, **metrics):
    return lambda message: answer(message, weights, examples, **metrics)
