"""FedProx and MOON against plain training and against numbers by hand."""

import math
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from clients.layers import layer_groups
from clients.numpy_client import FederatedClient
from clients.objectives import FedProx, Moon, Plain
from clients.plan import RoundPlan
from clients.training import LocalTraining
from clients.weights import is_statistic, weights_of
from tests.tiny import ConvNet, TinyTask, bits, changed, cross_entropy, layout_of


def fit(objective, groups, rounds=1, **training):
    """The arrays that a client sends after `rounds` rounds from the same received weights; and the client."""
    model, task = ConvNet(), TinyTask()
    client = FederatedClient(
        model, task, task.client_examples(0), LocalTraining(lr=0.1, **training), objective=objective
    )
    received = weights_of(model)
    for server_round in range(1, rounds + 1):
        plan = RoundPlan(server_round, groups, 0.1, layout_of(received))
        arrays, _, metrics = client.fit(list(received.values()), plan.to_config())
    return dict(zip(metrics["names"], arrays, strict=True)), metrics, client


@pytest.mark.parametrize("groups", [None, (0,), (1, 2)])
@pytest.mark.parametrize("objective", [FedProx(mu=0.0), Moon(mu=0.0)])
def test_with_mu_0_it_is_plain_bit_for_bit(objective, groups):
    assert bits(fit(objective, groups)[0]) == bits(fit(Plain(), groups)[0])


@pytest.mark.parametrize("groups", [None, (0,), (1, 2)])
@pytest.mark.parametrize("objective", [FedProx(mu=1.0), Moon(mu=1.0)])
def test_with_mu_it_trains_the_same_slice_otherwise(objective, groups):
    # Two rounds: in the first MOON has no previous model, and what holds the client pushes it away as well.
    ours, plain = fit(objective, groups, rounds=2)[0], fit(Plain(), groups, rounds=2)[0]
    assert ours.keys() == plain.keys()
    assert changed(bits(plain), bits(ours))


def test_the_proximal_term_by_hand():
    """Weights moved from 0 to (3, 4): mu/2 * 25 = 12.5 mu, and its gradient is mu * (3, 4)."""
    model = nn.Linear(2, 1, bias=False)
    nn.init.zeros_(model.weight)
    batch = torch.zeros(1, 2), torch.zeros(1, 2), torch.zeros(1, dtype=torch.long)
    with FedProx(mu=0.5).loss(model, [model.weight], []) as loss_of:
        with torch.no_grad():
            model.weight.copy_(torch.tensor([[3.0, 4.0]]))
        loss = loss_of(*batch)
    loss.backward()
    assert loss.item() == pytest.approx(cross_entropy(*batch).item() + 6.25)
    assert model.weight.grad.tolist() == [[1.5, 2.0]]


def test_what_is_frozen_has_no_part_in_the_proximal_term():
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    batch = torch.zeros(1, 2), torch.zeros(1, 2), torch.zeros(1, dtype=torch.long)
    with FedProx(mu=1.0).loss(model, [model[1].weight], []) as loss_of:
        with torch.no_grad():
            model[0].weight += 1
        assert loss_of(*batch).item() == cross_entropy(*batch).item()


def test_the_contrastive_term_by_hand():
    """The representation is the input of the last linear layer: here the first layer's output.

    Own and global model are the same, so their cosine is 1; the previous one maps to the opposite, cosine -1.
    With temperature 0.5: -log(e^2 / (e^2 + e^-2)) = log(1 + e^-4).
    """
    model = nn.Sequential(nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False))
    previous = weights_of(model)
    previous["0.weight"] = -previous["0.weight"]
    inputs = torch.tensor([[1.0, 2.0], [-3.0, 1.0]])
    targets = torch.tensor([0, 1])
    with Moon(mu=2.0, temperature=0.5).loss(model, list(model.parameters()), [previous]) as loss_of:
        outputs = model(inputs)
        loss = loss_of(inputs, outputs, targets)
    expected = cross_entropy(inputs, outputs, targets).item() + 2 * math.log(1 + math.exp(-4))
    assert loss.item() == pytest.approx(expected, rel=1e-5)


def test_without_a_memory_the_received_model_stands_in():
    """Then near and far are the same: -log(1/2) for each example, as with a model of its own that never moved."""
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    inputs, targets = torch.randn(3, 2), torch.tensor([0, 1, 0])
    with Moon(mu=1.0).loss(model, list(model.parameters()), []) as loss_of:
        outputs = model(inputs)
        loss = loss_of(inputs, outputs, targets).item()
    assert loss == pytest.approx(cross_entropy(inputs, outputs, targets).item() + math.log(2), rel=1e-5)


def test_hooks_are_gone_and_the_model_is_untouched():
    model = ConvNet()
    before = bits(model)
    with Moon().loss(model, list(model.parameters()), []):
        pass
    assert not any(module._forward_pre_hooks for module in model.modules())
    assert bits(model) == before


def test_previous_local_models_are_kept_up_to_the_queue_newest_first():
    update, _, client = fit(Moon(queue=2), groups=None, rounds=3)
    kept = client.local_models.recall()
    assert len(kept) == 2
    assert bits(kept[0]) == bits(update)  # a full round sends the whole local model


def test_other_models_cost_their_forward_passes():
    """Forward of ConvNet on 1x4x4: conv1 2*16*9=288, conv2 3*16*18=864, fc 6: 1,158 an example.

    10 examples, 2 epochs. Round 1 has only the received model to ask, round 2 one previous model as well.
    """
    plain = fit(Plain(), None)[1]["macs"]
    assert fit(Moon(), None)[1]["macs"] - plain == 1158 * 10 * 2
    assert fit(Moon(), None, rounds=2)[1]["macs"] - plain == 1158 * 10 * 2 * 2
    assert fit(FedProx(mu=1.0), None)[1]["macs"] == plain


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: FedProx(mu=-1), "mu=-1"),
        (lambda: Moon(mu=float("nan")), "mu=nan"),
        (lambda: Moon(temperature=0), "temperature=0"),
        (lambda: Moon(queue=0), "queue=0"),
    ],
)
def test_impossible_values_are_errors(build, words):
    with pytest.raises(ValueError, match=words):
        build()


def test_a_model_without_linear_layers_has_no_representation():
    model = nn.Sequential(nn.Conv2d(1, 2, 3))
    with pytest.raises(ValueError, match="no linear layer"), Moon().loss(model, list(model.parameters()), []):
        pass


def test_groups_of_the_tiny_net_are_three():
    assert len(layer_groups(ConvNet())) == 3  # what the numbers above rely on


def test_under_local_statistics_other_models_normalise_by_this_clients_data():
    """In a full round too: with reset statistics (mean 0, variance 1) the received model would not be itself."""
    model, task = ConvNet(), TinyTask()
    client = FederatedClient(
        model, task, task.client_examples(2), LocalTraining(epochs=1), batch_norm="local", objective=Moon()
    )
    weights = {name: array for name, array in weights_of(model).items() if not is_statistic(name)}
    seen = {}

    def watched(model, learning, previous, loss=Moon.loss):
        seen.update({name: array.clone() for name, array in model.state_dict().items()})
        return loss(client.objective, model, learning, previous)

    client.objective = SimpleNamespace(
        queue=1, needs_inputs=True, models=Moon().models, loss=watched, mu=1.0, temperature=0.5
    )
    plan = RoundPlan(1, None, 0.1, layout_of(weights))
    client.fit(list(weights.values()), {**plan.to_config(), "names": list(weights)})
    assert seen["bn1.running_mean"].abs().sum() > 0
