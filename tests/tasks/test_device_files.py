"""A device's own files: every accepted form, and one clear line for what does not fit."""

import pickle
import zipfile

import numpy as np
import pytest
import torch

from clients.tasks.device_files import read_device
from clients.tasks.image_format import ImageFormat

COLOUR = ImageFormat((3, 32, 32), 10, image_column="img")
GREY = ImageFormat((1, 8, 8), 10, max_value=16)


@pytest.fixture
def digits():
    return np.random.default_rng(0).integers(0, 17, (6, 8, 8), dtype=np.uint8)


@pytest.mark.parametrize("shape", [(6, 8, 8), (6, 1, 8, 8), (6, 8, 8, 1)])
def test_grey_npz(tmp_path, digits, shape):
    np.savez(tmp_path / "own.npz", x=digits.reshape(shape), y=np.arange(6, dtype=np.uint8))
    examples = read_device(str(tmp_path / "own.npz"), GREY)
    assert torch.equal(examples.inputs, torch.from_numpy(digits)[:, None])
    assert examples.targets.tolist() == list(range(6))
    assert examples.targets.dtype == torch.int64


def test_colour_npz_in_both_orders(tmp_path, colours):
    channels_first = colours.transpose(0, 3, 1, 2)
    for name, x in (("last", colours), ("first", channels_first)):
        np.savez(tmp_path / f"{name}.npz", x=x, y=np.zeros(12, np.int64))
        inputs = read_device(str(tmp_path / f"{name}.npz"), COLOUR).inputs
        assert torch.equal(inputs, torch.from_numpy(channels_first.copy()))


def test_parquet_file_and_folder(tmp_path, write_parquet, colours):
    write_parquet(tmp_path / "own data" / "b.parquet", colours[2:4], label=[2, 3])
    write_parquet(tmp_path / "own data" / "a.parquet", colours[:2], label=[0, 1])
    assert read_device(str(tmp_path / "own data" / "b.parquet"), COLOUR).targets.tolist() == [2, 3]
    assert read_device(str(tmp_path / "own data"), COLOUR).targets.tolist() == [0, 1, 2, 3]
    write_parquet(tmp_path / "own data" / "train-1.parquet", colours[:1], label=[7])
    assert read_device(str(tmp_path / "own data"), COLOUR).targets.tolist() == [7]


def test_grey_parquet(tmp_path, write_parquet, digits):
    write_parquet(tmp_path / "own.parquet", digits, image_column="image", label=range(6))
    assert torch.equal(read_device(str(tmp_path / "own.parquet"), GREY).inputs[:, 0], torch.from_numpy(digits))


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"x": np.zeros((2, 8, 8), np.uint8)}, r"must have the arrays x .* and y .*; it has: x"),
        (
            {"x": np.zeros((2, 9, 8), np.uint8), "y": [1, 2]},
            r"images have shape \(2, 9, 8\), must be \(n, 1, 8, 8\)",
        ),
        ({"x": np.zeros((2, 8, 8)), "y": [1, 2]}, r"images are float64, must be uint8"),
        ({"x": np.zeros((2, 8, 8), np.uint8), "y": [1]}, r"2 images but labels of shape \(1,\)"),
        ({"x": np.zeros((2, 8, 8), np.uint8), "y": [1, -1]}, r"a label is -1, must be 0 to 9"),
        ({"x": np.zeros((2, 8, 8), np.uint8), "y": [1.0, 2.0]}, r"labels are float64, must be integers"),
        ({"x": np.full((2, 8, 8), 255, np.uint8), "y": [1, 2]}, r"a pixel is 255, must be 0 to 16"),
        ({"x": np.zeros((2, 8, 8), np.uint8), "y": 1}, r"2 images but labels of shape \(\)"),
        ({"x": np.zeros((0, 8, 8), np.uint8), "y": []}, r"holds no examples; x has shape \(0, 8, 8\)"),
        ({"x": np.array([{}]), "y": [1]}, r"not readable as npz \(x holds Python objects, which are not read; "),
        (
            {"x": np.zeros((2, 8, 8), np.uint8), "y": np.array(["a", None])},
            r"not readable as npz \(y holds Python objects, which are not read; ",
        ),
    ],
)
def test_arrays_that_do_not_fit(tmp_path, arrays, message):
    path = tmp_path / "own.npz"
    np.savez(path, **arrays)
    with pytest.raises(ValueError, match=message) as caught:
        read_device(str(path), GREY)
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)


def write_zip(path):
    """With what is no array in it."""
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x.npy", "text")
        archive.writestr("y.npy", "text")


def write_long_header(path):
    """NumPy's own error has a second line, which says how to read it all the same."""
    wide = np.zeros(1, [(f"column {number:04}", "i4") for number in range(1000)])
    np.savez(path, x=wide, y=[1])


@pytest.mark.parametrize(
    ("write", "reason"),
    [
        (lambda path: path.write_text("some text"), "no archive as numpy.savez writes it, "),
        (lambda path: path.write_text(""), "no archive as numpy.savez writes it, "),
        (lambda path: np.save(path.open("wb"), np.zeros(3)), "no archive as numpy.savez writes it, "),
        (lambda path: pickle.dump({"x": 1}, path.open("wb")), "no archive as numpy.savez writes it, "),
        (lambda path: np.savez(path, x=np.array([print]), y=[1]), "x holds Python objects, which are not read"),
        (write_zip, "x is no array"),
        (write_long_header, "Header info length"),
    ],
    ids=["text", "empty", "npy", "pickle", "objects", "zip", "long header"],
)
def test_nobody_is_told_to_trust_what_is_no_npz(tmp_path, write, reason):
    write(tmp_path / "own.npz")
    with pytest.raises(ValueError) as caught:
        read_device(str(tmp_path / "own.npz"), GREY)
    path, _, line = str(caught.value).partition(": ")
    assert path == f"{tmp_path}/own.npz"
    assert line.startswith(f"not readable as npz ({reason}")
    assert not [word for word in ("pickle", "trust", "unsafe", "\n") if word in line]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("absent", "no such file or folder"),
        ("empty", r"no parquet file in this folder; a \.npz file is given by its own path"),
        ("notes.txt", r"is a \.txt file, must be \.parquet or \.npz"),
        ("bad.npz", "not readable as npz"),
        ("blank.npz", "not readable as npz"),
        ("bad.parquet", "not readable as parquet"),
    ],
)
def test_paths_that_do_not_fit(tmp_path, name, message):
    path = tmp_path / name
    if name == "empty":
        path.mkdir()
    elif name != "absent":
        path.write_text("" if name == "blank.npz" else "nothing of use")
    with pytest.raises(ValueError, match=message) as caught:
        read_device(str(path), GREY)
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)
