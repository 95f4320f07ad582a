"""Which client a device says that it is."""

import hashlib

import pytest

from app.client_app import _identity

DATA = hashlib.sha256(b"/data").hexdigest()


@pytest.mark.parametrize(
    ("node_config", "answer"),
    [
        ({"partition-id": 1, "num-partitions": 2}, {"partition-id": 1, "num-partitions": 2}),
        ({"partition-id": "1", "num-partitions": "2"}, {"partition-id": 1, "num-partitions": 2}),
        ({"data-path": "/data"}, {"data": DATA}),
        ({"data-path": "/data", "partition-id": 3, "num-partitions": 2}, {"partition-id": 3, "data": DATA}),
    ],
)
def test_what_its_node_config_says(node_config, answer):
    assert _identity(node_config) == answer


@pytest.mark.parametrize(
    "node_config",
    [
        {},
        {"partition-id": 0},
        {"partition-id": 2, "num-partitions": 2},
        {"partition-id": -1, "num-partitions": 2},
        {"partition-id": 0.5, "num-partitions": 2},
        {"partition-id": "first", "num-partitions": 2},
        {"partition-id": "first", "data-path": "/data"},
        {"partition-id": -1, "data-path": "/data"},
    ],
)
def test_one_that_does_not_say_it_is_told_so(node_config):
    """As an answer: an exception would leave the server waiting for a device that is there."""
    assert (
        f"its node-config {node_config} does not say which data to train on; start it"
        in _identity(node_config)["error"]
    )
