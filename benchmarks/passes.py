"""CPU time of one example's training pass, in an experiment's model and batches; one thread.

docs/reproduce.md reckons with it how long the papers' schedules take. The median of some dense steps: forward, backward
and the optimizer, on noise; on a client's own examples where the model's input is a text, which needs data:
    python benchmarks/passes.py [EXPERIMENT ...] [OVERRIDE ...]
    python benchmarks/passes.py fedpart_transformer_agnews task.data=FOLDER
"""

import sys
import time
from collections.abc import Sequence
from statistics import median

import torch
from torch import Tensor
from torch.nn import functional as F

from app.config import compose, make
from clients.tasks.task import Task
from clients.training import LocalTraining

EXPERIMENTS = [
    "fedpart_resnet8_cifar10", "fedpart_150_clients_tinyimagenet", "fedpart_resnet18_cifar10",
    "fedpart_resnet18_tinyimagenet", "sparsyfed_cifar10", "sparsyfed_speech",
]  # fmt: skip
STEPS = 10


def main(experiments: Sequence[str], overrides: Sequence[str]) -> None:
    """Print a line for each."""
    torch.set_num_threads(1)
    for name in experiments:
        cfg = compose([f"experiment={name}", *overrides])
        task, training = make(cfg, "task"), make(cfg, "client")
        inputs = batch(task, training.batch_size)
        print(f"{name:34} {milliseconds(task, training, inputs):6.2f} ms a pass, batches of {len(inputs)}")


def batch(task: Task, size: int) -> Tensor:
    """A batch of model inputs."""
    if not task.blank().is_floating_point():  # tokens: the time depends on how long texts are
        return task.prepare(task.client_examples(0).inputs[:size])
    return torch.randn(size, *task.blank().shape[1:], generator=torch.Generator().manual_seed(0))


def milliseconds(task: Task, training: LocalTraining, inputs: Tensor) -> float:
    """Of a pass of one example."""
    model = task.build_model(0).train()
    optimizer = training.build_optimizer(list(model.parameters()), 1e-4)
    targets, spent = torch.zeros(len(inputs), dtype=torch.int64), []
    for _ in range(STEPS + 1):
        started = time.process_time()
        loss = F.cross_entropy(model(inputs), targets)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        spent.append(time.process_time() - started)
    return 1e3 * median(spent[1:]) / len(inputs)  # the first is to warm up


if __name__ == "__main__":
    given = sys.argv[1:]
    main([name for name in given if "=" not in name] or EXPERIMENTS, [name for name in given if "=" in name])
