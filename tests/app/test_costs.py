"""A schedule's costs without training: the FedPart paper's figures, and a real run's."""

import pytest

from app.config import compose
from app.costs import cost_of, main
from tests.runs import merged, play


@pytest.mark.parametrize(
    ("experiment", "uplink", "macs"),
    # Paper: (25 + 100/10) / 125 = 28.0 % and (15 + 126/21) / 141 = 14.9 %. MACs: benchmarks/bench_partial.py agrees.
    [
        ("fedpart_resnet8_cifar10", (25 + 100 / 10) / 125, 0.60),
        ("fedpart_resnet18_cifar100", (15 + 126 / 21) / 141, 0.56),
    ],
)
def test_the_papers_schedules(experiment, uplink, macs):
    cost = cost_of(compose([f"experiment={experiment}"]))
    assert cost.up / cost.dense == pytest.approx(uplink, abs=1e-12)
    assert cost.macs / cost.macs_dense == pytest.approx(macs, abs=0.005)
    assert cost.down > cost.up  # the first partial round of each cycle has to send the full model down


def test_fedavg_costs_what_dense_training_costs():
    cost = cost_of(compose(["strategy=fedavg", "rounds=3"]))
    assert cost.up == cost.down == cost.dense
    assert cost.macs == cost.macs_dense
    assert cost.partial_rounds == 0


def test_without_slices_down_goes_the_full_model():
    cost = cost_of(compose(["downlink=full"]))
    assert cost.down == cost.dense


def test_macs_are_those_that_a_client_reports(tmp_path):
    """Three clients of 40 examples: a run's MACs are the schedule's for one example, 120 times. Two epochs: cached."""
    overrides = ("rounds=8", "client.epochs=2")
    run, cost = play(tmp_path, *overrides), cost_of(compose(merged(*overrides)))
    assert sum(row["macs"] for row in run.rows) == cost.macs * 120
    assert sum(row["macs_dense"] for row in run.rows) == cost.macs_dense * 120


def test_the_command_prints_a_table_and_names_mistakes(capsys):
    assert main(["rounds=6"]) == 0
    assert "bytes up, per client" in capsys.readouterr().out
    assert main(["rounds=0"]) == 2
    assert capsys.readouterr().err == "fedslice: rounds=0: must be an integer of at least 1\n"


def test_sparse_training_by_hand():
    """One layer of 640 weights in 66,222 values stays; bytes of the rest are the mask's entropy and the values."""
    settings = ["rounds=2", "client.epochs=1", "strategy.sparsity=0.5", "task.model=cnn"]
    cost = cost_of(compose(["strategy=sparsyfed", *settings]))
    pruned, whole = 65_440, 66_222 * 4 + 4 * 8 - 4 * 4  # num_batches_tracked is of 8 bytes
    sparse = whole - pruned * 4 + pruned // 8 + pruned * 2  # one bit a weight, half of the values
    assert (cost.up, cost.down) == (2 * sparse, whole + sparse)
    dense = cost_of(compose(["strategy=fedavg", *settings[:2]]))
    assert cost.macs == dense.macs * 3 // 4  # the second round at half
    topk = cost_of(compose(["strategy=topk", *settings]))
    assert topk.macs == dense.macs


@pytest.mark.parametrize(
    ("settings", "densities"),
    [
        (["strategy=flash"], [1, 0.5, 0.5]),  # the mask is found in the first round
        (["strategy=powerprop", "strategy.recovery=1"], [1, 1, 0.5]),  # pruned after the second of three
        (["strategy=fedsparsify", "strategy.beta=1.25"], [1, 1 - 0.5 * 19 / 27, 1 - 0.5 * 26 / 27]),
    ],
)
def test_work_follows_the_zeros_that_stay(settings, densities):
    """Work is proportional to density: weight gradients too, where zeros stay zero."""
    cost = cost_of(compose([*settings, "rounds=3", "strategy.sparsity=0.5"]))
    assert cost.macs / cost.macs_dense == pytest.approx(sum(densities) / 3, abs=1e-4)


@pytest.mark.parametrize("option", ["-h", "--help"])
def test_help_says_what_it_is_for(option, capsys):
    assert main([option]) == 0
    assert "python -m app.costs experiment=" in capsys.readouterr().out
