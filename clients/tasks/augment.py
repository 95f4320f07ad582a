"""Random flips and rotations of whole image batches, drawn from a given generator alone.

The FedPart paper's augmentation (arXiv 2410.11559): horizontal flip with probability 0.5 and rotation by up
to 15 degrees. Deviation: batches are normalised before they are turned, so the corners that a rotation bares
hold the mean colour, not black.
"""

import math

import torch
from torch import Tensor
from torch.nn import functional as F


def check_rotation(degrees: float) -> None:
    """Refuse a largest rotation outside 0 to 180 degrees."""
    if not 0 <= degrees <= 180:
        raise ValueError(f"task.rotation={degrees}: must be from 0 (off) to 180 degrees")


def random_flip(images: Tensor, generator: torch.Generator) -> Tensor:
    """Mirror each image of (n, c, h, w) left to right with probability 0.5, pixel for pixel."""
    chosen = torch.rand(len(images), generator=generator, device=generator.device) < 0.5  # (n,)
    return torch.where(chosen.to(images.device)[:, None, None, None], images.flip(-1), images)


def random_rotation(images: Tensor, degrees: float, generator: torch.Generator) -> Tensor:
    """Turn each image of (n, c, h, w) by its own angle, uniform in (-degrees, degrees).

    Bilinear; zeros where the turned image does not reach.
    """
    height, width = images.shape[-2:]
    draws = torch.rand(len(images), generator=generator, device=generator.device)
    angles = (draws.to(images.device) * 2 - 1) * math.radians(degrees)
    cos, sin, zero = angles.cos(), angles.sin(), torch.zeros_like(angles)
    # The grid runs from -1 to 1 along both sides, so the aspect ratio enters for images that are not square.
    top = torch.stack((cos, -sin * height / width, zero), dim=1)
    bottom = torch.stack((sin * width / height, cos, zero), dim=1)
    turn = torch.stack((top, bottom), dim=1).to(images.dtype)  # (n, 2, 3)
    grid = F.affine_grid(turn, list(images.shape), align_corners=False)  # (n, h, w, 2)
    return F.grid_sample(images, grid, mode="bilinear", padding_mode="zeros", align_corners=False)


def flip_and_rotate(images: Tensor, flip: bool, degrees: float, generator: torch.Generator) -> Tensor:
    """Both, each where it is on; with neither, the very tensor that was given and no draw."""
    if flip:
        images = random_flip(images, generator)
    if degrees:
        images = random_rotation(images, degrees, generator)
    return images
