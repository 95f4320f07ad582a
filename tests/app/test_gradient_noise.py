"""The noise of gradients: against the full matrix of them, by hand, and of a run that was played."""

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from app.gradient_noise import gradient_variances, main, noise_of
from app.stored import load_run
from clients.seeds import torch_generator
from clients.training import batches
from tests.runs import play

BY_HAND = {"a": np.array([1.0, 1.0]), "b": np.array([9.0, 9.0])}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return play(tmp_path_factory.mktemp("run") / "fedavg", "strategy=fedavg", "rounds=1").folder


def test_variances_are_those_of_all_gradients_side_by_side(run):
    stored = load_run(run)
    found = gradient_variances(stored, 32, seed=5)
    model, examples = load_run(run).model.train(), stored.task.test_examples()
    gradients = []
    for rows in batches(len(examples), 32, torch_generator("noise", 5)):
        loss = F.cross_entropy(model(stored.task.prepare(examples.inputs[rows])), examples.targets[rows])
        gradients.append(torch.autograd.grad(loss, list(model.parameters())))
    for name, one in zip(dict(model.named_parameters()), zip(*gradients, strict=True), strict=True):
        np.testing.assert_allclose(found[name], torch.stack(one).double().flatten(1).var(0, correction=0), atol=1e-12)


def test_k_of_single_parameters_is_the_ratio_of_their_deviations():
    """A mask of one of four: deviation 1 or 3, both seen among 50 masks but for a chance of 2 in 2**50."""
    assert noise_of(BY_HAND, [], share=0.25, masks=50, seed=0).k == 3


def test_k_of_everything_is_one():
    assert noise_of(BY_HAND, [], share=1, masks=5, seed=0).k == 1


def test_the_noise_of_a_group_stands_beside_that_of_all():
    """Variances 1 and 9, on average 5: the groups' deviations are 1 and 3, that of all is the root of 5."""
    groups = noise_of(BY_HAND, [("a", "a.running_mean"), ("b",)], share=1, masks=1, seed=0).groups
    assert groups == pytest.approx({"a": 1 / 5**0.5, "b": 3 / 5**0.5})


def test_a_run_is_measured(run, capsys):
    assert main([str(run), "--masks", "20"]) == 0
    told = capsys.readouterr().out
    assert all(name in told for name in ("conv1.weight", "fc.weight"))
    assert 1 < float(told.split("k = ")[1].split()[0]) < 2


@pytest.mark.parametrize("wrong", [["--masks", "0"], ["--share", "1.5"], ["--batch-size", "0"], ["--share", "nan"]])
def test_a_mistake_is_one_line(run, wrong, capsys):
    assert main([str(run), *wrong]) == 2
    assert capsys.readouterr().err.startswith(f"fedslice: {wrong[0]}={wrong[1]}: must be ")


def test_no_run_is_one_line(tmp_path, capsys):
    assert main([str(tmp_path)]) == 2
    assert "not a finished run" in capsys.readouterr().err
