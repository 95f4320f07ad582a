"""Real data where it is at hand, small files of the same layout, and the task configurations."""

import io
import os
from pathlib import Path

import datasets
import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from hydra import compose, initialize_config_dir
from hydra.utils import instantiate
from PIL import Image

REPOSITORY = Path(__file__).resolve().parents[2]

ROOT_CONFIG = """
defaults: [{{task: digits}}, {{partition: iid}}, _self_]
seed: 0
hydra: {{searchpath: ["file://{conf}"]}}
"""


@pytest.fixture
def real_data():
    """Path of a folder of real data, by name; skips where it is absent."""

    def find(name):
        given = os.environ.get("FEDSLICE_DATA")
        places = [Path(given)] if given else [place / "shared" / "data" for place in REPOSITORY.parents]
        for place in places:
            if (place / name).is_dir():
                return place / name
        pytest.skip(f"no real data {name}: set FEDSLICE_DATA to the folder that has it")

    return find


@pytest.fixture
def write_table():
    """Write columns to a parquet file, its folder too."""

    def write(path, **columns):
        path.parent.mkdir(parents=True, exist_ok=True)
        pa.parquet.write_table(pa.table(columns), path, row_group_size=4)
        return path

    return write


@pytest.fixture
def write_parquet(write_table):
    """Write encoded images and columns as the hub does: `image` cells are {bytes, path}."""

    def write(path, pixels, image_column="img", **columns):
        cells = [{"bytes": encode(image), "path": None} for image in pixels]
        return write_table(path, **{image_column: cells}, **columns)

    return write


def encode(image):
    """PNG bytes of an array (h, w) or (h, w, 3)."""
    buffer = io.BytesIO()
    Image.fromarray(image).save(buffer, format="PNG")
    return buffer.getvalue()


@pytest.fixture
def no_hub(monkeypatch):
    """Loading from the hub fails the test."""

    def refuse(*_, **__):
        raise AssertionError("the hub was asked")

    monkeypatch.setattr(datasets, "load_dataset", refuse)


@pytest.fixture
def colours():
    """Twelve colour images (12, 32, 32, 3), all different."""
    return np.random.default_rng(0).integers(0, 256, (12, 32, 32, 3), dtype=np.uint8)


@pytest.fixture
def compose_config(tmp_path_factory):
    """Compose the repository's task and partition groups under a small root."""
    folder = tmp_path_factory.mktemp("root")
    (folder / "root.yaml").write_text(ROOT_CONFIG.format(conf=REPOSITORY / "conf"))

    def composed(*overrides):
        with initialize_config_dir(str(folder), version_base="1.3"):
            return compose("root", overrides=list(overrides))

    return composed


@pytest.fixture
def make_task(compose_config):
    """Construct a task from the configuration and overrides."""
    return lambda *overrides: instantiate(compose_config(*overrides).task)
