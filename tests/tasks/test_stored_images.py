"""CIFAR-10 in the parquet layout of the hub: files written here, the real ones, and a mocked hub."""

import subprocess
import sys

import datasets
import numpy as np
import pyarrow as pa
import pytest
import torch

from clients.tasks.flower_partition import Natural
from clients.tasks.image_format import ImageFormat
from clients.tasks.images import ImageTask
from clients.tasks.partition import Draw, Iid
from clients.tasks.sources import StoredImages

CIFAR = ImageFormat((3, 32, 32), 10, image_column="img")


def source(path):
    return StoredImages("uoft-cs/cifar10", CIFAR, path=None if path is None else str(path))


@pytest.fixture
def folder(tmp_path, write_parquet, colours):
    """Two training files and a test file, in a folder with a space in its name."""
    place = tmp_path / "my data"
    writers = ["b", "a"] * 6
    write_parquet(place / "train-00000-of-00002.parquet", colours[:5], label=range(5), writer=writers[:5])
    write_parquet(place / "train-00001-of-00002.parquet", colours[5:10], label=range(5, 10), writer=writers[5:10])
    write_parquet(place / "test-00000-of-00001.parquet", colours[10:], label=[3, 4], writer=writers[10:])
    return place


def chw(images):
    return torch.from_numpy(images.transpose(0, 3, 1, 2).copy())


def test_rows_come_in_the_order_asked_for_across_files(folder, colours, no_hub):
    rows = np.array([7, 0, 4, 9])
    examples = source(folder).train_examples(rows)
    assert examples.inputs.dtype == torch.uint8
    assert torch.equal(examples.inputs, chw(colours[rows]))
    assert examples.targets.tolist() == rows.tolist()
    assert torch.equal(source(folder).test_examples().inputs, chw(colours[10:]))


def test_only_asked_rows_are_decoded(folder, monkeypatch):
    decoded = []
    monkeypatch.setattr(
        ImageFormat,
        "decode",
        lambda self, cells, _: decoded.append(len(cells)) or np.zeros((len(cells), *self.shape), np.uint8),
    )
    task = ImageTask("c", source(folder), Iid(), [0.5] * 3, [0.2] * 3, clients=5, examples=1)
    task.split_statistics()
    assert decoded == []
    task.client_examples(3)
    assert decoded == [1]


def test_natural_clients_from_a_further_column(folder):
    task = ImageTask("c", source(folder), Natural("writer"), [0.5] * 3, [0.2] * 3, clients=2)
    assert [sorted(task.client_examples(i).targets.tolist()) for i in (0, 1)] == [
        [1, 3, 5, 7, 9],
        [0, 2, 4, 6, 8],
    ]


def test_a_column_with_gaps_gives_no_ids(tmp_path, write_parquet, colours):
    write_parquet(tmp_path / "train.parquet", colours[:2], label=[1, 2], writer=["a", None], age=[3, 4])
    assert list(source(tmp_path).table.columns) == ["age"]


def test_files_one_folder_down_as_in_a_copy_of_a_hub_repository(tmp_path, write_parquet, colours):
    write_parquet(tmp_path / "plain_text" / "train-0.parquet", colours[:2], label=[1, 2])
    assert source(tmp_path).table.labels.tolist() == [1, 2]
    write_parquet(tmp_path / "other" / "train-0.parquet", colours[:2], label=[1, 2])
    with pytest.raises(ValueError, match="in more than one folder below it"):
        _ = source(tmp_path).table


def test_local_files_are_read_without_the_datasets_library(folder):
    code = (
        "import sys, numpy as np\n"
        "from clients.tasks.image_format import ImageFormat\n"
        "from clients.tasks.sources import StoredImages\n"
        f"s = StoredImages('h', ImageFormat((3, 32, 32), 10, image_column='img'), path={str(folder)!r})\n"
        "s.table; s.train_examples(np.array([0]))\n"
        "heavy = {'datasets', 'flwr_datasets', 'torchvision', 'sklearn'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.fixture
def broken(tmp_path, write_parquet, colours):
    """A folder that is wrong in one way, by name."""

    def make(kind):
        place = tmp_path / kind
        file = place / "train.parquet"
        if kind == "file":
            place.write_text("")
        elif kind != "absent":
            place.mkdir()
        if kind == "garbage":
            file.write_bytes(b"no parquet at all")
        elif kind == "columns":
            write_parquet(file, colours[:1], image_column="image", label=[1])
        elif kind == "examples":
            write_parquet(file, colours[:0], label=[])
        elif kind == "labels":
            write_parquet(file, colours[:2], label=[1, 10])
        elif kind == "text":
            write_parquet(file, colours[:1], label=["cat"])
        elif kind == "size":
            write_parquet(file, colours[:1, :28, :30], label=[1])
        elif kind == "image":
            pa.parquet.write_table(pa.table({"img": [b"not an image"], "label": [1]}), file)
        return place

    return make


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (
            "absent",
            r"no such folder; give a folder with .* train\*\.parquet in it, .* or leave it out to load uoft-cs/cifar10",
        ),
        ("file", r"a file, not a folder, and one file alone is not read here; give a folder"),
        ("empty", r"no .* train\*\.parquet in it"),
        ("garbage", r"not readable as parquet"),
        ("columns", r"no column img; the columns are: image, label"),
        ("examples", r"holds no examples"),
        ("labels", r"a label is 10, must be 0 to 9"),
        ("text", r"labels are text, must be integers; or name the classes: task\.classes=\[cat,\.\.\.\]"),
        ("size", r"column img, row 0: is 30x28, must be 32x32"),
        ("image", r"column img, row 0: does not decode as an image"),
    ],
)
def test_what_is_wrong_with_a_folder_is_said_in_one_line(kind, message, broken, no_hub):
    place = broken(kind)
    with pytest.raises(ValueError, match=message) as caught:
        wrong = source(place)
        wrong.train_examples(np.arange(len(wrong.table)))
    file = "" if kind in ("absent", "file", "empty") else "/train.parquet"
    assert str(caught.value).startswith(f"task.data={place}{file}: ")
    assert "\n" not in str(caught.value)


def test_of_several_files_the_split_is_named(tmp_path, write_parquet, colours):
    for name in ("train-0", "train-1", "test"):
        write_parquet(tmp_path / f"{name}.parquet", colours[:1], label=[10])
    with pytest.raises(ValueError, match=rf"^task\.data={tmp_path}: train files: a label is 10"):
        _ = source(tmp_path).table
    with pytest.raises(ValueError, match=rf"^task\.data={tmp_path}/test\.parquet: a label is 10"):
        source(tmp_path).test_examples()


def test_a_folder_without_test_files_says_so_when_they_are_needed(tmp_path, write_parquet, colours):
    write_parquet(tmp_path / "train.parquet", colours[:2], label=[1, 2])
    with pytest.raises(ValueError, match=r"no .* test\*\.parquet in it"):
        source(tmp_path).test_examples()


def test_the_hub_gives_the_same_as_files(folder, colours, monkeypatch):
    features = datasets.Features({"img": datasets.Image(), "label": datasets.ClassLabel(num_classes=10)})
    cells = [
        {"bytes": cell["bytes"], "path": None}
        for cell in source(folder).open("train").dataset.to_table()["img"].to_pylist()
    ]
    hub = datasets.Dataset.from_dict({"img": cells, "label": list(range(10))}, features=features)
    asked = []
    monkeypatch.setattr(datasets, "load_dataset", lambda name, *_, split, **__: asked.append((name, split)) or hub)
    rows = np.array([8, 2])
    assert torch.equal(source(None).train_examples(rows).inputs, chw(colours[rows]))
    assert asked == [("uoft-cs/cifar10", "train")]


@pytest.mark.parametrize("error", [ConnectionError("line one\nline two"), RuntimeError("429 Too Many Requests")])
def test_an_unreachable_hub_is_one_line_that_says_what_to_do(error, monkeypatch):
    def fail(*_, **__):
        raise error

    monkeypatch.setattr(datasets, "load_dataset", fail)
    with pytest.raises(ValueError, match=r"cifar10 did not load .*or give task.data=FOLDER") as caught:
        _ = source(None).table
    assert type(error).__name__ in str(caught.value)
    assert "\n" not in str(caught.value)


def test_real_cifar10(real_data):
    task = ImageTask(
        "cifar10",
        source(real_data("cifar10-jpegq75")),
        Draw(),
        [0.4914, 0.4822, 0.4465],
        [0.2470, 0.2435, 0.2616],
        model="resnet8",
        clients=40,
        examples=500,
        flip=True,
        rotation=15,
    )
    statistics = task.split_statistics()
    assert statistics["examples"] == [500] * 40
    assert statistics["overlap"] > 0
    prepared = task.prepare(task.client_examples(39).inputs)
    assert prepared.shape == (500, 3, 32, 32)
    assert abs(prepared.mean().item()) < 0.1
    assert abs(prepared.std().item() - 1) < 0.1
    augmented = task.augment(prepared, torch.Generator().manual_seed(0))
    assert task.build_model(0)(augmented[:4]).shape == (4, 10)


def test_real_lossless_images(real_data):
    lossless = source(real_data("cifar10-lossless4k"))
    assert len(lossless.table) == 4000
    assert lossless.train_examples(np.array([3999])).inputs.shape == (1, 3, 32, 32)
