"""Kept sets by hand."""

import numpy as np
import pytest

from strategies.consensus import Consensus, densities_of, kept_change
from strategies.cost import RoundReport


def reply(*values, other=(0, 0)):
    return {"a": np.float32(values), "bias": np.float32(other)}


def consensus_of(*replies):
    consensus = Consensus(["a"])
    for one in replies:
        consensus.add(one)
    return consensus


def test_agreement_by_hand():
    # kept sets {0, 1}, {0, 2}, {0, 1}: pairs 1/3, 1, 1/3
    consensus = consensus_of(reply(1, 2, 0, 0), reply(3, 0, 4, 0), reply(5, 6, 0, 0))
    assert consensus.mask_iou == pytest.approx(5 / 9)
    assert consensus.sparsity == 0.5
    assert consensus.densities == {"a": 0.5}


def test_one_reply_agrees_with_nobody_and_none_says_nothing():
    assert consensus_of(reply(1, 0)).mask_iou is None
    assert consensus_of(reply(1, 0)).sparsity == 0.5
    empty = consensus_of({"bias": np.ones(1)})
    assert (empty.mask_iou, empty.sparsity, empty.densities) == (None, None, {})


def test_clients_that_trained_other_groups_are_no_pair():
    consensus = Consensus(["a", "b"])
    for one in (reply(1, 0), {"b": np.float32([1, 1])}, reply(0, 0)):
        consensus.add(one)
    assert consensus.mask_iou == 0  # the two that have "a"
    assert consensus.densities == {"a": 0.25, "b": 1}


def test_a_server_that_prunes_loses_nothing():
    report = RoundReport(1)
    report.pruned(consensus_of(reply(1, 1, 1, 0)), {"a": np.ones(4)}, {"a": np.float32([1, 0, 0, 0])})
    assert (report.sparsity_up, report.sparsity_model, report.regrowth) == (0.25, 0.75, 0)


def test_the_change_of_the_kept_set_by_hand():
    before, after = {"a": np.float32([1, 1, 0, 0])}, {"a": np.float32([1, 0, 1, 0])}
    assert kept_change(before, before) == 0
    assert kept_change(before, after) == pytest.approx(2 / 3)  # one of three stays
    assert kept_change({"a": np.zeros(2)}, {"a": np.zeros(2)}) == 0
    assert densities_of({"a": np.float32([1, 0, 0, 2])}) == {"a": 0.5}


def test_a_round_by_hand():
    report = RoundReport(1)
    report.sent(10, 20, values=4, zeros=1)
    report.sent(10, 20, values=4, zeros=2)
    consensus = consensus_of(reply(1, 0, 0, 0), reply(0, 1, 0, 0))
    report.pruned(consensus, {"a": np.ones(4)}, {"a": np.float32([0.5, 0.5, 0, 0])})
    assert (report.sparsity_down, report.sparsity_up, report.sparsity_model) == (0.375, 0.75, 0.5)
    assert (report.regrowth, report.mask_iou, report.kept_change) == (0.25, 0, 0.5)
    assert report.densities == {"a": 0.5}
    report.phase = "partial"
    assert report.regrowth is None


def test_a_dense_round_says_nothing_of_sparsity():
    report = RoundReport(1)
    report.sent(10, 20)
    assert report.sparsity_down is report.sparsity_up is report.regrowth is report.mask_iou is None
