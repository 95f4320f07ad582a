"""A device that is slower than `cohort.round_timeout`, on real SuperNodes."""

import threading
import time

import pytest

from app.config import check, compose, make, to_yaml
from app.flower import flwr_run
from tests.devices import federation
from tests.runs import Run, merged, recorded

SLOW = ("strategy=fedavg", "rounds=3", "cohort.round_timeout=120", "checkpoint.every=1", "client.optimizer=sgd")


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_the_round_goes_on_and_the_next_has_it_again(tmp_path, leaves_nothing, capfd):
    """That its late answer changed nothing: round 3, played inline from the checkpoint of round 2, gives the same."""
    folder, cfg = tmp_path / "run", compose(merged(*SLOW))
    cfg.task = {
        "_target_": "tests.slow.SlowTask",
        "megabytes": 1,
        "clients": 2,
        "name": "slow",
        "folder": str(tmp_path),
    }
    check(cfg)
    with federation(tmp_path / "home", [f"partition-id={part} num-partitions=2" for part in (0, 1)]) as there:
        threading.Thread(target=go_after_round_2, args=(folder, tmp_path / "go"), daemon=True).start()
        status = flwr_run(there, {"cfg-yaml": to_yaml(cfg), "run-dir": str(folder)})
        log = (there / "node-1" / "supernode.log").read_text()
    assert status == "finished:completed", capfd.readouterr().out[-3000:]
    run = Run(folder)
    assert [row["completed"] for row in run.rows] == [0, 2, 1, 2]
    assert run.rows[2]["reasons"] == {"1": "no reply within 120 s"}
    late = log.rpartition("ROUND 2]")[2].partition("ROUND 3]")[0]
    assert "Sent successfully" in late
    cfg.resume = str(folder / "checkpoints" / "round-000002.safetensors")
    (tmp_path / "again").mkdir()
    make(cfg, "runtime").run(cfg, tmp_path / "again")
    assert Run(tmp_path / "again").sha256 == run.sha256
    assert Run(tmp_path / "again").timeless == run.timeless


def go_after_round_2(folder, go):
    while recorded(folder) < 2:
        time.sleep(0.1)
    go.touch()
