"""Where a task's images come from: scikit-learn's digits, a local folder or the Hugging Face hub."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Protocol

import numpy as np

from clients.tasks.image_files import ClassFolders, ImageArrays, ImageFiles, ImageTable, image_files
from clients.tasks.image_format import ImageFormat
from clients.tasks.partition import Table
from clients.tasks.stored_source import StoredSource
from clients.tasks.task import Examples

DIGITS_TEST_SIZE = 360


class ImageSource(Protocol):
    """Training and test images with labels; nothing is loaded before it is asked for."""

    @property
    def image_format(self) -> ImageFormat:
        """Shape, classes and values; known without any data."""

    @property
    def table(self) -> Table:
        """Labels and id columns of the training set."""

    def train_examples(self, rows: np.ndarray) -> Examples:
        """These rows of the training set, in this order."""

    def test_examples(self) -> Examples:
        """The whole test set."""


@dataclass(frozen=True)
class Digits:
    """1,797 handwritten digits of 8x8 pixels (UCI, in scikit-learn's wheel); values 0 to 16.

    One fixed split, stratified by class and independent of any seed: 1,437 to train, 360 to test.
    """

    path: str | None = None

    def __post_init__(self) -> None:
        if self.path is not None:
            raise ValueError(f"task.data={self.path}: the digits come with scikit-learn; leave it out")

    @property
    def image_format(self) -> ImageFormat:
        """8x8, one channel, ten classes."""
        return ImageFormat(shape=(1, 8, 8), classes=10, max_value=16)

    @cached_property
    def _arrays(self) -> tuple[Examples, Examples]:
        from sklearn.datasets import load_digits
        from sklearn.model_selection import train_test_split

        bunch = load_digits()
        pixels = bunch.images.astype(np.uint8)[:, None]  # (n, 1, 8, 8)
        parts = train_test_split(
            np.arange(len(pixels)), test_size=DIGITS_TEST_SIZE, stratify=bunch.target, random_state=0
        )
        train, test = (self.image_format.examples(pixels[rows], bunch.target[rows], "digits") for rows in parts)
        return train, test

    @cached_property
    def table(self) -> Table:
        """Labels of the training set."""
        return Table(self._arrays[0].targets.numpy())

    def train_examples(self, rows: np.ndarray) -> Examples:
        """These rows of the training set, in this order."""
        train = self._arrays[0]
        return Examples(train.inputs[rows], train.targets[rows])

    def test_examples(self) -> Examples:
        """The whole test set."""
        return self._arrays[1]


@dataclass(frozen=True)
class StoredImages(StoredSource):
    """Images from a folder or the hub; only the rows that are asked for are decoded.

    For each split the folder has a subfolder of class folders (train/cat/1.png), an npz file (train.npz), or
    parquet files (train*.parquet).

    Attributes:
        image_format: shape, classes and column names.
    """

    image_format: ImageFormat

    def _split(self, split: str) -> ImageFiles:
        place = Path(self.path or "").expanduser()
        folders = self.image_format.class_folders
        if self.path is not None and folders and image_files(place / split):
            return ClassFolders(place / split, self.image_format, f"{self.origin}/{split}")
        if self.path is not None and (place / f"{split}.npz").is_file():
            return ImageArrays(place / f"{split}.npz", self.image_format, f"{self.origin}/{split}.npz")
        others = [f"{split}/CLASS/*.png"] * folders + [f"{split}.npz"]
        table = self.open(split, (".parquet",), others)
        return ImageTable(table.dataset, self.image_format, table.origin)

    @cached_property
    def _train(self) -> ImageFiles:
        return self._split(self.train_split)

    @cached_property
    def table(self) -> Table:
        """Labels and id columns of the training set."""
        return self._train.table

    def train_examples(self, rows: np.ndarray) -> Examples:
        """These rows of the training set, in this order."""
        return self._train.read(rows)

    def test_examples(self) -> Examples:
        """The whole test set."""
        return self._split(self.test_split).read(None)
