"""Residual networks for small images, as the FedPart paper trains them.

He, Zhang, Ren, Sun: Deep Residual Learning for Image Recognition (arXiv 1512.03385). ResNet-18 is the
torchvision model, name for name and bit for bit; ResNet-8 is the same with three stages of one basic block
each (FedPart, arXiv 2410.11559). The paper keeps the ImageNet stem even on 32x32 images;
`stem="cifar"` is the usual 3x3 stem without pooling.

Written out here although torchvision has it, because importing torchvision takes a device about as long, and
as much memory, as importing the rest of the product. A test holds the two equal.
"""

from typing import Final

from torch import Tensor, nn

STEMS: Final = ("imagenet", "cifar")
STAGE_WIDTHS: Final = (64, 128, 256, 512)
BLOCKS_PER_STAGE: Final = {8: (1, 1, 1), 18: (2, 2, 2, 2)}


class BasicBlock(nn.Module):
    """Two 3x3 convolutions and a shortcut; the shortcut is a 1x1 convolution where the shape changes."""

    def __init__(self, in_channels: int, channels: int, stride: int) -> None:
        super().__init__()
        # The order of registration is the order of the layer groups.
        self.conv1 = nn.Conv2d(in_channels, channels, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.relu = nn.ReLU()
        self.downsample: nn.Sequential | None = None
        if stride != 1 or in_channels != channels:
            self.downsample = nn.Sequential(
                nn.Conv2d(in_channels, channels, 1, stride, bias=False), nn.BatchNorm2d(channels)
            )

    def forward(self, x: Tensor) -> Tensor:
        """(n, in_channels, h, w) to (n, channels, h / stride, w / stride)."""
        shortcut = x if self.downsample is None else self.downsample(x)
        out = self.relu(self.bn1(self.conv1(x)))
        return self.relu(self.bn2(self.conv2(out)) + shortcut)  # type: ignore[no-any-return]


class ResNet(nn.Module):
    """Stem, stages of basic blocks, global average pool, linear classifier `fc`."""

    def __init__(self, blocks: tuple[int, ...], num_classes: int, in_channels: int, stem: str) -> None:
        super().__init__()
        width = STAGE_WIDTHS[0]
        if stem == "imagenet":
            self.conv1 = nn.Conv2d(in_channels, width, 7, stride=2, padding=3, bias=False)
            self.maxpool: nn.Module = nn.MaxPool2d(3, stride=2, padding=1)
        else:
            self.conv1 = nn.Conv2d(in_channels, width, 3, padding=1, bias=False)
            self.maxpool = nn.Identity()
        self.bn1 = nn.BatchNorm2d(width)
        self.relu = nn.ReLU()
        self.stages = len(blocks)
        for stage, count in enumerate(blocks):
            channels = STAGE_WIDTHS[stage]
            first = BasicBlock(width, channels, stride=1 if stage == 0 else 2)
            rest = [BasicBlock(channels, channels, stride=1) for _ in range(count - 1)]
            self.add_module(f"layer{stage + 1}", nn.Sequential(first, *rest))
            width = channels
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(width, num_classes)
        self._initialise()

    def _initialise(self) -> None:
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x: Tensor) -> Tensor:
        """(n, in_channels, h, w) to logits (n, num_classes)."""
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        for stage in range(1, self.stages + 1):
            x = self.get_submodule(f"layer{stage}")(x)
        return self.fc(self.avgpool(x).flatten(1))  # type: ignore[no-any-return]


def resnet(depth: int, num_classes: int, in_channels: int = 3, stem: str = "imagenet") -> ResNet:
    """A ResNet of 8 or 18 layers; depth and stem outside the choices are a ValueError."""
    if depth not in BLOCKS_PER_STAGE:
        raise ValueError(f"depth={depth}: must be one of {', '.join(map(str, BLOCKS_PER_STAGE))}")
    if stem not in STEMS:
        raise ValueError(f"stem={stem!r}: must be one of {', '.join(STEMS)}")
    return ResNet(BLOCKS_PER_STAGE[depth], num_classes, in_channels, stem)
