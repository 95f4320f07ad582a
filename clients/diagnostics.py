"""Evidence for layer mismatch: how far each local step moves the parameters of each layer group.

FedPart (Wang et al. 2024, Figure 1): just after averaging, steps are larger, because the layers of the averaged
model do not fit each other. Full rounds record every group apart, so that full and partial training can be
compared over the same parameters.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn


class StepSizes:
    """Norm of each group's parameter change in every iteration; call it after each optimizer step.

    groups: the parameters of each group that learns.
    """

    def __init__(self, groups: Sequence[Sequence[nn.Parameter]]) -> None:
        self._groups = groups
        self._before = [self._copy(group) for group in groups]
        self.sizes: list[list[float]] = []
        """A row per iteration, a column per group."""

    def __call__(self) -> None:
        """Record the change since the last call."""
        row = []
        for index, group in enumerate(self._groups):
            now = self._copy(group)
            row.append(float(torch.linalg.vector_norm(now - self._before[index])))
            self._before[index] = now
        self.sizes.append(row)

    @staticmethod
    def _copy(group: Sequence[nn.Parameter]) -> Tensor:
        return torch.cat([parameter.detach().flatten() for parameter in group])
