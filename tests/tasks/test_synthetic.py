"""Synthetic(alpha, beta): what the paper's formulas say of the draws, and that clients are drawn one by one."""

import json

import numpy as np
import pytest
import torch

from clients.layers import layer_groups
from clients.tasks.flower_partition import Dirichlet
from clients.tasks.partition import Iid
from clients.tasks.synthetic import SyntheticTask
from tests.runs import play


def task(**given):
    return SyntheticTask("synthetic", Iid(), **given)


def test_a_clients_draws_depend_on_the_seed_and_its_number_alone():
    one, many = task(clients=3), task(clients=10_000, test_clients=2)
    assert torch.equal(one.client_examples(2).inputs, many.client_examples(2).inputs)
    assert torch.equal(one.client_examples(2).targets, task(clients=3).client_examples(2).targets)
    assert not torch.equal(one.client_examples(1).inputs[:9], many.client_examples(2).inputs[:9])
    assert not torch.equal(one.drawn(0).inputs[:9], task(seed=1).drawn(0).inputs[:9])


def test_a_client_is_drawn_when_it_is_asked_for(monkeypatch):
    drawn = []
    real = SyntheticTask.drawn
    monkeypatch.setattr(SyntheticTask, "drawn", lambda self, client: drawn.append(client) or real(self, client))
    large = task(clients=10_000, test_clients=3)
    assert large.split_statistics()["clients"] == 10_000
    large.build_model(0)
    assert drawn == []
    large.client_examples(77)
    large.client_examples(77)
    assert drawn == [77]
    large.test_examples()
    assert drawn[1:] == [0, 4999, 9999]


def test_inputs_have_the_papers_deviations():
    """Sigma_jj = j^-1.2: the deviation of input j is j^-0.6, so 1 for the first and 0.0857 for the 60th."""
    deviation = task(examples=20_000).drawn(_large()).inputs.std(dim=0).numpy()
    assert np.allclose(deviation, np.arange(1, 61) ** -0.6, rtol=0.05)


def _large():
    """A client with more than 3,000 examples."""
    return next(client for client in range(1000) if task(examples=20_000).size(client) > 3000)


def test_alpha_changes_no_label():
    """u_k adds u_k (sum x + 1) to every logit alike."""
    for client in range(5):
        calm, wild = (task(alpha=alpha, examples=200).drawn(client) for alpha in (0.0, 9.0))
        assert torch.equal(calm.inputs, wild.inputs)
        assert torch.equal(calm.targets, wild.targets)


def test_beta_is_the_variance_of_the_clients_means():
    """Over 400 clients, the mean over the 60 elements of v_k has variance beta + 1/60."""
    for beta, expected in ((0.0, 1 / 60), (4.0, 4 + 1 / 60)):
        dial = task(beta=beta, examples=50)
        means = np.array([dial.drawn(client).inputs.mean() for client in range(400)])
        assert np.isclose(means.var(), expected, rtol=0.25)


def test_labels_are_those_of_the_clients_own_linear_model():
    """A linear model fits a client's labels: least squares on one-hot labels gets most of them right."""
    drawn = task(examples=20_000).drawn(_large())
    x = np.c_[drawn.inputs.numpy(), np.ones(len(drawn))]
    fit = np.linalg.lstsq(x, np.eye(10)[drawn.targets.numpy()], rcond=None)[0]
    assert (np.argmax(x @ fit, 1) == drawn.targets.numpy()).mean() > 0.7


def test_sizes_and_the_held_out_tenth():
    several = task(clients=40, examples=300)
    sizes = [several.size(client) for client in range(40)]
    assert (min(sizes) >= 50, max(sizes)) == (True, 300)
    train = [len(several.client_examples(client)) for client in range(40)]
    assert train == [size - size // 10 for size in sizes] == several.split_statistics()["examples"]
    test = several.test_examples()
    assert len(test) == sum(size // 10 for size in sizes)
    assert torch.equal(test.inputs[: sizes[0] // 10], several.drawn(0).inputs[-(sizes[0] // 10) :])


@pytest.mark.parametrize(("given", "groups"), [({"model": "logistic"}, 1), ({}, 4), ({"hidden": (5,)}, 2)])
def test_models_and_their_layer_groups(given, groups):
    some = task(**given)
    model = some.build_model(3)
    assert len(layer_groups(model)) == groups
    assert model(some.prepare(some.blank())).shape == (1, 10)
    assert all(map(torch.equal, model.parameters(), some.build_model(3).parameters()))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"alpha": -1.0}, r"^task\.alpha=-1\.0: must be a number from 0 on"),
        ({"beta": float("nan")}, r"^task\.beta=nan"),
        ({"model": "cnn"}, r"^task\.model=cnn: must be one of logistic, mlp"),
        ({"hidden": ()}, r"^task\.hidden=\[\]"),
        ({"examples": 9}, r"^task\.examples=9: must be 10 or more"),
        ({"clients": 0}, r"^task\.clients=0"),
    ],
)
def test_values_that_cannot_be(given, message):
    with pytest.raises(ValueError, match=message):
        task(**given)


def test_another_partition_is_refused():
    with pytest.raises(ValueError, match=r"^partition=dirichlet: synthetic has clients of its own"):
        SyntheticTask("synthetic", Dirichlet())


def test_a_devices_files_are_refused():
    with pytest.raises(ValueError, match=r"^data-path=/x: synthetic is drawn"):
        task().device_examples("/x")


def test_a_partial_round_of_it(tmp_path):
    overrides = ("experiment=fedpart_synthetic", "rounds=2", "strategy.warmup=1", "client.epochs=1", "task.clients=3")
    run = play(tmp_path, *overrides, "cohort.fraction=1", "task.alpha=0.5")
    assert run.rows[2]["groups"] == [0]
    assert json.loads((tmp_path / "split.json").read_text())["classes"] is None
    assert "beta: 0.5" in (tmp_path / "config.yaml").read_text()
