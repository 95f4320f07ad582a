"""Multiply-accumulates of one client's local round, from those of one example."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from torch import Tensor, nn

from clients.macs import inference_macs, layers_per_example
from clients.plan import SparseTraining
from clients.sparse_round import needed_macs
from clients.training import LocalTraining


@dataclass(frozen=True)
class RoundMacs:
    """What a round over `examples` examples costs.

    example: one model input, (1, ...), of the size that training works on.
    """

    model: nn.Module
    example: Tensor
    examples: int
    training: LocalTraining

    def of_training(
        self,
        trained: tuple[str, ...],
        cached: bool = False,
        sparse: SparseTraining | None = None,
        densities: Mapping[str, float] = MappingProxyType({}),
    ) -> int:
        """All local epochs, when only `trained` learns.

        cached: whether the frozen prefix runs only once. densities: share of each weight that is not zero; dense
        where it says nothing.
        """
        shape, dtype = tuple(self.example.shape), self.example.dtype
        once, each = layers_per_example(self.model, shape, dtype, trained, self.training.frozen_norm, cached)
        epochs = self.training.epochs
        return round(
            self.examples * (needed_macs(once, sparse, densities) + needed_macs(each, sparse, densities) * epochs)
        )

    def of_passes(self, passes: int) -> int:
        """So many dense forward passes over all examples."""
        return inference_macs(self.model, self.example) * self.examples * passes if passes else 0
