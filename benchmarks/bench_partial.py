"""Compute of partial training against full training: CPU time of one client's local round, by layer group.

The floor is the full round that this file runs itself, before and after each group's. Prints the ratios frozen
(no gradient below and outside the slice) and cached (activations below the slice computed once), those that the
multiply-accumulates say, and the whole schedule's (5 full rounds and 2 for each group).
    python benchmarks/bench_partial.py [resnet8|resnet18] [local epochs]
"""

import sys
import time

import numpy as np
import torch

from clients.layers import layer_groups, layout
from clients.numpy_client import FederatedClient
from clients.plan import RoundPlan
from clients.tasks.image_format import ImageFormat
from clients.tasks.images import ImageTask
from clients.tasks.partition import Iid
from clients.tasks.sources import StoredImages
from clients.tasks.task import Examples
from clients.training import LocalTraining
from clients.weights import weights_of

EXAMPLES, BATCH = 150, 50


def main(model_name: str, epochs: int) -> None:
    """Print the table."""
    images = StoredImages("none", ImageFormat(shape=(3, 32, 32), classes=10))
    task = ImageTask("noise", images, Iid(), mean=(0.5, 0.5, 0.5), std=(0.25, 0.25, 0.25), model=model_name)
    generator = torch.Generator().manual_seed(0)
    pixels = torch.randint(0, 256, (EXAMPLES, 3, 32, 32), generator=generator, dtype=torch.uint8)
    examples = Examples(pixels, torch.randint(0, 10, (EXAMPLES,), generator=generator))
    model = task.build_model(0)
    weights = weights_of(model)
    groups = layer_groups(weights)

    def seconds(chosen: tuple[int, ...] | None, cache_mb: int) -> tuple[float, int]:
        settings = LocalTraining(epochs=epochs, batch_size=BATCH, cache_mb=cache_mb)
        client = FederatedClient(model, task, examples, settings)
        plan = RoundPlan(1, chosen, 1e-3, layout(weights, groups))
        started = time.process_time()
        _, _, metrics = client.fit(list(weights.values()), plan.to_config())
        return time.process_time() - started, metrics["macs"]

    seconds(None, 0)  # the first optimizer of a process costs a second of its own
    rows, line = [], "{:32} frozen {:.2f}  cached {:.2f}  MACs {:.2f} {:.2f}"
    for index, group in enumerate(groups):
        before, full_macs = seconds(None, 0)
        frozen, frozen_macs = seconds((index,), 0)
        cached, cached_macs = seconds((index,), 512)
        after, _ = seconds(None, 0)
        full = (before + after) / 2
        rows.append([frozen / full, cached / full, frozen_macs / full_macs, cached_macs / full_macs])
        print(line.format(group[0], *rows[-1]))
    whole = (5 + 2 * np.sum(rows, axis=0)) / (5 + 2 * len(groups))
    print(line.format("whole schedule", *whole))


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "resnet8", int(sys.argv[2]) if len(sys.argv) > 2 else 8)
