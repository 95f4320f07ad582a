"""Clients whose plans name layer groups of their own: each array's mean is over those who trained it."""

from dataclasses import replace

import numpy as np
import pytest

from clients.plan import SparseTraining
from strategies.cohort import Cohort
from strategies.fedavg import FedAvgStrategy
from strategies.roster import SimulatedRoster
from tests.strategies.by_hand import from_clients, good, play
from tests.tiny import ScriptedGrid

MODEL = {f"{name}.weight": np.zeros((1, 2), np.float32) for name in "ab"}


class InTurn(FedAvgStrategy):
    """Even clients train the first group, odd ones the second."""

    sparse = None

    def plan(self, server_round):
        return replace(super().plan(server_round), sparse=self.sparse)

    def plan_for(self, plan, partition):
        return replace(plan, groups=(partition % 2,))


def row(name, *values):
    return {f"{name}.weight": np.array([values], np.float32)}


@pytest.mark.parametrize("sparse", [None, SparseTraining(0.5)])
def test_each_array_is_averaged_over_those_who_trained_it(sparse):
    strategy = InTurn(MODEL, SimulatedRoster(4), Cohort(), 0.1, prunable=tuple(MODEL))
    strategy.sparse = sparse
    replies = {0: good(row("a", 1, 0), 1), 1: good(row("b", 8, 0), 1), 2: good(row("a", 5, 0), 3), 3: good(row("a", 9))}
    play(strategy, ScriptedGrid(from_clients(replies)))
    assert strategy.report.completed == [0, 1, 2]
    assert list(strategy.report.rejected) == [3]  # it trained another group than it was asked for
    assert strategy.weights["a.weight"].tolist() == [[4, 0]]  # (1 * 1 + 3 * 5) / 4
    assert strategy.weights["b.weight"].tolist() == [[8, 0]]
    assert strategy.report.mask_iou == (1 if sparse else None)
