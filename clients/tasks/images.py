"""Image classification split among clients: what conf/task/digits and conf/task/cifar10 construct."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from clients.tasks import own_model
from clients.tasks.augment import check_rotation, flip_and_rotate
from clients.tasks.device_files import read_device
from clients.tasks.models import build_image_model, check_model
from clients.tasks.sources import ImageSource
from clients.tasks.split_task import SplitTask, check_fixed
from clients.tasks.task import Classes, Examples


@dataclass(frozen=True)
class ImageTask(SplitTask):
    """Images with one label each (implements `Task`); for the other attributes see `SplitTask`.

    Attributes:
        mean: per channel, of pixels scaled to [0, 1]; None: 0.5 for each.
        std: the same.
        shape: channels, height, width, as the configuration gave it to the source.
        classes: how many, or their names, as the configuration gave it to the source.
        resize: whether images of another size are scaled, as the configuration gave it to the source.
        model: cnn, resnet8, resnet18, or an import path (`own_model`).
        model_args: what a model by import path is called with besides.
        stem: first layers of the ResNets, imagenet or cifar.
        flip: whether training batches are mirrored at random.
        rotation: largest rotation of training images in degrees; 0 for none.
    """

    source: ImageSource
    mean: Sequence[float] | None = None
    std: Sequence[float] | None = None
    shape: Sequence[int] | None = None
    classes: Classes | None = None
    resize: bool = False
    model: str = "cnn"
    model_args: Mapping[str, Any] | None = None
    stem: str = "imagenet"
    flip: bool = False
    rotation: float = 0.0

    def __post_init__(self) -> None:
        check_model(self.model, self.stem)
        own_model.check_args(self.model, self.model_args)
        super().__post_init__()
        known = self.source.image_format
        check_fixed(
            shape=(self.shape, known.shape), classes=(self.classes, known.classes), resize=(self.resize, known.resize)
        )
        check_rotation(self.rotation)
        channels = self.source.image_format.shape[0]
        for name, values in (("mean", self.mean), ("std", self.std)):
            if values is not None and len(values) != channels:
                raise ValueError(f"task.{name}={list(values)}: must have one number per channel, {channels}")
        if self.std is not None and not all(0 < value < float("inf") for value in self.std):
            raise ValueError(f"task.std={list(self.std)}: must be above 0")

    @property
    def num_classes(self) -> int:
        """The image format's."""
        return self.source.image_format.num_classes

    def build_model(self, seed: int) -> nn.Module:
        """A freshly initialised model on the CPU; the same seed gives the same bits."""
        channels = self.source.image_format.shape[0]
        if own_model.is_path(self.model):
            facts = {"num_classes": self.num_classes, "in_channels": channels}
            return own_model.build(self.model, self.model_args or {}, facts, self.blank(), seed)
        return build_image_model(self.model, self.stem, channels, self.num_classes, seed)

    def _read_train(self, rows: np.ndarray) -> Examples:
        return self.source.train_examples(rows)

    def _read_test(self) -> Examples:
        return self.source.test_examples()

    def device_examples(self, path: str) -> Examples:
        """All training examples at `path`, read anew at each call, for a device's data may grow."""
        return read_device(path, self.source.image_format)

    def prepare(self, inputs: Tensor) -> Tensor:
        """Pixels (n, c, h, w) uint8 to float32, scaled to [0, 1] and normalised per channel."""
        middle = [0.5] * self.source.image_format.shape[0]
        mean = torch.tensor(list(self.mean or middle), device=inputs.device)[:, None, None]  # (c, 1, 1)
        std = torch.tensor(list(self.std or middle), device=inputs.device)[:, None, None]
        scaled = inputs.to(torch.float32, copy=True).div_(self.source.image_format.max_value)
        return scaled.sub_(mean).div_(std)

    def blank(self) -> Tensor:
        """A blank image, (1, channels, height, width)."""
        return torch.zeros(1, *self.source.image_format.shape)

    @property
    def augments(self) -> bool:
        """Whether a random flip or rotation is on."""
        return self.flip or self.rotation > 0

    def augment(self, inputs: Tensor, generator: torch.Generator) -> Tensor:
        """Random flip and rotation of a prepared batch, where they are on."""
        return flip_and_rotate(inputs, self.flip, self.rotation, generator)
