"""Multiply-accumulates by hand."""

import pytest
import torch
from torch import nn

from clients.layers import layer_groups, names_in
from clients.macs import forward_macs, inference_macs, not_counted, training_macs
from clients.tasks.resnet import resnet
from tests.tiny import ConvNet, bits, linear_net, macs_of


class Branches(nn.Module):
    """x1 = a(x); head(b(x1) + shortcut(x1)): 4, 4, 4 and 2 multiply-accumulates."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.shortcut = nn.Linear(2, 2), nn.Linear(2, 2), nn.Linear(2, 2)
        self.head = nn.Linear(2, 1)

    def forward(self, x):
        x = self.a(x)
        return self.head(torch.relu(self.b(x)) + self.shortcut(x))


@pytest.mark.parametrize(
    ("layer", "shape", "expected"),
    [
        (nn.Linear(100, 10), (1, 100), 1_000),
        (nn.Linear(100, 10), (7, 100), 7_000),
        (nn.Linear(3, 2), (1, 5, 3), 30),  # 5 positions, 3*2 each
        (nn.Conv2d(2, 3, 3, padding=1), (1, 2, 4, 4), 864),  # 3*4*4 outputs, 2*3*3 inputs each
        (nn.Conv2d(2, 3, 3, stride=2, padding=1), (1, 2, 4, 4), 216),  # 3*2*2 outputs
        (nn.Conv2d(4, 4, 3, padding=1, groups=2), (1, 4, 2, 2), 288),  # 4*2*2 outputs, (4/2)*3*3 inputs each
        (nn.Conv2d(4, 4, 3, padding=1, groups=4), (1, 4, 2, 2), 144),  # depthwise: 3*3 inputs each
        (nn.Conv1d(2, 3, 5), (1, 2, 9), 150),  # 3*5 outputs, 2*5 inputs each
    ],
)
def test_forward_by_hand(layer, shape, expected):
    inputs = torch.zeros(shape)
    assert forward_macs(layer, layer(inputs)) == expected
    assert inference_macs(nn.Sequential(layer), inputs) == expected


def test_full_training_is_three_times_forward_less_the_first_input_gradient():
    model = linear_net()  # 12 and 6 forward
    assert inference_macs(model, torch.zeros(1, 4)) == 18
    assert training_macs(model, torch.zeros(1, 4)) == 3 * 18 - 12


@pytest.mark.parametrize(
    ("index", "expected"),
    [
        (0, 12 * 2 + 6 * 2),  # forward and weight; forward and input gradient
        (1, 12 * 1 + 6 * 2),  # forward only; forward and weight
    ],
)
def test_partial_training_by_hand(index, expected):
    model = linear_net()
    assert macs_of(model, (4,), layer_groups(model)[index]) == expected


@pytest.mark.parametrize(
    ("index", "expected"),
    [
        (0, 4 * 2 + 4 * 2 + 4 * 2 + 2 * 2),  # a: forward, weight; the gradient passes all that follows
        (1, 4 + 4 * 2 + 4 + 2 * 2),  # b: the shortcut beside it needs no gradient
        (2, 4 + 4 + 4 * 2 + 2 * 2),  # shortcut: b stands before it in the order but not below it
        (3, 4 + 4 + 4 + 2 * 2),  # head: nothing below learns
    ],
)
def test_branches_pass_a_gradient_only_where_something_below_learns(index, expected):
    model = Branches()
    assert macs_of(model, (2,), layer_groups(model)[index]) == expected


def test_small_conv_net_by_hand():
    # conv1: 2*16 outputs of 9 = 288; conv2: 3*16 outputs of 18 = 864; fc: 6
    model = ConvNet()
    assert inference_macs(model, torch.zeros(1, 1, 4, 4)) == 1158
    assert macs_of(model, (1, 4, 4), tuple(model.state_dict())) == 3 * 1158 - 288
    assert macs_of(model, (1, 4, 4), layer_groups(model)[1]) == 288 + 864 * 2 + 6 * 2


def test_a_cached_prefix_runs_once_and_the_rest_in_every_epoch():
    model, linear = ConvNet(), linear_net()
    groups = layer_groups(model)
    assert macs_of(model, (1, 4, 4), groups[0], cached=True) == (0, macs_of(model, (1, 4, 4), groups[0]))
    assert macs_of(model, (1, 4, 4), groups[1], cached=True) == (288, 864 * 2 + 6 * 2)
    assert macs_of(linear, (4,), layer_groups(linear)[1], cached=True) == (12, 6 * 2)


def test_resnet8_by_hand():
    # 32x32 with the ImageNet stem: 16x16 after the stem, then 8x8, 4x4 and 2x2.
    stem = 16 * 16 * 64 * 3 * 49
    stage1 = 2 * (8 * 8 * 64 * 64 * 9)
    stage2 = 4 * 4 * 128 * (64 * 9 + 128 * 9 + 64)
    stage3 = 2 * 2 * 256 * (128 * 9 + 256 * 9 + 128)
    forward = stem + stage1 + stage2 + stage3 + 256 * 10
    model = resnet(8, 10)
    groups = layer_groups(model)
    assert inference_macs(model, torch.zeros(1, 3, 32, 32)) == forward
    assert macs_of(model, (3, 32, 32), names_in(groups, None)) == 3 * forward - stem
    assert macs_of(model, (3, 32, 32), groups[9]) == forward + 256 * 10
    # The shortcut of stage 2 learns: its input is frozen, and so is all of the branch beside it.
    above = stage3 + 256 * 10
    assert macs_of(model, (3, 32, 32), groups[5]) == forward + 4 * 4 * 128 * 64 + above


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(4, 2, batch_first=True)

    def forward(self, x):
        return self.attention(x, x, x)[0]


def test_attention_by_hand():
    # 3 tokens of width 4: query, key and value 3 * 3*4*4 = 144; scores and mix 2 * 3*3*4 = 72; output 3*4*4 = 48
    model, tokens = Attention(), torch.zeros(1, 3, 4)
    assert inference_macs(model, tokens) == 144 + 72 + 48
    # The input needs no gradient: 144 twice; both products again for each of their two inputs; the output thrice.
    assert training_macs(model, tokens) == 144 * 2 + 72 * 3 + 48 * 3


def test_what_is_not_counted_is_named():
    assert not_counted(resnet(8, 10, 3, "cifar")) == []
    assert not_counted(nn.Sequential(nn.Embedding(3, 2), nn.MultiheadAttention(2, 1), nn.LayerNorm(2))) == []
    others = nn.Sequential(nn.Linear(2, 2), nn.LSTM(2, 2), nn.ConvTranspose1d(1, 1, 2))
    assert not_counted(others) == ["1 (LSTM)", "2 (ConvTranspose1d)"]
    assert not_counted(nn.Bilinear(2, 2, 2)) == ["the model (Bilinear)"]


def test_counting_leaves_the_model_as_it_was():
    model = ConvNet().train()
    model.bn1.eval()
    modes, before = [module.training for module in model.modules()], bits(model)
    macs_of(model, (1, 4, 4), layer_groups(model)[0])
    assert [module.training for module in model.modules()] == modes
    assert bits(model) == before
    assert not any(module._forward_hooks for module in model.modules())
    assert all(p.grad is None and p.requires_grad for p in model.parameters())
