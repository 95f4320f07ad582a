"""A model may hand its layers their inputs by name: it is trained, pruned and counted like one that does not."""

import pytest
import torch
from torch import nn

from clients.layers import layer_groups, layout
from clients.numpy_client import FederatedClient
from clients.objectives import Moon, Plain
from clients.plan import RoundPlan, SparseTraining
from clients.training import LocalTraining
from clients.weights import weights_of
from tests.tiny import TinyTask

SPARSE = SparseTraining(0.5, weights="powerprop", beta=1.25, prune_activations=True)


class Net(nn.Module):
    """Over (n, 1, 8): a convolution, self-attention over 8 positions, and a linear layer."""

    def __init__(self, by_name):
        super().__init__()
        torch.manual_seed(0)
        self.by_name = by_name
        self.conv = nn.Conv1d(1, 4, 3, padding=1)
        self.attention = nn.MultiheadAttention(4, 2, batch_first=True)
        self.fc = nn.Linear(4, 2)

    def forward(self, x):
        x = (self.conv(input=x) if self.by_name else self.conv(x)).transpose(1, 2)  # (n, 8, 4)
        named = {"query": x, "key": x, "value": x}
        x = (self.attention(**named) if self.by_name else self.attention(x, x, x))[0].mean(dim=1)  # (n, 4)
        return self.fc(input=x) if self.by_name else self.fc(x)


@pytest.mark.parametrize("objective", [Plain(), Moon()], ids=["plain", "moon"])
@pytest.mark.parametrize("sparse", [None, SPARSE], ids=["dense", "sparse"])
@pytest.mark.parametrize("groups", [None, (1,)], ids=["full", "partial"])
def test_the_same_update_and_the_same_work(objective, sparse, groups):
    rounds = []
    for by_name in (False, True):
        task = TinyTask((1, 8), lambda by_name=by_name: Net(by_name))
        model = task.build_model()
        weights = weights_of(model)
        plan = RoundPlan(2, groups, 0.1, layout(weights, layer_groups(weights)), sparse=sparse)
        client = FederatedClient(model, task, task.client_examples(0), LocalTraining(2, 4), objective=objective)
        arrays, _, metrics = client.fit(list(weights.values()), plan.to_config())
        rounds.append(([array.tobytes() for array in arrays], metrics["loss"], metrics["macs"], metrics["macs-dense"]))
    assert rounds[0] == rounds[1]
