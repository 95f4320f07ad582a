"""How alike two images are. Both are (1, c, h, w) with values in [0, 1]."""

import torch
from torch import Tensor
from torch.nn import functional as F

_WINDOW = 7
"""Side of the squares over which SSIM compares."""


def psnr(image: Tensor, other: Tensor) -> float:
    """Peak signal-to-noise ratio in dB; infinite where they are equal."""
    return float(-10 * torch.log10(((image - other) ** 2).mean()))


def ssim(image: Tensor, other: Tensor) -> float:
    """Mean structural similarity, 1 where they are equal.

    Wang et al. 2004, Equation 13, with uniform windows of 7x7 (or the whole of a smaller image) inside the image, the
    unbiased variance, and its constants K1 = 0.01 and K2 = 0.03.
    """
    size = min(_WINDOW, *image.shape[-2:])
    unbiased = size**2 / (size**2 - 1)

    def mean(values: Tensor) -> Tensor:
        return F.avg_pool2d(values, size, stride=1)

    a, b = mean(image), mean(other)
    variance_a, variance_b = unbiased * (mean(image**2) - a**2), unbiased * (mean(other**2) - b**2)
    covariance = unbiased * (mean(image * other) - a * b)
    c1, c2 = 0.01**2, 0.03**2
    similar = (2 * a * b + c1) * (2 * covariance + c2) / ((a**2 + b**2 + c1) * (variance_a + variance_b + c2))
    return float(similar.mean())
