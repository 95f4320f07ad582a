"""What a task's images look like, and how arrays and encoded image files become `Examples` of that look."""

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch

from clients.tasks.tables import Columns, read_columns
from clients.tasks.task import Classes, Examples, class_indexes, count_classes


@dataclass(frozen=True)
class ImageFormat:
    """Size, values and labels of a task's images, and the columns of a table that they are in.

    Attributes:
        shape: channels (1 or 3), height, width.
        classes: how many there are, where labels run from 0 to one less; or their names, where labels are names.
        max_value: the largest pixel value; pixels are unsigned bytes.
        image_column: column of encoded images, bytes or the hub's {bytes, path}.
        label_column: column of labels.
        resize: whether image files of another size are scaled to `shape`, instead of refused.
    """

    shape: tuple[int, int, int]
    classes: Classes
    max_value: int = 255
    image_column: str = "image"
    label_column: str = "label"
    resize: bool = False
    class_folders: ClassVar[bool] = True
    """Whether `decode` takes image files, which lie in a folder for each class."""

    def __post_init__(self) -> None:
        if len(self.shape) != 3 or self.shape[0] not in (1, 3) or min(self.shape) < 1:
            raise ValueError(f"shape={list(self.shape)}: must be channels (1 or 3), height and width")
        count_classes(self.classes)

    @property
    def num_classes(self) -> int:
        """Labels run from 0 to one less."""
        return count_classes(self.classes)

    @property
    def columns(self) -> Columns:
        """Where a table has the images and labels."""
        return Columns((self.image_column,), self.label_column, self.classes)

    def read(self, dataset: Any, origin: str, rows: np.ndarray | None) -> Examples:
        """The given rows of a data set in their order (all of them for None), decoded."""
        table = read_columns(dataset, self.columns, origin, rows)
        where = f"{origin}: column {self.image_column}, row "
        pixels = self.decode(table[self.image_column].to_pylist(), lambda row: f"{where}{row}")
        return self.examples(pixels, table[self.label_column].to_numpy(), origin)

    def examples(self, pixels: np.ndarray, labels: np.ndarray, origin: str) -> Examples:
        """Checked examples of pixels (n, c, h, w) uint8 and labels (n,); `origin` opens what errors say."""
        if pixels.dtype != np.uint8:
            raise ValueError(f"{origin}: images are {pixels.dtype}, must be uint8")
        if labels.ndim != 1 or len(pixels) != len(labels):
            raise ValueError(f"{origin}: {len(pixels)} images but labels of shape {labels.shape}")
        if len(pixels) and pixels.max() > self.max_value:
            raise ValueError(f"{origin}: a pixel is {pixels.max()}, must be 0 to {self.max_value}")
        return Examples(torch.from_numpy(pixels), torch.from_numpy(class_indexes(labels, self.classes, origin)))

    def channels_first(self, pixels: np.ndarray, origin: str) -> np.ndarray:
        """Images of shape (n, h, w), (n, c, h, w) or (n, h, w, c) as (n, c, h, w)."""
        channels, height, width = self.shape
        if pixels.shape[1:] == tuple(self.shape):
            return pixels
        if pixels.shape[1:] == (height, width) and channels == 1:
            return pixels[:, None]
        if pixels.shape[1:] == (height, width, channels):
            return np.ascontiguousarray(pixels.transpose(0, 3, 1, 2))
        raise ValueError(
            f"{origin}: images have shape {pixels.shape}, must be (n, {channels}, {height}, {width}) "
            f"or (n, {height}, {width}, {channels})"
        )

    def decode(self, encoded: Sequence[Any], origin: Callable[[int], str]) -> np.ndarray:
        """Encoded images (PNG, JPEG, ...) as one array (n, c, h, w) uint8; `origin` names one by its number."""
        pixels = np.empty((len(encoded), *self.shape), np.uint8)
        for row, cell in enumerate(encoded):
            pixels[row] = self._decode_one(cell, origin(row))
        return pixels

    def _decode_one(self, cell: Any, origin: str) -> np.ndarray:
        from PIL import Image

        channels, height, width = self.shape
        data = cell.get("bytes") if isinstance(cell, dict) else cell
        if not isinstance(data, bytes):
            raise ValueError(f"{origin}: holds {type(data).__name__}, must be the bytes of an image file")
        try:
            image = Image.open(io.BytesIO(data)).convert("L" if channels == 1 else "RGB")
        except Exception as error:  # each of Pillow's decoders has its own
            raise ValueError(f"{origin}: does not decode as an image ({type(error).__name__})") from error
        if image.size != (width, height):
            if not self.resize:
                is_, must_be = f"{image.width}x{image.height}", f"{width}x{height}"
                raise ValueError(f"{origin}: is {is_}, must be {must_be}; task.resize=true scales it (task=images)")
            image = image.resize((width, height), Image.Resampling.BILINEAR)
        array = np.asarray(image)  # (h, w) or (h, w, 3)
        return array[None] if channels == 1 else array.transpose(2, 0, 1)
