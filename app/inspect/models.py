"""A finished run's model, its layers, and images for each of them."""

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from app.config import ConfigError, plain
from app.inspect.features import Features, maco, mean_spectrum, respond
from app.inspect.features import plain as climb
from app.stored import load_run
from clients.layers import layer_groups
from clients.tasks.task import Task

_SPECTRUM_OF = 500  # test images whose spectrum is taken


@dataclass(frozen=True)
class Trained:
    """A run's model in eval mode, and what it learned."""

    name: str
    task: Task
    model: nn.Module
    layers: dict[str, nn.Conv2d | nn.Linear]


@dataclass(frozen=True)
class LayerView:
    """What units of a layer respond to; units are their numbers."""

    name: str
    units: list[int]
    plain: Features
    maco: Features


def load(run_dir: Path) -> Trained:
    """The model of a finished run on images. Raises ConfigError where there is none."""
    run = load_run(run_dir)
    if run.task.blank().dim() != 4:
        raise ConfigError(f"{run_dir}: {run.task.name} has no images to look at; app.inspect is for image models")
    modules = dict(run.model.named_modules())
    groups = layer_groups(run.model, plain(run.cfg.groups))
    firsts = [name.rpartition(".")[0] for group in groups for name in group]
    layers = {name: layer for name in firsts if isinstance(layer := modules[name], nn.Conv2d | nn.Linear)}
    label = str(run.cfg.strategy._target_).rpartition(".")[2].removesuffix("Strategy")
    return Trained(f"{label}, {run_dir.name}", run.task, run.model.eval().requires_grad_(False), layers)


def spectrum_of(task: Task) -> Tensor:
    """The mean spectrum of (some of) the task's test images."""
    return mean_spectrum(task.prepare(task.test_examples().inputs[:_SPECTRUM_OF]))


def look(trained: Trained, units: int, steps: int, seed: int) -> list[LayerView]:
    """Both kinds of images for the first `units` units of each layer; the same seed gives the same images."""
    spectrum = spectrum_of(trained.task)
    shape = trained.task.blank().shape[1:]
    views = []
    for name, layer in trained.layers.items():
        count = min(units, layer.weight.shape[0])
        generator = torch.Generator().manual_seed(seed)
        start = 0.1 * torch.randn((count, *shape), generator=generator)
        response = respond(trained.model, layer, torch.arange(count))
        both = climb(response, start, steps, generator), maco(response, start, spectrum, steps, generator)
        views.append(LayerView(name, list(range(count)), *both))
    return views


def first_kernels(trained: Trained) -> Tensor | None:
    """The first convolution's kernels (n, channels, h, w), or None where the first layer is no convolution."""
    first = next(iter(trained.layers.values()), None)
    return first.weight.detach() if isinstance(first, nn.Conv2d) else None
