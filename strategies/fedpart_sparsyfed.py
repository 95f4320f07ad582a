"""FedPart's schedule with SparsyFed's sparsity: only the kept weights of the chosen layers travel."""

from strategies.fedpart import FedPartStrategy
from strategies.sparsyfed import SparsyFedStrategy


class FedPartSparsyFedStrategy(FedPartStrategy, SparsyFedStrategy):
    """Each adds its part to the plan. In a partial round one Top-K over the whole model says what its slice keeps."""
