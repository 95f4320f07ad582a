"""Layers that compute with theta and keep w; weight gradients from pruned activations."""

from copy import deepcopy

import numpy as np
import pytest
import torch
from torch import nn

from clients.plan import SparseTraining
from clients.pruned_layers import prune, pruned_attention, pruned_conv, pruned_linear, threshold
from clients.sparse import powerprop
from clients.sparse_layers import prunable, sparse_layers
from clients.tasks.resnet import resnet
from clients.tasks.transformer import TextTransformer
from tests.tiny import ConvNet, bits

POWERPROP = SparseTraining(weights="powerprop", beta=1.25)


def transformer():
    torch.manual_seed(0)
    return TextTransformer(20, 3, max_length=8, hidden=4, heads=2, feedforward=4, layers=2, dropout=0.0)


def with_theta(model, beta=1.25):
    """A copy that stores what `model` computes with under powerprop."""
    copy = deepcopy(model)
    with torch.no_grad():
        for name in prunable(model):
            parameter = copy.get_parameter(name)
            parameter.copy_(powerprop(parameter, beta))
    return copy


TOKENS = torch.tensor([[1, 2, 3, 4], [5, 6, 0, 0]])


@pytest.mark.parametrize("train", [True, False])
@pytest.mark.parametrize(("model", "inputs"), [(ConvNet, torch.ones(2, 1, 4, 4)), (transformer, TOKENS)])
def test_a_model_computes_with_theta_and_keeps_w(model, inputs, train):
    model = model().train(train)
    before, expected = bits(model), with_theta(model)(inputs)
    with sparse_layers(model, POWERPROP):
        assert list(model.state_dict()) == list(before)
        for _ in range(100 if train else 1):
            outputs = model(inputs)
        with torch.no_grad():
            assert torch.allclose(model(inputs), expected, atol=1e-6)  # no fast path goes by the hooks
    assert torch.equal(outputs, expected)
    moved = {name for name, value in bits(model).items() if value != before[name]}
    assert all("running" in name or "tracked" in name for name in moved)
    assert not any(module._forward_hooks or "forward" in vars(module) for module in model.modules())


def test_prunable_weights():
    assert prunable(ConvNet()) == ("conv1.weight", "conv2.weight", "fc.weight")
    assert len(prunable(resnet(18, 10, 3, "cifar"))) == 21
    layer = ("self_attn.in_proj_weight", "self_attn.out_proj.weight", "linear1.weight", "linear2.weight")
    expected = [f"encoder.layers.{index}.{name}" for index in range(2) for name in layer]
    assert prunable(transformer()) == (*expected, "fc.weight")


def test_zeros_stay_zero_and_copies_are_on_their_own():
    model = ConvNet()
    with torch.no_grad():
        model.conv2.weight[0].zero_()
    with sparse_layers(model, SparseTraining(weights="powerprop", beta=1.25, prune_activations=True)) as layers:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        for _ in range(3):
            optimizer.zero_grad()
            model(torch.randn(4, 1, 4, 4)).square().sum().backward()
            optimizer.step()
        twin = deepcopy(model).eval()
        with torch.no_grad():
            twin.fc.weight.zero_()
            assert torch.equal(twin(torch.ones(1, 1, 4, 4))[0], twin.fc.bias)
    assert not model.conv2.weight[0].any()
    assert model.conv2.weight[1:].all()
    assert layers["conv2"].densities == [[2 / 3]] * 3  # one of three output channels is zero


def test_fixed_masks_hold_for_any_optimizer():
    model = nn.Linear(3, 2)
    with torch.no_grad():
        model.weight[0] = torch.tensor([0.0, 1.0, 0.0])
    with sparse_layers(model, SparseTraining(weights="fixed")):
        optimizer = torch.optim.Adam(model.parameters(), lr=0.1, weight_decay=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            model(torch.ones(1, 3)).sum().backward()
            optimizer.step()
    assert (model.weight[0] == 0).tolist() == [True, False, True]


def test_swat_computes_with_the_largest_and_trains_all():
    model = nn.Linear(4, 1, bias=False)
    with torch.no_grad():
        model.weight[:] = torch.tensor([4.0, -3.0, 2.0, 1.0])
    with sparse_layers(model, SparseTraining(sparsity=0.5, weights="swat")) as layers:
        output = model(torch.ones(1, 4))
        output.sum().backward()
    assert output.item() == 1  # 4 - 3
    assert model.weight.grad.tolist() == [[1, 1, 1, 1]]
    assert layers[""].densities == [[0.5]]


def test_the_threshold_by_hand():
    values = torch.tensor([0.1, 5, -3, 2])
    assert threshold(values.abs(), 0.5) == 3
    assert prune(values, 0.5).tolist() == [0, 5, -3, 0]
    assert prune(values, 1.0).tolist() == values.tolist()
    assert prune(torch.zeros(4), 0.5).tolist() == [0] * 4


@pytest.mark.parametrize("kept", [0.05, 0.1, 0.5])
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("shape", [(32, 64, 16, 16), (50, 49, 7, 70), (16, 512, 4, 4)])
def test_a_sampled_threshold_keeps_within_half_a_point(shape, layout, kept):
    torch.manual_seed(0)
    values = (torch.randn(shape) * torch.randn(1, shape[1], 1, 1)).contiguous(memory_format=layout)  # channels differ
    pruned = prune(values, kept)
    assert pruned.is_contiguous(memory_format=layout)
    assert torch.count_nonzero(pruned).item() / values.numel() == pytest.approx(kept, abs=0.005)


def gradients(layer, function, inputs, kept):
    inputs = inputs.clone().requires_grad_()
    layer.zero_grad()
    outputs = function(layer, kept, inputs)
    outputs.square().sum().backward()
    return [outputs, inputs.grad, *(parameter.grad for parameter in layer.parameters())]


@pytest.mark.parametrize(
    ("layer", "function", "shape"),
    [
        (nn.Linear(6, 3), pruned_linear, (4, 6)),
        (nn.Linear(6, 3, bias=False), pruned_linear, (2, 4, 6)),
        (nn.Conv1d(2, 3, 3), pruned_conv, (2, 2, 7)),
        (nn.Conv2d(2, 4, 3, stride=2, padding=1), pruned_conv, (3, 2, 8, 8)),
        (nn.Conv2d(4, 4, 3, padding="same", groups=2, bias=False), pruned_conv, (3, 4, 5, 5)),
        (nn.Conv2d(2, 4, 3, padding=1, padding_mode="reflect"), pruned_conv, (3, 2, 8, 8)),
        (nn.Conv3d(2, 3, 3, dilation=2), pruned_conv, (2, 2, 5, 5, 5)),
    ],
)
def test_forward_and_input_gradient_are_the_plain_ones_and_the_weight_sees_the_pruned_input(layer, function, shape):
    torch.manual_seed(1)
    inputs = torch.randn(shape)
    plain = gradients(layer, lambda layer, kept, x: layer(x), inputs, None)
    for ours, theirs in zip(gradients(layer, function, inputs, [1.0]), plain, strict=True):
        assert torch.allclose(ours, theirs, atol=1e-5)
    pruned = gradients(layer, function, inputs, [0.5])
    assert torch.equal(pruned[0], plain[0])
    assert torch.allclose(pruned[1], plain[1], atol=1e-5)
    if getattr(layer, "padding_mode", "zeros") == "zeros":  # of the same output gradient, over the pruned input
        layer.zero_grad()
        layer(prune(inputs, 0.5)).backward(2 * plain[0].detach())
        assert torch.allclose(pruned[2], layer.weight.grad, atol=1e-4)
    assert not torch.allclose(pruned[2], plain[2])


@pytest.mark.parametrize("mask", [None, "causal", "by head"])
def test_attention_is_the_module_where_everything_is_kept(mask):
    torch.manual_seed(0)
    layer = nn.MultiheadAttention(4, 2, batch_first=True)
    x, padding = torch.randn(3, 5, 4), torch.arange(5) >= torch.tensor([[5], [3], [1]])
    masks = {"causal": torch.ones(5, 5).triu(1).bool(), "by head": torch.randn(6, 5, 5) > 1}
    options = {"key_padding_mask": padding, "attn_mask": masks.get(mask)}
    expected, _ = layer(x, x, x, need_weights=False, **options)
    ours, _ = pruned_attention(layer, [1.0, 1.0], x, x, x, **options)
    assert torch.allclose(ours, expected, atol=1e-6)


def test_attention_of_another_form_is_refused():
    layer, x = nn.MultiheadAttention(4, 2), torch.randn(3, 5, 4)
    with pytest.raises(ValueError, match="batch-first self-attention"):
        pruned_attention(layer, [1.0, 1.0], x, x, x)


@pytest.mark.parametrize(("model", "inputs"), [(ConvNet, torch.randn(8, 1, 4, 4)), (transformer, TOKENS)])
def test_pruning_is_for_training_with_gradients_alone(model, inputs):
    model = model().eval()
    with torch.no_grad():
        for name in prunable(model):
            model.get_parameter(name).view(-1)[::2] = 0
    expected = model(inputs)
    with sparse_layers(model, SparseTraining(prune_activations=True)) as layers:
        assert torch.equal(model(inputs), expected)
        assert not any(layer.densities for layer in layers.values())
        model.train()
        with torch.no_grad():
            model(inputs)
        assert not any(layer.densities for layer in layers.values())
        model(inputs).sum().backward()
    assert all(np.allclose(layer.densities, 0.5, atol=0.1) for layer in layers.values())


def test_bf16_autocast_casts_as_the_plain_layers_do():
    torch.manual_seed(0)
    model, inputs = ConvNet(), torch.randn(8, 1, 4, 4)
    with torch.no_grad():
        model.conv2.weight[0] = 0
    plain = deepcopy(model)
    with sparse_layers(model, SparseTraining(prune_activations=True)), torch.autocast("cpu", torch.bfloat16):
        ours, theirs = model(inputs), plain(inputs)
    assert ours.dtype == theirs.dtype == torch.bfloat16
    assert torch.equal(ours, theirs)
    ours.float().sum().backward()
    assert all(parameter.grad.dtype == torch.float32 for parameter in model.parameters())
