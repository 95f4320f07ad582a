"""Whatever is damaged in a file of data, it is read or refused in one line that begins with the file's name."""

import io

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image

from clients.tasks.device_files import read_device
from clients.tasks.image_format import ImageFormat
from clients.tasks.log_mel import LogMel
from clients.tasks.sources import StoredImages
from clients.tasks.texts import StoredTexts
from clients.tasks.vocabulary import Vocabulary, read_vocabulary
from tests.mutations import check_mutations
from tests.tasks.conftest import encode
from tests.tasks.test_log_mel import tone, wav

GREY = ImageFormat((1, 8, 8), 10)
TEXTS = StoredTexts("hub", 4)
PIXELS = np.random.default_rng(0).integers(0, 256, (6, 8, 8), dtype=np.uint8)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_npz(tmp_path, save):
    file = tmp_path / "own.npz"
    save(file, x=PIXELS, y=np.arange(6))
    check_mutations(file, lambda: read_device(str(file), GREY), f"{file}: ")


@pytest.mark.parametrize("kind", ["bmp", "gif", "jpeg", "png", "ppm", "tiff", "webp"])
def test_images(tmp_path, kind):
    """Each kind of Pillow's decoders has errors of its own."""
    file = tmp_path / "3" / f"own.{kind}"
    file.parent.mkdir()
    Image.fromarray(PIXELS[0]).save(file)
    check_mutations(file, lambda: read_device(str(tmp_path), GREY), f"{tmp_path}: 3/own.{kind}: ")


def test_clips(tmp_path):
    file = tmp_path / "own.wav"
    file.write_bytes(wav(tone(500, 0.1)))
    form = LogMel((1, 10, 8), 10)
    check_mutations(file, lambda: form.decode([file.read_bytes()], lambda _: str(file)), f"{file}: ")


@pytest.mark.parametrize("compression", ["none", "snappy"])
def test_images_in_parquet(tmp_path, compression):
    file = tmp_path / "own.parquet"
    cells = [{"bytes": encode(image), "path": None} for image in PIXELS]
    pa.parquet.write_table(pa.table({"image": cells, "label": range(6)}), file, compression=compression)
    check_mutations(file, lambda: read_device(str(file), GREY), f"{file}: ")


@pytest.mark.parametrize("compression", ["none", "snappy"])
def test_texts_in_parquet(tmp_path, compression):
    file = tmp_path / "own.parquet"
    pa.parquet.write_table(pa.table({"text": ["one", "zwö"] * 3, "label": [0, 3] * 3}), file, compression=compression)
    check_mutations(file, lambda: TEXTS.device_texts(str(file)), f"{file}: ")


def test_texts_in_csv(tmp_path):
    file = tmp_path / "own.csv"
    file.write_text('text,label\nzwö,0\n"so, much",1\nyes,3\n', encoding="utf-8")
    check_mutations(file, lambda: TEXTS.device_texts(str(file)), f"{file}: ")


def test_vocabularies(tmp_path):
    file = tmp_path / "words.txt"
    Vocabulary("words", ("one", "two", "zwö")).write(str(file), "made here")
    check_mutations(file, lambda: read_vocabulary(str(file), "words"), f"task.vocabulary={file}: ")


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_the_broken_one_of_a_folder_is_named(tmp_path, kind):
    """In what all rows are read for, and in what some are."""
    table = pa.table({"text": [f"text {row} of many, so that there is enough of them" for row in range(400)]})
    table = table.append_column("label", pa.array([0, 1] * 200))
    for name in ("train-0", "train-1"):
        with io.BytesIO() as buffer:
            (pa.parquet.write_table if kind == "parquet" else pa.csv.write_csv)(table, buffer)
            whole = bytearray(buffer.getvalue())
        if name == "train-1":
            whole[1000:1010] = b"\xff\n\xff,\xff,\xff\xff\xff\xff"
        (tmp_path / f"{name}.{kind}").write_bytes(whole)
    for rows in (None, np.array([5, 700])):
        with pytest.raises(
            ValueError, match=rf"^task.data={tmp_path}: train files: train-1.{kind}: not readable as {kind} \("
        ):
            StoredTexts(None, 2, path=str(tmp_path)).train_texts(rows)


def test_a_filter_on_a_broken_file_names_it(tmp_path):
    file = tmp_path / "train.parquet"
    pa.parquet.write_table(pa.table({"text": ["one"] * 6, "label": range(6), "part": list("aaabbb")}), file)
    origins = (f"task.data={file}: ", "task.where={'part': 'a'}: ")
    check_mutations(file, lambda: StoredTexts(None, 6, path=str(tmp_path), where={"part": "a"}).train, *origins)


def test_the_splits_of_a_folder(tmp_path):
    for split in ("train", "test"):
        np.savez_compressed(tmp_path / f"{split}.npz", x=PIXELS, y=np.arange(6))
    source = StoredImages(None, path=str(tmp_path), image_format=GREY)
    check_mutations(tmp_path / "test.npz", source.test_examples, f"task.data={tmp_path}/test.npz: ")
