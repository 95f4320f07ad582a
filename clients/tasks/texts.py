"""Labelled texts in parquet or CSV: from the Hugging Face hub, a local folder, or a device's own files."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from clients.tasks.damage import damaged_table
from clients.tasks.device_files import device_files
from clients.tasks.partition import Table
from clients.tasks.split_files import TABLES
from clients.tasks.stored_source import StoredSource
from clients.tasks.tables import Columns, OpenTable, check_columns, open_files, read_columns, read_table
from clients.tasks.task import Classes, class_indexes, count_classes


class Texts(NamedTuple):
    """Texts and their labels (n,) int64."""

    texts: list[str]
    labels: np.ndarray


@dataclass(frozen=True)
class StoredTexts(StoredSource):
    """A text data set, a row for each text.

    Attributes:
        classes: how many there are, where labels run from 0 to one less; or their names, where labels are names.
        text_columns: columns of text that are joined, in this order, to be one text.
        label_column: column of labels.
        where: a column and the value that a training row must have in it to be used; None: all rows.
    """

    classes: Classes
    text_columns: Sequence[str] = ("text",)
    label_column: str = "label"
    where: Mapping[str, str | int] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        count_classes(self.classes)
        if not self.text_columns:
            raise ValueError("task.source.text_columns=[]: must name one column or more")

    @property
    def columns(self) -> Columns:
        """The text and label columns."""
        return Columns(tuple(self.text_columns), self.label_column, self.classes)

    @property
    def num_classes(self) -> int:
        """Labels run from 0 to one less."""
        return count_classes(self.classes)

    @cached_property
    def train(self) -> OpenTable:
        """The training split, opened once; only the rows that `where` chooses."""
        import pyarrow
        import pyarrow.dataset

        dataset, origin = self.open(self.train_split)
        if not self.where:
            return OpenTable(dataset, origin)
        check_columns(dataset, self.where, origin)
        for column, value in self.where.items():
            dataset = dataset.filter(pyarrow.dataset.field(column) == value)
        given = f"task.where={dict(self.where)}"
        try:
            found = dataset.count_rows()
        except pyarrow.ArrowNotImplementedError as error:
            raise ValueError(f"{given}: {origin} holds values of another type there") from error
        except Exception as error:
            raise damaged_table(dataset, self.where, origin, error) from error
        if not found:
            raise ValueError(f"{given}: {origin} has no such training row")
        return OpenTable(dataset, origin)

    @cached_property
    def table(self) -> Table:
        """Labels and id columns of the training set."""
        return read_table(self.train.dataset, self.columns, self.train.origin)

    def train_texts(self, rows: np.ndarray | None = None) -> Texts:
        """These rows of the training set in this order, or all of them."""
        return self._read(self.train, rows)

    def test_texts(self) -> Texts:
        """The whole test set."""
        return self._read(self.open(self.test_split), None)

    def device_texts(self, path: str) -> Texts:
        """All texts in a device's parquet or CSV file or folder of them; errors begin with the path."""
        return self._read(OpenTable(open_files(device_files(path, *TABLES), path), path), None)

    def _read(self, opened: OpenTable, rows: np.ndarray | None) -> Texts:
        from pyarrow import types

        origin = opened.origin
        table = read_columns(opened.dataset, self.columns, origin, rows)
        for column in self.text_columns:
            kind = table.schema.field(column).type
            if not (types.is_string(kind) or types.is_large_string(kind)):
                raise ValueError(f"{origin}: column {column} holds {kind}, must be text")
        parts = [table[column].fill_null("").to_pylist() for column in self.text_columns]
        labels = class_indexes(table[self.label_column].to_numpy(), self.classes, origin)
        return Texts([" ".join(cells) for cells in zip(*parts, strict=True)], labels)
