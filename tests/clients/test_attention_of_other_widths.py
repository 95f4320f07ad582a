"""Attention whose keys and values have widths of their own, and so three weights where other attention has one."""

import pytest
import torch
from torch import nn

from clients.layers import layer_groups, layout
from clients.macs import inference_macs, training_macs
from clients.numpy_client import FederatedClient
from clients.partial import training_only
from clients.plan import RoundPlan, SparseTraining
from clients.sparse import powerprop
from clients.sparse_layers import prunable, sparse_layers
from clients.training import LocalTraining
from clients.weights import weights_of
from tests.tiny import TinyTask

THREE = ("q_proj_weight", "k_proj_weight", "v_proj_weight")
INPUTS = torch.zeros(1, 3, 4), torch.zeros(1, 2, 6), torch.zeros(1, 2, 5)
"""3 queries of width 4; 2 keys of width 6, and as many values of width 5."""


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(4, 2, kdim=6, vdim=5, batch_first=True)

    def forward(self, query, key, value):
        return self.attention(query, key, value)[0]


class Net(nn.Module):
    """Over (n, 5, 6): the first four features of each position ask all features, and the first five."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.first = nn.Linear(6, 6)
        self.attention = nn.MultiheadAttention(4, 2, kdim=6, vdim=5, batch_first=True)
        self.fc = nn.Linear(4, 2)

    def forward(self, x):
        x = self.first(x)
        return self.fc(self.attention(x[..., :4], key=x, value=x[..., :5])[0].mean(dim=1))


# Projections 3*4*4 = 48, 2*6*4 = 48 and 2*5*4 = 40; scores and mix 3*2*4 = 24 each; output 3*4*4 = 48.
def test_inference_by_hand():
    assert inference_macs(Attention(), *INPUTS) == 48 + 48 + 40 + 24 + 24 + 48


@pytest.mark.parametrize(
    ("learn", "backward"),
    [
        # The products' gradients go to queries, keys, the scores' softmax and values; the output's to both of its own.
        ((*THREE, "out_proj.weight"), 48 + 48 + 40 + 4 * 24 + 2 * 48),
        (("q_proj_weight",), 48 + 24 + 24 + 48),  # to the softmax, to queries
        (("k_proj_weight",), 48 + 24 + 24 + 48),
        (("v_proj_weight",), 40 + 24 + 48),  # to values alone
        (("out_proj.weight",), 48),
    ],
)
def test_training_by_hand(learn, backward):
    model = Attention()
    with training_only(model, [f"attention.{name}" for name in learn]):
        assert training_macs(model, *INPUTS) == 232 + backward


@pytest.mark.parametrize("which", range(3))
def test_the_gradient_passes_to_what_is_below(which):
    """Where only a query, a key or a value came of something that learns."""
    model, inputs = Attention(), [given.clone() for given in INPUTS]
    inputs[which].requires_grad_()
    with training_only(model, []):
        projection, products = [(48, 48), (48, 48), (40, 24)][which]
        assert training_macs(model, *inputs) == 232 + projection + products + 48


def test_it_is_one_layer_group():
    groups = layer_groups(Net())
    own = (*THREE, "in_proj_bias", "out_proj.weight", "out_proj.bias")
    assert groups[1] == tuple(f"attention.{name}" for name in own)
    assert len(groups) == 3


@pytest.mark.parametrize("groups", [None, (1,), (2,)], ids=["full", "its own slice", "a slice above"])
@pytest.mark.parametrize("sparse", [None, SparseTraining(0.5, weights="powerprop", beta=1.25)], ids=["dense", "sparse"])
def test_a_slice_trains_what_it_names_alone(groups, sparse):
    task = TinyTask((5, 6), Net)
    model = task.build_model()
    before, own = weights_of(model), layer_groups(model)
    plan = RoundPlan(2, groups, 0.1, layout(before, own), sparse=sparse)
    client = FederatedClient(model, task, task.client_examples(0), LocalTraining(2, 4))
    _, _, metrics = client.fit(list(before.values()), plan.to_config())
    moved = {name for name, array in weights_of(model).items() if (array != before[name]).any()}
    assert moved == {name for index in groups or range(3) for name in own[index]}
    assert 0 < metrics["macs"] <= metrics["macs-dense"]


def test_each_of_its_weights_is_sparse():
    model = Attention()
    weights = [f"attention.{name}" for name in (*THREE, "out_proj.weight")]
    assert prunable(model) == tuple(weights)
    inputs, twin = [torch.randn_like(given) for given in INPUTS], Attention()
    with torch.no_grad():
        twin.load_state_dict(model.state_dict())
        for name in weights:
            twin.get_parameter(name).copy_(powerprop(model.get_parameter(name), beta=1.25))
    with sparse_layers(model, SparseTraining(weights="powerprop", beta=1.25)):
        assert torch.equal(model(*inputs), twin(*inputs))
