"""Layer groups by rule: counts of the papers' models, disjoint and complete, named by index."""

import numpy as np
import pytest
from torch import nn

from clients.layers import layer_groups, names_in
from clients.tasks.models import build_image_model
from clients.tasks.resnet import resnet
from clients.weights import weights_of
from tests.tiny import ConvNet, layout_of, linear_net

MODELS = {
    "linear": linear_net,
    "conv": ConvNet,
    "cnn": lambda: build_image_model("cnn", "cifar", 1, 10, seed=0),
    "resnet8": lambda: resnet(8, 10),
    "resnet18": lambda: resnet(18, 10),
}


@pytest.mark.parametrize(("name", "count"), [("linear", 2), ("conv", 3), ("cnn", 5), ("resnet8", 10), ("resnet18", 21)])
def test_groups_are_disjoint_cover_everything_and_keep_the_order(name, count):
    model = MODELS[name]()
    groups = layer_groups(model)
    assert len(groups) == count
    assert [array for group in groups for array in group] == list(model.state_dict())
    assert names_in(groups, None) == tuple(model.state_dict())


def test_groups_of_the_small_net():
    assert layer_groups(ConvNet()) == (
        ("conv1.weight", *(f"bn1.{part}" for part in BN)),
        ("conv2.weight", *(f"bn2.{part}" for part in BN)),
        ("fc.weight", "fc.bias"),
    )


BN = ("weight", "bias", "running_mean", "running_var", "num_batches_tracked")


def test_the_norm_of_a_shortcut_is_in_the_shortcuts_group():
    groups = layer_groups(resnet(8, 10))
    # stem, layer1 conv1 conv2, layer2 conv1 conv2 shortcut, layer3 conv1 conv2 shortcut, fc
    assert groups[5] == ("layer2.0.downsample.0.weight", *(f"layer2.0.downsample.1.{part}" for part in BN))
    assert groups[4] == ("layer2.0.conv2.weight", *(f"layer2.0.bn2.{part}" for part in BN))
    assert groups[9] == ("fc.weight", "fc.bias")


@pytest.mark.parametrize("name", MODELS)
def test_server_and_client_derive_the_same_from_arrays_and_model(name):
    model = MODELS[name]()
    assert layer_groups(weights_of(model)) == layer_groups(model)
    assert layout_of(weights_of(model)) == layout_of(model)


def test_without_statistics_the_same_parameters_stay_together():
    model = resnet(8, 10)
    parameters = {name for name, _ in model.named_parameters()}
    with_all = [tuple(name for name in group if name in parameters) for group in layer_groups(model)]
    assert layer_groups(weights_of(model, parameters)) == tuple(with_all)


def test_block_1_does_not_take_block_10():
    model = nn.Module()
    model.layers = nn.ModuleList(nn.Linear(2, 2) for _ in range(11))
    groups = layer_groups(model)
    assert groups[1] == ("layers.1.weight", "layers.1.bias")
    assert groups[10] == ("layers.10.weight", "layers.10.bias")


def test_a_norm_before_the_first_weight_joins_the_first_group():
    groups = layer_groups(nn.Sequential(nn.BatchNorm1d(3, track_running_stats=False), nn.Linear(3, 2)))
    assert groups == (("0.weight", "0.bias", "1.weight", "1.bias"),)


@pytest.mark.parametrize("model", [nn.BatchNorm1d(3), {"scale": np.ones(3)}])
def test_a_model_without_groups_is_an_error(model):
    with pytest.raises(ValueError, match="no layer groups: none of"):
        layer_groups(model)


def test_names_come_in_the_models_order_whatever_the_order_of_indexes():
    groups = layer_groups(linear_net())
    assert names_in(groups, (1,)) == ("1.weight", "1.bias")
    assert names_in(groups, (1, 0)) == ("0.weight", "0.bias", "1.weight", "1.bias")
    assert names_in(groups, ()) == ()


@pytest.mark.parametrize("index", [-1, 2, 10**12])
def test_an_index_that_does_not_exist_is_an_error_that_names_it(index):
    with pytest.raises(ValueError, match=rf"layer groups \[{index}\]: the model has groups 0 to 1"):
        names_in(layer_groups(linear_net()), (0, index))


def test_a_layout_differs_by_name_shape_and_grouping():
    base = {"a.weight": np.ones((2, 3)), "a.bias": np.ones(3)}
    others = [
        {"a.weight": np.ones((3, 2)), "a.bias": np.ones(3)},
        {"a.weight": np.ones((2, 3)), "a.scale": np.ones(3)},
        {"a.bias": np.ones(3), "a.weight": np.ones((2, 3))},
        {"a.weight": np.ones((2, 3))},
    ]
    assert layout_of({name: array + 1 for name, array in base.items()}) == layout_of(base)  # values do not matter
    assert len({layout_of(arrays) for arrays in [base, *others]}) == 5


def test_a_transformer_has_two_groups_a_layer_embedding_and_classifier():
    layer = nn.TransformerEncoderLayer(4, 2, 4, batch_first=True)
    model = nn.ModuleDict(
        {"embedding": nn.Embedding(5, 4), "encoder": nn.TransformerEncoder(layer, 3), "fc": nn.Linear(4, 2)}
    )
    groups = layer_groups(model)
    assert len(groups) == 8
    assert {name.split(".")[3] for name in groups[3]} == {"self_attn"}
    assert {name.split(".")[3] for name in groups[4]} == {"linear1", "linear2", "norm1", "norm2"}
    assert all(name.startswith("encoder.layers.1.") for name in groups[3] + groups[4])


def test_what_no_rule_covers_is_an_error_with_a_hint():
    with pytest.raises(ValueError, match=r"no rule for weight_ih_l0 .*groups=\[\["):
        layer_groups(nn.LSTM(2, 2))


GIVEN = {"conv": 1, "convex": 1, "fc": 1}


@pytest.mark.parametrize(
    ("modules", "words"),
    [
        ([["conv"], ["fc"]], "convex.weight, convex.bias belongs to no group"),
        ([["conv"], ["convex"], ["fc"], ["conv"]], "'conv': conv.weight is in conv too"),
        ([["conv"], ["convex"], ["fcc"]], "'fcc': the model has conv.weight"),
        ([["conv"], ["convex"], ["fc"], []], "an empty group"),
    ],
)
def test_given_groups_must_cover_the_model_exactly(modules, words):
    model = nn.ModuleDict({name: nn.Linear(2, 2) for name in GIVEN})
    with pytest.raises(ValueError, match=words):
        layer_groups(model, modules)


def test_given_groups_go_by_whole_module_names():
    """`conv` does not take `convex`; within a group the model's order holds."""
    model = nn.ModuleDict({name: nn.Linear(2, 2, bias=False) for name in GIVEN})
    assert layer_groups(model, [["fc", "conv"], ["convex"]]) == (("conv.weight", "fc.weight"), ("convex.weight",))
