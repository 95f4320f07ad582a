"""docs/own_data.md keeps its word: each of its commands is played on data of the form that it describes."""

import re
import shlex
import sys

import datasets
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from app.vocabulary import main as write_vocabulary
from tests.runs import ROOT, play
from tests.tasks.conftest import encode

TEXT = (ROOT / "docs" / "own_data.md").read_text()
COMMANDS = [shlex.split(line) for line in re.findall(r"^python -m (app.*)$", TEXT, re.MULTILINE)]
(NETS,) = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
RANDOM = np.random.default_rng(0)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """The folders that the text speaks of."""
    folder = tmp_path_factory.mktemp("own")
    (folder / "nets.py").write_text(NETS)
    for split in ("train", "test"):
        _photos(folder / "photos" / split)
        (folder / "scans").mkdir(exist_ok=True)
        scans = RANDOM.integers(0, 256, (12, 8, 8), np.uint8)
        np.savez(folder / "scans" / f"{split}.npz", x=scans, y=np.arange(12) % 3, writer=np.array(list("ab") * 6))
        (folder / "tables").mkdir(exist_ok=True)
        pa.parquet.write_table(_table("photo", "animal"), folder / "tables" / f"{split}-0.parquet")
        (folder / "reviews").mkdir(exist_ok=True)
        reviews = {"title": ["so, so", "fine"] * 6, "text": ["a\nlong\nway", "go"] * 6, "verdict": ["bad", "good"] * 6}
        pa.csv.write_csv(pa.table(reviews), folder / "reviews" / f"{split}.csv")
    return folder


def _photos(split):
    for number, name in enumerate(["cat", "dog"] * 3):
        file = split / name / f"{number}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(_image(20))


def _image(size):
    return encode(RANDOM.integers(0, 256, (size, size, 3), np.uint8))


def _table(image, label):
    cells = [{"bytes": _image(16), "path": None} for _ in range(6)]
    return pa.table({image: cells, label: ["cat", "dog"] * 3})


@pytest.mark.parametrize("words", [c for c in COMMANDS if c[0] == "app"], ids=lambda words: " ".join(words[1:4]))
def test_a_command(words, place, tmp_path, monkeypatch):
    asked = []
    hub = datasets.Dataset(_table("image", "label"))
    monkeypatch.setattr(datasets, "load_dataset", lambda *name, split, **_: asked.append((*name, split)) or hub)
    monkeypatch.chdir(place)
    monkeypatch.syspath_prepend(str(place))
    run = play(tmp_path / "run", "rounds=2", "strategy.warmup=1", *words[1:])
    assert [row["completed"] > 0 for row in run.rows] == [False, True, True]
    parts = {"train[:80%]", "train[80%:]"} if "OWNER/NAME" in str(words) else set()
    assert set(asked) == {("OWNER/NAME", None, part) for part in parts}


def test_the_vocabulary(place, monkeypatch, capsys):
    (words,) = [c for c in COMMANDS if c[0] == "app.vocabulary"]
    monkeypatch.chdir(place)
    monkeypatch.setattr(sys, "argv", words)
    assert write_vocabulary() == 0
    assert capsys.readouterr().out == "words.txt: 6 words\n"
    assert (place / "words.txt").read_text().splitlines()[1:] == ["so", "a", "fine", "go", "long", "way"]
