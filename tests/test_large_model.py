"""A model far larger than one message goes through SuperLink and SuperNode, and nothing of it is lost."""

import os

import pytest

from app.config import check, compose, make, to_yaml
from app.flower import flwr_run
from tests.devices import federation
from tests.runs import Run, merged

MEGABYTES = int(os.environ.get("FEDSLICE_LARGE_MODEL_MB", "50"))
"""600 were played as well; docs/devices.md says what memory that takes."""


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_large_model_comes_back_equal(tmp_path, leaves_nothing, capfd):
    """Two rounds of real steps: what the second starts from came up, and went down again."""
    given = merged("strategy=fedavg", "rounds=2", "client.optimizer=sgd")
    cfg = compose(given)
    cfg.task = {"_target_": "tests.large.LargeTask", "megabytes": MEGABYTES, "clients": 1, "name": "large"}
    check(cfg)
    inline, folder = tmp_path / "inline", tmp_path / "run"
    inline.mkdir()
    with federation(tmp_path / "home", ["partition-id=0 num-partitions=1"]) as there:
        status = flwr_run(there, {"cfg-yaml": to_yaml(cfg), "run-dir": str(folder)})
    assert status == "finished:completed", capfd.readouterr().out[-3000:]
    make(cfg, "runtime").run(cfg, inline)  # afterwards, so that both need not fit into the memory at once
    rows = Run(folder).rows
    assert [row["completed"] for row in rows] == [0, 1, 1]
    assert min(row["bytes_up"] for row in rows[1:]) > 0.4e6 * MEGABYTES  # as changes to the model, packed
    assert rows[1]["train_loss"] != rows[2]["train_loss"]
    assert Run(folder).sha256 == Run(inline).sha256
