"""Clips as log-mel spectrograms, and Google Speech Commands in the hub's layout."""

import io
import wave

import datasets
import numpy as np
import pytest

from clients.tasks.flower_partition import Natural
from clients.tasks.images import ImageTask
from clients.tasks.log_mel import RATE, LogMel, log_mel, mel_filters, to_bytes
from clients.tasks.sources import StoredImages

FORMAT = LogMel((1, 98, 40), 35, image_column="audio")
SILENCE = 2  # of 255: (log(1e-6) + 14) / 21 * 255 = 2.24


def tone(hertz, seconds=1.0):
    return (0.5 * np.sin(2 * np.pi * hertz * np.arange(int(RATE * seconds)) / RATE) * 2**15).astype("<i2")


def wav(samples, rate=RATE, channels=1, width=2):
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(width)
        file.setframerate(rate)
        file.writeframes(samples.tobytes())
    return buffer.getvalue()


def decoded(*clips):
    return FORMAT.decode([{"bytes": wav(clip), "path": None} for clip in clips], lambda row: f"test, row {row}")[:, 0]


@pytest.mark.parametrize("hertz", [200, 1000, 3000, 6500])
def test_a_tone_is_loudest_in_the_band_around_it(hertz):
    (image,) = decoded(tone(hertz))
    mels = 2595 * np.log10(1 + np.array([20, hertz, 7600]) / 700)
    band = (mels[1] - mels[0]) / (mels[2] - mels[0]) * 41 - 1  # bands are centred on 0, 1, ..., 39
    assert image.shape == (98, 40)
    assert (np.abs(image.argmax(axis=1) - band) <= 1).all()


def test_silence_and_loudness_by_hand():
    assert (decoded(np.zeros(RATE, "<i2")) == SILENCE).all()
    assert to_bytes(np.array([-20.0, -14.0, -3.5, 7.0, 9.0])).tolist() == [0, 0, 128, 255, 255]
    # a tone half as loud has a quarter of the power: log 4 less
    loud, soft = (log_mel(tone(1000)[None].astype(np.float32) / 2**15 * share, 40) for share in (1, 0.5))
    assert np.allclose((loud - soft)[0, :, loud[0, 0].argmax()], np.log(4), atol=1e-3)


def test_frames_are_ten_milliseconds_apart():
    noise = np.random.default_rng(0).normal(size=(1, RATE)).astype(np.float32) / 8
    assert np.allclose(log_mel(noise, 40)[:, 5:], log_mel(noise[:, 5 * 160 :], 40), atol=1e-4)


def test_short_clips_are_padded_and_long_ones_cut():
    short, long = tone(500, 0.5), tone(500, 2)
    images = decoded(short, np.pad(short, (0, RATE // 2)), long, long[:RATE])
    assert np.array_equal(images[0], images[1])
    assert np.array_equal(images[2], images[3])
    assert (images[0][51:] == SILENCE).all()  # frame 50 begins at half a second


def test_every_band_hears_something():
    assert (mel_filters(40).max(axis=0) > 0.3).all()
    assert mel_filters(40).shape == (257, 40)


@pytest.fixture
def columns():
    """Three clips of two speakers, and background noise, which has none."""
    clips = [{"bytes": wav(tone(hertz)), "path": None} for hertz in (300, 600, 900, 1200)]
    return {
        "file": list("abcd"),
        "audio": clips,
        "label": [0, 34, 1, 35],
        "speaker_id": ["s2", "s1", "s2", None],
    }


def task_of(path):
    source = StoredImages("google/speech_commands", FORMAT, path=path, complete="speaker_id", hub_folder="v0.02")
    return ImageTask("speech", source, Natural("speaker_id"), [0.5], [0.2], clients=2)


@pytest.mark.parametrize("name", ["train-00000-of-00001.parquet", "train/0000.parquet", "v0.02/train-0.parquet"])
def test_a_folder_in_the_hubs_layout(tmp_path, write_table, columns, name, no_hub):
    write_table(tmp_path / name, **columns)
    write_table(tmp_path / name.replace("train", "test"), **columns)
    task = task_of(str(tmp_path))
    assert task.split_statistics()["examples"] == [1, 2]
    assert task.client_examples(0).targets.tolist() == [34]
    assert task.test_examples().targets.tolist() == [0, 34, 1]
    assert task.prepare(task.client_examples(1).inputs).shape == (2, 1, 98, 40)


def test_the_hubs_own_parquet_in_its_folder_and_branch(tmp_path, make_task, write_table, columns, monkeypatch):
    """The library finds the split in a copy of the repository, laid out as the hub's branch is."""
    write_table(tmp_path / "v0.01" / "train" / "0000.parquet", **{k: v[:1] for k, v in columns.items()})
    for split in ("train", "test"):
        write_table(tmp_path / "v0.02" / split / "0000.parquet", **columns)
    load, asked = datasets.load_dataset, []

    def from_copy(name, subset, data_dir, revision, split):
        asked.append((name, data_dir, revision, split))
        return load(str(tmp_path), data_dir=data_dir, split=split, cache_dir=str(tmp_path / "cache"))

    monkeypatch.setattr(datasets, "load_dataset", from_copy)
    task = make_task("task=speech", "partition=natural", "partition.column=speaker_id", "task.clients=2")
    assert task.split_statistics()["examples"] == [1, 2]
    assert asked == [("google/speech_commands", "v0.02", "refs/convert/parquet", "train")]
    assert len(task.test_examples()) == 3


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        (b"no wave", r"not readable as WAV"),
        (wav(tone(500), rate=8000), r"has \(channels, bits, Hz\) \(1, 16, 8000\), must be \(1, 16, 16000\)"),
        (wav(tone(500), channels=2), r"\(2, 16, 16000\), must be"),
        (None, r"holds NoneType, must be the bytes of a WAV file"),
    ],
)
def test_what_is_no_clip_is_said_in_one_line(cell, message):
    with pytest.raises(ValueError, match=message) as caught:
        FORMAT.decode([{"bytes": cell, "path": None}], "row {}".format)
    assert str(caught.value).startswith("row 0: ")


def test_a_folder_without_the_columns_names_them(tmp_path, write_table, columns, no_hub):
    write_table(tmp_path / "train.parquet", **{name: columns[name] for name in ("file", "label")})
    with pytest.raises(ValueError, match=r"no column speaker_id; the columns are: file, label"):
        task_of(str(tmp_path)).split_statistics()
    write_table(tmp_path / "train.parquet", **{name: columns[name] for name in ("label", "speaker_id")})
    with pytest.raises(ValueError, match=r"no column audio; the columns are: label, speaker_id"):
        task_of(str(tmp_path)).split_statistics()


def test_a_devices_own_clips(tmp_path, make_task, write_table, columns):
    task = make_task("task=speech")
    device = write_table(tmp_path / "own.parquet", audio=columns["audio"][:2], label=[3, 4])
    examples = task.device_examples(str(device))
    assert (examples.targets.tolist(), tuple(examples.inputs.shape)) == ([3, 4], (2, 1, 98, 40))
