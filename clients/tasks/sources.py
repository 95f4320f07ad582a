"""Where a task's images come from: scikit-learn's digits, or parquet from a local folder or the hub."""

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from clients.tasks.image_format import ImageFormat
from clients.tasks.parquet import Columns
from clients.tasks.parquet_source import ParquetSource
from clients.tasks.partition import Table
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
        return ImageFormat(shape=(1, 8, 8), num_classes=10, max_value=16)

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
class ParquetImages(ParquetSource):
    """Images in the hub's parquet layout; only the rows that are asked for are decoded.

    Attributes:
        image_format: shape, classes and column names.
    """

    image_format: ImageFormat

    @property
    def columns(self) -> Columns:
        """The image format's."""
        return self.image_format.columns

    def train_examples(self, rows: np.ndarray) -> Examples:
        """These rows of the training set, in this order."""
        return self.image_format.read(self.train, self.origin, rows)

    def test_examples(self) -> Examples:
        """The whole test set."""
        return self.image_format.read(self.open(self.test_split), self.origin, rows=None)
