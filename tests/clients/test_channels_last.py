"""Channels last in memory: other speed, the same numbers up to the last bits, the same bytes on the wire."""

import torch

from app import client_app
from app.config import compose, to_yaml
from clients.training import LocalTraining, channels_last
from clients.weights import load_weights, weights_of
from tests.runs import merged, play
from tests.tiny import ConvNet, bits


def test_values_and_shape_stay():
    images, texts = torch.randn(2, 3, 4, 5), torch.randn(2, 7)
    assert torch.equal(channels_last(images), images)
    assert channels_last(images).is_contiguous(memory_format=torch.channels_last)
    assert channels_last(texts) is texts
    assert LocalTraining().arrange(images) is images


def test_weights_travel_in_the_usual_order():
    usual, other = ConvNet(), ConvNet().to(memory_format=torch.channels_last)
    assert bits(other) == bits(usual)
    load_weights(other, {name: array + 1 for name, array in weights_of(usual).items()})
    assert bits(other) == bits({name: array + 1 for name, array in weights_of(usual).items()})
    assert not other.conv2.weight.is_contiguous()


def test_a_run_learns_the_same(tmp_path):
    """Three rounds of FedPart: sums in another order, so equal to some 1e-4 and no further."""
    usual = play(tmp_path / "usual", "client.optimizer=sgd")
    other = play(tmp_path / "other", "client.optimizer=sgd", "client.channels_last=true")
    site = client_app._site(to_yaml(compose(merged("client.optimizer=sgd", "client.channels_last=true"))), "")
    assert site.model.conv2.weight.is_contiguous(memory_format=torch.channels_last)
    for name, array in usual.weights.items():
        torch.testing.assert_close(torch.tensor(other.weights[name]), torch.tensor(array), rtol=1e-3, atol=1e-4)
    assert [row["macs"] for row in other.rows] == [row["macs"] for row in usual.rows]
