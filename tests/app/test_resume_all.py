"""Every strategy, server optimizer, objective and wire: a run that was stopped and resumed ends in the same bits."""

from dataclasses import replace

import pytest

from app.checkpoint import load, save
from app.config import compose
from tests.runs import ROOT, merged, play

SHORT = ("task.examples=20", "cohort.fraction=0.7", "client.optimizer=sgd", "client.lr=0.5", "rounds=4")
CYCLE = ("strategy.warmup=1", "strategy.rounds_per_layer=1", "strategy.order=random")
OWN = {"fedpart": CYCLE, "fedpart_sparsyfed": CYCLE, "powerprop": ("strategy.recovery=1",)}
"""So that what a strategy does in later rounds is in these four, before and after the stop."""


def choices(group):
    """All files of a folder of conf/."""
    return sorted(file.stem for file in (ROOT / "conf" / group).glob("*.yaml"))


def check(folder, *overrides):
    """Stopped after two of four rounds, in another folder: all but times is that of the whole run."""
    whole = play(folder / "whole", *SHORT, *overrides, "checkpoint.every=2")
    file = whole.folder / "checkpoints" / "round-000002.safetensors"
    rest = play(folder / "rest", *SHORT, *overrides, f"resume='{file}'")
    assert rest.timeless == whole.timeless
    assert rest.sha256 == whole.sha256
    return whole


@pytest.mark.parametrize("server_optimizer", ["none", "adam"])
@pytest.mark.parametrize("strategy", choices("strategy"))
def test_strategies(tmp_path, strategy, server_optimizer):
    check(tmp_path, f"strategy={strategy}", *OWN.get(strategy, ()), f"server_optimizer={server_optimizer}")


@pytest.mark.parametrize("server_optimizer", choices("server_optimizer"))
def test_server_optimizers(tmp_path, server_optimizer):
    check(tmp_path, "strategy=fedpart_sparsyfed", *CYCLE, f"server_optimizer={server_optimizer}")


@pytest.mark.parametrize("wire", ["fp16", "bf16", "int8"])
def test_rounding_errors_that_clients_keep(tmp_path, wire):
    check(tmp_path, "strategy=fedpart", *CYCLE, f"wire={wire}")


@pytest.mark.parametrize("objective", choices("objective"))
def test_objectives(tmp_path, objective):
    check(tmp_path, "strategy=sparsyfed", f"objective={objective}")


@pytest.mark.parametrize(
    "others",
    [
        ("batch_norm=local", "diagnostics=true", "downlink=full"),
        ("client.final_lr=0.01", "wire=int8", "objective=moon", "objective.queue=2"),
        ("runtime.workers=2", "wire=int8", "objective=moon", "objective.queue=2"),
    ],
)
def test_together(tmp_path, others):
    check(tmp_path, "strategy=fedpart", *CYCLE, *others)


@pytest.mark.parametrize("own", ["objective=moon", "wire=int8"])
def test_what_cannot_be_had_again_is_said(tmp_path, capsys, own):
    """Such as from a checkpoint of the simulation, which knows nothing of what its clients keep."""
    cfg = compose(merged(*SHORT, "strategy=fedavg", own, "checkpoint.every=2"))
    half = check(tmp_path, "strategy=fedavg", own)
    said = "trained without what they had kept of earlier rounds (local models, rounding errors)"
    assert said not in capsys.readouterr().out
    done = load(half.folder, cfg)
    save(tmp_path, replace(done, rows=done.rows[:3], clients={}), cfg)
    play(tmp_path, *SHORT, "strategy=fedavg", own, f"resume='{tmp_path}'")
    assert said in capsys.readouterr().out
