"""Which arrays a client lacks, by hand."""

import json

import numpy as np
import pytest

from strategies.downlink import Downlink
from tests.tiny import bits

MODEL = {name: np.zeros(1) for name in "abc"}


def test_who_was_never_seen_lacks_everything():
    downlink = Downlink(MODEL, slices=True)
    assert downlink.base(0) is None
    assert list(downlink.lacking(MODEL, None)) == ["a", "b", "c"]


def test_who_was_seen_lacks_what_changed_since_the_start_of_that_round():
    """Seen in round 2, which changed b; round 3 changed c. Before it, round 1 had changed a."""
    downlink = Downlink(MODEL, slices=True)
    for server_round, name in ((1, "a"), (2, "b"), (3, "c")):
        downlink.merged([name], server_round)
    downlink.confirm(0, 2)
    assert downlink.base(0) == 2
    assert list(downlink.lacking(MODEL, 2)) == ["b", "c"]
    assert list(downlink.lacking(MODEL, 4)) == []


def test_who_forgot_lacks_everything_again():
    downlink = Downlink(MODEL, slices=True)
    downlink.confirm(0, 2)
    downlink.confirm(1, 2)
    downlink.forget(0)
    assert (downlink.base(0), downlink.base(1)) == (None, 2)


def test_off_everyone_is_sent_everything_and_keeps_nothing():
    downlink = Downlink(MODEL, slices=False)
    downlink.confirm(0, 2)
    assert downlink.base(0) is None
    assert not downlink.keeps(partial=True)


def test_a_model_is_only_kept_where_something_of_it_stays():
    downlink = Downlink(MODEL, slices=True)
    assert downlink.keeps(partial=True)
    assert not downlink.keeps(partial=False)


def test_its_state_goes_through_json():
    downlink, other = Downlink(MODEL, slices=True), Downlink(MODEL, slices=True)
    downlink.merged(["b"], 7)
    downlink.confirm(3, 7)
    other.restore(json.loads(json.dumps(downlink.state())))
    assert other.base(3) == 7
    assert list(other.lacking(MODEL, 7)) == ["b"]


@pytest.mark.parametrize("wire", ["fp16", "bf16", "int8"])
def test_an_array_is_rounded_once_for_every_change(wire):
    """What a client holds from an earlier round is what the server believes it holds."""
    weights = {name: np.random.default_rng(0).normal(size=50).astype(np.float32) for name in "ab"}
    downlink = Downlink(weights, slices=True)
    first = downlink.rounded(weights, wire, 7)
    downlink.merged(["b"], 1)
    second = downlink.rounded(weights, wire, 7)
    assert bits({"a": first["a"]}) == bits({"a": second["a"]})
    assert (first["b"].tobytes() == second["b"].tobytes()) == (wire != "int8")  # which is random anew
    restored = Downlink(weights, slices=True)
    restored.restore(downlink.state())
    assert bits(restored.rounded(weights, wire, 7)) == bits(second)
    assert bits(downlink.rounded(weights, "lossless", 7)) == bits(weights)
