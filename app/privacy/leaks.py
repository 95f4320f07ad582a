"""The kinds of update that strategies send, and what an attacker gets from each."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor, nn

from app.privacy.quality import psnr, ssim
from clients import seeds
from clients.inversion import Attack, gradient, invert
from clients.layers import layer_groups
from clients.tasks.images import ImageTask

Kept = Literal["all", "weights", "changes"]


@dataclass
class Leak:
    """What the attacker got from one kind of update: PSNR (dB) and SSIM by image, and the images in [0, 1]."""

    kind: str
    psnr: list[float] = field(default_factory=list)
    ssim: list[float] = field(default_factory=list)
    images: list[Tensor] = field(default_factory=list)

    def add(self, image: Tensor, original: Tensor) -> None:
        """Take down a reconstruction, (1, c, h, w) like the original."""
        self.psnr.append(psnr(image, original))
        self.ssim.append(ssim(image, original))
        self.images.append(image)


def kinds(model: nn.Module, sparsity: float) -> Iterator[tuple[str, list[str], Kept]]:
    """Each kind of update: how it is called, the parameters in it, and which of their values are sent."""
    named = [name for name, _ in model.named_parameters()]
    yield "full", named, "all"
    for index, group in enumerate(layer_groups(model)):
        own = [name for name in group if name in named]
        yield f"partial: group {index}, {own[0].removesuffix('.weight')}", own, "all"
    yield f"sparse: at the largest {1 - sparsity:.0%} of weights", named, "weights"
    yield f"sparse: the largest {1 - sparsity:.0%} of changes", named, "changes"


def kept_values(model: nn.Module, names: Sequence[str], by: Kept, update: Tensor, sparsity: float) -> Tensor:
    """Which values of a flat update are sent: all, or the largest by weight or by change, biases and norms always."""
    if by == "all":
        return torch.ones_like(update, dtype=torch.bool)
    named = dict(model.named_parameters())
    prunable = torch.cat([torch.full((named[name].numel(),), named[name].dim() > 1) for name in names])
    weights = torch.cat([named[name].detach().flatten() for name in names])
    sizes = (weights if by == "weights" else update).abs().masked_fill(~prunable, -1.0)
    kept = ~prunable
    kept[sizes.topk(round((1 - sparsity) * int(prunable.sum()))).indices] = True
    return kept


def find_leaks(
    task: ImageTask, model: nn.Module, images: int, attack: Attack, sparsity: float, seed: int
) -> list[Leak]:
    """Attack each kind of update over the first test images.

    The first item holds the originals, the second the mean grey of the data set, which is known without any update.
    """
    examples = task.test_examples()
    pixels = examples.inputs[:images]
    black = task.prepare(torch.zeros_like(pixels[:1]))
    white = task.prepare(torch.full_like(pixels[:1], task.source.image_format.max_value))
    leaks = [Leak("original"), Leak("no update: mean grey")]
    leaks += [Leak(kind) for kind, _, _ in kinds(model, sparsity)]
    model.eval()
    for at in range(len(pixels)):
        true, target = task.prepare(pixels[at : at + 1]), examples.targets[at : at + 1]
        original = (true - black) / (white - black)
        leaks[0].images.append(original)
        leaks[1].add(-black / (white - black), original)
        start = torch.randn(true.shape, generator=seeds.torch_generator("attack", seed, partition=at))
        for leak, (_, names, by) in zip(leaks[2:], kinds(model, sparsity), strict=True):
            update = gradient(model, true, target, names)
            kept = kept_values(model, names, by, update, sparsity)
            found = invert(model, update, kept, target, names, start, (black, white), attack)
            leak.add((found - black) / (white - black), original)
    return leaks


def partial_mean(leaks: Sequence[Leak]) -> Leak:
    """All partial updates together, for each group has its turn."""
    partial = [leak for leak in leaks if leak.kind.startswith("partial")]
    mean = Leak("partial: all groups")
    for leak in partial:
        mean.psnr += leak.psnr
        mean.ssim += leak.ssim
    return mean
