"""Stopped and resumed in Flower's simulation and on SuperNodes: what an unbroken inline run gives."""

import pytest

from app.flower import flwr_run
from tests.devices import federation
from tests.runs import Run, command, merged, play, shell

CYCLE = ("strategy.warmup=1", "strategy.rounds_per_layer=1")
FAST = ("client.optimizer=sgd", "client.lr=0.5", "rounds=4")
STRATEGIES = {
    "fedavg": ("strategy=fedavg", "server_optimizer=adam"),
    "fedpart": ("strategy=fedpart", *CYCLE),
    "sparsyfed": ("strategy=sparsyfed",),
    "fedpart_sparsyfed": ("strategy=fedpart_sparsyfed", *CYCLE, "server_optimizer=momentum"),
}
SENT = ("bytes", "sparsity_down")
"""Devices of a new run remember nothing: after a stop they are sent more than slices, with other zeros in it."""


def check(rest, half, whole, name):
    """Equal to the whole run up to what was sent, and in all where nothing is ever left out of a message."""
    assert rest.sha256 == whole.sha256
    assert rest.rows[:3] == half.rows
    sent = SENT if "part" in name else ()
    learnt = [
        [{key: row[key] for key in row if not key.startswith(sent)} for row in run.timeless] for run in (rest, whole)
    ]
    assert learnt[0] == learnt[1]


@pytest.mark.slow
@pytest.mark.parametrize("name", STRATEGIES)
def test_in_the_simulation(tmp_path, leaves_nothing, name):
    given = (*STRATEGIES[name], *FAST, "task.clients=5", "cohort.fraction=0.5")
    whole, half, rest = play(tmp_path / "inline", *given), tmp_path / "half", tmp_path / "rest"
    simulated = (*given, "runtime=simulation", "runtime.nodes=2", "checkpoint.every=2")
    for folder, more in ((half, ("rounds=2",)), (rest, (f"resume='{half}'",))):
        done = shell(command(folder, *simulated, *more), tmp_path)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    check(Run(rest), Run(half), whole, name)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_on_devices(tmp_path, leaves_nothing, capfd):
    """The same two SuperNodes play both strategies, one after the other."""
    names = ("fedavg", "fedpart")
    given = {name: (*STRATEGIES[name], *FAST, "task.clients=2", "checkpoint.every=2") for name in names}
    with federation(tmp_path / "flower home", [f"partition-id={part} num-partitions=2" for part in (0, 1)]) as there:
        for name in names:
            half = tmp_path / f"{name} half"
            for folder, more in ((half, ("rounds=2",)), (tmp_path / name, (f"'resume={half}'",))):
                overrides = " ".join(merged(*given[name], *more))
                status = flwr_run(there, {"overrides": overrides, "run-dir": str(folder)})
                assert status == "finished:completed", capfd.readouterr().out[-3000:]
    for name in names:
        whole = play(tmp_path / f"{name} inline", *given[name])
        check(Run(tmp_path / name), Run(tmp_path / f"{name} half"), whole, name)
