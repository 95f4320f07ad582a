"""Loggers: what is read back equals rounds.jsonl; a missing package is one line that names the extra."""

import csv
import json
import sys
from types import SimpleNamespace

import pytest

from app.config import ConfigError
from app.loggers import LOGGERS, check_loggers, measures, open_loggers
from tests.runs import play


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    pytest.importorskip("tensorboard")
    return play(tmp_path_factory.mktemp("run"), "loggers=[csv,tensorboard]", "rounds=2", "checkpoint.every=1")


def read_csv(folder):
    with (folder / "rounds.csv").open(newline="") as file:
        return [
            {name: json.loads(value) if value else None for name, value in row.items() if name != "phase"}
            for row in csv.DictReader(file)
        ]


def read_events(folder):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(folder / "tensorboard")).Reload()
    return {name: {e.step: e.value for e in events.Scalars(name)} for name in events.Tags()["scalars"]}


def test_csv_holds_what_rounds_jsonl_holds(run):
    assert read_csv(run.folder) == [{k: v for k, v in row.items() if k != "phase"} for row in run.rows]


def test_tensorboard_holds_every_number_that_was_measured(run):
    events = read_events(run.folder)
    for row in run.rows:
        there = {name: steps[row["round"]] for name, steps in events.items() if row["round"] in steps}
        assert there == pytest.approx(measures(row), rel=1e-6)
    assert events["accuracy"].keys() == {0, 1, 2}
    assert "mask_iou" not in events


def test_a_resumed_runs_loggers_have_the_rounds_before(run, tmp_path):
    resumed = play(tmp_path, "loggers=[csv]", "rounds=3", "checkpoint.every=1", f"resume='{run.folder}'")
    assert [row["round"] for row in read_csv(tmp_path)] == [0, 1, 2, 3]
    assert read_csv(tmp_path)[:3] == read_csv(run.folder)
    assert len(resumed.rows) == 4


def test_mlflow_and_wandb_by_what_they_are_called_with(tmp_path, monkeypatch):
    """Stands in for the packages, which need a server or an account."""
    calls = []

    def recorder(name, result=None):
        return lambda *args, **kwargs: calls.append((name, args, kwargs)) or result

    wandb_run = SimpleNamespace(log=recorder("log"), finish=recorder("finish"))
    mlflow = {name: recorder(name) for name in ("start_run", "log_dict", "log_metrics", "end_run")}
    monkeypatch.setitem(sys.modules, "mlflow", SimpleNamespace(**mlflow))
    monkeypatch.setitem(sys.modules, "wandb", SimpleNamespace(init=recorder("init", wandb_run)))
    row = {"round": 1, "accuracy": 0.5, "loss": None, "sampled": [0, 1], "phase": "full", "macs": 7}
    loggers = open_loggers(["mlflow", "wandb"], tmp_path / "a run", {"seed": 3}, [row])
    for logger in loggers:
        logger.close()
    numbers = {"accuracy": 0.5, "macs": 7.0}
    assert calls == [
        ("start_run", (), {"run_name": "a run"}),
        ("log_dict", ({"seed": 3}, "config.json"), {}),
        ("init", (), {"name": "a run", "dir": str(tmp_path / "a run"), "config": {"seed": 3}}),
        ("log_metrics", (numbers,), {"step": 1}),
        ("log", (numbers,), {"step": 1}),
        ("end_run", (), {}),
        ("finish", (), {}),
    ]


@pytest.mark.parametrize("name", ["tensorboard", "mlflow", "wandb"])
def test_a_missing_package_names_the_extra(name, monkeypatch):
    monkeypatch.setitem(LOGGERS, name, (LOGGERS[name][0], "no_such_package"))
    with pytest.raises(
        ConfigError, match=rf"^loggers=\['{name}'\]: {name} needs .*; pip install 'fedslice\[{name}\]'$"
    ):
        check_loggers([name])


def test_an_unknown_logger_names_the_choices(cli, files_left):
    status, _, complaint = cli("loggers=[tensorbord]")
    assert (status, complaint.count("\n"), files_left()) == (2, 1, [])
    assert "must be a list of csv, tensorboard, mlflow or wandb" in complaint
