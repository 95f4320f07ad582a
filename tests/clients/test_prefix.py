"""The split below a slice: the same outputs, the same training, and never where outputs may differ by epoch."""

import pytest
import torch
from torch import nn

from clients.layers import layer_groups
from clients.partial import training_only
from clients.prefix import activations, split
from clients.tasks.resnet import resnet
from tests.tiny import ConvNet


def split_for(model, indexes, frozen_norm="eval"):
    trained = tuple(name for index in indexes for name in layer_groups(model)[index])
    with training_only(model, trained, frozen_norm):
        return split(model, trained, frozen_norm)


@pytest.mark.parametrize("index", range(1, 10))
def test_prefix_then_suffix_is_the_model(index):
    torch.manual_seed(0)
    model = resnet(8, 10)
    trained = layer_groups(model)[index]
    inputs = torch.randn(4, 3, 32, 32)
    with training_only(model, trained):
        parts = split(model, trained, "eval")
        model.eval()  # so that both see the same normalisation
        assert torch.equal(parts.suffix(*parts.prefix(inputs)), model(inputs))


def test_nothing_lies_below_the_first_group():
    assert split_for(resnet(8, 10), [0]) is None
    assert split_for(resnet(8, 10), range(10)) is None


def test_below_the_last_group_lies_everything_else():
    model = ConvNet()
    parts = split_for(model, [2])
    assert [node.target for node in parts.suffix.graph.nodes if node.op == "call_module"] == ["dropout", "fc"]


def test_a_shortcut_keeps_what_both_branches_need():
    """Training a stage's second convolution needs its own input and the sum's other summand."""
    parts = split_for(resnet(8, 10), [4])
    given = [node for node in parts.suffix.graph.nodes if node.op == "placeholder"]
    assert len(given) == 2


def test_norms_that_look_at_the_batch_end_the_prefix():
    """With batch statistics the first norm differs by batch: only the convolution below it stays the same."""
    parts = split_for(ConvNet(), [2], frozen_norm="batch")
    assert [node.target for node in parts.prefix.graph.nodes if node.op == "call_module"] == ["conv1"]


def test_dropout_ends_the_prefix():
    class Dropping(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.drop, self.second, self.fc = (
                nn.Linear(3, 3),
                nn.Dropout(0.5),
                nn.Linear(3, 3),
                nn.Linear(3, 2),
            )

        def forward(self, x):
            return self.fc(self.second(self.drop(self.first(x))))

    parts = split_for(Dropping(), [2])
    assert [node.target for node in parts.prefix.graph.nodes if node.op == "call_module"] == ["first"]


def test_a_model_that_cannot_be_traced_is_trained_without():
    class Branching(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(3, 3), nn.Linear(3, 2)

        def forward(self, x):
            return self.b(self.a(x) if x.sum() > 0 else x)

    assert split_for(Branching(), [1]) is None


def test_the_limit_is_in_bytes_for_all_examples():
    """ConvNet below fc: the mean over 4x4 of 3 channels, 12 bytes an example, 120 for ten."""
    model = ConvNet().eval()
    parts = split_for(model, [2])
    batches = [torch.randn(5, 1, 4, 4), torch.randn(5, 1, 4, 4)]
    assert activations(parts, batches, count=10, limit=119) is None
    (kept,) = activations(parts, batches, count=10, limit=120)
    assert kept.shape == (10, 3)
    assert not kept.requires_grad


def test_rows_that_do_not_fit_together_are_not_kept():
    """Batches of unequal length, as texts have, cannot be one tensor."""
    model = nn.Sequential(nn.Embedding(5, 2), nn.Linear(2, 2), nn.Linear(2, 2))
    parts = split_for(model, [2])
    batches = [torch.zeros(2, 3, dtype=torch.long), torch.zeros(2, 4, dtype=torch.long)]
    assert activations(parts, batches, count=4, limit=10**6) is None


class Odd(nn.Module):
    """Something odd after the first or after the last layer over (n, 3)."""

    def __init__(self, middle=lambda model, h: h, end=lambda model, h: h):
        super().__init__()
        self.first, self.middle, self.last, self.end = nn.Linear(3, 3), middle, nn.Linear(3, 2), end
        self.register_buffer("table", torch.arange(8.0)[:, None], persistent=False)

    def forward(self, x):
        return self.end(self, self.last(self.middle(self, self.first(x))))


@pytest.mark.parametrize(
    "statement",
    [
        lambda model, h: h.relu_(),
        lambda model, h: nn.functional.relu(h, inplace=True),
        lambda model, h: torch.relu_(h).mul_(2),
        lambda model, h: model.act(h),
        lambda model, h: h.__setitem__(0, 0),
    ],
)
def test_what_works_in_place_below_the_slice_is_never_lost(statement):
    """A statement whose value nobody uses is no part of any path to the output."""

    def middle(model, h):
        statement(model, h)
        return h

    model = Odd(middle=middle)
    model.act = nn.ReLU(inplace=True)
    assert split_for(model, [1]) is None


def test_looking_at_a_shape_does_no_harm():
    def middle(model, h):
        count, _ = h.shape
        return h.view(count, -1)

    assert split_for(Odd(middle=middle), [1]) is not None


def test_a_norm_without_running_statistics_ends_the_prefix():
    model = nn.Sequential(
        nn.Linear(3, 3), nn.BatchNorm1d(3, track_running_stats=False), nn.Linear(3, 3), nn.Linear(3, 2)
    )
    parts = split_for(model, [2])
    assert [node.target for node in parts.prefix.graph.nodes if node.op == "call_module"] == ["0"]


def test_what_depends_on_the_rest_of_the_batch_is_not_kept():
    parts = split_for(Odd(middle=lambda model, h: h - h.mean(0)), [1])
    assert activations(parts, [torch.randn(8, 3)], count=8, limit=10**6) is None


def test_a_table_with_as_many_rows_as_the_batch_is_not_taken_for_examples():
    """Only the first layer's output is kept; the table of 8 rows stays with the rest, which needs it as it is."""
    model = Odd(end=lambda model, h: h[:, None] + model.table)  # (n, 8, 2)
    parts = split_for(model, [1])
    inputs = torch.randn(8, 3)
    kept = activations(parts, [inputs], count=8, limit=10**6)
    assert [value.shape for value in kept] == [(8, 3)]
    assert torch.equal(parts.suffix(kept[0][[3, 1]]), model(inputs)[[3, 1]])
