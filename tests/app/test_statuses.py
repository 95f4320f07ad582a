"""What is wrong with data or configuration is status 2 and leaves no files, wherever before round 0 it is found."""

import re
from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest

from app import server_app, simulation
from app.config import ConfigError
from strategies.cohort import RunFailed
from tests.runs import merged
from tests.tasks.conftest import encode

RANDOM = np.random.default_rng(0)
IMAGES = ("task=images", "task.shape=[1,8,8]", "task.classes=2")
TEXTS = ("task=texts", "task.classes=2", "task.hidden=8", "task.feedforward=8", "task.layers=1", "task.min_count=1")


def write_images(folder, split, labels):
    np.savez(folder / f"{split}.npz", x=RANDOM.integers(0, 256, (len(labels), 8, 8), np.uint8), y=np.array(labels))


def write_texts(folder, split, labels):
    lines = [f"some text,{label}" for label in labels]
    (folder / f"{split}.csv").write_text("\n".join(["text,label", *lines]) + "\n")


KINDS = {"images": (IMAGES, write_images, "npz"), "texts": (TEXTS, write_texts, "csv")}
GOOD = [0, 1] * 6


@pytest.fixture
def data(tmp_path_factory):
    """A folder of data, which is not the one in which the run is played."""
    return tmp_path_factory.mktemp("data")


def write(data, kind, train=GOOD, test=GOOD):
    overrides, written, _ = KINDS[kind]
    for split, labels in (("train", train), ("test", test)):
        if labels is not None:
            written(data, split, labels)
    return merged(*overrides, f"task.data={data}", "rounds=1", "strategy=fedavg")


@pytest.mark.parametrize("kind", KINDS)
def test_good_data(kind, data, cli):
    assert cli(*write(data, kind))[0] == 0


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("split", ["train", "test"])
@pytest.mark.parametrize(
    ("labels", "says"),
    [
        ([2] * 12, "a label is 2, must be 0 to 1"),
        (["a", "b"] * 6, "labels are text"),
        ([], "holds no examples"),
        (None, "must be named by split"),
    ],
)
def test_wrong_data(kind, split, labels, says, data, cli, files_left):
    status, out, complaint = cli(*write(data, kind, **{split: labels}))
    file = "" if labels is None else f"/{split}.{KINDS[kind][2]}"
    assert complaint.startswith(f"fedslice: task.data={data}{file}: ")
    assert complaint.count("\n") == 1
    assert says in complaint
    assert (status, out, files_left()) == (2, "", [])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("clients", [0, 13, 100_000])
def test_clients_that_cannot_be(kind, clients, data, cli, files_left):
    status, out, complaint = cli(*write(data, kind), f"task.clients={clients}")
    assert complaint.startswith(f"fedslice: task.clients={clients}: must be ")
    assert (status, out, files_left()) == (2, "", [])


def test_hints_can_be_followed_as_they_stand(data, cli):
    """Each mistake's line names a setting with which the run is played."""
    for number, name in enumerate(["cat", "dog"] * 6):
        for split in ("train", "test"):
            file = data / split / name / f"{number}.png"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(encode(RANDOM.integers(0, 256, (9, 9), np.uint8)))
    given = merged(*IMAGES, f"task.data={data}", "rounds=1", "strategy=fedavg")
    for key in ("task.classes", "task.resize"):
        status, _, complaint = cli(*given)
        (hint,) = re.findall(rf"{key}=\S+", complaint)
        assert status == 2
        given = merged(*given, hint.replace(",...]", "]"))
    assert cli(*given)[0] == 0


def test_the_hint_for_texts_can_be_followed(data, cli):
    given = write(data, "texts", *[["good", "bad"] * 6] * 2)
    (hint,) = re.findall(r"task\.classes=\S+", cli(*given)[2])
    assert cli(*merged(*given, hint.replace(",...]", "]")))[0] == 0


@pytest.mark.parametrize(("error", "status"), [(ConfigError, 2), (RunFailed, 1), (OSError, 1)])
def test_the_simulations_server_ends_with_the_same(error, status, cli, files_left, monkeypatch):
    """Flower's own status is the same for all, so that the file of the error says which it was."""

    def refuse(*_):
        raise error("this is wrong")

    def flwr_run(home, run_config, *_):
        with pytest.raises(error):
            server_app.main(None, SimpleNamespace(run_config=run_config))
        return "finished:failed"

    monkeypatch.setattr(server_app, "serve", refuse)
    monkeypatch.setattr(simulation, "flwr_run", flwr_run)
    monkeypatch.setattr(simulation, "superlink", lambda *_, **__: nullcontext())
    monkeypatch.setattr(simulation, "find_spec", lambda name: True)
    assert cli("runtime=simulation") == (status, "fedslice: this is wrong\n", "fedslice: this is wrong\n")
    assert files_left() == ([] if status == 2 else ["error.txt"])
