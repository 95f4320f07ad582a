"""docs/devices.md keeps its word: real SuperLink and SuperNodes, started by its own scripts, with TLS and keys."""

import json
import os
import re
import signal
import threading
from contextlib import contextmanager
from pathlib import Path

import pytest
import tomli_w

from app.flower import environment, flwr_run, free_port, started
from tests.deployment import Deployment, make_certificates
from tests.devices import at_work
from tests.runs import Run, merged, recorded


def run(there: Deployment, folder: Path, *overrides: str) -> str:
    """Play a run on the devices; its final status."""
    return flwr_run(there.home, {"overrides": " ".join(merged(*overrides)), "run-dir": str(folder)})


@pytest.mark.slow
def test_strangers_do_not_get_in(tmp_path, leaves_nothing, capfd):
    """Each is told why; the server says whom it refused. A run that waits for devices says that none came."""
    folder = tmp_path / "a run"
    make_certificates(tmp_path / "somebody else's")
    with Deployment(tmp_path) as there:
        server = there.server()
        misled = there.device(0, FEDSLICE_CA=str(tmp_path / "somebody else's" / "ca.crt"))
        unknown = there.device(1, registered=False)
        keyless = there.enter_context(without_key(there, tmp_path / "keyless.log"))
        status = run(there, folder, "cohort.start_timeout=15")
        for stranger in (misled, unknown):
            stranger.wait_for(lambda stranger=stranger: stranger.starts > 1)
        keyless.wait(60)
        if there.door != there.port:
            refused_by_the_proxy(there)
            handshakes = (there.folder / "fedslice.log").read_text()
            assert re.search(r"SSL_do_handshake\(\) failed .*unknown ca.* client: 127.0.0.1", handshakes)
    assert status == "finished:failed", capfd.readouterr().out[-3000:]
    error = (folder / "error.txt").read_text()
    assert error == "only 0 of 1 clients within cohort.start_timeout=15 s: partitions [0] are missing\n"
    assert "[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed" in misled.said
    assert "[code: 2004] Failed to activate SuperNode." in unknown.said
    said = (tmp_path / "keyless.log").read_text()
    assert "[code: 2001] SuperNode authentication is enabled. All SuperNodes must be registered via the CLI." in said
    for text in (misled.said, unknown.said, said):
        assert "Exit Code: 305" in text
        assert "SuperNode ID" not in text
    public = re.search(r"\[ApiError:2004\].*public key: b'(.*)', exception: (.*)", server.said)
    assert public is not None
    assert public[2] == "No SuperNode found with the given public key."
    assert "[ApiError:2001] Attempted to register SuperNode with public key" in server.said
    assert "Activated node_id" not in server.said
    assert server.said.count("Created node_id") == 1  # the misled device's, by the operator


def without_key(there, log):
    command = ["flower-supernode", "--superlink", f"127.0.0.1:{there.door}", "--port", str(free_port())]
    command += ["--root-certificates", str(there.certificates / "ca.crt")]
    home = there.folder / "keyless"
    home.mkdir()
    return started(command, environment(home), log)


def refused_by_the_proxy(there):
    """Through the devices' door nobody registers a key, though the SuperLink itself would let them."""
    home = there.folder / "stranger"
    home.mkdir()
    connection = {"address": f"127.0.0.1:{there.door}", "root-certificates": str(there.certificates / "ca.crt")}
    (home / "config.toml").write_text(tomli_w.dumps({"superlink": {"door": connection}}))
    done = there.flwr("supernode", "register", str(there.folder / "device 1.key.pub"), "door", home=home)
    assert done.returncode != 0
    assert "403" in done.stdout + done.stderr


PATIENT = ("strategy=fedavg", "cohort.min_clients=3", "cohort.start_timeout=240", "checkpoint.every=1")
PATIENT += ("objective=moon", "wire=int8")  # so that devices keep something of their own


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_devices_and_the_server_fall_over_and_come_back(tmp_path, leaves_nothing, capfd):
    """Three devices. In round 2 one falls silent and one is killed; round 3 has them again. Then the server's turn."""
    first, broken, resumed = tmp_path / "first run", tmp_path / "broken run", tmp_path / "resumed run"
    with Deployment(tmp_path) as there:
        server = there.server()
        devices = [there.device(number) for number in range(3)]
        with in_background(there, first, *PATIENT):
            disturb(devices, first)
        check_disturbed(devices, Run(first))
        starts = [device.starts for device in devices]
        with in_background(there, broken, *PATIENT, "rounds=2"):
            server.wait_for(lambda: recorded(broken) == 1)
            server.process.kill()
        server.wait_for(lambda: server.said.count("Uvicorn running") == 2)
        status = run(there, resumed, *PATIENT, "rounds=2", f"'resume={broken}'")
        assert status == "finished:completed", capfd.readouterr().out[-5000:]
        assert [device.starts for device in devices] == starts  # they stayed, and their keys were still known
        server.wait_for(lambda: ended(there) == ["finished:completed", "finished:completed", "finished:failed"])
    assert "trained without" not in capfd.readouterr().out
    assert not (broken / "summary.json").exists()
    rows = Run(resumed).rows
    assert rows[:2] == Run(broken).rows
    assert [row["completed"] for row in rows] == [0, 3, 3]
    assert Run(resumed).timeless[:2] == Run(first).timeless[:2]  # the same devices, data and seed


def ended(there):
    """How the runs that the SuperLink knows ended."""
    listing = json.loads(there.flwr("ls", "fedslice", "--format", "json").stdout)
    return sorted(each["status"] for each in listing["runs"])


@contextmanager
def in_background(there, folder, *overrides):
    """A run that goes on meanwhile, and is waited for."""
    play = threading.Thread(target=run, args=(there, folder, *overrides))
    play.start()
    yield
    play.join()


def disturb(devices, folder):
    """In round 2 device 1 falls silent until the round is over, and device 2 is killed, each while it works."""
    disturbances = {
        1: lambda device: os.killpg(device.process.pid, signal.SIGSTOP),
        2: lambda device: device.process.kill(),
    }

    def all_done():
        for number in list(disturbances):
            if at_work(devices[number].said, 2):
                disturbances.pop(number)(devices[number])
        return not disturbances

    devices[1].wait_for(all_done)
    devices[0].wait_for(lambda: recorded(folder) == 2)
    os.killpg(devices[1].process.pid, signal.SIGCONT)


def check_disturbed(devices, run):
    """The round keeps the model, because all three were asked for; the late answer to it changes nothing."""
    assert [row["completed"] for row in run.rows] == [0, 3, 1, 3]
    assert [row["failed"] for row in run.rows] == [0, 0, 2, 0]
    assert sorted(run.rows[2]["reasons"]) == ["1", "2"]
    assert all("Node Unavailable" in reason for reason in run.rows[2]["reasons"].values())
    assert run.rows[2]["accuracy"] == run.rows[1]["accuracy"]
    assert devices[1].starts == 1
    assert devices[2].starts > 1
    late = devices[1].said.rpartition("ROUND 2]")[2].partition("ROUND 3]")[0]
    assert "Sent successfully" in late
