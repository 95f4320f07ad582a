"""Image classification split among clients: what conf/task/digits and conf/task/cifar10 construct."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from clients.tasks.augment import check_rotation, flip_and_rotate
from clients.tasks.cache import ExampleCache
from clients.tasks.device_files import read_device
from clients.tasks.models import build_image_model, check_model
from clients.tasks.partition import Partition, Split, check_request, split_statistics
from clients.tasks.sources import ImageSource
from clients.tasks.task import Examples


@dataclass(frozen=True)
class ImageTask:
    """Images with one label each (implements `Task`). Constructing it loads nothing.

    Attributes:
        name: short name.
        source: where the images come from.
        partition: how the training set is split among clients.
        mean: per channel, of pixels scaled to [0, 1].
        std: the same.
        data: folder of the source's files, as the configuration gave it to the source; None: its usual place.
        model: cnn, resnet8 or resnet18.
        stem: first layers of the ResNets, imagenet or cifar.
        clients: number of partitions.
        examples: at most so many per client (partition draw: exactly so many); None for no limit.
        seed: of the split.
        flip: whether training batches are mirrored at random.
        rotation: largest rotation of training images in degrees; 0 for none.
    """

    name: str
    source: ImageSource
    partition: Partition
    mean: Sequence[float]
    std: Sequence[float]
    data: str | None = None
    model: str = "cnn"
    stem: str = "imagenet"
    clients: int = 10
    examples: int | None = None
    seed: int = 0
    flip: bool = False
    rotation: float = 0.0
    _cache: ExampleCache = field(default_factory=ExampleCache, init=False, repr=False, compare=False)
    _splits: dict[int, Split] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_model(self.model, self.stem)
        check_request(self.clients, self.examples)
        check_rotation(self.rotation)
        channels = self.source.image_format.shape[0]
        if not len(self.mean) == len(self.std) == channels:
            given = f"task.mean={list(self.mean)} task.std={list(self.std)}"
            raise ValueError(f"{given}: must have one number per channel, {channels}")

    def build_model(self, seed: int) -> nn.Module:
        """A freshly initialised model on the CPU; the same seed gives the same bits."""
        image_format = self.source.image_format
        return build_image_model(self.model, self.stem, image_format.shape[0], image_format.num_classes, seed)

    def _split(self, clients: int) -> Split:
        if clients not in self._splits:
            self._splits[clients] = self.partition.split(self.source.table, clients, self.examples, self.seed)
        return self._splits[clients]

    def client_examples(self, partition: int, clients: int | None = None) -> Examples:
        """Local training examples of one partition, kept in memory and shared between calls."""
        split = self._split(self.clients if clients is None else clients)
        if not 0 <= partition < len(split):
            raise ValueError(f"partition {partition}: must be from 0 to {len(split) - 1}")
        return self._cache.get((partition, len(split)), lambda: self.source.train_examples(split[partition]))

    def device_examples(self, path: str) -> Examples:
        """All training examples at `path`, read anew at each call, for a device's data may grow."""
        return read_device(path, self.source.image_format)

    def test_examples(self) -> Examples:
        """The whole test set, kept in memory and shared between calls."""
        return self._cache.get("test", self.source.test_examples)

    def prepare(self, inputs: Tensor) -> Tensor:
        """Pixels (n, c, h, w) uint8 to float32, scaled to [0, 1] and normalised per channel."""
        mean = torch.tensor(list(self.mean), device=inputs.device)[:, None, None]  # (c, 1, 1)
        std = torch.tensor(list(self.std), device=inputs.device)[:, None, None]
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

    def split_statistics(self, clients: int | None = None) -> dict[str, Any]:
        """How the training data are split: examples and class counts per partition, and the overlap."""
        split = self._split(self.clients if clients is None else clients)
        return split_statistics(self.source.table.labels, split, self.source.image_format.num_classes)
