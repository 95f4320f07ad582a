"""A model of one's own, by import path: task.model=package.module:Class.

Whatever the path names (a class, a function) is called with those of `num_classes` and `in_channels` (images) or
`vocabulary_size` (texts) that are among its parameters, and with `task.model_args`.
"""

import inspect
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

import torch
from torch import Tensor, nn

from clients.tasks.seeded import seeded


def is_path(model: str) -> bool:
    """Whether this is an import path instead of the name of a model."""
    return ":" in model


def check_args(model: str, args: Mapping[str, Any] | None) -> None:
    """Refuse arguments for a model that takes none."""
    if args and not is_path(model):
        raise ValueError(f"task.model_args={dict(args)}: is for package.module:Class, not for task.model={model}")


def find(model: str) -> Callable[..., Any]:
    """What the import path names; a ValueError says why it cannot be had."""
    module, _, name = model.partition(":")
    try:
        found = getattr(import_module(module), name)
    except Exception as error:  # importing runs code of any kind
        raise ValueError(
            f"task.model={model}: not importable ({type(error).__name__}: {error}); must be package.module:Class, of "
            "a module that is installed, in the current folder or on PYTHONPATH"
        ) from error
    if not callable(found):
        raise ValueError(f"task.model={model}: is {type(found).__name__}, must be a class or a function")
    return found  # type: ignore[no-any-return]


def build(model: str, args: Mapping[str, Any], facts: Mapping[str, int], example: Tensor, seed: int) -> nn.Module:
    """The model, freshly initialised on the CPU by the seed alone.

    facts: what it is told where it has a parameter of that name, `num_classes` among them.
    example: one input, (1, ...), for which it must give logits (1, num_classes).
    """
    make = find(model)
    told = {name: value for name, value in facts.items() if name in inspect.signature(make).parameters}
    given = {**told, **args}
    says = f"task.model={model}: called with {', '.join(f'{k}={v}' for k, v in given.items()) or 'nothing'}"
    with seeded(seed):
        try:
            built = make(**given)
        except Exception as error:
            raise ValueError(f"{says} it raises {type(error).__name__}: {error}; task.model_args={{...}}") from error
    if not isinstance(built, nn.Module):
        raise ValueError(f"{says} it gives {type(built).__name__}, must be a torch.nn.Module")
    _check_output(built, example, facts["num_classes"], says)
    return built


def _check_output(model: nn.Module, example: Tensor, num_classes: int, says: str) -> None:
    """Refuse a model that does not give logits, by one pass in eval mode that leaves it as it was."""
    modes = [(module, module.training) for module in model.modules()]
    shape = f"an input of shape {tuple(example.shape)}"
    try:
        with torch.no_grad():
            output = model.eval()(example)
    except Exception as error:
        reason = str(error).splitlines()[0] if str(error) else ""
        raise ValueError(f"{says}, {shape} raises {type(error).__name__}: {reason}") from error
    finally:
        for module, mode in modes:
            module.training = mode
    got = tuple(output.shape) if isinstance(output, Tensor) else type(output).__name__
    if got != (1, num_classes):
        raise ValueError(f"{says}, {shape} gives {got}, must be (1, {num_classes})")
