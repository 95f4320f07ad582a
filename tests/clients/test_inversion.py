"""The attack finds an input whose gradient it is given."""

import pytest
import torch
from torch import nn

from clients.inversion import Attack, gradient, invert
from tests.tiny import linear_net

BOUNDS = (torch.tensor(-2.0), torch.tensor(2.0))


def attacked(model, true, names, kept=None, iterations=150):
    target = torch.tensor([1])
    update = gradient(model, true, target, names)
    kept = torch.ones_like(update, dtype=torch.bool) if kept is None else kept
    start = torch.zeros_like(true)
    return invert(model, update, kept, target, names, start, BOUNDS, Attack(iterations, total_variation=0.0))


def test_the_gradient_is_flat_and_in_order():
    model = linear_net()
    true = torch.tensor([[1.0, 2.0, -1.0, 0.5]])
    flat = gradient(model, true, torch.tensor([0]), ["1.bias", "0.weight"])
    nn.functional.cross_entropy(model(true), torch.tensor([0])).backward()
    assert torch.equal(flat, torch.cat([model[1].bias.grad, model[0].weight.grad.flatten()]))


def test_an_input_is_recovered_from_a_linear_layers_gradient():
    """The weight's gradient is the bias's times the input, so that it gives the input away whole."""
    model = linear_net()
    true = torch.tensor([[[[1.0, 1.5], [-1.0, 0.5]]]])  # (1, 1, 2, 2)
    found = attacked(nn.Sequential(nn.Flatten(), model[0], model[1]), true, ["1.weight", "1.bias"])
    assert (found - true).abs().max() < 0.02


def test_the_last_layer_alone_gives_less_away():
    """Its gradient depends on four inputs through three features and two of them at most."""
    model = linear_net()
    true = torch.tensor([[[[1.0, 1.5], [-1.0, 0.5]]]])
    found = attacked(nn.Sequential(nn.Flatten(), model[0], model[1]), true, ["2.weight", "2.bias"])
    assert (found - true).abs().max() > 0.2


def test_what_is_not_sent_is_not_seen():
    """With only the biases' gradient every input of the same logits is as good, so that the start is not left."""
    model = nn.Sequential(nn.Flatten(), nn.Linear(4, 2))
    true = torch.ones(1, 1, 2, 2)
    kept = torch.tensor([False] * 8 + [True] * 2)
    found = attacked(model, true, ["1.weight", "1.bias"], kept, iterations=20)
    assert (found - true).abs().max() > 0.5
    assert found.abs().max() <= 2


def test_no_iterations_are_refused():
    with pytest.raises(ValueError, match=r"^iterations=0: must be at least 1$"):
        Attack(0)
