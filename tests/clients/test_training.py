"""Every example once an epoch, nothing remembered between rounds, and one step by hand."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from clients.tasks.task import Examples
from clients.training import Key, LocalTraining, batches, train
from tests.tiny import ConvNet, TinyTask, bits, cross_entropy

KEY = Key(seed=0, round=1, partition=0)
TASK = TinyTask()


def sizes(count, size):
    return [len(rows) for rows in batches(count, size)]


@pytest.mark.parametrize(
    ("count", "size", "expected"),
    [(10, 4, [4, 4, 2]), (9, 4, [4, 5]), (8, 4, [4, 4]), (3, 32, [3]), (1, 4, [1]), (3, 1, [1, 2]), (0, 4, [0])],
)
def test_the_last_batch_is_kept_and_a_rest_of_one_joins_its_neighbour(count, size, expected):
    assert sizes(count, size) == expected


@given(st.integers(1, 300), st.integers(1, 64), st.integers(0, 2**32))
def test_every_example_comes_once_an_epoch(count, size, seed):
    parts = list(batches(count, size, torch.Generator().manual_seed(seed)))
    assert sorted(torch.cat(parts).tolist()) == list(range(count))
    assert max(map(len, parts)) <= size + 1


def zero_linear():
    model = nn.Linear(1, 2, bias=False)
    nn.init.zeros_(model.weight)
    return model


def fit(model, settings, learning_rate=0.1, key=KEY, examples=None, task=TASK):
    examples = task.client_examples(0) if examples is None else examples
    return train(model, list(model.parameters()), task, examples, settings, learning_rate, key, cross_entropy)


def test_one_step_by_hand_with_the_learning_rate_that_is_given():
    model = zero_linear()
    settings = LocalTraining(epochs=1, batch_size=2, lr=123.0, optimizer="sgd")
    loss = fit(model, settings, 0.1, examples=Examples(torch.full((2, 1), 2.0), torch.zeros(2, dtype=torch.int64)))
    # Zero logits: both classes at 1/2, loss ln 2; gradient (1/2 - 1, 1/2) * x = (-1, 1); times -0.1
    assert loss == pytest.approx(math.log(2))
    torch.testing.assert_close(model.weight.detach(), torch.tensor([[0.1], [-0.1]]))


def test_weight_decay_and_momentum_by_hand():
    model = zero_linear()
    settings = LocalTraining(epochs=2, batch_size=2, optimizer="sgd", momentum=0.5, weight_decay=1.0)
    fit(model, settings, 0.1, examples=Examples(torch.zeros(2, 1), torch.zeros(2, dtype=torch.int64)))
    assert model.weight.tolist() == [[0.0], [0.0]]  # no input, no gradient, and nothing to decay
    nn.init.ones_(model.weight)
    fit(model, settings, 0.1, examples=Examples(torch.zeros(2, 1), torch.zeros(2, dtype=torch.int64)))
    # Velocity 1, then 0.5 * 1 + 0.9: 1 - 0.1 = 0.9; 0.9 - 0.1 * 1.4 = 0.76. A velocity of 1.4 left over would show.
    torch.testing.assert_close(model.weight.detach(), torch.full((2, 1), 0.76))


def test_the_loss_is_the_mean_over_examples_not_over_batches():
    model = nn.Linear(1, 2, bias=False)
    nn.init.constant_(model.weight[:1].data, 0.0)
    model.weight.data[:] = torch.tensor([[0.0], [0.0]])
    # Batches of 2 and 3 (a rest of one joins), learning rate too small to matter: every example has ln 2.
    model.weight.data[0] = 1.0
    examples = Examples(torch.tensor([[0.0], [0.0], [0.0], [0.0], [9.0]]), torch.tensor([0, 0, 0, 0, 1]))
    loss = fit(model, LocalTraining(epochs=1, batch_size=2, optimizer="sgd"), 1e-12, examples=examples)
    # Four at ln 2; the fifth has logits (9, 0) and target 1: ln(1 + e^9)
    assert loss == pytest.approx((4 * math.log(2) + math.log(1 + math.exp(9))) / 5, rel=1e-6)


@pytest.mark.parametrize("count", [2, 3, 5])
def test_fewer_examples_than_a_batch_train(count):
    model = ConvNet()
    before = bits(model)
    whole = TASK.client_examples(0)
    fit(model, LocalTraining(), examples=Examples(whole.inputs[:count], whole.targets[:count]))
    assert bits(model) != before
    assert model.bn1.num_batches_tracked == 2  # one batch in each of two epochs


@pytest.mark.parametrize(
    "settings",
    [LocalTraining(batch_size=4), LocalTraining(batch_size=4, optimizer="sgd", momentum=0.9)],
    ids=["adam", "sgd"],
)
def test_nothing_is_remembered_between_rounds(settings):
    first, again, later, other = ConvNet(0.5), ConvNet(0.5), ConvNet(0.5), ConvNet(0.5)
    fit(first, settings)
    fit(again, settings)
    fit(later, settings, key=Key(0, 2, 0))
    fit(other, settings, key=Key(0, 1, 1))
    assert bits(first) == bits(again)
    assert len({bits(model)["fc.weight"] for model in (first, later, other)}) == 3
    again.load_state_dict(ConvNet(0.5).state_dict())  # the same object, trained again from the same weights
    fit(again, settings)
    assert bits(first) == bits(again)


def test_rounds_shuffle_differently():
    class Seen(TinyTask):
        def prepare(self, inputs):
            seen.append(inputs[:, 0].tolist())
            return inputs

    orders = []
    examples = Examples(torch.arange(10.0)[:, None], torch.zeros(10, dtype=torch.int64))
    for key in (KEY, KEY, Key(0, 2, 0)):
        seen = []
        fit(zero_linear(), LocalTraining(epochs=2, batch_size=10), key=key, examples=examples, task=Seen())
        orders += [seen]
    assert orders[0] == orders[1] != orders[2]
    assert orders[0][0] != orders[0][1]  # nor do two epochs agree
    assert sorted(orders[0][1]) == list(range(10))


def test_augmentation_has_its_own_generator_and_training_batches_only():
    class Drawn(TinyTask):
        def augment(self, inputs, generator):
            drawn.append(torch.rand(1, generator=generator).item())
            return inputs

    drawn = []
    fit(ConvNet(), LocalTraining(epochs=2, batch_size=5), task=Drawn())
    first, drawn = drawn, []
    fit(ConvNet(), LocalTraining(epochs=2, batch_size=5), task=Drawn())
    assert len(set(first)) == 4
    assert drawn == first


def test_dropout_is_keyed_and_the_global_generator_is_left_alone():
    models = [ConvNet(dropout=0.5) for _ in range(2)]
    states = []
    for seed, model in zip((1, 2), models, strict=True):
        torch.manual_seed(seed)
        before = torch.get_rng_state()
        fit(model, LocalTraining(batch_size=4))
        states.append(torch.equal(torch.get_rng_state(), before))
    assert states == [True, True]
    assert bits(models[0]) == bits(models[1])
    plain = ConvNet()
    fit(plain, LocalTraining(batch_size=4))
    assert bits(plain) != bits(models[0])  # so dropout did drop


def test_bf16_trains_float32_weights():
    model, exact = ConvNet(), ConvNet()
    fit(model, LocalTraining(precision="bf16"))
    fit(exact, LocalTraining())
    assert all(p.dtype == torch.float32 for p in model.parameters())
    assert bits(model) != bits(exact)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"epochs": 0}, "epochs=0: must be at least 1"),
        ({"batch_size": 0}, "batch_size=0: must be at least 1"),
        ({"threads": 0}, "threads=0: must be at least 1"),
        ({"lr": 0.0}, "lr=0.0: must be above 0"),
        ({"lr": float("nan")}, "lr=nan: must be above 0"),
        ({"weight_decay": -0.1}, "weight_decay=-0.1: must be at least 0"),
        ({"momentum": float("inf"), "optimizer": "sgd"}, "momentum=inf: must be at least 0"),
        ({"momentum": 0.9}, "momentum=0.9: only optimizer=sgd has it"),
        ({"optimizer": "adamw"}, "optimizer=adamw: must be one of adam, sgd"),
        ({"precision": "fp16"}, "precision=fp16: must be one of fp32, bf16"),
        ({"frozen_norm": "train"}, "frozen_norm=train: must be one of eval, batch"),
    ],
)
def test_a_bad_value_is_an_error_that_gives_it(values, message):
    with pytest.raises(ValueError, match=message):
        LocalTraining(**values)
