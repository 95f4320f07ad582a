"""Answers of a strategy that are none: one line that names the question, and the answer by what is wrong with it."""

import numpy as np
import pytest

from strategies.fedavg import FedAvgStrategy
from tests.strategies.by_hand import from_clients, good, play, strategy_of, w
from tests.tiny import ScriptedGrid

REPLIES = {0: good(w(1, 10, n=4), 1), 1: good(w(5, 20, n=4), 3)}
MODEL = w(0, 0)


def changed(**arrays):
    return {**MODEL, **arrays}


PLANS = {
    "nothing": (None, "None"),
    "groups alone": ((0, 1), "(0, 1)"),
    "a long one": ("x" * 99, "'" + "x" * 56 + "..."),
}


@pytest.mark.parametrize(("given", "shown"), PLANS.values(), ids=PLANS)
@pytest.mark.parametrize(("question", "asked"), [("plan", "plan(1)"), ("plan_for", "plan_for(plan, 0)")])
def test_what_is_no_plan(question, asked, given, shown, monkeypatch):
    monkeypatch.setattr(FedAvgStrategy, question, lambda self, *args: given)
    with pytest.raises(ValueError) as caught:
        play(strategy_of(clients=2), ScriptedGrid(from_clients(REPLIES)))
    assert str(caught.value) == f"FedAvgStrategy.{asked} gave {shown}; must be a RoundPlan"


MODELS = {
    "nothing": (None, "gave None; must be arrays by the names of the model's"),
    "arrays without names": ([1], "gave [1]; must be arrays by the names of the model's"),
    "one too few": ({"n": MODEL["n"]}, "gave no w.weight; must be the model's names"),
    "one too many": (changed(v=MODEL["n"]), "gave a v; must be the model's names"),
    "a number": (changed(n=4), "gave n as int; must be array () of int64"),
    "a wider type": (
        changed(**{"w.weight": np.zeros((1, 2))}),
        "gave w.weight as array (1, 2) of float64; must be array (1, 2) of float32",
    ),
    "another shape": (
        changed(**{"w.weight": np.zeros(2, np.float32)}),
        "gave w.weight as array (2,) of float32; must be array (1, 2) of float32",
    ),
}


@pytest.mark.parametrize(("given", "says"), MODELS.values(), ids=MODELS)
@pytest.mark.parametrize("question", ["merge", "settle"])
def test_what_is_no_model(question, given, says, monkeypatch):
    monkeypatch.setattr(FedAvgStrategy, question, lambda self, *args: given)
    with pytest.raises(ValueError) as caught:
        play(strategy_of(clients=2), ScriptedGrid(from_clients(REPLIES)))
    assert str(caught.value) == f"FedAvgStrategy.{question} {says}"
