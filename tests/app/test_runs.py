"""Whole runs in this process: every choice plays, what it changes, and that runs can be repeated to the bit."""

import json

import numpy as np
import pytest

from app import checkpoint
from app.config import compose, make
from clients.layers import layer_groups
from clients.messages import read_reply
from strategies.fedpart import FedPartStrategy
from tests.runs import PARTLY, ROOT, Run, merged, play

STRATEGIES = sorted(file.stem for file in (ROOT / "conf" / "strategy").glob("*.yaml"))
SERVER_OPTIMIZERS = sorted({file.stem for file in (ROOT / "conf" / "server_optimizer").glob("*.yaml")} - {"none"})


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_strategy_plays_two_rounds(tmp_path, strategy):
    run = play(tmp_path, f"strategy={strategy}", "rounds=2")
    assert [row["completed"] for row in run.rows] == [0, 3, 3]
    assert run.summary["strategy"] == strategy
    assert all(np.isfinite(array).all() for array in run.weights.values())


@pytest.mark.parametrize("server_optimizer", SERVER_OPTIMIZERS)
@pytest.mark.parametrize("strategy", ["fedavg", "fedpart", "fedpart_sparsyfed"])
def test_every_server_optimizer_plays_two_rounds(tmp_path, strategy, server_optimizer):
    run = play(tmp_path, f"strategy={strategy}", f"server_optimizer={server_optimizer}", "rounds=2")
    assert [row["completed"] for row in run.rows] == [0, 3, 3]
    assert all(np.isfinite(array).all() for array in run.weights.values())


def test_a_partial_round_changes_its_groups_alone(partly):
    cfg = compose(merged(*PARTLY))
    groups = layer_groups(make(cfg, "task").build_model(0))
    paths = sorted((partly.folder / "checkpoints").glob("*.safetensors"))
    models = {read.round: read.weights for read in (checkpoint.load(path, cfg) for path in paths)}
    assert sorted(models) == [1, 2, 3, 4, 5, 6]
    for row in partly.rows[2:]:
        before, after = models[row["round"] - 1], models[row["round"]]
        changed = {name for name in before if before[name].tobytes() != after[name].tobytes()}
        assert changed == {name for index in row["groups"] for name in groups[index]}


def test_same_seed_same_run(partly, tmp_path):
    again = play(tmp_path, *PARTLY, "checkpoint.every=1")
    assert again.timeless == partly.timeless
    assert again.sha256 == partly.sha256
    assert (again.folder / "model.safetensors").read_bytes() == (partly.folder / "model.safetensors").read_bytes()
    assert (again.folder / "split.json").read_bytes() == (partly.folder / "split.json").read_bytes()


def test_another_seed_another_run(partly, tmp_path):
    other = play(tmp_path, *PARTLY, "seed=1")
    assert other.sha256 != partly.sha256
    assert other.rows[0]["loss"] != partly.rows[0]["loss"]
    assert (other.folder / "split.json").read_bytes() != (partly.folder / "split.json").read_bytes()


def test_fedpart_that_stays_full_is_fedavg(tmp_path):
    fedavg = play(tmp_path / "fedavg", "strategy=fedavg")
    fedpart = play(tmp_path / "fedpart", "strategy=fedpart", "strategy.warmup=3")
    assert fedpart.timeless == fedavg.timeless
    assert fedpart.sha256 == fedavg.sha256


def test_half_of_the_clients(tmp_path):
    overrides = ("strategy=fedavg", "cohort.fraction=0.5", "task.clients=6", "task.examples=10", "rounds=5")
    run, again = (play(tmp_path / name, *overrides) for name in ("one", "two"))
    sampled = [row["sampled"] for row in run.rows[1:]]
    assert all(clients == sorted(set(clients)) and len(clients) == 3 for clients in sampled)
    assert all(set(clients) <= set(range(6)) for clients in sampled)
    assert len(set(map(tuple, sampled))) > 1
    assert (again.timeless, again.sha256) == (run.timeless, run.sha256)
    other = play(tmp_path / "other", *overrides, "seed=1")
    assert [row["sampled"] for row in other.rows[1:]] != sampled


def test_local_statistics_stay_at_home(tmp_path, replies):
    """Nobody sends any, the server keeps none, and the summary says what took their place."""
    run = play(tmp_path, "batch_norm=local", "task.examples=100", "client.epochs=3", "client.lr=3e-3", *PARTLY)
    names = {name for content in replies for name in read_reply(content).weights}
    assert names == set(run.weights)
    assert not [name for name in names if "running_" in name or "num_batches" in name]
    assert (run.summary["batch_norm"], run.summary["evaluated_with"]) == ("local", "statistics of the test inputs")
    assert run.summary["best_accuracy"] > 0.6


@pytest.mark.parametrize(
    ("overrides", "disjoint"),
    [
        (["partition=dirichlet", "partition.alpha=0.3", "task.examples=null"], True),
        (["partition=pathological", "task.clients=5"], True),
        (["partition=draw", "task.clients=40", "task.examples=50"], False),
    ],
    ids=["dirichlet", "pathological", "draw"],
)
def test_partitions(tmp_path, overrides, disjoint):
    run = play(tmp_path, "rounds=1", "strategy=fedavg", *overrides)
    split = json.loads((run.folder / "split.json").read_text())
    clients = split["clients"]
    assert (len(split["examples"]), len(split["classes"])) == (clients, clients)
    assert (split["overlap"] == 0) == disjoint
    assert (run.rows[1]["completed"], run.rows[1]["sampled"]) == (clients, list(range(clients)))
    if "partition=pathological" in overrides:
        assert all(sum(count > 0 for count in classes) == 2 for classes in split["classes"])
    if "partition=draw" in overrides:
        assert split["examples"] == [50] * 40


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["fedavg", "fedpart"])
def test_the_default_learns(tmp_path, strategy):
    cfg = compose([f"strategy={strategy}"])
    assert (cfg.rounds, cfg.task.clients) == (25, 10)
    make(cfg, "runtime").run(cfg, tmp_path)
    assert Run(tmp_path).summary["best_accuracy"] >= 0.95


def test_a_merge_that_moves_what_nobody_sent_reaches_every_client(tmp_path, monkeypatch):
    """A server that adds momentum to all arrays: sending slices and sending everything end with the same bits."""
    plain = FedPartStrategy.merge

    def with_momentum(self, plan, mean):
        moved = plain(self, plan, mean)
        return {name: array + array.dtype.type(0.01) if array.ndim == 4 else array for name, array in moved.items()}

    monkeypatch.setattr(FedPartStrategy, "merge", with_momentum)
    partly = ("strategy=fedpart", "strategy.warmup=1", "rounds=4")
    runs = [play(tmp_path / downlink, f"downlink={downlink}", *partly) for downlink in ("slice", "full")]
    assert runs[0].sha256 == runs[1].sha256


@pytest.mark.parametrize("wire", ["fp16", "bf16", "int8"])
def test_rounded_values_travel_both_ways_and_slices_change_only_bytes(tmp_path, partly, wire):
    lossless = partly
    sliced, full = (play(tmp_path / d, *PARTLY, f"wire={wire}", f"downlink={d}") for d in ("slice", "full"))
    assert sliced.sha256 == full.sha256 != lossless.sha256
    for total in ("bytes_up_total", "bytes_down_total"):
        assert sliced.rows[-1][total] < 0.8 * lossless.rows[-1][total]
    assert sliced.rows[-1]["accuracy"] == pytest.approx(lossless.rows[-1]["accuracy"], abs=0.1)


def test_a_run_in_the_directory_of_an_earlier_one_leaves_nothing_of_it(tmp_path):
    play(tmp_path, "rounds=4", "checkpoint.every=1", "diagnostics=true")
    run = play(tmp_path, "rounds=2", "checkpoint.every=1", "seed=1")
    assert {name for name in run.files if "/" in name} == {
        "checkpoints/round-000001.safetensors",
        "checkpoints/round-000002.safetensors",
    }
    assert "steps.jsonl" not in run.files
    play(tmp_path / "on", "rounds=3", "seed=1", f"resume={tmp_path}")
