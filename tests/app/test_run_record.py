"""What a run leaves: its files, its rows to the byte, its summary, its model and its checkpoints."""

import hashlib
import json
import math

import numpy as np
import pytest
import torch
import yaml

from app import client_app, run_record, serve
from app.config import compose, make, to_yaml
from clients.layers import layer_groups
from clients.messages import MODEL, read_reply
from clients.records import nbytes, records_nbytes
from clients.weights import load_weights
from clients.wire import dense_nbytes, pack
from strategies.layers import LayerSchedule
from tests.runs import PARTLY, QUICK, Run, merged, play

FIELDS = {
    "round", "phase", "groups", "accuracy", "loss", "train_loss", "sampled", "completed", "failed", "rejected",
    "bytes_down", "bytes_up", "bytes_down_total", "bytes_up_total", "bytes_dense", "macs", "macs_dense",
    "sparsity_down", "sparsity_up", "sparsity_model", "mask_iou", "regrowth",
    "seconds_round", "seconds_server", "seconds_train", "memory_server_mb", "memory_client_mb",
}  # fmt: skip
SPARSE = ("sparsity_down", "sparsity_up", "sparsity_model", "mask_iou", "regrowth")


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
    """Its file's hash is the summary's, and it is as good as the last row says, evaluated here by hand."""
    cfg = compose(merged(*PARTLY))
    task = make(cfg, "task")
    model = task.build_model(99)
    load_weights(model, partly.weights)
    assert hashlib.sha256((partly.folder / "model.safetensors").read_bytes()).hexdigest() == partly.sha256
    model.eval()
    test = task.test_examples()
    with torch.no_grad():
        outputs = model(task.prepare(test.inputs))
    assert (outputs.argmax(1) == test.targets).float().mean().item() == pytest.approx(partly.rows[-1]["accuracy"])
    loss = torch.nn.functional.cross_entropy(outputs, test.targets).item()
    assert loss == pytest.approx(partly.rows[-1]["loss"], rel=1e-5)


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


def test_central_evaluation_now_and_then(tmp_path):
    run = play(tmp_path, "rounds=3", "evaluation.every=2")
    assert [row["accuracy"] is None for row in run.rows] == [False, True, False, False]
    assert [row["loss"] is None for row in run.rows] == [False, True, False, False]
    assert all(row["train_loss"] is not None for row in run.rows[1:])


def test_a_run_leaves_the_configuration_that_repeats_it(partly, tmp_path):
    written = yaml.safe_load((partly.folder / "config.yaml").read_text())
    assert written["strategy"]["warmup"] == 1
    cfg = client_app.from_run_config({"cfg-yaml": (partly.folder / "config.yaml").read_text()})
    make(cfg, "runtime").run(cfg, tmp_path)
    assert Run(tmp_path).sha256 == partly.sha256


def test_the_last_round_has_a_checkpoint_so_that_a_finished_run_can_go_on(tmp_path):
    run = play(tmp_path / "three", "rounds=3", "checkpoint.every=2")
    assert "checkpoints/round-000003.safetensors" in run.files
    assert (
        play(tmp_path / "four", "rounds=4", f"resume={run.folder}").sha256 == play(tmp_path / "all", "rounds=4").sha256
    )


@pytest.mark.parametrize("loss", [math.nan, math.inf])
def test_a_model_that_gives_no_number_leaves_files_that_everyone_can_read(tmp_path, monkeypatch, loss):
    """NaN is no JSON; accuracy says that the round was evaluated."""
    monkeypatch.setattr(serve, "evaluate", lambda *args, **kwargs: (loss, 0.1))
    run = play(tmp_path, *QUICK, "task.examples=8", "rounds=1", "loggers=[csv,tensorboard]")
    for text in (*(run.folder / "rounds.jsonl").read_text().splitlines(), (run.folder / "summary.json").read_text()):
        json.loads(text, parse_constant=pytest.fail)
    assert [(row["accuracy"], row["loss"]) for row in run.rows] == [(0.1, None)] * 2
