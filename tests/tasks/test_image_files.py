"""Images of one's own in every form, for a server's folder and for a device: the same examples from each."""

import numpy as np
import pytest
import torch

from clients.tasks.device_files import read_device
from clients.tasks.flower_partition import Natural
from clients.tasks.image_format import ImageFormat
from clients.tasks.images import ImageTask
from clients.tasks.log_mel import LogMel
from clients.tasks.partition import Iid
from clients.tasks.sources import StoredImages
from tests.tasks.conftest import encode

FORMAT = ImageFormat((3, 32, 32), ("cat", "dog"))
LABELS = [0, 0, 0, 1, 1, 1]


def write_folders(place, images, labels=LABELS, names=("cat", "dog"), inner=""):
    for number, (image, label) in enumerate(zip(images, labels, strict=True)):
        file = place / names[label] / inner / f"{number}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(encode(image))


def write_npz(place, images, labels=LABELS, **others):
    place.parent.mkdir(parents=True, exist_ok=True)
    np.savez(place, x=images, y=np.array(labels), **others)


def source(path, image_format=FORMAT):
    return StoredImages(None, image_format, path=str(path))


def pixels(images):
    return torch.from_numpy(images.transpose(0, 3, 1, 2).copy())


@pytest.fixture
def folder(tmp_path, colours, request, write_parquet):
    """Six training and two test images in the form that the test asks for."""
    form, place = request.param, tmp_path / "own data"
    for split, images, labels in (("train", colours[:6], LABELS), ("test", colours[6:8], [0, 1])):
        if form == "folders":
            write_folders(place / split, images, labels)
        elif form == "npz":
            write_npz(place / f"{split}.npz", images, labels)
        else:
            names = [("cat", "dog")[label] for label in labels]
            write_parquet(place / f"{split}.parquet", images, image_column="image", label=names)
    return place


@pytest.mark.parametrize("folder", ["folders", "npz", "parquet"], indirect=True)
def test_every_form_gives_the_same_examples(folder, colours, no_hub):
    own = source(folder)
    rows = np.array([4, 0])
    assert own.table.labels.tolist() == LABELS
    assert torch.equal(own.train_examples(rows).inputs, pixels(colours[rows]))
    assert own.train_examples(rows).targets.tolist() == [1, 0]
    assert torch.equal(own.test_examples().inputs, pixels(colours[6:8]))


def test_a_device_has_class_folders(tmp_path, colours):
    write_folders(tmp_path, colours[:2], [1, 1])
    (tmp_path / "dog" / "notes.txt").write_text("no image")
    examples = read_device(str(tmp_path), FORMAT)
    assert torch.equal(examples.inputs, pixels(colours[:2]))
    assert examples.targets.tolist() == [1, 1]


def test_folders_named_by_numbers(tmp_path, colours):
    write_folders(tmp_path, colours[:2], [0, 1], names=("0", "9"))
    assert read_device(str(tmp_path), ImageFormat((3, 32, 32), 10)).targets.tolist() == [0, 9]


def test_a_client_for_each_inner_folder(tmp_path, colours):
    write_folders(tmp_path / "train", colours[:6], inner="ana")
    write_folders(tmp_path / "train", colours[6:8], [0, 1], inner="bea")
    task = ImageTask("own", source(tmp_path), Natural("folder"), clients=2)
    assert [len(task.client_examples(client)) for client in (0, 1)] == [6, 2]


def test_a_client_for_each_id_in_an_npz_file(tmp_path, colours):
    write_npz(tmp_path / "train.npz", colours[:6], writer=np.array(list("abcabc")), weights=np.ones(6))
    task = ImageTask("own", source(tmp_path), Natural("writer"), clients=3)
    assert list(source(tmp_path).table.columns) == ["writer"]
    assert sorted(task.client_examples(2).targets.tolist()) == [0, 1]


def test_resizing(tmp_path, colours):
    """One colour stays that colour at any size."""
    write_folders(tmp_path, np.full((1, 20, 50, 3), 77, np.uint8), [0])
    with pytest.raises(ValueError, match=r"cat/0.png: is 50x20, must be 32x32; task\.resize=true scales it"):
        read_device(str(tmp_path), FORMAT)
    scaled = read_device(str(tmp_path), ImageFormat((3, 32, 32), ("cat", "dog"), resize=True))
    assert scaled.inputs.unique().tolist() == [77]


def test_pixels_are_centred_where_no_mean_is_given(tmp_path):
    task = ImageTask("own", source(tmp_path), Iid())
    both = task.prepare(torch.tensor([0, 255], dtype=torch.uint8)[:, None, None, None].expand(2, 3, 1, 1))
    assert both[:, 0, 0, 0].tolist() == [-1.0, 1.0]


@pytest.mark.parametrize(
    ("classes", "message"),
    [
        (("cat", "bird"), "a label is 'dog', must be one of cat, bird"),
        (2, r"labels are text, must be integers; or name the classes: task\.classes=\[cat,dog,...\]"),
    ],
)
def test_folders_that_are_no_classes(tmp_path, colours, classes, message):
    write_folders(tmp_path / "train", colours[:6])
    with pytest.raises(ValueError, match=message) as caught:
        _ = source(tmp_path, ImageFormat((3, 32, 32), classes)).table
    assert str(caught.value).startswith(f"task.data={tmp_path}/train: ")


FORMS = r"{0}/CLASS/\*\.png, {0}\.npz or {0}\*\.parquet"
"""Those that `test_every_form_gives_the_same_examples` shows."""


def test_where_a_split_is_missing_every_form_is_named(tmp_path, colours):
    write_npz(tmp_path / "train.npz", colours[:6])
    for path, given in ((tmp_path / "train.npz", "a file, .* not read here"), (tmp_path / "absent", "no such folder")):
        with pytest.raises(ValueError, match=f"^task.data={path}: {given}; .* {FORMS.format('train')} in it"):
            _ = source(path).table
    with pytest.raises(ValueError, match=f"^task.data={tmp_path}: no {FORMS.format('test')} in it"):
        source(tmp_path).test_examples()


def test_clips_do_not_lie_in_class_folders(tmp_path, colours):
    """They are no image files, so that those are not named, and not read either."""
    write_folders(tmp_path / "train", colours[:6])
    with pytest.raises(ValueError, match=rf"^task.data={tmp_path}: no train\.npz or train\*\.parquet in it"):
        _ = source(tmp_path, LogMel((1, 98, 40), 2)).table


@pytest.mark.parametrize("key", ["train_split", "test_split"])
@pytest.mark.parametrize("split", ["train[:80%]", "train+test"])
def test_parts_and_sums_of_splits_are_for_the_hub(tmp_path, key, split):
    StoredImages("some/images", FORMAT, **{key: split})
    with pytest.raises(ValueError) as caught:
        StoredImages(None, FORMAT, path=str(tmp_path), **{key: split})
    assert str(caught.value).startswith(f"task.source.{key}={split}: ")
    assert "for the hub's data sets alone" in str(caught.value)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"shape": (2, 8, 8)}, r"^shape=\[2, 8, 8\]: must be channels \(1 or 3\)"),
        ({"shape": (32, 32)}, r"^shape=\[32, 32\]"),
        ({"classes": 1}, "^classes=1: must be 2 or more"),
        ({"classes": ("a", "a")}, r"^classes=\['a', 'a'\]: a name is there twice"),
    ],
)
def test_formats_that_cannot_be(given, message):
    with pytest.raises(ValueError, match=message):
        ImageFormat(**{"shape": (3, 8, 8), "classes": 2, **given})


def test_neither_a_path_nor_a_name():
    with pytest.raises(ValueError, match=r"^task.data=null: give a folder, or task.source.hub=OWNER/NAME$"):
        StoredImages(None, FORMAT)
