"""The embedded digits: a fixed split, an image task with every owed part, and defaults that learn."""

import hashlib

import pytest
import torch
from torch.nn import functional as F

from clients.tasks.images import ImageTask
from clients.tasks.partition import Iid
from clients.tasks.sources import Digits


@pytest.fixture(scope="module")
def task():
    return ImageTask("digits", Digits(), Iid(), mean=[0.3054], std=[0.3761])


def test_the_split_is_fixed_and_stratified(task):
    test = task.test_examples()
    assert (len(test), sum(task.split_statistics()["examples"])) == (360, 1437)
    assert torch.bincount(test.targets).tolist() == [36, 36, 35, 37, 36, 37, 36, 36, 35, 36]
    assert test.inputs.dtype == torch.uint8
    assert test.inputs.shape == (360, 1, 8, 8)
    assert test.inputs.max() == 16
    # Printed by this very expression; pins the split across versions of scikit-learn and NumPy.
    digest = hashlib.sha256(test.inputs.numpy().tobytes()).hexdigest()
    assert digest == "3cc232bd25364446c8646cd9434a26e35ea92e20045d395b2fdd2232a75c9b8f"


def test_partitions_are_kept_shared_and_checked(task):
    first = task.client_examples(0)
    assert task.client_examples(0) is first
    assert task.client_examples(0, clients=10) is first
    assert len(first) == 144
    assert len(task.client_examples(0, clients=3)) == 479
    with pytest.raises(ValueError, match="partition 10: must be from 0 to 9"):
        task.client_examples(10)
    with pytest.raises(ValueError, match=r"task.clients=0: must be 1 or more"):
        task.client_examples(0, clients=0)


def test_prepare_normalises_and_leaves_the_stored_images_alone(task):
    examples = task.client_examples(0, clients=1)
    before = examples.inputs.clone()
    prepared = task.prepare(examples.inputs)
    assert prepared.dtype == torch.float32
    assert abs(prepared.mean().item()) < 1e-3
    assert abs(prepared.std().item() - 1) < 1e-3
    assert torch.equal(examples.inputs, before)
    assert task.augment(prepared, torch.Generator()) is prepared


def test_statistics_are_plain_and_add_up(task):
    statistics = task.split_statistics(clients=4)
    assert statistics["clients"] == 4
    assert [sum(row) for row in statistics["classes"]] == statistics["examples"]
    assert statistics["overlap"] == 0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model": "mlp"}, "task.model=mlp: must be one of cnn, resnet8, resnet18"),
        ({"stem": "none"}, "task.stem=none: must be one of imagenet, cifar"),
        ({"clients": 0}, "task.clients=0: must be 1 or more"),
        ({"examples": 0}, "task.examples=0: must be 1 or more"),
        ({"rotation": -5}, "task.rotation=-5: must be from 0"),
        ({"shape": [3, 32, 32]}, r"task.shape=\[3, 32, 32\]: its data have \(1, 8, 8\); leave it out"),
        ({"classes": 7}, "task.classes=7: its data have 10; leave it out"),
        ({"resize": True}, "task.resize=True: its data have False; leave it out"),
        ({"std": [0.0]}, r"task.std=\[0.0\]: must be above 0"),
        ({"mean": [0.1, 0.2]}, r"task.mean=\[0.1, 0.2\]: must have one number per channel, 1"),
    ],
)
def test_wrong_settings_are_refused_at_the_start(changes, message):
    settings = {"mean": [0.3], "std": [0.4]} | changes
    with pytest.raises(ValueError, match=message):
        ImageTask("digits", Digits(), Iid(), **settings)


def test_a_path_is_refused_because_the_digits_are_embedded():
    with pytest.raises(ValueError, match=r"task.data=/x: the digits come with scikit-learn"):
        Digits(path="/x")


def test_the_default_model_learns(task):
    train, test = task.client_examples(0, clients=1), task.test_examples()
    model, order = task.build_model(seed=0), torch.Generator().manual_seed(0)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for _ in range(5):
        for batch in torch.randperm(len(train), generator=order).split(32):
            optimizer.zero_grad()
            logits = model(task.prepare(train.inputs[batch]))
            F.cross_entropy(logits, train.targets[batch]).backward()
            optimizer.step()
    model.eval()
    with torch.no_grad():
        right = model(task.prepare(test.inputs)).argmax(dim=1) == test.targets
    assert right.float().mean().item() > 0.95
