"""Local training: epochs of mini-batches over a client's own examples."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor, nn

from clients import seeds
from clients.objectives import Loss
from clients.partial import FrozenNorm
from clients.prefix import Split
from clients.tasks.task import Examples, Task

Optimizer = Literal["adam", "sgd"]
Precision = Literal["fp32", "bf16"]


@dataclass(frozen=True)
class LocalTraining:
    """How a client trains in a round.

    lr: learning rate of round 1, which decays exponentially by round to final_lr in the last; None: it stays.
    threads: of torch, the same in every runtime because the order of a sum, and so its last bits, depends on it.
    frozen_norm: see `clients.partial.training_only`. cache_mb: memory for the activations of a frozen prefix
    (`clients.prefix`), 0 to compute them every time. channels_last: whether images and the weights of convolutions
    lie in memory channel by channel for each pixel, which is often faster; it changes the last bits.
    """

    epochs: int = 2
    batch_size: int = 32
    lr: float = 1e-3
    final_lr: float | None = None
    optimizer: Optimizer = "adam"
    momentum: float = 0.0
    weight_decay: float = 0.0
    precision: Precision = "fp32"
    frozen_norm: FrozenNorm = "eval"
    threads: int = 1
    cache_mb: int = 512
    channels_last: bool = False

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_size", "threads"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)}: must be at least 1")
        for name in ("momentum", "weight_decay", "cache_mb"):
            if not 0 <= getattr(self, name) < float("inf"):
                raise ValueError(f"{name}={getattr(self, name)}: must be at least 0")
        for name, rate in (("lr", self.lr), ("final_lr", self.final_lr)):
            if rate is not None and not 0 < rate < float("inf"):
                raise ValueError(f"{name}={rate}: must be above 0")
        for name, choices in (("optimizer", Optimizer), ("precision", Precision), ("frozen_norm", FrozenNorm)):
            if getattr(self, name) not in get_args(choices):
                raise ValueError(f"{name}={getattr(self, name)}: must be one of {', '.join(get_args(choices))}")
        if self.momentum and self.optimizer == "adam":
            raise ValueError(f"momentum={self.momentum}: only optimizer=sgd has it")

    def build_optimizer(self, parameters: list[nn.Parameter], learning_rate: float) -> torch.optim.Optimizer:
        """A fresh optimizer, without any state of earlier rounds (FedPart, Section 4.1)."""
        # fused: one pass over memory for each step
        if self.optimizer == "adam":
            return torch.optim.Adam(parameters, lr=learning_rate, weight_decay=self.weight_decay, fused=True)
        return torch.optim.SGD(
            parameters, lr=learning_rate, momentum=self.momentum, weight_decay=self.weight_decay, fused=True
        )

    def arrange(self, inputs: Tensor) -> Tensor:
        """Model inputs in the memory layout that this asks for."""
        return channels_last(inputs) if self.channels_last else inputs

    def autocast(self) -> torch.autocast:
        """The context that computes in `precision`."""
        return torch.autocast("cpu", torch.bfloat16, enabled=self.precision == "bf16")


@dataclass(frozen=True)
class Key:
    """What a local round's randomness is keyed by."""

    seed: int
    round: int
    partition: int


def channels_last(inputs: Tensor) -> Tensor:
    """Images (n, c, h, w) with a pixel's channels side by side in memory; other inputs as they are."""
    return inputs.contiguous(memory_format=torch.channels_last) if inputs.dim() == 4 else inputs


def batches(count: int, size: int, generator: torch.Generator | None = None) -> Iterator[Tensor]:
    """Index batches over `count` examples, shuffled where a generator is given; every example once.

    The last batch is never dropped. A last batch of one joins the one before it, because batch normalisation
    has no variance over a single value.
    """
    order = torch.arange(count) if generator is None else torch.randperm(count, generator=generator)
    parts = list(order.split(size))
    if len(parts) > 1 and len(parts[-1]) == 1:
        parts[-2:] = [torch.cat(parts[-2:])]
    yield from parts


def train(
    model: nn.Module,
    parameters: list[nn.Parameter],
    task: Task,
    examples: Examples,
    settings: LocalTraining,
    learning_rate: float,
    key: Key,
    loss_of: Loss,
    given: tuple[Split, tuple[Tensor, ...]] | None = None,
    after_step: Callable[[], None] = lambda: None,
) -> float:
    """Train `parameters` for `settings.epochs` epochs; the mean training loss per example over all of them.

    loss_of: what is minimised (`clients.objectives`).
    given: the model split below the slice, and the activations there for all examples, where they are cached.
    """
    optimizer = settings.build_optimizer(parameters, learning_rate)
    shuffle = seeds.torch_generator("shuffle", key.seed, key.round, key.partition)
    augment = seeds.torch_generator("augment", key.seed, key.round, key.partition)
    total = 0.0
    with torch.random.fork_rng(devices=[]):  # dropout draws from torch's global generator
        torch.default_generator.manual_seed(seeds.key("dropout", key.seed, key.round, key.partition))
        for _ in range(settings.epochs):
            for rows in batches(len(examples), settings.batch_size, shuffle):
                targets = examples.targets[rows]
                with settings.autocast():
                    if given is None:
                        inputs = settings.arrange(task.augment(task.prepare(examples.inputs[rows]), augment))
                        outputs = model(inputs)
                    else:
                        inputs = given[1][0][rows]
                        outputs = given[0].suffix(*(activation[rows] for activation in given[1]))
                    loss = loss_of(inputs, outputs, targets)
                optimizer.zero_grad(set_to_none=True)
                loss.backward()
                optimizer.step()
                after_step()
                total += loss.item() * len(rows)
    return total / (settings.epochs * len(examples))
