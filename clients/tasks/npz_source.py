"""Images in one local NumPy archive, which a column splits into training and test examples."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from clients.tasks.image_format import ImageFormat
from clients.tasks.npz import read_npz
from clients.tasks.partition import Table
from clients.tasks.task import Examples


@dataclass(frozen=True)
class NpzImages:
    """An archive with x (images), y (labels), and further arrays of the same length, such as ids and a split.

    Attributes:
        path: the file, or a folder that holds it and no other npz.
        image_format: shape and classes of x.
        split_column: the array that says which examples are for what.
        train: its values in training examples.
        test: its values in test examples.
    """

    path: str | None
    image_format: ImageFormat
    split_column: str
    train: Sequence[str | int]
    test: Sequence[str | int]

    def __post_init__(self) -> None:
        if both := set(self.train) & set(self.test):
            raise ValueError(f"task.source.test={list(self.test)}: {sorted(both)} must not be in task.source.train too")

    @cached_property
    def _arrays(self) -> dict[str, np.ndarray]:
        arrays = read_npz(self._place(), self._origin)
        if self.split_column not in arrays:
            raise ValueError(f"{self._origin}: no array {self.split_column}; it has: {', '.join(arrays)}")
        arrays["x"] = self.image_format.channels_first(arrays["x"], self._origin)
        self.image_format.examples(arrays["x"], arrays["y"], self._origin)  # refuses what does not fit
        return {name: array for name, array in arrays.items() if array.shape[:1] == arrays["y"].shape}

    @property
    def _origin(self) -> str:
        return f"task.data={self.path}"

    def _place(self) -> Path:
        if self.path is None:
            raise ValueError("task.data=null: must be an npz file with x, y and " + self.split_column)
        place = Path(self.path).expanduser()
        found = sorted(place.glob("*.npz")) if place.is_dir() else [place]
        if len(found) != 1:
            raise ValueError(f"{self._origin}: {len(found)} npz files in this folder, must be one")
        if not found[0].is_file():
            raise ValueError(f"{self._origin}: no such file or folder")
        return found[0]

    def _rows(self, key: str, values: Sequence[str | int]) -> np.ndarray:
        column = self._arrays[self.split_column]
        rows = np.flatnonzero(np.isin(column, np.asarray(values)))
        if not len(rows):
            there = ", ".join(map(str, np.unique(column)))
            raise ValueError(f"task.source.{key}={list(values)}: no example has it in {self.split_column}: {there}")
        return rows

    @cached_property
    def _train_rows(self) -> np.ndarray:
        return self._rows("train", self.train)

    @cached_property
    def table(self) -> Table:
        """Labels and id columns of the training examples."""
        columns = {name: array[self._train_rows] for name, array in self._arrays.items() if array.ndim == 1}
        return Table(columns.pop("y"), columns)

    def train_examples(self, rows: np.ndarray) -> Examples:
        """These rows of the training examples, in this order."""
        return self._examples(self._train_rows[rows])

    def test_examples(self) -> Examples:
        """All test examples."""
        return self._examples(self._rows("test", self.test))

    def _examples(self, rows: np.ndarray) -> Examples:
        arrays = self._arrays
        return self.image_format.examples(arrays["x"][rows], arrays["y"][rows], self._origin)
