"""A weight that two layers share is one array: trained, sent and loaded once."""

import pytest
import torch
from torch import nn

from app.config import ConfigError
from clients.layers import layer_groups, layout
from clients.numpy_client import FederatedClient
from clients.plan import RoundPlan
from clients.training import LocalTraining
from clients.weights import arrays_of, load_weights, weights_of
from tests.runs import QUICK, play
from tests.tiny import TinyTask, bits


class Tied(nn.Module):
    """The second layer has the first one's weight."""

    def __init__(self, width=4, num_classes=2):
        super().__init__()
        self.first, self.second, self.last = (
            nn.Linear(width, width),
            nn.Linear(width, width),
            nn.Linear(width, num_classes),
        )
        self.second.weight = self.first.weight

    def forward(self, x):
        return self.last(self.second(self.first(x.flatten(1)).relu()).relu())


class TiedDigits(Tied):
    def __init__(self, num_classes):
        super().__init__(64, num_classes)


def test_it_has_one_name():
    model = Tied()
    names = ["first.weight", "first.bias", "second.bias", "last.weight", "last.bias"]
    assert list(arrays_of(model)) == list(weights_of(model)) == names
    assert layer_groups(model) == (tuple(names[:3]), tuple(names[3:]))


def test_what_a_partial_round_trained_is_what_the_receiver_loads():
    torch.manual_seed(0)
    model = Tied()
    before, task = weights_of(model), TinyTask(shape=(4,), model=Tied)
    client = FederatedClient(model, task, task.client_examples(0), LocalTraining(epochs=1, lr=0.1))
    plan = RoundPlan(1, (0,), 0.1, layout(model, layer_groups(model)))
    arrays, _, metrics = client.fit(list(before.values()), {**plan.to_config(), "names": list(before)})
    update = dict(zip(metrics["names"], arrays, strict=True))
    assert (update["first.weight"] != before["first.weight"]).any()
    receiver = Tied()
    load_weights(receiver, {**before, **update})
    assert bits(weights_of(receiver)) == bits({**before, **update})
    assert torch.equal(receiver.second.weight, receiver.first.weight)


MODEL = ("task.model=tests.clients.test_tied:TiedDigits", "rounds=3")


def test_a_run_with_it(tmp_path):
    """One full round, then the two groups; the first one's round moves the shared weight."""
    run = play(tmp_path, *QUICK, "strategy=fedpart", "strategy.warmup=1", "strategy.rounds_per_layer=1", *MODEL)
    assert "second.weight" not in run.weights
    assert [row["completed"] for row in run.rows[1:]] == [3, 3, 3]
    assert len({row["loss"] for row in run.rows}) == 4


def test_sparse_strategies_refuse_it(tmp_path):
    with pytest.raises(ConfigError, match=r"task.model=.*: second.weight is another layer's weight too; sparse"):
        play(tmp_path, *QUICK, "strategy=sparsyfed", *MODEL)
