"""A model by import path: what it is told, that a seed fixes it, and one line for each mistake."""

import sys

import pytest
import torch

from clients.tasks.images import ImageTask
from clients.tasks.partition import Iid
from clients.tasks.sources import Digits

MODULE = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self, num_classes, in_channels, width=4):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, width, 3, padding=1)
        self.fc = nn.Linear(width, num_classes)
    def forward(self, x):
        return self.fc(torch.relu(self.conv(x)).mean(dim=(2, 3)))

def seven(): return nn.Sequential(nn.Flatten(), nn.Linear(64, 7))
def flat(): return nn.Linear(64, 10)
def broken(): raise RuntimeError("out of ideas")
def number(): return 3
constant = 3
"""


@pytest.fixture(autouse=True)
def own_nets(tmp_path, monkeypatch):
    (tmp_path / "own_nets.py").write_text(MODULE)
    (tmp_path / "half_a_module.py").write_text("import no_such_library")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield
    sys.modules.pop("own_nets", None)


def build(model, **args):
    return ImageTask("digits", Digits(), Iid(), model=model, model_args=args).build_model(0)


def test_it_is_told_what_it_asks_for_and_a_seed_fixes_it():
    model = build("own_nets:Net", width=6)
    assert {name: tuple(value.shape) for name, value in model.state_dict().items()} == {
        "conv.weight": (6, 1, 3, 3), "conv.bias": (6,), "fc.weight": (10, 6), "fc.bias": (10,),
    }  # fmt: skip
    before = torch.random.get_rng_state()
    assert all(map(torch.equal, model.parameters(), build("own_nets:Net", width=6).parameters()))
    assert torch.equal(before, torch.random.get_rng_state())
    assert model.training


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("no_such_module:Net", r"not importable \(ModuleNotFoundError: .*; must be package.module:Class"),
        ("half_a_module:Net", r"not importable \(ModuleNotFoundError: No module named 'no_such_library'\)"),
        ("own_nets:Nte", r"not importable \(AttributeError: "),
        (":Net", r"not importable \(ValueError: "),
        ("own_nets:constant", r"is int, must be a class or a function"),
        ("own_nets:number", r"called with nothing it gives int, must be a torch.nn.Module"),
        ("own_nets:broken", r"called with nothing it raises RuntimeError: out of ideas"),
        ("own_nets:seven", r"an input of shape \(1, 1, 8, 8\) gives \(1, 7\), must be \(1, 10\)"),
        ("own_nets:flat", r"an input of shape \(1, 1, 8, 8\) raises RuntimeError: mat1 and mat2"),
    ],
)
def test_mistakes(model, message):
    with pytest.raises(ValueError, match=message) as caught:
        build(model)
    assert str(caught.value).startswith(f"task.model={model}: ")
    assert "\n" not in str(caught.value)


def test_arguments_that_do_not_fit():
    with pytest.raises(ValueError, match=r"called with num_classes=10, in_channels=1, depth=3 it raises TypeError"):
        build("own_nets:Net", depth=3)
