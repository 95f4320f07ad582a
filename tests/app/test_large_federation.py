"""Ten thousand clients, ten a round: what a round does and keeps is that of the ten."""

import json

from safetensors import safe_open

from clients.tasks.images import ImageTask
from tests.runs import play

LARGE = ("task.clients=10000", "task.examples=20", "partition=draw", "cohort.fraction=0.001", "rounds=3")


def test_ten_of_ten_thousand(tmp_path, monkeypatch):
    read, original = [], ImageTask._read_train
    monkeypatch.setattr(ImageTask, "_read_train", lambda task, rows: read.append(len(rows)) or original(task, rows))
    partial = ("strategy=fedpart", "strategy.warmup=0", "strategy.rounds_per_layer=1")
    run = play(tmp_path, *LARGE, *partial, "checkpoint.every=3")
    assert [len(row["sampled"]) for row in run.rows] == [0, 10, 10, 10]
    asked = {client for row in run.rows for client in row["sampled"]}
    assert max(asked) > 1000
    assert read == [20] * len(asked)  # nobody else's examples were touched
    with safe_open(tmp_path / "checkpoints" / "round-000003.safetensors", framework="numpy") as file:
        seen = json.loads(file.metadata()["state"])["strategy"]["downlink"]["seen"]
    assert {int(client) for client in seen} == asked  # all that the server keeps of a client
    assert len(json.loads((tmp_path / "split.json").read_text())["examples"]) == 10_000
