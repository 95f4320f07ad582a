"""Image data sets in parquet: from the Hugging Face hub, a folder in the hub's layout, or a device's own.

Everything becomes a `pyarrow.dataset.Dataset`, which reads only the columns and rows that are asked for.
Local files are read directly: `datasets` would first write a second copy of them to its cache.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from clients.tasks.image_format import ImageFormat
from clients.tasks.partition import Table
from clients.tasks.task import Examples


@contextmanager
def _errors_only(logger_name: str) -> Iterator[None]:
    logger = logging.getLogger(logger_name)
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)


def open_hub(name: str, split: str) -> Any:
    """A split of a data set on the Hugging Face hub, downloaded once by `datasets`."""
    import datasets
    import huggingface_hub.utils
    import pyarrow.dataset

    datasets.disable_progress_bars()
    huggingface_hub.utils.disable_progress_bars()  # type: ignore[attr-defined]
    try:
        with _errors_only("huggingface_hub"):  # else two lines for each of five tries
            loaded = datasets.load_dataset(name, split=split)
    except Exception as error:  # the libraries underneath let through errors of many unrelated kinds
        reason = " ".join(str(error).split())[:200]
        raise ValueError(
            f"{name} did not load from the Hugging Face hub ({type(error).__name__}: {reason}); go online, "
            f"try again later, or give task.data=FOLDER with parquet files train*.parquet and test*.parquet"
        ) from error
    return pyarrow.dataset.dataset(loaded.data.table)


def open_folder(path: str, split: str, hub: str) -> Any:
    """A split in a folder of parquet files, or in a folder below it (as in a copy of a hub repository)."""
    folder = Path(path).expanduser()
    if not folder.is_dir():
        wrong = "a file, not a folder" if folder.exists() else "no such folder"
        raise ValueError(
            f"task.data={path}: {wrong}; give a folder of parquet files, or leave it out to load {hub} from the hub"
        )
    pattern = f"{split}*.parquet"
    files = sorted(folder.glob(pattern)) or sorted(folder.glob(f"*/{pattern}"))
    if not files:
        raise ValueError(f"task.data={path}: no file {pattern} in it; its files must be named by split")
    if len({file.parent for file in files}) > 1:
        raise ValueError(f"task.data={path}: {pattern} in more than one folder below it; give one of those")
    return open_files(files, f"task.data={path}")


def open_files(files: list[Path], origin: str) -> Any:
    """Several parquet files with the same columns as one data set."""
    import pyarrow.dataset

    try:
        return pyarrow.dataset.dataset([str(file) for file in files], format="parquet")
    except (OSError, pyarrow.ArrowException) as error:
        raise ValueError(f"{origin}: not readable as parquet ({str(error).splitlines()[0]})") from error


def check_columns(dataset: Any, image_format: ImageFormat, origin: str) -> None:
    """Refuse a data set without the image or the label column, naming those that are there."""
    for column in (image_format.image_column, image_format.label_column):
        if column not in dataset.schema.names:
            there = ", ".join(dataset.schema.names)
            raise ValueError(f"{origin}: no column {column}; the columns are: {there}")


def read_table(dataset: Any, image_format: ImageFormat, origin: str) -> Table:
    """Labels, and every other complete column of integers or strings (possible ids); no image is read."""
    from pyarrow import types

    check_columns(dataset, image_format, origin)
    light = [
        entry.name
        for entry in dataset.schema
        if entry.name not in (image_format.image_column, image_format.label_column)
        and (types.is_integer(entry.type) or types.is_string(entry.type) or types.is_large_string(entry.type))
    ]
    table = dataset.to_table(columns=[image_format.label_column, *light])
    labels = image_format.labels(table[image_format.label_column].to_numpy(), origin)
    return Table(labels, {name: table[name].to_numpy() for name in light if not table[name].null_count})


def read_examples(dataset: Any, image_format: ImageFormat, origin: str, rows: np.ndarray | None) -> Examples:
    """The given rows in their order (all of them for None), decoded."""
    check_columns(dataset, image_format, origin)
    columns = [image_format.image_column, image_format.label_column]
    table = dataset.to_table(columns=columns) if rows is None else dataset.take(rows, columns=columns)
    pixels = image_format.decode(table[image_format.image_column].to_pylist(), origin)
    return image_format.examples(pixels, table[image_format.label_column].to_numpy(), origin)
