"""Images that make a unit of a model respond most: activation maximisation, plain and magnitude-constrained.

A unit is a channel of a convolution (its mean over the image) or an output of a linear layer. Both methods start from
the same noise at the same seed and climb with Adam.

plain: Erhan et al. 2009 (Visualizing Higher-Layer Features of a Deep Network), gradient ascent on the pixels. As in
Olah et al. 2017 (Feature Visualization), the image is moved by a pixel or so before each step, and its total variation
is held down; without that, ascent finds noise.

maco: Fel et al. 2023 (MACO, arXiv 2306.06805). Only the phase of the image's Fourier transform is climbed; the
magnitude stays that of the data set's mean spectrum, so that no frequency can be louder than in real images. Each step
looks at random crops with noise. What the ascent's gradients touched, summed over steps, is the image's opacity.
Deviations: crops keep 80 to 100 % of a side (the paper goes down to 5 to 25 % of large photographs), and there is one
spectrum per channel.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

_RATE = 0.05
_SMOOTH = 0.1  # weight of the total variation in the plain method, where the response's gradient has mean size 1
_NOISE = 0.1  # deviation of the noise that MACO adds to its crops
_CROPS = 4

Response = Callable[[Tensor], Tensor]
"""Images (n, c, h, w) to the responses (n,) of n units, one image for each."""


@dataclass(frozen=True)
class Features:
    """Prepared images (n, c, h, w) of n units, and their opacity (n, h, w) in [0, 1]."""

    images: Tensor
    opacity: Tensor


def respond(model: nn.Module, layer: nn.Module, units: Tensor) -> Response:
    """How strongly each of `units` of a layer responds to its own image."""

    def response(images: Tensor) -> Tensor:
        seen: list[Tensor] = []
        hook = layer.register_forward_hook(lambda _, __, output: seen.append(output))
        try:
            model(images)
        finally:
            hook.remove()
        output = seen[-1].flatten(2).mean(2) if seen[-1].dim() > 2 else seen[-1]  # (n, units of the layer)
        return output.gather(1, units.repeat(len(images) // len(units))[:, None])[:, 0]

    return response


def plain(response: Response, start: Tensor, steps: int, generator: torch.Generator) -> Features:
    """Gradient ascent on pixels from `start` (n, c, h, w)."""
    images = start.clone().requires_grad_()
    optimizer = torch.optim.Adam([images], lr=_RATE)
    for _ in range(steps):
        shift = torch.randint(-1, 2, (2,), generator=generator).tolist()
        (up,) = torch.autograd.grad(response(images.roll(shift, (2, 3))).sum(), images)
        (rough,) = torch.autograd.grad(_total_variation(images), images)
        # Units respond at very different scales; the smoothness weighs the same for each.
        images.grad = _SMOOTH * rough - up / up.abs().mean((1, 2, 3), keepdim=True).clamp(min=1e-12)
        optimizer.step()
    return Features(images.detach(), torch.ones_like(images[:, 0]).detach())


def maco(response: Response, start: Tensor, spectrum: Tensor, steps: int, generator: torch.Generator) -> Features:
    """Ascent on the phases of `start` (n, c, h, w) under the magnitudes `spectrum` (c, h, w // 2 + 1)."""
    size = (start.shape[2], start.shape[3])
    phase = torch.fft.rfft2(start).angle().requires_grad_()
    optimizer = torch.optim.Adam([phase], lr=2 * _RATE)
    touched = torch.zeros_like(start[:, 0])
    for _ in range(steps):
        images = torch.fft.irfft2(torch.polar(spectrum.expand_as(phase), phase), s=size)
        crops = torch.cat([_crop(images, generator) for _ in range(_CROPS)])
        crops = crops + _NOISE * torch.randn(crops.shape, generator=generator)
        loss = -response(crops).sum()
        gradient, phase.grad = torch.autograd.grad(loss, (images, phase))
        optimizer.step()
        touched += gradient.abs().mean(1)
    with torch.no_grad():
        images = torch.fft.irfft2(torch.polar(spectrum.expand_as(phase), phase), s=size)
    return Features(images, touched / touched.amax((1, 2), keepdim=True).clamp(min=1e-12))


def mean_spectrum(images: Tensor) -> Tensor:
    """The mean magnitude of the Fourier transform of images (n, c, h, w), as (c, h, w // 2 + 1)."""
    magnitudes: Tensor = torch.fft.rfft2(images).abs()
    return magnitudes.mean(0)


def _crop(images: Tensor, generator: torch.Generator) -> Tensor:
    """One random crop of all images, scaled back to their size."""
    height, width = images.shape[2:]
    share = 0.8 + 0.2 * float(torch.rand((), generator=generator))
    tall, wide = max(1, math.ceil(share * height)), max(1, math.ceil(share * width))
    top = int(torch.randint(height - tall + 1, (), generator=generator))
    left = int(torch.randint(width - wide + 1, (), generator=generator))
    part = images[:, :, top : top + tall, left : left + wide]
    return F.interpolate(part, size=(height, width), mode="bilinear", align_corners=False)


def _total_variation(images: Tensor) -> Tensor:
    return images.diff(dim=2).abs().sum() + images.diff(dim=3).abs().sum()
