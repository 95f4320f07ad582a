"""A task whose model weighs as much as one likes, and next to nothing to learn."""

from dataclasses import dataclass

import torch
from torch import nn

from clients.tasks.task import Examples


@dataclass(frozen=True)
class LargeTask:
    """Four numbers in, two classes out (implements `Task`). megabytes: of float32 weights, roughly."""

    megabytes: int
    clients: int = 1
    name: str = "large"
    augments: bool = False

    def build_model(self, seed):
        width = int((self.megabytes * 1e6 / 4) ** 0.5)
        torch.manual_seed(seed)
        return nn.Sequential(nn.Linear(4, width), nn.Linear(width, width), nn.Linear(width, 2))

    def client_examples(self, partition, clients=None):
        return Examples(torch.arange(8).reshape(2, 4), torch.tensor([0, 1]))

    def test_examples(self):
        return self.client_examples(0)

    def blank(self):
        return torch.zeros(1, 4)

    def prepare(self, inputs):
        return inputs.float()

    def augment(self, inputs, generator):
        return inputs

    def split_statistics(self, clients=None):
        return {}
