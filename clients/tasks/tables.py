"""Tables of examples: from the Hugging Face hub, a folder of parquet or CSV files, or a device's own files.

Everything becomes a `pyarrow.dataset.Dataset`; of parquet it reads only the columns and rows that are asked for.
Local files are read directly: `datasets` would first write a second copy of them to its cache.
"""

import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from clients.tasks.damage import damaged_file, damaged_table
from clients.tasks.partition import Table
from clients.tasks.task import Classes, class_indexes


@contextmanager
def _errors_only(logger_name: str) -> Iterator[None]:
    logger = logging.getLogger(logger_name)
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)


def open_hub(
    name: str, split: str, folder: str | None = None, revision: str | None = None, subset: str | None = None
) -> Any:
    """A split of a data set on the Hugging Face hub, downloaded once by `datasets`; see `StoredSource`."""
    import datasets
    import huggingface_hub.utils
    import pyarrow.dataset

    datasets.disable_progress_bars()
    huggingface_hub.utils.disable_progress_bars()  # type: ignore[attr-defined]
    try:
        with _errors_only("huggingface_hub"):  # else two lines for each of five tries
            loaded = datasets.load_dataset(name, subset, data_dir=folder, revision=revision, split=split)
    except Exception as error:  # the libraries underneath let through errors of many unrelated kinds
        reason = " ".join(str(error).split())[:200]
        raise ValueError(
            f"{name} did not load from the Hugging Face hub ({type(error).__name__}: {reason}); go online, "
            f"try again later, or give task.data=FOLDER with parquet files train*.parquet and test*.parquet"
        ) from error
    return pyarrow.dataset.dataset(loaded.data.table)


def open_files(files: Sequence[Path], origin: str) -> Any:
    """Several files of one kind with the same columns as one data set; of CSV the first line names the columns."""
    import pyarrow.csv
    import pyarrow.dataset

    quoted = pyarrow.csv.ParseOptions(newlines_in_values=True)
    tables, file = [], files[0]
    try:
        if file.suffix == ".parquet":
            dataset = pyarrow.dataset.dataset([str(file) for file in files], format="parquet")
        else:
            for file in files:
                tables.append(pyarrow.csv.read_csv(file, parse_options=quoted))
            dataset = pyarrow.dataset.dataset(pyarrow.concat_tables(tables))
        _ = dataset.schema.names  # which may be no UTF-8
        return dataset
    except Exception as error:
        raise damaged_file(file, origin, error) from error


class OpenTable(NamedTuple):
    """A `pyarrow.dataset.Dataset`, and what errors about it begin with."""

    dataset: Any
    origin: str


@dataclass(frozen=True)
class Columns:
    """Where a data set has what: the columns of an example's inputs, and of its label."""

    inputs: tuple[str, ...]
    label: str
    classes: Classes


def check_columns(dataset: Any, names: Iterable[str], origin: str) -> None:
    """Refuse a data set without one of these columns, naming those that are there."""
    for name in names:
        if name not in dataset.schema.names:
            there = " ".join(", ".join(dataset.schema.names).split())  # one line, whatever a CSV begins with
            raise ValueError(f"{origin}: no column {name}; the columns are: {there}")


def with_value(dataset: Any, column: str) -> Any:
    """Only the rows that have a value in this column."""
    import pyarrow.dataset

    return dataset.filter(pyarrow.dataset.field(column).is_valid())


def read_table(dataset: Any, columns: Columns, origin: str) -> Table:
    """Labels, and every other complete column of integers or strings (possible ids); no input is read."""
    from pyarrow import types

    check_columns(dataset, (*columns.inputs, columns.label), origin)
    light = [
        entry.name
        for entry in dataset.schema
        if entry.name not in (*columns.inputs, columns.label)
        and (types.is_integer(entry.type) or types.is_string(entry.type) or types.is_large_string(entry.type))
    ]
    table = _read(dataset, [columns.label, *light], origin)
    labels = class_indexes(table[columns.label].to_numpy(), columns.classes, origin)
    return Table(labels, {name: table[name].to_numpy() for name in light if not table[name].null_count})


def read_columns(dataset: Any, columns: Columns, origin: str, rows: np.ndarray | None) -> Any:
    """Inputs and labels of the given rows in their order (all of them for None), as a `pyarrow.Table`."""
    names = [*columns.inputs, columns.label]
    check_columns(dataset, names, origin)
    return _read(dataset, names, origin, rows)


def _read(dataset: Any, names: list[str], origin: str, rows: np.ndarray | None = None) -> Any:
    """These columns, checked: Arrow takes text that is no UTF-8, and fails when it is used.

    A data set without any rows is refused, while none of the rows of one may be asked for.
    """
    try:
        table = dataset.to_table(columns=names) if rows is None else dataset.take(rows, columns=names)
        table.validate(full=True)
    except Exception as error:
        raise damaged_table(dataset, names, origin, error) from error
    if rows is None and not table.num_rows:
        raise ValueError(f"{origin}: holds no examples")
    return table
