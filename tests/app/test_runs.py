"""Whole runs in this process: what they leave, what they cost, and that they can be repeated to the bit."""

import json

import numpy as np
import pytest
import torch
import yaml

from app import checkpoint, client_app, run_record
from app.config import compose, make, to_yaml
from clients.layers import layer_groups
from clients.messages import MODEL, nbytes, read_reply, records_nbytes
from clients.weights import fingerprint, load_weights
from clients.wire import dense_nbytes, pack
from strategies.fedpart import FedPartStrategy
from strategies.layers import LayerSchedule
from tests.runs import ROOT, Run, merged, play

FIELDS = {
    "round", "phase", "groups", "accuracy", "loss", "train_loss", "sampled", "completed", "failed", "rejected",
    "bytes_down", "bytes_up", "bytes_down_total", "bytes_up_total", "bytes_dense", "macs", "macs_dense",
    "sparsity_down", "sparsity_up", "sparsity_model", "mask_iou", "regrowth",
    "seconds_round", "seconds_server", "seconds_train", "memory_server_mb", "memory_client_mb",
}  # fmt: skip
SPARSE = ("sparsity_down", "sparsity_up", "sparsity_model", "mask_iou", "regrowth")
STRATEGIES = sorted(file.stem for file in (ROOT / "conf" / "strategy").glob("*.yaml"))
SERVER_OPTIMIZERS = sorted({file.stem for file in (ROOT / "conf" / "server_optimizer").glob("*.yaml")} - {"none"})
PARTLY = ("strategy=fedpart", "strategy.warmup=1", "strategy.rounds_per_layer=1", "rounds=6")
"""One full round, then each of the five groups once."""


@pytest.fixture(scope="module")
def partly(tmp_path_factory):
    """A FedPart run whose checkpoints of every round are all kept."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checkpoint, "_KEPT", 100)
        return play(tmp_path_factory.mktemp("partly"), *PARTLY, "checkpoint.every=1")


@pytest.fixture
def replies(monkeypatch):
    """Contents of all replies that clients of this process send."""
    seen, original = [], client_app.train_reply

    def listen(*args):
        reply = original(*args)
        seen.append(reply.content)
        return reply

    monkeypatch.setattr(client_app, "train_reply", listen)
    return seen


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


def test_files(tmp_path):
    run = play(tmp_path / "a run", "rounds=1")
    assert run.files == {
        "config.yaml", "rounds.jsonl", "summary.json", "model.safetensors", "report.html", "split.json",
    }  # fmt: skip
    assert (run.folder / "config.yaml").read_text() == to_yaml(compose(merged("rounds=1")))
    split = json.loads((run.folder / "split.json").read_text())
    assert (split["clients"], split["examples"], split["overlap"]) == (3, [40] * 3, 0)
    assert [sum(classes) for classes in split["classes"]] == [40] * 3


def test_checkpoints_are_the_two_newest(tmp_path):
    run = play(tmp_path, "rounds=4", "checkpoint.every=1")
    names = sorted(path.name for path in (run.folder / "checkpoints").iterdir())
    assert names == ["round-000003.safetensors", "round-000004.safetensors"]


def test_rows(partly):
    rows = partly.rows
    assert [row["round"] for row in rows] == list(range(7))
    for row in rows:
        assert set(row) >= FIELDS
        assert [row[name] for name in SPARSE] == [None] * 5
        assert 0 <= row["accuracy"] <= 1
        assert (row["failed"], row["rejected"], row["reasons"]) == (0, 0, {})
        assert row["seconds_round"] >= row["seconds_server"] >= 0
    initial, *played = rows
    assert (initial["phase"], initial["groups"], initial["train_loss"], initial["sampled"]) == (None, [], None, [])
    assert (initial["bytes_down"], initial["bytes_up"], initial["macs"], initial["seconds_train"]) == (0, 0, 0, 0)
    for row in played:
        assert (row["sampled"], row["completed"]) == ([0, 1, 2], 3)
        assert 0 < row["macs"] <= row["macs_dense"]
        assert 0 < row["bytes_down"] + row["bytes_up"] <= row["bytes_dense"]
        assert row["seconds_train"] > 0
        assert row["memory_server_mb"] >= row["memory_client_mb"] > 100  # one process plays both, and holds torch


def test_phases_are_the_schedules(partly):
    schedule = LayerSchedule(5, warmup=1, rounds_per_layer=1)
    for row in partly.rows[1:]:
        groups = schedule(row["round"])
        assert row["phase"] == ("full" if groups is None else "partial")
        assert row["groups"] == list(groups or ())


def test_totals_are_cumulative(partly):
    for way in ("down", "up"):
        sums = np.cumsum([row[f"bytes_{way}"] for row in partly.rows]).tolist()
        assert [row[f"bytes_{way}_total"] for row in partly.rows] == sums


def test_rows_are_on_the_disk_as_rounds_end(tmp_path, monkeypatch):
    """Whoever looks after the n-th round finds n whole lines more than after the start."""
    lines, original = [], run_record.RunRecord.add

    def look(self, *args):
        row = original(self, *args)
        text = (self.run_dir / "rounds.jsonl").read_text()
        assert text.endswith("\n")
        lines.append([json.loads(line)["round"] for line in text.splitlines()])
        assert not (self.run_dir / "summary.json").exists()
        return row

    monkeypatch.setattr(run_record.RunRecord, "add", look)
    play(tmp_path, "rounds=2")
    assert lines == [[0], [0, 1], [0, 1, 2]]


def test_summary_follows_from_the_rows(partly):
    rows, summary = partly.rows, partly.summary
    total = {name: sum(row[name] for row in rows) for name in rows[0] if name.startswith(("bytes", "macs", "seconds"))}
    dense_down = total["bytes_dense"] - total["bytes_dense_up"]
    assert summary["ratio_bytes"] == (total["bytes_down"] + total["bytes_up"]) / total["bytes_dense"]
    assert summary["ratio_bytes_up"] == total["bytes_up"] / total["bytes_dense_up"]
    assert summary["ratio_bytes_down"] == total["bytes_down"] / dense_down
    assert summary["ratio_macs"] == total["macs"] / total["macs_dense"]
    assert 0 < summary["ratio_bytes_up"] < summary["ratio_bytes_down"] <= 1
    assert 0 < summary["ratio_macs"] < 1
    best = max(rows, key=lambda row: row["accuracy"])
    assert (summary["best_accuracy"], summary["best_round"]) == (best["accuracy"], best["round"])
    assert (summary["accuracy"], summary["loss"]) == (rows[-1]["accuracy"], rows[-1]["loss"])
    assert (summary["bytes_up_total"], summary["bytes_down_total"]) == (
        rows[-1]["bytes_up_total"], rows[-1]["bytes_down_total"],
    )  # fmt: skip
    assert (summary["rounds"], summary["seed"], summary["runtime"], summary["task"]) == (6, 0, "inline", "digits")
    assert (summary["completed_total"], summary["failed_total"], summary["rejected_total"]) == (18, 0, 0)
    assert (summary["batch_norm"], summary["evaluated_with"]) == ("global", "averaged running statistics")
    assert {"python", "fedslice", "flwr", "torch", "numpy"} <= set(summary["versions"])


def test_the_model_is_the_final_one(partly):
    """Its hash is the summary's, and it is as good as the last row says, evaluated here by hand."""
    cfg = compose(merged(*PARTLY))
    task = make(cfg, "task")
    model = task.build_model(99)
    load_weights(model, partly.weights)
    ordered = {name: partly.weights[name] for name in model.state_dict()}  # the file sorts the names
    assert fingerprint(ordered) == partly.sha256
    model.eval()
    test = task.test_examples()
    with torch.no_grad():
        outputs = model(task.prepare(test.inputs))
    assert (outputs.argmax(1) == test.targets).float().mean().item() == pytest.approx(partly.rows[-1]["accuracy"])
    loss = torch.nn.functional.cross_entropy(outputs, test.targets).item()
    assert loss == pytest.approx(partly.rows[-1]["loss"], rel=1e-5)


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


def test_bytes_are_those_of_the_messages(tmp_path, replies):
    """Up to the byte: a partial round's uplink is its group's arrays, packed, and the records beside them."""
    run = play(tmp_path, *PARTLY)
    model = make(compose(merged(*PARTLY)), "task").build_model(0)
    groups, state = layer_groups(model), model.state_dict()
    assert len(replies) == 18
    for row in run.rows[1:]:
        mine = replies[3 * row["round"] - 3 : 3 * row["round"]]
        names = [name for i, group in enumerate(groups) if not row["groups"] or i in row["groups"] for name in group]
        updates = [read_reply(content).weights for content in mine]
        assert [list(update) for update in updates] == [names] * 3
        packed = sum(len(content.array_records[MODEL][MODEL].data) for content in mine)
        records = sum(len(record.deflate()) for content in mine for record in content.metric_records.values())
        assert row["bytes_up"] == packed + records == sum(nbytes(content) for content in mine)
        assert packed <= sum(pack(update).nbytes for update in updates)  # the server knows what they come from
        assert packed <= 3 * dense_nbytes({name: state[name].numpy() for name in names})
        dense = sum(dense_nbytes({name: t.numpy() for name, t in state.items()}) + records_nbytes(c) for c in mine)
        assert row["bytes_dense_up"] == dense


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


def test_central_evaluation_now_and_then(tmp_path):
    run = play(tmp_path, "rounds=3", "evaluation.every=2")
    assert [row["accuracy"] is None for row in run.rows] == [False, True, False, False]
    assert [row["loss"] is None for row in run.rows] == [False, True, False, False]
    assert all(row["train_loss"] is not None for row in run.rows[1:])


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


def test_a_run_leaves_the_configuration_that_repeats_it(partly, tmp_path):
    written = yaml.safe_load((partly.folder / "config.yaml").read_text())
    assert written["strategy"]["warmup"] == 1
    cfg = client_app.from_run_config({"cfg-yaml": (partly.folder / "config.yaml").read_text()})
    make(cfg, "runtime").run(cfg, tmp_path)
    assert Run(tmp_path).sha256 == partly.sha256


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


def test_a_run_in_the_directory_of_an_earlier_one_leaves_nothing_of_it(tmp_path):
    play(tmp_path, "rounds=4", "checkpoint.every=1", "diagnostics=true")
    run = play(tmp_path, "rounds=2", "checkpoint.every=1", "seed=1")
    assert {name for name in run.files if "/" in name} == {
        "checkpoints/round-000001.safetensors",
        "checkpoints/round-000002.safetensors",
    }
    assert "steps.jsonl" not in run.files
    play(tmp_path / "on", "rounds=3", "seed=1", f"resume={tmp_path}")


def test_the_last_round_has_a_checkpoint_so_that_a_finished_run_can_go_on(tmp_path):
    run = play(tmp_path / "three", "rounds=3", "checkpoint.every=2")
    assert "checkpoints/round-000003.safetensors" in run.files
    assert (
        play(tmp_path / "four", "rounds=4", f"resume={run.folder}").sha256 == play(tmp_path / "all", "rounds=4").sha256
    )


@pytest.mark.parametrize("wire", ["fp16", "bf16", "int8"])
def test_rounded_values_travel_both_ways_and_slices_change_only_bytes(tmp_path, partly, wire):
    lossless = partly
    sliced, full = (play(tmp_path / d, *PARTLY, f"wire={wire}", f"downlink={d}") for d in ("slice", "full"))
    assert sliced.sha256 == full.sha256 != lossless.sha256
    for total in ("bytes_up_total", "bytes_down_total"):
        assert sliced.rows[-1][total] < 0.8 * lossless.rows[-1][total]
    assert sliced.rows[-1]["accuracy"] == pytest.approx(lossless.rows[-1]["accuracy"], abs=0.1)
