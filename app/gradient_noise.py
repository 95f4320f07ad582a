"""python -m app.gradient_noise RUN: the constant k of FedPart's convergence proof, for a finished run's model.

Wang et al. 2024 (arXiv 2410.11559), Assumption 3: whichever part of the parameters a round trains, the noise of its
gradient is alike, within a factor k. The authors estimate k by Monte Carlo, as their published code shows: of the
gradients of mini-batches of test examples, the standard deviation over a random eighth of all parameters; k is the
largest over the smallest among many such eighths. That is what `k` is here.

Random eighths hold some of every layer, so that they are alike by the law of large numbers. FedPart trains layers.
Therefore the noise of each layer group stands beside it, as root mean square of a parameter's deviation over that of
all parameters. Deviation from the authors: the variance of each parameter is summed while batches pass, so that the
gradients need not be kept; their square root gives the same numbers.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from torch.nn import functional as F

from app.config import plain
from app.stored import StoredRun, load_run
from clients.layers import layer_groups
from clients.seeds import numpy_generator, torch_generator
from clients.training import batches

Variances = dict[str, NDArray[np.float64]]
"""By parameter name: the variance over mini-batches of each of its values' gradient, flat."""


@dataclass(frozen=True)
class Noise:
    """k over random masks, and by layer group (its first parameter's name) the noise beside that of all parameters."""

    k: float
    groups: dict[str, float]


def gradient_variances(run: StoredRun, batch_size: int, seed: int) -> Variances:
    """The variance of the loss's gradient over mini-batches of all test examples, in training mode."""
    run.model.train()
    examples = run.task.test_examples()
    parameters = dict(run.model.named_parameters())
    mean = {name: torch.zeros_like(value, dtype=torch.float64) for name, value in parameters.items()}
    squares = {name: torch.zeros_like(value) for name, value in mean.items()}
    rows_of = list(batches(len(examples), batch_size, torch_generator("noise", seed)))
    for count, rows in enumerate(rows_of, start=1):
        outputs = run.model(run.task.prepare(examples.inputs[rows]))
        gradients = torch.autograd.grad(F.cross_entropy(outputs, examples.targets[rows]), list(parameters.values()))
        for name, gradient in zip(parameters, gradients, strict=True):
            change = gradient - mean[name]  # Welford 1962: no difference of large sums
            mean[name] += change / count
            squares[name] += change * (gradient - mean[name])
    return {name: (value / len(rows_of)).flatten().numpy() for name, value in squares.items()}


def noise_of(variances: Variances, groups: Sequence[Sequence[str]], share: float, masks: int, seed: int) -> Noise:
    """The k over `masks` random subsets of a `share` of all parameters, and each group's noise."""
    whole = np.concatenate(list(variances.values()))
    generator = numpy_generator("noise", seed)
    size = max(1, round(share * whole.size))
    deviations = [whole[generator.permutation(whole.size)[:size]].sum() ** 0.5 for _ in range(masks)]
    of_groups = {}
    for group in groups:
        own = [variances[name] for name in group if name in variances]  # running statistics have no gradient
        of_groups[group[0]] = float((np.concatenate(own).mean() / whole.mean()) ** 0.5)
    return Noise(float(max(deviations) / min(deviations)), of_groups)


def main(argv: Sequence[str] | None = None) -> int:
    """Print k and the table of groups; 2 where there is no such run."""
    parser = argparse.ArgumentParser(prog="python -m app.gradient_noise", description=__doc__)
    parser.add_argument("run", type=Path, metavar="RUN", help="a finished run's directory")
    parser.add_argument("--share", type=float, default=0.125, help="of the parameters in a mask (default: 0.125)")
    parser.add_argument("--masks", type=int, default=1000, help="how many (default: 1000)")
    parser.add_argument("--batch-size", type=int, default=32, help="examples behind a gradient (default: 32)")
    parser.add_argument("--seed", type=int, default=0, help="of batches and masks (default: 0)")
    args = parser.parse_args(argv)
    torch.set_num_threads(1)
    try:
        _check(args)
        run = load_run(args.run)
        groups = layer_groups(run.model, plain(run.cfg.groups))
        noise = noise_of(gradient_variances(run, args.batch_size, args.seed), groups, args.share, args.masks, args.seed)
    except ValueError as error:
        print(f"fedslice: {error}", file=sys.stderr)
        return 2
    table = Table("layer group", "noise of a parameter, of the mean over all")
    for name, value in noise.groups.items():
        table.add_row(name, f"{value:.2f}")
    Console().print(table)
    print(f"k = {noise.k:.4f} over {args.masks} random masks of {args.share:.1%} of the parameters")
    return 0


def _check(args: argparse.Namespace) -> None:
    if not 0 < args.share <= 1:
        raise ValueError(f"--share={args.share}: must be above 0 and at most 1")
    for name, least in (("masks", 1), ("batch_size", 1)):
        if getattr(args, name) < least:
            raise ValueError(f"--{name.replace('_', '-')}={getattr(args, name)}: must be at least {least}")


if __name__ == "__main__":
    sys.exit(main())
