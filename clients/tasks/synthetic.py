"""Synthetic(alpha, beta): a federation with a dial for its heterogeneity.

Li et al. 2020, FedProx (arXiv 1812.06127), Section 5.1. Client k labels by y = argmax(W_k x + b_k) with
W_k ~ N(u_k, 1), b_k ~ N(u_k, 1), u_k ~ N(0, alpha). Its inputs are x ~ N(v_k, Sigma) with Sigma_jj = j^-1.2,
elements of v_k ~ N(B_k, 1), B_k ~ N(0, beta). The number of examples is 50 + a lognormal(4, 2) draw, as in the
authors' code.

By these formulas beta is a dial, and alpha turns nothing: u_k moves all logits of an input by the same amount, so no
label depends on it. Models differ from client to client at every alpha, because each draws its own W_k and b_k.

Deviations: alpha and beta are variances, as the paper writes them, where the authors' code passes them as standard
deviations (the same at 0 and 1); at most `examples` of a client's draws are used; each client's last tenth is held
out for the central test set, which takes at most `test_clients` clients, evenly spaced.

Every draw is keyed by the seed and the client, and is made when the client is asked for: clients that no round
samples cost nothing.
"""

import math
from dataclasses import KW_ONLY, dataclass, field
from itertools import pairwise
from typing import Any, Final, Literal, get_args

import numpy as np
import torch
from torch import Tensor, nn

from clients.tasks.cache import ExampleCache
from clients.tasks.partition import Iid, Partition, Stream, check_request, generator
from clients.tasks.seeded import seeded
from clients.tasks.task import Examples

Model = Literal["logistic", "mlp"]
_LEAST: Final = 50
_HELD_OUT: Final = 10  # one example in so many


@dataclass(frozen=True)
class SyntheticTask:
    """Clients drawn from Synthetic(alpha, beta) (implements `Task`).

    Attributes:
        name: short name.
        partition: must stay `Iid`, the default: the federation has clients of its own.
        alpha: variance of the clients' model means; 0 or more.
        beta: variance of the clients' input means; 0 or more.
        model: logistic (one linear layer) or mlp.
        hidden: widths of the MLP's hidden layers, each of which is a layer group.
        inputs: numbers in an example.
        num_classes: labels run from 0 to one less.
        clients: how many there are.
        examples: at most so many per client, the held-out ones included.
        test_clients: at most so many clients give their held-out examples to the test set.
        seed: of all draws.
    """

    name: str
    partition: Partition
    _: KW_ONLY
    alpha: float = 1.0
    beta: float = 1.0
    model: Model = "mlp"
    hidden: tuple[int, ...] = (64, 64, 64)
    inputs: int = 60
    num_classes: int = 10
    clients: int = 30
    examples: int = 1000
    test_clients: int = 100
    seed: int = 0
    _cache: ExampleCache = field(default_factory=ExampleCache, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_request(self.clients, self.examples)
        if not isinstance(self.partition, Iid):
            kind = type(self.partition).__name__.lower()
            raise ValueError(f"partition={kind}: {self.name} has clients of its own, leave it at iid")
        if self.model not in get_args(Model):
            raise ValueError(f"task.model={self.model}: must be one of {', '.join(get_args(Model))}")
        for name in ("alpha", "beta"):
            if not 0 <= getattr(self, name) < math.inf:
                raise ValueError(f"task.{name}={getattr(self, name)}: must be a number from 0 on")
        if not self.hidden or min(self.hidden) < 1:
            raise ValueError(f"task.hidden={list(self.hidden)}: must list widths of 1 or more")
        for name, least in (("inputs", 1), ("num_classes", 2), ("test_clients", 1), ("examples", _HELD_OUT)):
            if getattr(self, name) < least:
                raise ValueError(f"task.{name}={getattr(self, name)}: must be {least} or more")

    def build_model(self, seed: int) -> nn.Module:
        """A freshly initialised model on the CPU; the same seed gives the same bits."""
        with seeded(seed):
            if self.model == "logistic":
                return nn.Sequential(nn.Linear(self.inputs, self.num_classes))
            widths = (self.inputs, *self.hidden)
            layers: list[nn.Module] = []
            for inputs, outputs in pairwise(widths):
                layers += [nn.Linear(inputs, outputs), nn.ReLU()]
            return nn.Sequential(*layers, nn.Linear(widths[-1], self.num_classes))

    def size(self, client: int) -> int:
        """How many examples a client has, the held-out ones included."""
        drawn = generator(self.seed, Stream.SIZE, client).lognormal(4, 2)
        return int(min(_LEAST + drawn, self.examples))

    def drawn(self, client: int) -> Examples:
        """All examples of a client: inputs (n, inputs) float32; the held-out ones are the last."""
        random = generator(self.seed, Stream.CLIENT, client)
        mean_model = random.normal(0, math.sqrt(self.alpha))  # u_k
        mean_inputs = random.normal(0, math.sqrt(self.beta))  # B_k
        centre = random.normal(mean_inputs, 1, self.inputs)  # v_k
        weight = random.normal(mean_model, 1, (self.inputs, self.num_classes))
        bias = random.normal(mean_model, 1, self.num_classes)
        deviation = np.arange(1, self.inputs + 1) ** -0.6  # the square root of Sigma_jj
        x = random.normal(centre, deviation, (self.size(client), self.inputs))
        y = np.argmax(x @ weight + bias, axis=1)
        return Examples(torch.from_numpy(x.astype(np.float32)), torch.from_numpy(y.astype(np.int64)))

    def _held_out(self, client: int) -> int:
        return self.size(client) // _HELD_OUT

    def client_examples(self, partition: int, clients: int | None = None) -> Examples:
        """Local training examples of one client, which are the same however many clients there are."""
        count = self.clients if clients is None else clients
        if not 0 <= partition < count:
            raise ValueError(f"partition {partition}: must be from 0 to {count - 1}")

        def train() -> Examples:
            everything, kept = self.drawn(partition), self.size(partition) - self._held_out(partition)
            return Examples(everything.inputs[:kept].clone(), everything.targets[:kept].clone())

        return self._cache.get(partition, train)

    def device_examples(self, path: str) -> Examples:
        """Refused: there are no files of it."""
        raise ValueError(f"data-path={path}: {self.name} is drawn, not read; give partition-id and num-partitions")

    def test_examples(self) -> Examples:
        """What evenly spaced clients have held out, in their order."""
        chosen = np.unique(np.linspace(0, self.clients - 1, min(self.clients, self.test_clients)).astype(int))

        def test() -> Examples:
            drawn = [(self.drawn(client), self._held_out(client)) for client in chosen.tolist()]
            inputs = torch.cat([examples.inputs[-held:] for examples, held in drawn if held])
            return Examples(inputs, torch.cat([examples.targets[-held:] for examples, held in drawn if held]))

        return self._cache.get("test", test)

    def split_statistics(self, clients: int | None = None) -> dict[str, Any]:
        """Training examples per client; class counts are null, for they would need every client drawn."""
        count = self.clients if clients is None else clients
        examples = [self.size(client) - self._held_out(client) for client in range(count)]
        return {"clients": count, "examples": examples, "classes": None, "overlap": 0}

    def prepare(self, inputs: Tensor) -> Tensor:
        """A copy of the inputs, which are what the model takes."""
        return inputs.clone()

    def blank(self) -> Tensor:
        """Zeros, (1, inputs)."""
        return torch.zeros(1, self.inputs)

    @property
    def augments(self) -> bool:
        """Never."""
        return False

    def augment(self, inputs: Tensor, generator: torch.Generator) -> Tensor:
        """The same batch."""
        return inputs
