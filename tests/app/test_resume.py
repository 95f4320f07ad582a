"""Six rounds equal three, a stop or a kill, and three more."""

import os
import signal
import subprocess
import time

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

from app.checkpoint import FORMAT, Checkpoint, load, save
from app.config import ConfigError, compose
from tests.runs import ROOT, command, environ, merged, play
from tests.tiny import bits

STRATEGIES = {
    "fedavg": ("strategy=fedavg", "cohort.fraction=0.5", "client.optimizer=sgd", "client.momentum=0.9"),
    "fedpart": ("strategy=fedpart", "strategy.warmup=1", "strategy.rounds_per_layer=1", "strategy.order=random"),
}
SERVER_OPTIMIZERS = sorted(file.stem for file in (ROOT / "conf" / "server_optimizer").glob("*.yaml"))


@pytest.fixture(scope="module")
def half(tmp_path_factory):
    """Three rounds of FedPart with a checkpoint after each."""
    return play(tmp_path_factory.mktemp("half"), *STRATEGIES["fedpart"], "rounds=3", "checkpoint.every=1").folder


@pytest.fixture
def own_half(half, tmp_path):
    """A copy that a test may break."""
    folder = tmp_path / "half"
    subprocess.run(["cp", "-r", half, folder], check=True)
    return folder


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_three_and_three_are_six(tmp_path, strategy):
    overrides = STRATEGIES[strategy]
    whole = play(tmp_path / "whole", *overrides, "rounds=6")
    half = play(tmp_path / "the first half", *overrides, "rounds=3", "checkpoint.every=3")
    file = next((half.folder / "checkpoints").iterdir())
    for name, place in (("from a folder", half.folder), ("from a file", file)):
        rest = play(tmp_path / name, *overrides, "rounds=6", f"resume='{place}'")
        assert rest.timeless == whole.timeless
        assert rest.sha256 == whole.sha256
        assert rest.summary["bytes_up_total"] == whole.summary["bytes_up_total"]
        assert rest.rows[:4] == half.rows


@pytest.mark.parametrize("server_optimizer", [name for name in SERVER_OPTIMIZERS if name != "none"])
def test_moments_and_learning_rates_go_on(tmp_path, server_optimizer):
    """From the checkpoint of round 2 of the whole run itself, for a decaying rate depends on the number of rounds."""
    schedule = ("strategy=fedpart", "strategy.warmup=2", "strategy.rounds_per_layer=1", "client.final_lr=1e-4")
    overrides = (*schedule, f"server_optimizer={server_optimizer}", "rounds=4")
    whole = play(tmp_path / "whole", *overrides, "checkpoint.every=2")
    file = tmp_path / "whole" / "checkpoints" / "round-000002.safetensors"
    rest = play(tmp_path / "rest", *overrides, f"resume='{file}'")
    assert (rest.timeless, rest.sha256) == (whole.timeless, whole.sha256)
    assert set(load(file, compose(merged(*overrides))).weights) == set(whole.weights)
    with pytest.raises(ConfigError, match="rounds: 4 then, 6 now"):
        load(file, compose(merged(*overrides, "rounds=6")))


def test_a_strategys_state_may_hold_arrays_anywhere(tmp_path):
    arrays = {"mask": np.array([True, False]), "lists": [np.array(2.5), {"w": np.zeros((0, 3), np.float16)}]}
    done = Checkpoint({"fc.weight": np.ones(2, np.float32)}, [{"round": 4}], {"n": 1, "text": "state/0", **arrays})
    loaded = load(save(tmp_path, done, compose()), compose())
    assert bits(loaded.weights) == bits(done.weights)
    assert (loaded.round, loaded.strategy["n"], loaded.strategy["text"]) == (4, 1, "state/0")
    flat = [{"a": s["mask"], "b": s["lists"][0], "c": s["lists"][1]["w"]} for s in (loaded.strategy, done.strategy)]
    assert bits(flat[0]) == bits(flat[1])
    with pytest.raises(TypeError, match="a set in a strategy's state: must be of JSON types or a NumPy array"):
        save(tmp_path, Checkpoint({}, [{"round": 5}], {"kept": {1, 2}}), compose())
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == ["round-000004.safetensors"]


def test_resumed_where_it_was(tmp_path, own_half):
    """The same folder may go on: its files become those of the longer run."""
    whole = play(tmp_path / "whole", *STRATEGIES["fedpart"], "rounds=5")
    rest = play(own_half, *STRATEGIES["fedpart"], "rounds=5", f"resume='{own_half}'")
    assert (rest.timeless, rest.sha256) == (whole.timeless, whole.sha256)


def test_what_a_resumed_run_may_change(half):
    """Where and how long it runs, not what it learns."""
    free = ("rounds=9", "runtime=simulation", "evaluation.every=3", "checkpoint.every=0", "cohort.round_timeout=60")
    assert load(half, compose(merged(*STRATEGIES["fedpart"], *free))).round == 3


@pytest.mark.parametrize(
    ("other", "difference"),
    [
        ("client.lr=0.01", "client.lr: 0.001 then, 0.01 now"),
        ("seed=1", "seed: 0 then, 1 now"),
        ("batch_norm=local", "batch_norm: global then, local now"),
        ("server_optimizer=adam", "server_optimizer._target_: strategies.server_optimizer.ServerOptimizer then"),
        ("strategy.order=[0,1]", "strategy.order: random then, [0, 1] now"),
        ("task.model=resnet8", "task.model: cnn then, resnet8 now"),
    ],
)
def test_another_configuration_is_refused(half, tmp_path, other, difference):
    with pytest.raises(ConfigError) as caught:
        play(tmp_path, *STRATEGIES["fedpart"], other, "rounds=6", f"resume='{half}'")
    assert difference in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not list(tmp_path.rglob("rounds.jsonl"))


def test_another_strategy_is_refused(half, tmp_path):
    with pytest.raises(ConfigError, match=r"strategy\._target_: strategies\.fedpart"):
        play(tmp_path, "strategy=fedavg", "rounds=6", f"resume='{half}'")


BROKEN = {
    "empty": lambda whole: b"",
    "half": lambda whole: whole[: len(whole) // 2],
    "all but a byte": lambda whole: whole[:-1],
    "end never written": lambda whole: whole[:-4096] + bytes(4096),
    "one bit": lambda whole: whole[:-9] + bytes([whole[-9] ^ 1]) + whole[-8:],
}


@pytest.mark.parametrize("broken", BROKEN)
def test_a_broken_newest_checkpoint_gives_way_to_the_one_before(tmp_path, own_half, broken):
    newest = max((own_half / "checkpoints").iterdir())
    whole = newest.read_bytes()
    newest.write_bytes(BROKEN[broken](whole))
    assert load(own_half, compose(merged(*STRATEGIES["fedpart"]))).round == 2
    rest = play(tmp_path / "rest", *STRATEGIES["fedpart"], "rounds=4", f"resume='{own_half}'")
    assert [row["round"] for row in rest.rows] == [0, 1, 2, 3, 4]
    assert rest.rows[:3] == [row for row in rest.rows if row["round"] <= 2]


def test_nothing_readable_is_an_error_that_says_so(own_half):
    for path in (own_half / "checkpoints").iterdir():
        path.write_bytes(b"not a checkpoint")
    with pytest.raises(ConfigError, match=r"none of its checkpoints can be read \(round-000003"):
        load(own_half, compose(merged(*STRATEGIES["fedpart"])))


ROW_OF_FORMAT_6 = {
    "round", "phase", "groups", "accuracy", "loss", "train_loss", "sampled", "completed", "failed", "rejected",
    "reasons", "bytes_down", "bytes_up", "bytes_down_total", "bytes_up_total", "bytes_dense", "bytes_dense_up", "macs",
    "macs_dense", "sparsity_down", "sparsity_up", "sparsity_model", "mask_iou", "regrowth", "kept_change", "densities",
    "seconds_round", "seconds_server", "seconds_train", "memory_server_mb", "memory_client_mb",
}  # fmt: skip
STATE_OF_FORMAT_6 = {"downlink", "failed_in_a_row", "lineage", "server_optimizer", "trained"}


def test_what_a_checkpoint_holds_has_a_format(half):
    """Whoever changes a field must raise checkpoint.FORMAT, and write the fields of the new one down here."""
    done = load(half, compose(merged(*STRATEGIES["fedpart"])))
    assert FORMAT == 6
    assert [set(row) for row in done.rows] == [ROW_OF_FORMAT_6] * 4
    assert set(done.strategy) == STATE_OF_FORMAT_6
    assert done.clients == {}  # they have nothing of their own here


@pytest.mark.parametrize("theirs", [{"format": "5"}, {"format": "7"}, {}])
def test_a_checkpoint_of_another_version_is_refused(own_half, theirs):
    for path in (own_half / "checkpoints").iterdir():
        with safe_open(path, framework="numpy") as file:
            texts = file.metadata()
        texts.pop("format")
        save_file(load_file(path), path, {**texts, **theirs})
    said = f"round-000003.safetensors: of format {theirs.get('format')}, by another version of fedslice; must be 6; "
    with pytest.raises(ConfigError) as caught:
        play(own_half, *STRATEGIES["fedpart"], "rounds=6", f"resume='{own_half}'")
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_model_of_ones_own_that_was_edited_meanwhile_is_refused(tmp_path, monkeypatch):
    """The configuration names it by its path only, and is the same."""
    (tmp_path / "edited.py").write_text(MODEL.format(width=16))
    monkeypatch.syspath_prepend(tmp_path)
    overrides = ("strategy=fedavg", "task.model=edited:Net", "rounds=1", "checkpoint.every=1")
    half = play(tmp_path / "half", *overrides).folder
    monkeypatch.setattr("edited.WIDTH", 8)
    difference = r"\(1.weight: float32 \[16, 64\] then, float32 \[8, 64\] now\)"
    with pytest.raises(ConfigError, match=f"^resume={half}: of another model {difference}$"):
        play(tmp_path / "rest", *overrides, "rounds=2", f"resume='{half}'")


MODEL = """
from torch import nn

WIDTH = {width}


def Net(num_classes):
    return nn.Sequential(nn.Flatten(), nn.Linear(64, WIDTH), nn.Linear(WIDTH, num_classes))
"""


@pytest.mark.parametrize("wrong", [".", "checkpoints"])
def test_a_folder_that_is_no_run_is_refused(half, tmp_path, wrong):
    (tmp_path / "checkpoints").mkdir()
    folder = half / "checkpoints" if wrong == "checkpoints" else tmp_path
    missing = folder / "checkpoints" / "round-*.safetensors"
    with pytest.raises(ConfigError) as caught:
        play(tmp_path / "run", *STRATEGIES["fedpart"], "rounds=6", f"resume='{folder}'")
    assert str(caught.value) == f"resume={folder}: no {missing}; give a run's directory, or one of its checkpoints"


def test_of_many_differences_some_are_named(half, tmp_path):
    with pytest.raises(ConfigError, match=r"strategy\._target_: .*; and \d+ more\)$") as caught:
        play(tmp_path, "strategy=sparsyfed", "rounds=6", f"resume='{half}'")
    assert str(caught.value).count(" then, ") == 6


@pytest.mark.parametrize("rounds", [2, 3])
def test_rounds_already_reached_are_an_error(half, tmp_path, rounds):
    with pytest.raises(ConfigError, match=f"^rounds={rounds}: must be above 3, which the checkpoint has reached$"):
        play(tmp_path, *STRATEGIES["fedpart"], f"rounds={rounds}", f"resume='{half}'")
    assert not list(tmp_path.rglob("rounds.jsonl"))


def test_the_command_line_says_it_in_one_line(half, cli):
    status, _, complaint = cli(*merged(*STRATEGIES["fedpart"]), f"resume='{half}'")
    assert (status, complaint) == (2, "fedslice: rounds=3: must be above 3, which the checkpoint has reached\n")


def test_killed_and_resumed(tmp_path):
    """kill -9 in the middle; what is resumed ends in the same bits as what was never killed."""
    overrides = (*STRATEGIES["fedpart"], "rounds=60")
    folder = tmp_path / "killed run"
    process = subprocess.Popen(
        command(folder, *overrides, "checkpoint.every=1"), cwd=tmp_path, env=environ(), stdout=subprocess.DEVNULL
    )
    deadline = time.monotonic() + 120
    while not (folder / "checkpoints" / "round-000003.safetensors").exists():
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.005)
    os.kill(process.pid, signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    reached = load(folder, compose(merged(*overrides))).round
    assert 3 <= reached < 60
    assert not (folder / "summary.json").exists()
    shorter = f"rounds={reached + 3}"
    whole = play(tmp_path / "whole", *overrides, shorter)
    rest = play(folder, *overrides, shorter, f"resume='{folder}'")
    assert (rest.timeless, rest.sha256) == (whole.timeless, whole.sha256)
