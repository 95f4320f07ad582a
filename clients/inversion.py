"""Gradient inversion: the image that a client trained on, recovered from what its update reveals.

Zhu, Liu, Han, *Deep Leakage from Gradients*, NeurIPS 2019 (DLG): a dummy image is changed until its gradient is the
one that was seen. Geiping et al., *Inverting Gradients*, NeurIPS 2020: the distance is one minus the cosine, a total
variation prior smooths, and Adam steps on the sign of the dummy's gradient, its rate divided by ten after 3/8, 5/8
and 7/8 of the iterations. That second attack is implemented, because it needs no smooth activations: the models
attacked are those that are trained. Deviations: one start instead of several, and the label is known to the attacker
(DLG searches for it). Normalisation layers use their running statistics.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

_MILESTONES = (3 / 8, 5 / 8, 7 / 8)


@dataclass(frozen=True)
class Attack:
    """How hard the attacker tries; rate and prior are for inputs of about unit variance."""

    iterations: int = 400
    learning_rate: float = 0.1
    total_variation: float = 1e-3

    def __post_init__(self) -> None:
        if self.iterations < 1:
            raise ValueError(f"iterations={self.iterations}: must be at least 1")


def gradient(model: nn.Module, inputs: Tensor, targets: Tensor, names: Sequence[str], graph: bool = False) -> Tensor:
    """The gradient of the cross-entropy with respect to the named parameters, flat, in their order."""
    named = dict(model.named_parameters())
    loss = F.cross_entropy(model(inputs), targets)
    parts = torch.autograd.grad(loss, [named[name] for name in names], create_graph=graph)
    return torch.cat([part.flatten() for part in parts])


def invert(
    model: nn.Module,
    revealed: Tensor,
    kept: Tensor,
    targets: Tensor,
    names: Sequence[str],
    start: Tensor,
    bounds: tuple[Tensor, Tensor],
    attack: Attack,
) -> Tensor:
    """The input whose gradient is most like `revealed` where `kept`, from `start` on.

    revealed, kept: flat over the parameters `names`, kept boolean. start: one model input, (1, ...).
    bounds: least and largest values of model inputs, which the attacker knows.
    """
    dummy = start.clone().requires_grad_(True)
    optimizer = torch.optim.Adam([dummy], lr=attack.learning_rate)
    milestones = [round(share * attack.iterations) for share in _MILESTONES]
    schedule = torch.optim.lr_scheduler.MultiStepLR(optimizer, milestones, 0.1)
    wanted = revealed[kept]
    for _ in range(attack.iterations):
        own = gradient(model, dummy, targets, names, graph=True)[kept]
        distance = 1 - F.cosine_similarity(own, wanted, dim=0)
        (dummy.grad,) = torch.autograd.grad(distance + attack.total_variation * _variation(dummy), dummy)
        dummy.grad.sign_()
        optimizer.step()
        schedule.step()
        with torch.no_grad():
            dummy.clamp_(*bounds)
    return dummy.detach()


def _variation(image: Tensor) -> Tensor:
    """Mean absolute difference of neighbouring pixels, both ways."""
    down, right = image.diff(dim=-2).abs().mean(), image.diff(dim=-1).abs().mean()
    return down + right
