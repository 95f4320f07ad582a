"""Sparse runs with real local training: exact equalities, counts and bytes."""

import numpy as np
import pytest

from app import run_record
from app.config import ConfigError, compose, make
from clients.sparse import sparsity_of
from clients.sparse_layers import prunable
from tests.runs import play

SPARSE = ("strategy.sparsity=0", "strategy.beta=1", "strategy.prune_activations=false")
FAST = ("client.optimizer=sgd", "client.lr=0.5")
NAMES = prunable(make(compose(), "task").build_model(0))
N = 288 + 9_216 + 18_432 + 36_864 + 640


def prunable_of(run):
    return [run.weights[name] for name in NAMES]


@pytest.mark.parametrize("objective", ["plain", "fedprox"])
@pytest.mark.parametrize("optimizer", [(), ("client.optimizer=sgd", "client.momentum=0.9", "client.weight_decay=0.01")])
def test_without_its_parts_sparsyfed_is_fedavg_bit_for_bit(tmp_path, optimizer, objective):
    same = (*optimizer, f"objective={objective}")
    fedavg = play(tmp_path / "fedavg", "strategy=fedavg", *same)
    sparse = play(tmp_path / "sparse", "strategy=sparsyfed", *SPARSE, *same)
    assert sparse.sha256 == fedavg.sha256
    assert [row["macs"] for row in sparse.rows] == [row["macs"] for row in fedavg.rows]


def test_fedpart_without_its_parts_is_fedpart_bit_for_bit(tmp_path):
    schedule = ("strategy.warmup=1", "strategy.rounds_per_layer=1")
    fedpart = play(tmp_path / "fedpart", "strategy=fedpart", *schedule)
    both = play(tmp_path / "both", "strategy=fedpart_sparsyfed", *schedule, *SPARSE)
    assert both.sha256 == fedpart.sha256


@pytest.mark.parametrize("optimizer", ["client.optimizer=adam", "client.momentum=0.9 client.optimizer=sgd"])
@pytest.mark.parametrize("strategy", ["sparsyfed", "topk"])
def test_exactly_so_many_weights_are_kept_after_local_training(tmp_path, strategy, optimizer):
    """One client, so that the model is its update."""
    one = ("task.clients=1", "client.weight_decay=0.1", *optimizer.split())
    run = play(tmp_path, f"strategy={strategy}", "strategy.sparsity=0.93", *one)
    assert sum(np.count_nonzero(array) for array in prunable_of(run)) == round(0.07 * N)
    assert [row["sparsity_up"] for row in run.rows[1:]] == pytest.approx([1 - round(0.07 * N) / N] * 3)
    assert all(row["regrowth"] == 0 for row in run.rows[1:])


def test_the_rows_of_a_sparse_run(tmp_path):
    run = play(tmp_path, "strategy=sparsyfed", *FAST)
    first, second, third = run.rows[1:]
    assert first["sparsity_down"] == 0
    assert second["sparsity_down"] == first["sparsity_model"]
    assert third["sparsity_down"] == second["sparsity_model"]
    for row in run.rows[1:]:
        assert row["regrowth"] == max(0, row["sparsity_up"] - row["sparsity_model"])
        assert 0 < row["mask_iou"] <= 1
        assert row["sparsity_up"] == pytest.approx(0.95, abs=1e-4)
        assert set(row["densities"]) == set(NAMES)
    assert third["sparsity_model"] == sparsity_of(prunable_of(run)) == run.summary["sparsity_model"]
    assert first["macs"] == first["macs_dense"]  # the first round trains dense
    assert third["macs"] < 0.3 * third["macs_dense"]
    assert third["bytes_up"] + third["bytes_down"] < third["bytes_dense"] / 8
    assert run.files >= {"model.safetensors", "theta.safetensors"}


def test_dense_runs_say_nothing_of_sparsity(tmp_path):
    run = play(tmp_path, "strategy=fedavg", "rounds=1")
    names = ("sparsity_down", "sparsity_up", "sparsity_model", "mask_iou", "regrowth", "kept_change", "densities")
    assert all(row[name] is None for row in run.rows for name in names)
    assert "theta.safetensors" not in run.files


def test_flash_keeps_its_mask_and_zerofl_its_dense_model(tmp_path):
    three = play(tmp_path / "three", "strategy=flash", "strategy.warmup_epochs=2", *FAST)
    four = play(tmp_path / "four", "strategy=flash", "strategy.warmup_epochs=2", "rounds=4", *FAST)
    assert [row["kept_change"] for row in four.rows[2:]] == [0, 0, 0]
    assert all(np.array_equal(a == 0, b == 0) for a, b in zip(prunable_of(three), prunable_of(four), strict=True))
    zerofl = play(tmp_path / "zerofl", "strategy=zerofl", *FAST)
    assert zerofl.rows[-1]["sparsity_up"] == pytest.approx(0.85, abs=1e-4)
    assert zerofl.rows[-1]["sparsity_model"] < 0.01


def test_in_a_partial_round_only_the_slice_moves_and_only_what_is_kept_travels(tmp_path):
    schedule = ("strategy=fedpart_sparsyfed", "strategy.warmup=2", "strategy.order=[3]", *FAST)
    before = play(tmp_path / "before", *schedule, "rounds=2")
    after = play(tmp_path / "after", *schedule, "rounds=3")
    moved = {name for name in before.weights if not np.array_equal(before.weights[name], after.weights[name])}
    assert "conv4.weight" in moved
    assert all(name.startswith(("conv4.", "bn4.")) for name in moved)
    row = after.rows[-1]
    assert (row["groups"], row["phase"], row["regrowth"]) == ([3], "partial", None)
    assert row["bytes_up"] < 0.3 * 3 * before.weights["conv4.weight"].nbytes


def test_clients_of_their_own_sparsity_prune_what_they_receive(tmp_path):
    own = "strategy.client_sparsity=[0.5,0.9,0.99]"
    run = play(tmp_path, "strategy=sparsyfed", own, *FAST)
    kept = [round((1 - sparsity) * N) for sparsity in (0.5, 0.9, 0.99)]
    assert run.rows[-1]["sparsity_up"] == pytest.approx(1 - sum(kept) / 3 / N)


def test_pruning_at_the_end_is_of_the_rounds_that_were_set(tmp_path):
    """Other rounds would be another schedule; where nothing follows them they may be prolonged."""
    half = play(tmp_path / "half", "strategy=powerprop", *FAST, "checkpoint.every=1")
    with pytest.raises(ConfigError, match="rounds: 3 then, 6 now"):
        play(tmp_path / "rest", "strategy=powerprop", *FAST, "rounds=6", f"resume='{half.folder}'")


@pytest.mark.parametrize("objective", ["fedprox", "moon"])
def test_objectives_compose(tmp_path, objective):
    plain = play(tmp_path / "plain", "strategy=sparsyfed", f"objective={objective}", "objective.mu=0", *FAST)
    with_term = play(tmp_path / "with", "strategy=sparsyfed", f"objective={objective}", "objective.mu=1", *FAST)
    without = play(tmp_path / "without", "strategy=sparsyfed", *FAST)
    assert plain.sha256 == without.sha256 != with_term.sha256


def test_the_default_federation_learns_sparse(tmp_path):
    run = play(tmp_path, "strategy=sparsyfed", *FAST, "task.examples=null", "rounds=6", "client.epochs=2")
    assert run.summary["best_accuracy"] > 0.8


@pytest.mark.parametrize(
    ("changes", "sparsities", "settled"),
    [
        ([0.9, 0.005, 0.02, 0.009, 0.0], [0.9] * 5, 4),  # the second round's small change did not last
        ([0.0, 0.0, 0.95, 0.0, 0.0], [0.0, 0.0, 0.95, 0.95, 0.95], 4),  # a dense model's kept set is not settled
        ([0.9, 0.5, 0.3], [0.9] * 3, None),
        ([None, None], [None, None], None),
    ],
)
def test_the_round_from_which_the_kept_set_had_settled(changes, sparsities, settled):
    rows = [
        {"round": number, "kept_change": change, "sparsity_model": sparsity, "densities": None, "mask_iou": None}
        | {"regrowth": None}
        for number, (change, sparsity) in enumerate(zip(changes, sparsities, strict=True), start=1)
    ]
    assert run_record._sparse_results(rows)["settled_round"] == settled
