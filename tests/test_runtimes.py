"""The same run in Flower's simulation, on SuperNodes and from the app bundle: equal to the inline one."""

import os
import subprocess
import sys
import textwrap
import time
import zipfile

import pytest

from app import simulation
from app.__main__ import main
from app.config import compose, make
from app.flower import flwr_run, marked, superlink
from app.server_app import REFUSED
from clients.layers import layer_groups
from clients.wire import dense_nbytes
from tests.devices import federation, own_digits
from tests.runs import QUICK, ROOT, Run, command, environ, merged, play, shell

PARTLY = ("strategy=fedpart", "strategy.warmup=1", "strategy.rounds_per_layer=1", "strategy.order=[1,4]")
FIVE = ("task.clients=5", "cohort.fraction=0.5", "rounds=4")
SPARSE = ("strategy=fedpart_sparsyfed", *PARTLY[1:], "server_optimizer=adam", "objective=moon", "wire=int8")


@pytest.fixture
def home(tmp_path):
    return tmp_path / "flower home"


def overrides(*given):
    """As `flwr run` takes them."""
    return {"overrides": " ".join(merged(*given))}


@pytest.mark.slow
@pytest.mark.parametrize("strategy", [PARTLY, SPARSE], ids=["slices", "sparse slices, with all that clients remember"])
def test_simulation_equals_inline(tmp_path, leaves_nothing, strategy):
    """Five clients on two virtual nodes, half of them in each round, files in a folder with a space."""
    inline = play(tmp_path / "inline", *strategy, *FIVE)
    folder = tmp_path / "a simulated run"
    done = shell(command(folder, *strategy, *FIVE, "runtime=simulation", "runtime.nodes=2"), tmp_path)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    run = Run(folder)
    assert run.timeless == inline.timeless
    assert run.sha256 == inline.sha256
    assert run.summary["runtime"] == "simulation"
    own = {file for file in run.files if file.startswith("clients/")}
    assert run.files - own == inline.files
    assert bool(own) == (strategy is SPARSE)
    assert {len(row["sampled"]) for row in run.rows[1:]} == {2}
    assert f"report: {folder / 'report.html'}" in done.stdout.splitlines()  # Ray may have a word after it


@pytest.mark.slow
def test_two_simulations_side_by_side(tmp_path, leaves_nothing):
    """Each has its own SuperLink and its own Ray, with no more workers than the machine has cores."""
    inline, most = play(tmp_path / "inline", *PARTLY), {"a": 0, "b": 0}
    runs = {
        name: subprocess.Popen(
            command(tmp_path / name, *PARTLY, "runtime=simulation", "runtime.nodes=9"),
            cwd=tmp_path, env=environ(FEDSLICE_SIDE=name), stdout=subprocess.DEVNULL,
        )
        for name in most
    }  # fmt: skip
    while any(process.poll() is None for process in runs.values()):
        for name in runs:
            lines = marked(f"FEDSLICE_SIDE={name}").values()
            most[name] = max(most[name], sum(line.startswith("ray::ClientAppActor") for line in lines))
        time.sleep(0.2)
    for name, process in runs.items():
        assert process.returncode == 0
        assert (Run(tmp_path / name).timeless, Run(tmp_path / name).sha256) == (inline.timeless, inline.sha256)
        assert 1 <= most[name] <= (os.cpu_count() or 1)


@pytest.mark.slow
def test_flwr_run_by_hand_equals_inline_and_fails_loudly(tmp_path, home, leaves_nothing):
    """Overrides in the run configuration, Flower's default of two virtual nodes; then a run that cannot work."""
    inline = play(tmp_path / "inline", *PARTLY)
    good, bad = tmp_path / "good run", tmp_path / "bad run"
    with superlink(home, "--simulation"):
        status = flwr_run(home, {**overrides(*PARTLY), "run-dir": str(good)})
        failed = flwr_run(home, {**overrides("strategy.order=[9]"), "run-dir": str(bad)})
    assert status == "finished:completed"
    run = Run(good)
    assert (good / "config.yaml").read_text() == (inline.folder / "config.yaml").read_text()
    assert (run.timeless, run.sha256) == (inline.timeless, inline.sha256)
    assert failed == "finished:failed"
    assert run.files == inline.files
    assert {path.name for path in bad.iterdir()} == {"error.txt"}
    assert (bad / "error.txt").read_text() == f"strategy.order=[9]: must list layer groups from 0 to 4\n{REFUSED}"


@pytest.mark.slow
def test_what_the_data_forbid_is_refused_by_the_simulation_too(tmp_path, leaves_nothing):
    done = shell(command(tmp_path / "run", "task.clients=5000", "runtime=simulation"), tmp_path)
    assert done.returncode == 2
    line = "fedslice: task.clients=5000: must be at most 1437, the number of training examples"
    assert done.stderr.rstrip().splitlines()[-1] == line
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_a_failing_simulation_says_why_last(tmp_path, leaves_nothing):
    """Every client fails in the only two rounds."""
    folder = tmp_path / "run"
    done = shell(command(folder, "task.examples=1", "rounds=2", "runtime=simulation"), tmp_path)
    assert done.returncode == 1
    last = done.stderr.rstrip().splitlines()[-1]
    assert last.startswith("fedslice: no round had 1 accepted replies; client 0: ValueError: client 0 has 1 examples")
    assert not (folder / "summary.json").exists()
    assert len(Run(folder).rows) == 3


@pytest.mark.slow
def test_devices_with_their_own_data(tmp_path, home, leaves_nothing, capfd):
    """Two SuperNodes, FedPart, three rounds; the data stay where they are, in paths with spaces."""
    nodes = [f'data-path="{own_digits(tmp_path, part, 12)}"' for part in range(2)]
    folder = tmp_path / "a run on devices"
    with federation(home, nodes) as there:
        status = flwr_run(there, {**overrides(*PARTLY), "run-dir": str(folder)})
    assert status == "finished:completed", capfd.readouterr().out[-3000:]
    run = Run(folder)
    assert (run.summary["runtime"], run.summary["rounds"]) == ("deployment", 3)
    assert [row["groups"] for row in run.rows] == [[], [], [1], [4]]
    assert [row["sampled"] for row in run.rows[1:]] == [[0, 1]] * 3
    assert [row["completed"] for row in run.rows[1:]] == [2] * 3
    assert "split.json" not in run.files
    sizes = group_sizes()
    for row in run.rows[2:]:
        (index,) = row["groups"]
        assert 0.5 * sizes[index] < row["bytes_up"] / 2 < sizes[index] + 400  # its metrics weigh less than that
    assert run.rows[1]["bytes_up"] > 0.5 * sum(sizes)


def group_sizes():
    """Dense serialised bytes of each layer group of the digits' model."""
    model = make(compose(merged()), "task").build_model(0)
    state = {name: tensor.numpy() for name, tensor in model.state_dict().items()}
    return [dense_nbytes({name: state[name] for name in group}) for group in layer_groups(model)]


@pytest.mark.slow
def test_devices_that_share_the_embedded_data_equal_inline(tmp_path, home, leaves_nothing, capfd):
    inline = play(tmp_path / "inline", *PARTLY, "task.clients=2", "rounds=2")
    folder = tmp_path / "run"
    nodes = [f"partition-id={part} num-partitions=2" for part in (1, 0)]
    with federation(home, nodes) as there:
        # Devices say how many clients there are; the configuration's own number is not asked.
        status = flwr_run(there, {**overrides(*PARTLY, "task.clients=7", "rounds=2"), "run-dir": str(folder)})
    assert status == "finished:completed", capfd.readouterr().out[-3000:]
    run = Run(folder)
    assert run.sha256 == inline.sha256
    assert run.timeless == inline.timeless


@pytest.mark.slow
def test_a_device_that_does_not_say_who_it_is(tmp_path, home, leaves_nothing):
    folder = tmp_path / "run"
    with federation(home, ["num-partitions=2"]) as there:
        status = flwr_run(there, {**overrides("cohort.start_timeout=60"), "run-dir": str(folder)})
    assert status == "finished:failed"
    line = (folder / "error.txt").read_text()
    assert line.count("\n") == 1
    assert "--node-config 'partition-id=0 num-partitions=2'" in line
    assert "data-path" in line


@pytest.mark.slow
def test_the_app_bundle_is_complete(tmp_path, leaves_nothing):
    """Every yaml and every module is in it, and an unpacked one composes and plays by itself."""
    env = {"FLWR_HOME": str(tmp_path / "home"), "FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1"}
    done = shell(["flwr", "build", "--app", str(ROOT)], tmp_path, **env)
    assert done.returncode == 0, done.stdout + done.stderr
    (bundle,) = tmp_path.glob("*.fab")
    there = tmp_path / "an installed app"
    with zipfile.ZipFile(bundle) as archive:
        archive.extractall(there)
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    packages = ("app/", "strategies/", "clients/", "conf/")
    wanted = {name for name in tracked.splitlines() if name.startswith(packages) and name.endswith((".py", ".yaml"))}
    missing = sorted(name for name in wanted if not (there / name).is_file() and (ROOT / name).is_file())
    assert missing == []
    program = f"""
        import app.config
        assert app.config.__file__.startswith({str(there)!r}), app.config.__file__
        import app.client_app, app.server_app
        from app.config import compose, make
        from pathlib import Path
        cfg = compose({merged("task.clients=2", "rounds=1")!r})
        make(cfg, "runtime").run(cfg, Path({str(tmp_path / "run of a bundle")!r}))
        """
    env = {**environ(), "PYTHONPATH": str(there)}
    subprocess.run([sys.executable, "-c", textwrap.dedent(program)], cwd=tmp_path, env=env, check=True)
    assert Run(tmp_path / "run of a bundle").summary["rounds"] == 1


def test_a_device_needs_no_ray(tmp_path):
    """Neither to import the client, nor to play messages, nor for the inline runtime."""
    program = f"""
        import sys

        class NoRay:
            def find_spec(self, name, path=None, target=None):
                if name.split(".")[0] == "ray":
                    raise ModuleNotFoundError("no ray on this machine", name=name)

        sys.meta_path.insert(0, NoRay())
        import app.client_app
        import app.inline
        from app.config import compose, make
        from pathlib import Path
        cfg = compose({list(QUICK)!r} + ["rounds=1"])
        make(cfg, "runtime").run(cfg, Path("run"))
        assert "ray" not in sys.modules
        """
    done = shell([sys.executable, "-c", textwrap.dedent(program)], tmp_path)
    assert done.returncode == 0, done.stderr
    assert [row["completed"] for row in Run(tmp_path / "run").rows] == [0, 3]


def test_simulation_without_ray_says_what_to_install(cli_without_ray):
    status, complaint = cli_without_ray
    assert (status, complaint.count("\n")) == (2, 1)
    assert "pip install" in complaint
    assert "runtime=inline" in complaint


@pytest.fixture
def cli_without_ray(monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HYDRA_FULL_ERROR", "0")
    monkeypatch.setattr(simulation, "find_spec", lambda name: None)
    monkeypatch.setattr(sys, "argv", ["python -m app", "runtime=simulation"])
    return main(), capsys.readouterr().err
