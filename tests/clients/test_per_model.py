"""What is kept about a model is found again, and goes with it."""

import gc
from weakref import ref

import pytest
import torch
from torch import nn

from clients.layers import layer_groups, layout
from clients.macs import layers_per_example
from clients.numpy_client import FederatedClient
from clients.partial import training_only
from clients.per_model import MOST, per_model
from clients.plan import RoundPlan
from clients.prefix import split
from clients.tasks.resnet import resnet
from clients.training import LocalTraining
from clients.weights import weights_of
from tests.tiny import ConvNet, TinyTask


class Bare(nn.Module):
    """Its parameter is the model's own, as is what it computes with it."""

    def __init__(self):
        super().__init__()
        self.shift = nn.Parameter(torch.zeros(4))
        self.first, self.fc = nn.Linear(4, 4), nn.Linear(4, 2)

    def forward(self, x):
        return self.fc(self.first(x.mean(dim=(1, 2)) + self.shift))


@pytest.mark.parametrize("build", [ConvNet, Bare, lambda: resnet(8, 10, 1)], ids=["conv", "bare", "resnet"])
def test_models_of_earlier_runs_are_let_go(build):
    """Twelve runs one after the other, as in a sweep: all that a round keeps is asked for."""
    models = []
    for _ in range(12):
        task = TinyTask((1, 4, 4), build)
        model = task.build_model()
        weights = weights_of(model)
        trained = layer_groups(weights)[-1]
        plan = RoundPlan(2, (len(layer_groups(weights)) - 1,), 0.1, layout(weights, layer_groups(weights)))
        client = FederatedClient(model, task, task.client_examples(0), LocalTraining(2, 4))
        client.fit(list(weights.values()), plan.to_config())
        with training_only(model, trained):
            assert split(model, trained, "eval") is not None
        assert layers_per_example(model, (1, 1, 4, 4), torch.float32, trained, "eval", True)[0]
        models.append(ref(model))
        del client, model, task
    gc.collect()
    assert [model for model in models if model() is not None] == []


def test_each_is_worked_out_once_and_the_oldest_is_dropped_first():
    asked = []

    @per_model
    def work(model, number):
        asked.append((model, number))
        return number

    one, other = nn.Linear(1, 1), nn.Linear(1, 1)
    assert [work(model, number) for model in (one, other) for number in (1, 2, 1)] == [1, 2, 1] * 2
    assert asked == [(one, 1), (one, 2), (other, 1), (other, 2)]
    for number in range(3, MOST + 2):
        work(one, number)
    asked.clear()
    assert (work(one, 2), work(one, 1)) == (2, 1)
    assert asked == [(one, 1)]
