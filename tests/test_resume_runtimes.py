"""Stopped and resumed in Flower's simulation and on SuperNodes: what an unbroken inline run gives.

FEDSLICE_EVERY_STRATEGY=1 plays every strategy in both, which takes a quarter of an hour.
"""

import os

import pytest

from app.flower import flwr_run
from tests.devices import federation
from tests.runs import ROOT, Run, command, merged, play, shell

CYCLE = ("strategy.warmup=1", "strategy.rounds_per_layer=1")
FAST = ("client.optimizer=sgd", "client.lr=0.5", "rounds=4", "checkpoint.every=2")
HALF = "checkpoints/round-000002.safetensors"
STRATEGIES = {
    "fedavg": ("strategy=fedavg", "server_optimizer=adam"),
    "fedpart": ("strategy=fedpart", *CYCLE),
    "sparsyfed": ("strategy=sparsyfed",),
    "fedpart_sparsyfed": ("strategy=fedpart_sparsyfed", *CYCLE, "server_optimizer=momentum"),
}
OWN = {"fedpart_moon_int8": ("strategy=fedpart", *CYCLE, "objective=moon", "objective.queue=2", "wire=int8")}
"""Where clients keep local models and rounding errors of their own."""
EVERY = {
    **{file.stem: (f"strategy={file.stem}",) for file in sorted((ROOT / "conf" / "strategy").glob("*.yaml"))},
    "powerprop": ("strategy=powerprop", "strategy.recovery=1"),
    **STRATEGIES,
    **OWN,
}
ALL = bool(os.environ.get("FEDSLICE_EVERY_STRATEGY"))
SENT = ("bytes", "sparsity_down")
"""Devices of a new run remember nothing: after a stop they are sent more than slices, with other zeros in it."""


def check(whole, rest, inline, name):
    """Both equal to the inline run; after a stop up to what was sent, where something is left out of messages."""
    assert whole.sha256 == rest.sha256 == inline.sha256
    assert whole.timeless == inline.timeless
    assert rest.rows[:3] == whole.rows[:3]
    sent = SENT if "part" in name else ()
    learnt = [
        [{key: row[key] for key in row if not key.startswith(sent)} for row in run.timeless] for run in (rest, inline)
    ]
    assert learnt[0] == learnt[1]


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", EVERY if ALL else {**STRATEGIES, **OWN})
def test_in_the_simulation(tmp_path, leaves_nothing, name):
    given = (*EVERY[name], *FAST, "task.clients=5", "cohort.fraction=0.7")
    inline, whole, rest = play(tmp_path / "inline", *given), tmp_path / "whole", tmp_path / "rest"
    for folder, more in ((whole, ()), (rest, (f"resume='{whole / HALF}'",))):
        done = shell(command(folder, *given, "runtime=simulation", "runtime.nodes=2", *more), tmp_path)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    check(Run(whole), Run(rest), inline, name)


@pytest.mark.slow
@pytest.mark.timeout(3600 if ALL else 1200)
def test_on_devices(tmp_path, leaves_nothing, capfd):
    """The same two SuperNodes play all strategies, one after the other."""
    names = EVERY if ALL else ("fedavg", "fedpart", *OWN)
    given = {name: (*EVERY[name], *FAST, "task.clients=2") for name in names}
    with federation(tmp_path / "flower home", [f"partition-id={part} num-partitions=2" for part in (0, 1)]) as there:
        for name in names:
            whole = tmp_path / f"{name} whole"
            for folder, more in ((whole, ()), (tmp_path / name, (f"'resume={whole / HALF}'",))):
                overrides = " ".join(merged(*given[name], *more))
                status = flwr_run(there, {"overrides": overrides, "run-dir": str(folder)})
                assert status == "finished:completed", capfd.readouterr().out[-3000:]
    for name in names:
        inline = play(tmp_path / f"{name} inline", *given[name])
        check(Run(tmp_path / f"{name} whole"), Run(tmp_path / name), inline, name)
