"""Sparse strategies: what a client is asked for, what it sends, and what becomes of it."""

import numpy as np
import pytest
from flwr.app import ArrayRecord

from clients.plan import RoundPlan, SparseTraining
from clients.sparse_layers import prunable
from clients.weights import weights_of
from strategies.cohort import Cohort
from strategies.fedpart_sparsyfed import FedPartSparsyFedStrategy
from strategies.flash import FlashStrategy
from strategies.roster import SimulatedRoster
from strategies.sparsyfed import SparsyFedStrategy
from strategies.zerofl import ZeroFLStrategy
from tests.tiny import ConvNet, ScriptedGrid, answer, asked

NAMES = prunable(ConvNet())  # 18, 54 and 6 weights


def build(strategy=SparsyFedStrategy, clients=2, **settings):
    roster = SimulatedRoster(clients)
    return strategy(weights_of(ConvNet()), roster, Cohort(), 0.1, prunable=NAMES, **settings)


def start(strategy, reply, rounds=1):
    """Play rounds in which client p replies with `reply(weights, p)`; the reports, and the orders."""
    orders = []

    def answered(message):
        order = asked(message)
        orders.append(order)
        return answer(message, reply(order.weights, order.partition))

    reports = []
    strategy.start(
        ScriptedGrid(answered), ArrayRecord(), num_rounds=rounds, evaluate_fn=lambda *_: reports.append(strategy.report)
    )
    return reports[1:], orders


def test_the_plan_travels():
    sparse = SparseTraining(0.9, 0.1, "powerprop", 1.25, True, True, 0.2, ("fc.weight",))
    plan = RoundPlan(3, (1,), 0.1, "layout", sparse=sparse, epochs=2)
    assert RoundPlan.from_config(plan.to_config()) == plan
    assert RoundPlan.from_config(RoundPlan(3, None, 0.1, "layout").to_config()).sparse is None


def test_the_model_starts_as_its_own_initialisation_has_it():
    strategy, usual = build(beta=1.25), weights_of(ConvNet())
    for name, array in strategy.effective().items():
        assert np.allclose(array, usual[name], atol=1e-6)
        assert np.array_equal(strategy.weights[name], usual[name]) == (name not in NAMES)
    resumed = build(beta=1.25, last_round=3)
    assert all(np.array_equal(array, usual[name]) for name, array in resumed.weights.items())
    assert build(beta="spectral").effective().keys() == usual.keys()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"sparsity": 95}, "sparsity=95: must be at least 0 and below 1; 0.95 for 95 %"),
        ({"client_sparsity": [0.9, 1.0]}, "client_sparsity=1.0"),
        ({"beta": 0.5}, "beta=0.5: must be at least 1, or spectral"),
        ({"floor": 1.5}, "floor=1.5: must be from 0 to 1"),
        ({"ramp": -1}, "ramp=-1"),
        ({"recovery": 3}, "recovery=3: is for prune=at_end only"),
        (
            {"client_sparsity": [0.9], "ramp": 9},
            r"client_sparsity=\[0.9\]: needs ramp=0 and prune=each_round, not 9 and",
        ),
        ({"client_sparsity": [0.9], "prune": "at_end"}, r"client_sparsity=\[0.9\]: needs .*, not 0 and at_end"),
        ({"dense_layers": ["fx"]}, "dense_layers=fx: has no weight to prune; there are conv1.weight"),
    ],
)
def test_what_cannot_be_is_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        build(**settings)


def test_the_ramp_by_hand():
    strategy = build(sparsity=0.8, ramp=4)
    assert [strategy.target(r) for r in (1, 2, 4, 9)] == pytest.approx([0.8 * (1 - 27 / 64), 0.8 * 7 / 8, 0.8, 0.8])
    assert build(sparsity=0.8).target(1) == 0.8


def test_what_a_layer_left_dense_and_a_client_of_its_own_are_asked_for():
    strategy = build(dense_layers=["fc", "conv1"], client_sparsity=[0.9, 0.5])
    _, orders = start(strategy, lambda weights, p: weights)
    sparse = [order.plan.sparse for order in orders]
    assert sparse[0].dense == ("fc.weight", "conv1.weight")
    assert [(own.sparsity, own.prune_received) for own in sparse] == [(0.9, True), (0.5, True)]


def sparse_reply(weights, partition):
    """Of conv2's 54 weights the first 10, or those from 5 to 14, are kept as ones."""
    kept = np.zeros(54, np.float32)
    kept[5 * partition : 5 * partition + 10] = 1
    return {**weights, "conv2.weight": kept.reshape(weights["conv2.weight"].shape)}


def test_zeros_count_as_zeros_and_regrow():
    strategy = build(beta=1.0)
    (report,), _ = start(strategy, sparse_reply)
    assert strategy.weights["conv2.weight"].ravel()[:16].tolist() == [0.5] * 5 + [1] * 5 + [0.5] * 5 + [0]
    assert report.sparsity_down == 0
    assert report.sparsity_up == pytest.approx(44 / 78)
    assert report.regrowth == pytest.approx(5 / 78)  # 15 stay instead of 10
    assert report.mask_iou == pytest.approx((5 + 24) / (15 + 24))  # conv1 and fc are dense


def test_repruning_takes_the_model_back_to_the_target():
    strategy = build(beta=1.0, sparsity=0.5, reprune=True)
    start(strategy, sparse_reply)
    assert sum(np.count_nonzero(strategy.weights[name]) for name in NAMES) == 39


def test_repruning_moves_nothing_outside_the_slice():
    strategy = build(FedPartSparsyFedStrategy, warmup=0, sparsity=0.5, reprune=True)
    before = dict(strategy.weights)
    start(strategy, lambda weights, p: {name: weights[name] for name in strategy.groups[0]})
    assert not strategy.weights["conv1.weight"].all()
    assert all(strategy.weights[name] is before[name] for group in strategy.groups[1:] for name in group)


def test_pruning_at_the_end_is_for_the_last_round():
    strategy = build(sparsity=0.5, prune="at_end", rounds=2)
    reports, orders = start(strategy, lambda weights, p: weights, rounds=2)
    assert [order.plan.sparse.sparsity for order in orders] == [0] * 4
    assert [report.sparsity_model for report in reports] == [0, 0.5]
    earlier = build(sparsity=0.5, prune="at_end", rounds=3, recovery=1)
    reports, _ = start(earlier, lambda weights, p: weights, rounds=3)
    assert [report.sparsity_model for report in reports] == [0, 0.5, 0.5]


def test_pruning_at_the_end_waits_for_a_round_that_is_not_lost():
    """Round 2 of 4 is the one to prune in, and all send NaN."""
    strategy = build(sparsity=0.5, prune="at_end", rounds=4, recovery=2)

    def reply(weights, partition):
        lost = strategy.report.round == 2
        return {name: array + np.nan if lost and array.dtype.kind == "f" else array for name, array in weights.items()}

    reports, _ = start(strategy, reply, rounds=4)
    assert [report.sparsity_model for report in reports] == [0, None, 0.5, 0.5]
    again = build(sparsity=0.5, prune="at_end", rounds=4, recovery=2)
    again.restore(strategy.state())
    assert again._pruned


def test_an_emptied_layer_is_named(caplog):
    def reply(weights, partition):
        return {**weights, "fc.weight": np.zeros_like(weights["fc.weight"])}

    with caplog.at_level("WARNING", logger="fedslice"):
        start(build(), reply, rounds=2)
    assert [record.message for record in caplog.records] == [
        "round 1: every weight of fc.weight is zero now; strategy.floor keeps some"
    ]


def test_flash_prunes_each_layer_to_the_mean_density_once():
    strategy = build(FlashStrategy, sparsity=0.5, warmup_epochs=3)
    _, orders = start(strategy, sparse_reply, rounds=2)
    assert (orders[0].plan.epochs, orders[0].plan.sparse.sparsity) == (3, 0.5)
    assert (orders[2].plan.epochs, orders[2].plan.sparse) == (None, SparseTraining(weights="fixed"))
    # 10 of 54 stay: the five that both keep, and of the ten halves those of the lowest index
    first = orders[2].weights["conv2.weight"].ravel()
    assert np.flatnonzero(first).tolist() == list(range(10))
    assert np.count_nonzero(orders[2].weights["fc.weight"]) == 6


def test_flash_finds_its_mask_in_a_model_that_has_zeros_by_chance():
    """Of the normal draws of a ResNet-18 some are exactly 0 for about every third seed."""
    strategy = build(FlashStrategy, sparsity=0.5)
    strategy.weights["conv2.weight"][0, 0, 0, 0] = 0
    _, orders = start(strategy, sparse_reply, rounds=2)
    assert [order.plan.sparse.sparsity for order in orders] == [0.5, 0.5, 0, 0]
    resumed = build(FlashStrategy, sparsity=0.5, last_round=2)
    resumed.restore(strategy.state())
    assert resumed.plan(3).sparse == SparseTraining(weights="fixed")


def test_zerofl_keeps_the_servers_values_where_clients_send_none():
    strategy = build(ZeroFLStrategy, sparsity=0.5, mask_ratio=0.1)
    before = strategy.weights["conv2.weight"].ravel()
    _, orders = start(strategy, sparse_reply)
    assert (orders[0].plan.sparse.sparsity, orders[0].plan.sparse.extra) == (0.5, 0.1)
    after = strategy.weights["conv2.weight"].ravel()
    assert np.allclose(after[:5], (1 + before[:5]) / 2)
    assert after[5:10].tolist() == [1] * 5
    assert np.array_equal(after[15:], before[15:])
    theta = strategy.effective()
    assert [np.count_nonzero(theta[name]) for name in NAMES] == [9, 27, 3]  # half of each layer


def test_fedpart_and_sparsyfed_each_add_to_the_plan():
    strategy = build(FedPartSparsyFedStrategy, warmup=1, rounds_per_layer=1, sparsity=0.9, beta=1.25)
    plans = [strategy.plan(server_round) for server_round in (1, 2, 3)]
    assert [plan.groups for plan in plans] == [None, (0,), (1,)]
    assert {(plan.sparse.sparsity, plan.sparse.weights, plan.sparse.beta) for plan in plans} == {
        (0.9, "powerprop", 1.25)
    }
