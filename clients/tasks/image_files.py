"""Images at one place on the disk: a folder with a subfolder for each class, an npz file, or a table of images."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np

from clients.tasks.image_format import ImageFormat
from clients.tasks.npz import read_npz
from clients.tasks.partition import Table
from clients.tasks.tables import read_table
from clients.tasks.task import Examples, class_indexes

SUFFIXES: Final = frozenset((".bmp", ".gif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp"))


class ImageFiles(Protocol):
    """Images with labels; `origin` opens what errors say."""

    @property
    def table(self) -> Table:
        """Labels and id columns of all rows."""

    def read(self, rows: np.ndarray | None) -> Examples:
        """These rows in this order, or all of them."""


@dataclass(frozen=True)
class ImageTable:
    """Encoded images in a `pyarrow.dataset.Dataset`; any other column of integers or text may hold ids."""

    dataset: Any
    image_format: ImageFormat
    origin: str

    @cached_property
    def table(self) -> Table:
        """See `ImageFiles`; no image is read."""
        return read_table(self.dataset, self.image_format.columns, self.origin)

    def read(self, rows: np.ndarray | None) -> Examples:
        """See `ImageFiles`; only these rows are read."""
        return self.image_format.read(self.dataset, self.origin, rows)


@dataclass(frozen=True)
class ImageArrays:
    """An npz file with `x` (uint8 images), `y` (labels) and any further arrays (n,) of ids."""

    place: Path
    image_format: ImageFormat
    origin: str

    @cached_property
    def _arrays(self) -> dict[str, np.ndarray]:
        return read_npz(self.place, self.origin)

    @cached_property
    def _examples(self) -> Examples:
        pixels = self.image_format.channels_first(self._arrays["x"], self.origin)
        return self.image_format.examples(pixels, self._arrays["y"], self.origin)

    @cached_property
    def table(self) -> Table:
        """See `ImageFiles`."""
        labels = self._examples.targets.numpy()
        others = {name: array for name, array in self._arrays.items() if name not in ("x", "y")}
        one_each = {name: array for name, array in others.items() if array.shape == labels.shape}
        ids = {name: array for name, array in one_each.items() if array.dtype.kind in "iuU"}
        return Table(labels, ids)

    def read(self, rows: np.ndarray | None) -> Examples:
        """See `ImageFiles`."""
        everything = self._examples
        return everything if rows is None else Examples(everything.inputs[rows], everything.targets[rows])


@dataclass(frozen=True)
class ClassFolders:
    """A folder with a subfolder of image files for each class, named by it or by its index.

    The id column `folder` holds where below its class's folder an image lies: a client for each writer can be had
    from CLASS/WRITER/IMAGE.png.
    """

    place: Path
    image_format: ImageFormat
    origin: str

    @cached_property
    def _files(self) -> list[Path]:
        return image_files(self.place)

    @cached_property
    def table(self) -> Table:
        """See `ImageFiles`; no image is read."""
        inner = [file.relative_to(self.place) for file in self._files]
        names = [path.parts[0] for path in inner]
        numbers = isinstance(self.image_format.classes, int) and all(map(str.isdecimal, names))
        labels = class_indexes(np.array(names, np.int64 if numbers else None), self.image_format.classes, self.origin)
        return Table(labels, {"folder": np.array([str(path.parent.relative_to(path.parts[0])) for path in inner])})

    def read(self, rows: np.ndarray | None) -> Examples:
        """See `ImageFiles`; only these images are read."""
        chosen = np.arange(len(self._files)) if rows is None else rows
        files = [self._files[row] for row in chosen]
        cells = [file.read_bytes() for file in files]
        pixels = self.image_format.decode(cells, lambda row: f"{self.origin}: {files[row].relative_to(self.place)}")
        return self.image_format.examples(pixels, self.table.labels[chosen], self.origin)


def image_files(place: Path) -> list[Path]:
    """The image files below the subfolders of a folder, sorted by path."""
    return sorted(file for file in place.glob("*/**/*") if file.suffix.lower() in SUFFIXES and file.is_file())
