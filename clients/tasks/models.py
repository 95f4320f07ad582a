"""The image models by name, and a small convolutional net for the embedded digits."""

from typing import Final

from torch import Tensor, nn

from clients.tasks import own_model
from clients.tasks.resnet import STEMS, resnet
from clients.tasks.seeded import seeded

_RESNET_DEPTHS: Final = {"resnet8": 8, "resnet18": 18}
MODELS: Final = ("cnn", *_RESNET_DEPTHS)


class SmallConvNet(nn.Module):
    """Four 3x3 convolutions with batch-norm and a linear classifier `fc`: five layer groups, 66 k parameters.

    Takes images of any size from 4x4 on.
    """

    def __init__(self, in_channels: int, num_classes: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(in_channels, 32, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(32)
        self.conv2 = nn.Conv2d(32, 32, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(32)
        self.conv3 = nn.Conv2d(32, 64, 3, padding=1, bias=False)
        self.bn3 = nn.BatchNorm2d(64)
        self.conv4 = nn.Conv2d(64, 64, 3, padding=1, bias=False)
        self.bn4 = nn.BatchNorm2d(64)
        self.fc = nn.Linear(64, num_classes)
        self.relu = nn.ReLU()
        self.pool = nn.MaxPool2d(2)

    def forward(self, x: Tensor) -> Tensor:
        """(n, in_channels, h, w) to logits (n, num_classes)."""
        x = self.relu(self.bn1(self.conv1(x)))
        x = self.pool(self.relu(self.bn2(self.conv2(x))))  # (n, 32, h/2, w/2)
        x = self.relu(self.bn3(self.conv3(x)))
        x = self.pool(self.relu(self.bn4(self.conv4(x))))  # (n, 64, h/4, w/4)
        return self.fc(x.mean(dim=(2, 3)))  # type: ignore[no-any-return]


def check_model(model: str, stem: str) -> None:
    """Refuse a model or stem that does not exist with a ValueError that lists the choices."""
    if own_model.is_path(model):
        own_model.find(model)
    elif model not in MODELS:
        raise ValueError(f"task.model={model}: must be one of {', '.join(MODELS)}, or package.module:Class")
    if stem not in STEMS:
        raise ValueError(f"task.stem={stem}: must be one of {', '.join(STEMS)}")


def build_image_model(model: str, stem: str, in_channels: int, num_classes: int, seed: int) -> nn.Module:
    """A freshly initialised model; the same seed gives the same bits and the global generator is left alone.

    `stem` matters to the ResNets only.
    """
    check_model(model, stem)
    with seeded(seed):
        if model in _RESNET_DEPTHS:
            return resnet(_RESNET_DEPTHS[model], num_classes, in_channels, stem)
        return SmallConvNet(in_channels, num_classes)
