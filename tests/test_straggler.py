"""A device that is slower than `cohort.round_timeout`: real SuperNodes, one of whose client apps stands still."""

import os
import signal
import threading
import time

import pytest

from app.flower import flwr_run, marked
from tests.devices import at_work, federation
from tests.runs import Run, merged, play, recorded

SLOW = ("strategy=fedavg", "rounds=3", "cohort.round_timeout=120", "checkpoint.every=1", "task.clients=2")


def hold_back(home, folder):
    """In round 2 device 1's client app stands still until the round is over; its SuperNode goes on, and is online."""
    node, earlier, apps = home / "node-1", set(), set()

    def begun():
        there = client_apps(node)
        if recorded(folder) == 1 and at_work((node / "supernode.log").read_text(), 2):
            apps.update(there - earlier)
        else:
            earlier.update(there)
        return apps

    wait_for(begun)
    for app in apps:
        os.kill(app, signal.SIGSTOP)
    wait_for(lambda: recorded(folder) == 2)
    for app in apps:
        os.kill(app, signal.SIGCONT)


def client_apps(node):
    return {pid for pid, line in marked(str(node)).items() if "flwr-clientapp" in line}


def wait_for(condition):
    deadline = time.monotonic() + 600
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_the_round_goes_on_and_the_next_has_it_again(tmp_path, leaves_nothing, capfd):
    """That its late answer changed nothing: round 3, played inline from the checkpoint of round 2, gives the same."""
    folder, held = tmp_path / "run", []
    with federation(tmp_path / "home", [f"partition-id={part} num-partitions=2" for part in (0, 1)]) as there:
        holder = threading.Thread(target=lambda: held.append(hold_back(there, folder)))
        holder.start()
        status = flwr_run(there, {"overrides": " ".join(merged(*SLOW)), "run-dir": str(folder)})
        holder.join()
        log = (there / "node-1" / "supernode.log").read_text()
    assert status == "finished:completed", capfd.readouterr().out[-3000:]
    assert held == [None]  # it was, without an error
    run = Run(folder)
    assert [row["completed"] for row in run.rows] == [0, 2, 1, 2]
    assert run.rows[2]["reasons"] == {"1": "no reply within 120 s"}
    assert run.rows[2]["seconds_round"] >= 120
    late = log.rpartition("ROUND 2]")[2].partition("ROUND 3]")[0]
    assert "Sent successfully" in late
    file = folder / "checkpoints" / "round-000002.safetensors"
    again = play(tmp_path / "round 3 again", *SLOW, f"resume='{file}'")
    assert again.sha256 == run.sha256
    assert again.timeless == run.timeless
