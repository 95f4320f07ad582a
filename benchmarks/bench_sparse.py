"""Cost of sparse training steps on dense kernels, and of pruning, against what they replace; CPU time of one thread.

The floor of a step is the plain one that this file runs itself, in turn with the sparse ones. Prints each ratio
over all turns (its median and range), the share of activations that pruning kept beside each layer's target, and the
time of one global Top-K against torch's own `global_unstructured`.
    python benchmarks/bench_sparse.py [resnet8|resnet18] [turns]
"""

import sys
import time
from collections.abc import Callable
from contextlib import ExitStack

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils import prune as torch_prune

from clients.plan import SparseTraining
from clients.pruned_layers import prune
from clients.sparse import keep_largest
from clients.sparse_layers import CONVOLUTIONS, prunable, sparse_layers
from clients.tasks.resnet import resnet
from clients.weights import load_weights, weights_of

SPARSITY, BATCH = 0.95, 16
STEPS = {
    "plain, dense": None,
    "re-parameterised": SparseTraining(weights="powerprop", beta=1.25),
    "and activations pruned (SparsyFed)": SparseTraining(weights="powerprop", beta=1.25, prune_activations=True),
    "SWAT (ZeroFL)": SparseTraining(SPARSITY, weights="swat", prune_activations=True),
}


def main(depth: int, turns: int) -> None:
    """Print the table."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = resnet(depth, 10, 3, "cifar")
    load_weights(model, keep_largest(weights_of(model), SPARSITY, prunable(model), floor=0.2))
    inputs, targets = torch.randn(BATCH, 3, 32, 32), torch.randint(0, 10, (BATCH,))
    seconds: dict[str, list[float]] = {name: [] for name in STEPS}
    for turn in range(turns + 1):
        for name, sparse in STEPS.items():
            with ExitStack() as stack:
                stack.enter_context(sparse_layers(model, sparse))
                spent = cpu_seconds(lambda: step(model, inputs, targets))
            if turn:  # the first is to warm up
                seconds[name].append(spent)
    for name, spent in seconds.items():
        ratios = np.array(spent) / np.array(seconds["plain, dense"])
        print(f"{name:36} {np.median(ratios):.2f} ({ratios.min():.2f} to {ratios.max():.2f})")
    print(f"activations kept, worst distance from the target: {worst_share(model, inputs):.2f} points")
    top_k(model)


def step(model: nn.Module, inputs: Tensor, targets: Tensor) -> None:
    """Forward, backward and one SGD step that moves nothing."""
    model.train()
    F.cross_entropy(model(inputs), targets).backward()
    torch.optim.SGD(model.parameters(), lr=1e-30, fused=True).step()
    model.zero_grad()


def worst_share(model: nn.Module, inputs: Tensor) -> float:
    """Largest difference, in percentage points, of the share of non-zero inputs that pruning keeps from the target.

    Over layers whose inputs have more values that are not zero than the target keeps.
    """
    worst = [0.0]

    def look(layer: nn.Module, args: tuple[Tensor, ...]) -> None:
        weight = layer.get_parameter("weight")
        target = float(torch.count_nonzero(weight)) / weight.numel()
        if torch.count_nonzero(args[0]) / args[0].numel() > target:
            kept = float(torch.count_nonzero(prune(args[0].detach(), target))) / args[0].numel()
            worst.append(100 * abs(kept - target))

    with ExitStack() as stack:
        for layer in model.modules():
            if isinstance(layer, CONVOLUTIONS):
                stack.callback(layer.register_forward_pre_hook(look).remove)
        model(inputs)
    return max(worst)


def top_k(model: nn.Module) -> None:
    """One global Top-K over all prunable weights, ours and torch's."""
    weights, names = weights_of(model), prunable(model)
    ours = min(cpu_seconds(lambda: keep_largest(weights, SPARSITY, names)) for _ in range(5))
    places = [(model.get_submodule(name.removesuffix(".weight")), "weight") for name in names]
    theirs = cpu_seconds(
        lambda: torch_prune.global_unstructured(places, torch_prune.L1Unstructured, amount=SPARSITY)  # type: ignore[no-untyped-call]
    )
    print(f"global Top-K over {sum(weights[name].size for name in names):,} weights: {ours / theirs:.2f} of torch's")


def cpu_seconds(function: Callable[[], None]) -> float:
    """CPU time of one call."""
    started = time.process_time()
    function()
    return time.process_time() - started


if __name__ == "__main__":
    main(8 if "resnet8" in sys.argv else 18, int(sys.argv[2]) if len(sys.argv) > 2 else 5)
