"""Nothing outside the slice moves, whatever the optimizer; the model's switches are as they were afterwards."""

from functools import partial

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from clients.layers import layer_groups
from clients.partial import estimate_statistics, norms, training_only
from clients.tasks.resnet import resnet
from clients.training import Key, LocalTraining, train
from clients.weights import is_statistic
from tests.tiny import TinyTask, bits, changed, cross_entropy

ADAM = LocalTraining(epochs=2, batch_size=4, weight_decay=0.1)
SGD = LocalTraining(epochs=2, batch_size=4, optimizer="sgd", momentum=0.9, weight_decay=0.1)
SMALL = TinyTask(examples=4)
RESNET = TinyTask(shape=(3, 8, 8), model=partial(resnet, 8, 2), examples=4)


def train_slice(task, model, names, settings, frozen_norm):
    with training_only(model, names, frozen_norm) as learning:
        train(model, learning, task, task.client_examples(0), settings, 0.1, Key(0, 1, 0), cross_entropy)


@pytest.mark.parametrize("frozen_norm", ["eval", "batch"])
@pytest.mark.parametrize("settings", [ADAM, SGD], ids=["adam", "sgd"])
@pytest.mark.parametrize(
    ("task", "index"), [*((SMALL, index) for index in range(3)), *((RESNET, index) for index in range(10))]
)
def test_only_the_chosen_group_moves(task, index, settings, frozen_norm):
    torch.manual_seed(0)
    model = task.build_model()
    group = layer_groups(model)[index]
    before = bits(model)
    train_slice(task, model, group, settings, frozen_norm)
    moved = changed(before, bits(model))
    assert moved <= set(group)
    assert group[0] in moved
    # The group's own statistics belong to it: they follow the data.
    assert {name for name in group if is_statistic(name)} <= moved


@pytest.mark.parametrize("frozen_norm", ["eval", "batch"])
def test_several_groups_move_together(frozen_norm):
    model = SMALL.build_model()
    groups = layer_groups(model)
    before = bits(model)
    train_slice(SMALL, model, groups[0] + groups[2], ADAM, frozen_norm)
    assert changed(before, bits(model)) == {*groups[0], *groups[2]}


def test_full_training_moves_everything():
    model = SMALL.build_model()
    before = bits(model)
    train_slice(SMALL, model, tuple(model.state_dict()), ADAM, "eval")
    assert changed(before, bits(model)) == set(model.state_dict())


def test_only_the_groups_parameters_are_handed_to_the_optimizer_and_get_gradients():
    model = SMALL.build_model()
    group = layer_groups(model)[1]
    with training_only(model, group) as learning:
        assert [id(p) for p in learning] == [id(model.conv2.weight), id(model.bn2.weight), id(model.bn2.bias)]
        model(SMALL.client_examples(0).inputs).sum().backward()
        with_gradient = {name for name, p in model.named_parameters() if p.grad is not None}
    assert with_gradient == {"conv2.weight", "bn2.weight", "bn2.bias"}
    assert all(p.grad is None for p in model.parameters())


def test_frozen_norms_normalise_by_running_statistics_or_by_the_batch():
    model = nn.Sequential(nn.BatchNorm1d(1), nn.Linear(1, 1))
    inputs = torch.tensor([[1.0], [3.0]])
    with torch.no_grad(), training_only(model, {"1.weight", "1.bias"}, "eval"):
        # running mean 0 and variance 1: the inputs themselves
        torch.testing.assert_close(model[0](inputs), inputs, rtol=1e-4, atol=0)
    with torch.no_grad(), training_only(model, {"1.weight", "1.bias"}, "batch"):
        # batch mean 2, batch variance 1
        torch.testing.assert_close(model[0](inputs), torch.tensor([[-1.0], [1.0]]), rtol=1e-4, atol=0)


@pytest.mark.parametrize("frozen_norm", ["eval", "batch"])
@pytest.mark.parametrize("mode", [True, False])
def test_modes_and_switches_are_restored_even_after_an_error(frozen_norm, mode):
    model = SMALL.build_model().train(mode)
    model.fc.train(not mode)
    model.conv1.weight.requires_grad_(False)

    def switches():
        modes = [module.training for module in model.modules()]
        return (
            modes,
            [p.requires_grad for p in model.parameters()],
            [norm.track_running_stats for _, norm in norms(model)],
        )

    before = switches()
    with pytest.raises(RuntimeError, match="interrupted"), training_only(model, {"fc.weight"}, frozen_norm):
        assert switches() != before
        raise RuntimeError("interrupted")
    assert switches() == before


def test_norms_are_found_by_their_statistics_not_by_their_name():
    model = nn.ModuleDict({"anything": nn.BatchNorm2d(2), "bn": nn.GroupNorm(1, 2), "plain": nn.Linear(2, 2)})
    assert [name for name, _ in norms(model)] == ["anything"]


def test_estimated_statistics_are_the_mean_over_batches():
    model = nn.Sequential(nn.BatchNorm1d(1))
    model[0].running_mean.fill_(99)
    batches = [torch.tensor([[0.0], [2.0]]), torch.tensor([[4.0], [10.0]])]
    estimate_statistics(model, batches)
    # means 1 and 7; unbiased variances 2 and 18
    assert model[0].running_mean.tolist() == [4.0]
    assert model[0].running_var.tolist() == [10.0]
    assert model[0].momentum == 0.1
    estimate_statistics(model, [])
    assert (model[0].running_mean.item(), model[0].running_var.item()) == (0.0, 1.0)


def test_estimating_uses_no_dropout_and_moves_no_parameter():
    model = nn.Sequential(nn.Dropout(0.9), nn.BatchNorm1d(1))
    before = bits(model)
    estimate_statistics(model, [torch.tensor([[1.0], [3.0]])])
    assert model[1].running_mean.tolist() == [2.0]
    assert all(map(is_statistic, changed(before, bits(model))))


def test_an_error_while_estimating_leaves_the_momentum():
    model = nn.Sequential(nn.BatchNorm1d(1))
    with pytest.raises(ValueError, match="more than 1 value"):
        estimate_statistics(model, [torch.ones(1, 1)])
    assert model[0].momentum == 0.1


def test_slices_that_share_nothing_give_what_two_trainings_give():
    """Freezing is exact: a frozen first layer acts as fixed features, checked against training the head alone."""
    model, task = SMALL.build_model(), SMALL
    examples = task.client_examples(0)
    head = nn.Linear(3, 2)
    head.load_state_dict(model.fc.state_dict())
    model.eval()
    with torch.no_grad():
        x = F.relu(model.bn2(model.conv2(F.relu(model.bn1(model.conv1(examples.inputs))))))
    train_slice(task, model, ("fc.weight", "fc.bias"), SGD, "eval")
    features = type(examples)(x.mean(dim=(2, 3)), examples.targets)
    train(head, list(head.parameters()), task, features, SGD, 0.1, Key(0, 1, 0), cross_entropy)
    torch.testing.assert_close(head.weight, model.fc.weight)
