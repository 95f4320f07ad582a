"""Evaluation by hand, twice the same, and without a trace."""

import math

import pytest
import torch
from torch import nn

from clients.evaluation import evaluate
from clients.tasks.task import Examples
from tests.tiny import ConvNet, TinyTask, bits

TASK = TinyTask()


@pytest.mark.parametrize("batch_size", [1, 2, 500])
def test_loss_and_accuracy_by_hand(batch_size):
    model = nn.Linear(2, 2, bias=False)
    model.weight.data = torch.eye(2)
    inputs = torch.tensor([[math.log(3), 0.0], [math.log(3), 0.0], [0.0, math.log(9)]])
    loss, accuracy = evaluate(model, TASK, Examples(inputs, torch.tensor([0, 1, 1])), batch_size)
    # Probabilities of the right class: 3/4, 1/4 and 9/10
    assert loss == pytest.approx(-(math.log(3 / 4) + math.log(1 / 4) + math.log(9 / 10)) / 3, rel=1e-6)
    assert accuracy == pytest.approx(2 / 3)


def test_local_statistics_by_hand():
    model = nn.Sequential(nn.BatchNorm1d(1), nn.Linear(1, 2, bias=False))
    model[0].running_mean.fill_(1000)
    model[1].weight.data = torch.tensor([[1.0], [-1.0]])
    examples = Examples(torch.tensor([[-1.0], [1.0]]), torch.tensor([1, 0]))
    # Measured on the inputs: mean 0, variance 2 (unbiased), so the signs decide and both are right.
    assert evaluate(model, TASK, examples, batch_norm="local")[1] == 1.0
    # With the running mean both become negative, and one is right.
    assert evaluate(model, TASK, examples, batch_norm="global")[1] == 0.5


@pytest.mark.parametrize("batch_norm", ["global", "local"])
@pytest.mark.parametrize("training", [True, False])
def test_twice_the_same_and_the_model_is_left_as_it_was(batch_norm, training):
    model = ConvNet(dropout=0.5).train(training)
    model.bn1.train(not training)
    modes = [module.training for module in model.modules()]
    before, generator = bits(model), torch.get_rng_state()
    results = [evaluate(model, TASK, TASK.client_examples(1), 4, batch_norm) for _ in range(2)]
    assert results[0] == results[1]
    assert bits(model) == before
    assert [module.training for module in model.modules()] == modes
    assert torch.equal(torch.get_rng_state(), generator)
    assert model.bn1.momentum == 0.1


def test_an_error_leaves_the_model_as_it_was():
    model = ConvNet()
    before = bits(model)
    wrong = Examples(torch.zeros(4, 2, 4, 4), torch.zeros(4, dtype=torch.int64))
    with pytest.raises(RuntimeError, match="channels"):
        evaluate(model, TASK, wrong, batch_norm="local")
    assert bits(model) == before
    assert all(module.training for module in model.modules())


def test_local_statistics_do_not_see_the_labels_or_what_the_model_had():
    examples = TASK.client_examples(0)
    other = ConvNet()
    other.bn1.running_mean.fill_(7)
    flipped = Examples(examples.inputs, 1 - examples.targets)
    accuracy = evaluate(ConvNet(), TASK, examples, batch_norm="local")[1]
    assert evaluate(other, TASK, examples, batch_norm="local")[1] == accuracy
    assert evaluate(ConvNet(), TASK, flipped, batch_norm="local")[1] == pytest.approx(1 - accuracy)
