"""Images of noise, as many as one likes, and a 62,000-parameter network: work of a known size, without any data."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from clients.tasks.images import ImageTask
from clients.tasks.partition import Table
from clients.tasks.seeded import seeded
from clients.tasks.sources import StoredImages
from clients.tasks.task import Examples

TRAIN, TEST = 50_000, 1_000


@dataclass(frozen=True)
class NoiseImages(StoredImages):
    """50,000 images of CIFAR-10's size and ten classes (an `ImageSource`)."""

    @cached_property
    def table(self) -> Table:
        """Labels in turn."""
        return Table(np.arange(TRAIN) % 10)

    def train_examples(self, rows: np.ndarray) -> Examples:
        """The same noise for the same rows."""
        generator = torch.Generator().manual_seed(int(rows[0]))
        shape = (len(rows), *self.image_format.shape)
        pixels = torch.randint(0, 256, shape, generator=generator, dtype=torch.uint8)
        return Examples(pixels, torch.from_numpy(self.table.labels[rows]))

    def test_examples(self) -> Examples:
        """Noise too."""
        return self.train_examples(np.arange(TEST))


class SmallNet(nn.Module):
    """Two 5x5 convolutions and three linear layers: 62,006 parameters for images of 3x32x32."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(3, 6, 5), nn.Conv2d(6, 16, 5)
        self.fc1, self.fc2, self.fc3 = nn.Linear(400, 120), nn.Linear(120, 84), nn.Linear(84, 10)

    def forward(self, x: Tensor) -> Tensor:
        """(n, 3, 32, 32) to logits (n, 10)."""
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)  # (n, 6, 14, 14)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)  # (n, 16, 5, 5)
        return self.fc3(F.relu(self.fc2(F.relu(self.fc1(x.flatten(1))))))


@dataclass(frozen=True)
class SmallNetTask(ImageTask):
    """An image task that is learned by `SmallNet`."""

    def build_model(self, seed: int) -> nn.Module:
        """See `Task.build_model`."""
        with seeded(seed):
            return SmallNet()
