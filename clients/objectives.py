"""What a client minimises: cross-entropy, or cross-entropy and a term that holds it near the global model.

Orthogonal to the strategy: each objective works with full and with partial updates.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from copy import deepcopy
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from clients.weights import Weights, load_weights

Loss = Callable[[Tensor, Tensor, Tensor], Tensor]
"""From a batch of model inputs, the model's outputs for it and the targets to the loss to minimise."""


class Objective(Protocol):
    """Builds the loss of one local round."""

    @property
    def queue(self) -> int:
        """How many of its own previous local models a client shall remember."""

    @property
    def needs_inputs(self) -> bool:
        """Whether the loss looks at the inputs, so that no prefix of the model may be left out."""

    def models(self, previous: int) -> int:
        """How many other models see each batch, where the client remembers `previous` ones."""

    def loss(
        self, model: nn.Module, learning: list[nn.Parameter], previous: Sequence[Weights]
    ) -> AbstractContextManager[Loss]:
        """The loss, to be used inside the context.

        model: with the weights just received. learning: what is trained this round. previous: newest first.
        """


@dataclass(frozen=True)
class Plain:
    """Cross-entropy alone."""

    queue = 0
    needs_inputs = False

    def models(self, previous: int) -> int:
        """See `Objective.models`."""
        return 0

    @contextmanager
    def loss(self, model: nn.Module, learning: list[nn.Parameter], previous: Sequence[Weights]) -> Iterator[Loss]:
        """See `Objective.loss`."""
        yield lambda inputs, outputs, targets: F.cross_entropy(outputs, targets)


@dataclass(frozen=True)
class FedProx(Plain):
    """Cross-entropy + mu/2 * squared distance to the received weights (Li et al. 2020, MLSys, Equation 2).

    In a partial round the distance covers what is trained; all else does not move.
    """

    mu: float = 0.01

    def __post_init__(self) -> None:
        if not 0 <= self.mu < float("inf"):
            raise ValueError(f"mu={self.mu}: must be at least 0")

    @contextmanager
    def loss(self, model: nn.Module, learning: list[nn.Parameter], previous: Sequence[Weights]) -> Iterator[Loss]:
        """See `Objective.loss`."""
        received = [parameter.detach().clone() for parameter in learning]

        def proximal(inputs: Tensor, outputs: Tensor, targets: Tensor) -> Tensor:
            loss = F.cross_entropy(outputs, targets)
            if self.mu:
                distances = [(now - then).square().sum() for now, then in zip(learning, received, strict=True)]
                loss = loss + self.mu / 2 * torch.stack(distances).sum()
            return loss

        yield proximal


@dataclass(frozen=True)
class Moon:
    """Cross-entropy + mu * model-contrastive loss (Li, He, Song 2021, CVPR, Equations 3 and 4).

    An example's representation shall be near the global model's and far from those of the client's own previous
    local models. queue: how many of these are kept on the device; one that has none yet, or lost them, takes the
    received model, as the paper does at the start. Deviation: the representation is what the last linear layer
    receives; no projection head is added to the model.
    """

    mu: float = 1.0
    temperature: float = 0.5
    queue: int = 1

    needs_inputs = True

    def __post_init__(self) -> None:
        if not 0 <= self.mu < float("inf"):
            raise ValueError(f"mu={self.mu}: must be at least 0")
        if not 0 < self.temperature < float("inf"):
            raise ValueError(f"temperature={self.temperature}: must be above 0")
        if self.queue < 1:
            raise ValueError(f"queue={self.queue}: must be at least 1")

    def models(self, previous: int) -> int:
        """See `Objective.models`."""
        return 1 + previous if self.mu else 0

    @contextmanager
    def loss(self, model: nn.Module, learning: list[nn.Parameter], previous: Sequence[Weights]) -> Iterator[Loss]:
        """See `Objective.loss`."""
        if not self.mu:
            with Plain().loss(model, learning, previous) as plain:
                yield plain
            return
        received = deepcopy(model).eval()
        earlier = [deepcopy(received) for _ in previous] or [received]
        for net, weights in zip(earlier, previous, strict=False):
            load_weights(net, weights)
        with _representation(model) as own, _representation(received) as near, ExitStack() as stack:
            far = [stack.enter_context(_representation(net)) for net in earlier]

            def contrastive(inputs: Tensor, outputs: Tensor, targets: Tensor) -> Tensor:
                own_now = own[-1]
                with torch.no_grad():
                    for net in {id(net): net for net in [received, *earlier]}.values():
                        net(inputs)
                similar = [F.cosine_similarity(own_now, z[-1]) / self.temperature for z in (near, *far)]
                # Cross-entropy with the global model as the right answer: -log(exp(s_0) / sum_k exp(s_k)).
                answer = torch.zeros(len(inputs), dtype=torch.long)
                return F.cross_entropy(outputs, targets) + self.mu * F.cross_entropy(torch.stack(similar, 1), answer)

            yield contrastive


@contextmanager
def _representation(model: nn.Module) -> Iterator[list[Tensor]]:
    """A list whose last element is what the model's last linear layer was given in the last forward pass."""
    layers = [module for module in model.modules() if isinstance(module, nn.Linear)]
    if not layers:
        raise ValueError(f"objective=moon: {type(model).__name__} has no linear layer whose input could be compared")
    seen: list[Tensor] = []

    def keep(layer: nn.Module, inputs: tuple[Tensor, ...], named: dict[str, Tensor]) -> None:
        seen[:] = [*inputs, *named.values()]  # one, which a model may hand it by name

    handle = layers[-1].register_forward_pre_hook(keep, with_kwargs=True)
    try:
        yield seen
    finally:
        handle.remove()
