"""The text classifier: names, sizes, independence of padding, and equality of its training and eval paths."""

import math
import warnings

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from clients.layers import layer_groups
from clients.tasks.transformer import PADDING, TextTransformer, sinusoids


@pytest.fixture
def model():
    torch.manual_seed(0)
    return TextTransformer(20, 3, max_length=16, hidden=8, heads=2, feedforward=12, layers=2, dropout=0.0)


@pytest.fixture
def tokens():
    """Three texts of 5, 2 and 4 tokens."""
    return torch.tensor([[3, 9, 2, 7, 5], [4, 1, 0, 0, 0], [8, 8, 19, 6, 0]])


def test_names_are_in_the_order_of_the_layer_groups(model):
    names = list(model.state_dict())
    layer = [
        *(f"self_attn.{name}" for name in ("in_proj_weight", "in_proj_bias", "out_proj.weight", "out_proj.bias")),
        *(f"{name}.{part}" for name in ("linear1", "linear2", "norm1", "norm2") for part in ("weight", "bias")),
    ]
    encoder = [f"encoder.layers.{number}.{name}" for number in (0, 1) for name in layer]
    assert names == ["embedding.weight", *encoder, "fc.weight", "fc.bias"]
    assert names == [name for name, _ in model.named_parameters()]


def test_parameter_count_of_the_papers_sizes():
    # embedding 30,335*200; a layer: attention 4*(200*200 + 200), feed-forward 2*(200*200 + 200), two norms 2*400
    model = TextTransformer(30_335, 4)
    assert sum(p.numel() for p in model.parameters()) == 30_335 * 200 + 3 * (160_800 + 80_400 + 800) + 804


def test_initial_weights(model):
    weight = model.embedding.weight
    assert -0.1 <= weight.min() < -0.09
    assert 0.09 < weight.max() <= 0.1
    first, second = model.encoder.layers
    assert not torch.equal(first.linear1.weight, second.linear1.weight)


@pytest.mark.parametrize("width", [4, 5])
def test_sinusoids_by_hand(width):
    code = sinusoids(3, width)
    rates = [1, 10_000 ** (-2 / width), 10_000 ** (-4 / width)]
    expected = [wave(2 * rate) for rate in rates for wave in (math.sin, math.cos)][:width]
    torch.testing.assert_close(code[2], torch.tensor(expected))
    assert code.shape == (3, width)


@pytest.mark.parametrize("training", [True, False])
def test_padding_changes_nothing(model, tokens, training):
    model.train(training)
    batch = model(tokens)
    torch.testing.assert_close(model(F.pad(tokens, (0, 9))), batch)
    for row, length in enumerate((5, 2, 4)):
        torch.testing.assert_close(model(tokens[row : row + 1, :length])[0], batch[row])


def test_the_order_of_words_matters(model):
    model.eval()
    assert not torch.allclose(model(torch.tensor([[3, 9, 2, 5]])), model(torch.tensor([[9, 3, 2, 5]])))


def test_training_and_fast_path_agree_without_a_warning(model, tokens):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        trained = model.train()(tokens)
        with torch.no_grad():
            fast = model.eval()(tokens)
        slow = model(tokens)
    torch.testing.assert_close(fast, trained, atol=1e-6, rtol=1e-5)
    torch.testing.assert_close(slow, trained, atol=1e-6, rtol=1e-5)


def test_the_forward_pass_by_its_equations(model, tokens):
    """Post-norm layers written out for one text without padding."""
    text = tokens[0]
    x = model.embedding.weight[text] * math.sqrt(8) + sinusoids(5, 8)
    for layer in model.encoder.layers:
        q, k, v = F.linear(x, layer.self_attn.in_proj_weight, layer.self_attn.in_proj_bias).chunk(3, dim=1)
        heads = [
            torch.softmax(q[:, h] @ k[:, h].T / 2, dim=1) @ v[:, h]  # 2: the root of a head's width, 4
            for h in (slice(0, 4), slice(4, 8))
        ]
        x = layer.norm1(x + layer.self_attn.out_proj(torch.cat(heads, dim=1)))
        x = layer.norm2(x + layer.linear2(layer.linear1(x).relu()))
    torch.testing.assert_close(model(tokens)[0], model.fc(x[-1]))


def test_padding_learns_nothing(model, tokens):
    model(tokens).sum().backward()
    grad = model.embedding.weight.grad
    assert not grad[PADDING].any()
    assert grad[3].any()


@pytest.mark.parametrize("training", [True, False])
def test_zeros_of_any_type_are_a_text(model, training):
    """They stand for an input of some shape where the work is counted."""
    with torch.no_grad():
        logits = model.train(training)(torch.zeros(2, 7))
    assert torch.isfinite(logits).all()


def test_the_layer_groups_are_the_papers():
    groups = layer_groups(TextTransformer(20, 3))
    assert [group[0] for group in groups] == [
        "embedding.weight",
        *(f"encoder.layers.{n}.{name}" for n in range(3) for name in ("self_attn.in_proj_weight", "linear1.weight")),
        "fc.weight",
    ]
    assert [len(group) for group in groups] == [1, *[4, 8] * 3, 2]


def test_dropout_is_everywhere_and_only_in_training(tokens):
    model = TextTransformer(20, 3, hidden=8, layers=1, dropout=0.5)
    assert {module.p for module in model.modules() if isinstance(module, nn.Dropout)} == {0.5}
    assert not torch.equal(model(tokens), model(tokens))
    model.eval()
    assert torch.equal(model(tokens), model(tokens))
