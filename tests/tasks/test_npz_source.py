"""One npz file with a split in it, as that of the Arabic Speech Commands: files written here, and the real one."""

import numpy as np
import pytest
import torch

from clients.tasks.flower_partition import Natural
from clients.tasks.image_format import ImageFormat
from clients.tasks.images import ImageTask
from clients.tasks.npz_source import NpzImages
from tests.runs import play

FORMAT = ImageFormat((1, 4, 3), 2)
N = 12
ARRAYS = {
    "x": np.arange(N * 12, dtype=np.uint8).reshape(N, 4, 3),
    "y": (np.arange(N) % 2).astype(np.uint8),
    "speaker": np.repeat([7, 3, 5], 4).astype(np.uint8),
    "take": np.tile([1, 2], 6),
    "split": np.array(["train"] * 8 + ["test"] * 4),
    "keywords": np.array(["yes", "no"]),
}


@pytest.fixture
def write(tmp_path):
    def written(**changes):
        arrays = {name: array for name, array in {**ARRAYS, **changes}.items() if array is not None}
        np.savez(tmp_path / "clips.npz", **arrays)
        return str(tmp_path / "clips.npz")

    return written


def source(path, split="split", train=("train",), test=("test",)):
    return NpzImages(path, FORMAT, split, train, test)


def test_the_split_of_the_file_is_kept(write):
    data = source(write())
    assert data.table.labels.tolist() == [0, 1] * 4
    assert set(data.table.columns) == {"speaker", "take", "split"}  # not the list of keywords
    examples = data.train_examples(np.array([7, 0]))
    assert torch.equal(examples.inputs[:, 0], torch.from_numpy(ARRAYS["x"][[7, 0]]))
    assert torch.equal(data.test_examples().inputs[:, 0], torch.from_numpy(ARRAYS["x"][8:]))


def test_each_speaker_is_a_client_in_the_order_of_the_ids(write):
    task = ImageTask("clips", source(write()), Natural("speaker"), [0.5], [0.2], clients=2)
    inputs = [{int(image[0, 0, 0]) for image in task.client_examples(client).inputs} for client in (0, 1)]
    assert inputs == [{48, 60, 72, 84}, {0, 12, 24, 36}]  # speakers 3 and 7; the first value of image k is 12 k
    with pytest.raises(ValueError, match=r"task.clients=3: must be at most 2, the ids in column speaker"):
        task.split_statistics(3)


def test_another_column_may_split_so_that_every_speaker_trains(write):
    data = source(write(), "take", [1], [2])
    assert sorted(set(data.table.columns["speaker"].tolist())) == [3, 5, 7]
    assert (len(data.table), len(data.test_examples())) == (6, 6)


def test_a_folder_with_one_file_will_do(write, tmp_path):
    write()
    assert len(source(str(tmp_path)).table) == 8
    np.savez(tmp_path / "other.npz", x=[1], y=[1])
    with pytest.raises(ValueError, match=r": 2 npz files in this folder, must be one"):
        _ = source(str(tmp_path)).table


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"split": None}, r"no array split; it has: x, y, speaker, take, keywords"),
        ({"y": None}, r"must have the arrays x .* and y .*; it has: x, speaker"),
        ({"x": np.zeros((0, 4, 3), np.uint8), "y": np.zeros(0, int)}, r"holds no examples; x has shape \(0, 4, 3\)"),
        ({"y": np.arange(N)}, r"a label is 2, must be 0 to 1"),
        ({"y": np.zeros(3, int)}, r"12 images but labels of shape \(3,\)"),
        ({"x": np.zeros((N, 5, 3), np.uint8)}, r"images have shape \(12, 5, 3\)"),
        ({"x": np.zeros((N, 4, 3))}, r"images are float64, must be uint8"),
    ],
)
def test_what_is_wrong_with_a_file_is_said_in_one_line(write, changes, message):
    path = write(**changes)
    with pytest.raises(ValueError, match=message) as caught:
        _ = source(path).table
    assert str(caught.value).startswith(f"task.data={path}: ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda path: source(None), r"^task.data=null: must be an npz file with x, y and split$"),
        (lambda path: source(f"{path}s"), r"no such file or folder$"),
        (lambda path: source(path, train=["dev"]), r"^task.source.train=\['dev'\]: no example .*: test, train$"),
        (lambda path: source(path, train=["test"]), r"^task.source.test=\['test'\]: .*not be in task.source.train"),
    ],
)
def test_wrong_settings_are_refused(write, build, message):
    with pytest.raises(ValueError, match=message):
        _ = build(write()).table


def test_a_run_of_three_speakers(tmp_path):
    rng = np.random.default_rng(0)
    labels = np.tile(np.arange(8), 5)
    split = np.array(["train"] * 24 + ["test"] * 16)
    np.savez(
        tmp_path / "clips.npz",
        x=rng.integers(0, 256, (40, 98, 40), dtype=np.uint8),
        y=labels,
        speaker=np.repeat(np.arange(5), 8),
        split=split,
    )
    natural = ("partition=natural", "partition.column=speaker", "task.model=cnn", "rounds=1")
    run = play(tmp_path / "run", "task=asc_kws", f"task.data='{tmp_path}'", *natural)
    assert [row["completed"] for row in run.rows] == [0, 3]
    assert run.summary["task"] == "asc_kws"


@pytest.fixture
def real(real_data, make_task):
    place = real_data("asc-kws")
    return lambda *more: make_task(
        "task=asc_kws", f"task.data='{place}'", "partition=natural", "partition.column=speaker", *more
    )


def test_real_arabic_speech_commands(real):
    task = real()
    assert task.split_statistics()["examples"] == [400] * 18
    assert task.test_examples().inputs.shape == (2400, 1, 98, 40)
    prepared = task.prepare(task.test_examples().inputs)
    assert abs(prepared.mean().item()) < 0.1
    assert abs(prepared.std().item() - 1) < 0.1
    # A keyword of an unknown speaker is nearest to the mean of that keyword's spectrograms far above chance, 1 / 40.
    train = [task.client_examples(client) for client in range(18)]
    inputs = torch.cat([task.prepare(examples.inputs) for examples in train]).flatten(1)
    targets = torch.cat([examples.targets for examples in train])
    means = torch.stack([inputs[targets == keyword].mean(0) for keyword in range(40)])
    nearest = torch.cdist(prepared.flatten(1), means).argmin(1)
    assert (nearest == task.test_examples().targets).float().mean().item() > 0.1


def test_real_speakers_who_are_all_clients(real):
    takes = real("task.source.split_column=round", "task.source.train=[1,2,3,4,5,6,7,8]", "task.source.test=[9,10]")
    assert takes.split_statistics(30)["examples"] == [320] * 30
    assert len(takes.test_examples()) == 2400
    assert real("task.source.train=[train,val]").split_statistics(24)["examples"] == [400] * 24
