"""Sizes of local steps."""

import torch
from torch import nn

from clients.diagnostics import StepSizes
from clients.layers import layer_groups
from clients.numpy_client import FederatedClient
from clients.plan import RoundPlan
from clients.training import LocalTraining
from clients.weights import weights_of
from tests.tiny import ConvNet, TinyTask, bits, layout_of


def test_norms_of_the_change_since_the_last_step_by_hand():
    """One group moves by (3, 4), then by nothing: 5 and 0. The other by 2 in two parameters: sqrt(8)."""
    a, b, c = (nn.Parameter(torch.zeros(size)) for size in (2, 1, 1))
    steps = StepSizes([[a], [b, c]])
    with torch.no_grad():
        a += torch.tensor([3.0, 4.0])
    steps()
    with torch.no_grad():
        b += 2
        c -= 2
    steps()
    assert steps.sizes == [[5.0, 0.0], [0.0, torch.tensor(8.0).sqrt().item()]]


def fit(groups, diagnostics):
    model, task = ConvNet(), TinyTask()
    client = FederatedClient(model, task, task.client_examples(0), LocalTraining(epochs=2, batch_size=4))
    weights = weights_of(model)
    plan = RoundPlan(1, groups, 0.1, layout_of(weights), diagnostics)
    arrays, _, metrics = client.fit(list(weights.values()), plan.to_config())
    return dict(zip(metrics["names"], arrays, strict=True)), metrics


def test_a_client_sends_a_size_for_each_iteration_and_group_only_when_asked():
    """10 examples in batches of 4 are 3 iterations, 2 epochs 6; the net has 3 groups."""
    assert len(fit(None, True)[1]["steps"]) == 18
    assert len(fit((1,), True)[1]["steps"]) == 6
    assert "steps" not in fit(None, False)[1]


def test_recording_changes_nothing():
    assert bits(fit(None, True)[0]) == bits(fit(None, False)[0])


def test_the_first_step_of_adam_is_the_rate_in_every_weight():
    """Adam's first step is rate * g / (|g| + 1e-8): about the rate in each weight, so rate * sqrt(n) for a group."""
    sizes = fit((2,), True)[1]["steps"]
    count = sum(weights_of(ConvNet())[name].size for name in layer_groups(ConvNet())[2])
    assert abs(sizes[0] - 0.1 * count**0.5) < 1e-3
