"""Loss and accuracy of a model over a set of examples."""

import torch
from torch import nn
from torch.nn import functional as F

from clients.partial import estimate_statistics, norms
from clients.tasks.task import Examples, Task
from clients.training import batches, channels_last


@torch.no_grad()
def evaluate(
    model: nn.Module, task: Task, examples: Examples, batch_size: int = 500, batch_norm: str = "global"
) -> tuple[float, float]:
    """Mean cross-entropy and accuracy in [0, 1], in eval mode; the model is left as it was.

    batch_norm: `global` normalises by the model's running statistics; `local`, where those are not shared, by
    statistics measured on the evaluated inputs (their labels are not looked at). Fastest for a model of images
    whose weights lie in memory with their channels last.
    """
    training = [(module, module.training) for module in model.modules()]
    kept = {name: buffer.clone() for name, buffer in model.named_buffers()}
    try:
        if batch_norm == "local" and norms(model):
            inputs = (task.prepare(examples.inputs[rows]) for rows in batches(len(examples), batch_size))
            estimate_statistics(model, inputs)
        model.eval()
        loss, correct = 0.0, 0
        for rows in batches(len(examples), batch_size):
            outputs = model(channels_last(task.prepare(examples.inputs[rows]))).float()
            targets = examples.targets[rows]
            loss += F.cross_entropy(outputs, targets, reduction="sum").item()
            correct += int((outputs.argmax(dim=1) == targets).sum())
    finally:
        for name, buffer in model.named_buffers():
            buffer.copy_(kept[name])
        for module, mode in training:
            module.training = mode
    return loss / len(examples), correct / len(examples)
