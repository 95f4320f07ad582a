"""Which replies are accepted: anything that could harm the model is refused, named and counted."""

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clients.layers import Groups, names_in
from clients.messages import Reply
from clients.plan import RoundPlan
from clients.weights import Weights, not_finite

MOST_EXAMPLES = 10**9
"""More than this is taken for an attack or a mistake, not for a data set."""
MOST = 1e30
"""Nor is more than this a weight, a loss, a time or a count of work; sums of what is below stay finite."""
_LONGEST = 300


@dataclass(frozen=True)
class Asked:
    """What a reply must hold.

    names: of the arrays that were asked for. step_columns: layer groups whose step sizes were asked for, 0 for none.
    max_norm: the largest L2 norm of the update over all floating-point arrays together; None for any.
    """

    names: Collection[str]
    step_columns: int = 0
    max_norm: float | None = None

    @classmethod
    def by(cls, plan: RoundPlan, groups: Groups, max_norm: float | None) -> "Asked":
        """What a round's plan asks for."""
        columns = len(groups if plan.groups is None else plan.groups) if plan.diagnostics else 0
        return cls(names_in(groups, plan.groups), columns, max_norm)


def most_bytes(model: Weights) -> int:
    """Bytes that a reply's arrays may take when unpacked: more would be meant to exhaust the memory.

    Ample, so that an honest mistake, such as float64 for float32, is still refused by name.
    """
    return 4 * sum(array.nbytes for array in model.values()) + 2**20


def legible(reason: str) -> str:
    """A reason that a device wrote, as one line of at most 300 characters, none of which moves a terminal's cursor."""
    line = " ".join("".join(sign if sign.isprintable() else " " for sign in reason[: 4 * _LONGEST]).split())
    return line if len(line) <= _LONGEST else line[: _LONGEST - 3] + "..."


def refusal(
    reply: Reply, model: Weights, asked: Asked, stands_for: Callable[[Weights], Weights] = lambda update: update
) -> str | None:
    """Why a reply is refused, in a few words; None where it is accepted.

    model: the global model, which sets shapes and dtypes, and from which the update is measured, by what its arrays
    stand for in the average.
    """
    return (
        _strange_examples(reply.examples)
        or _strange_names(reply.weights, asked.names)
        or _strange_arrays(reply.weights, model)
        or _strange_norm(reply.weights, model, asked.max_norm, stands_for)
        or _strange_account(reply)
        or _strange_steps(reply.steps, asked.step_columns)
    )


def update_norm(weights: Weights, model: Weights) -> float:
    """L2 norm of `weights - model` over all floating-point arrays together; integers, which count batches, left out."""
    squares = 0.0
    for name, array in weights.items():
        if array.dtype.kind == "f":
            difference = np.subtract(array, model[name], dtype=np.float64).ravel()
            squares += float(np.dot(difference, difference))
    return math.sqrt(squares)


def _strange_examples(examples: int) -> str | None:
    good = 1 <= examples <= MOST_EXAMPLES
    return None if good else f"{examples} examples, must be from 1 to {MOST_EXAMPLES}"


def _strange_names(weights: Weights, expected: Collection[str]) -> str | None:
    if unknown := [name for name in weights if name not in expected]:
        return f"arrays {unknown} were not asked for"
    missing = [name for name in expected if name not in weights]
    return f"arrays {missing} are missing" if missing else None


def _strange_arrays(weights: Weights, model: Weights) -> str | None:
    for name, array in weights.items():
        ours = model[name]
        if (array.shape, array.dtype) != (ours.shape, ours.dtype):
            return f"{name} is {array.dtype} {array.shape}, must be {ours.dtype} {ours.shape}"
    beyond = {name: array for name, array in weights.items() if not _within(array)}
    if strange := not_finite(beyond):
        return f"NaN or infinity in {_first(strange)}"
    if beyond:
        return f"values beyond {MOST:g} in {_first(list(beyond))}"
    negative = [name for name, array in weights.items() if _counts_up(name) and array.size and array.min() < 0]
    return f"negative values in {_first(negative)}, must be at least 0" if negative else None


def _counts_up(name: str) -> bool:
    """Whether an array is a variance or a count of batches."""
    return name.rpartition(".")[2] in ("running_var", "num_batches_tracked")


def _first(names: list[str]) -> str:
    return f"{names[:3]}" + f" and {len(names) - 3} more" * (len(names) > 3)


def _within(array: NDArray[Any]) -> bool:
    """Whether all values are numbers from -MOST to MOST, without a copy of the array."""
    if array.dtype.kind != "f":
        return array.dtype.kind != "c" or bool(np.isfinite(array).all())
    return not array.size or -MOST <= float(array.min()) <= float(array.max()) <= MOST


def _strange_norm(
    weights: Weights, model: Weights, limit: float | None, stands_for: Callable[[Weights], Weights]
) -> str | None:
    if limit is None or (norm := update_norm(stands_for(weights), model)) <= limit:
        return None
    return f"update of norm {norm:.6g}, must be at most {limit:g}"


def _strange_account(reply: Reply) -> str | None:
    """What would spoil the round's account, which adds these numbers up."""
    if not abs(reply.loss) <= MOST:
        return f"loss={reply.loss}, must be from {-MOST:g} to {MOST:g}"
    for name in ("macs", "macs_dense", "seconds", "memory"):
        if not 0 <= (getattr(reply, name) or 0) <= MOST:
            return f"{name}={getattr(reply, name)}, must be from 0 to {MOST:g}"
    return None


def _strange_steps(steps: tuple[float, ...], columns: int) -> str | None:
    """What would spoil the record of step sizes, a row per iteration and a column per layer group."""
    if not columns:
        return f"{len(steps)} step sizes were not asked for" if steps else None
    if len(steps) % columns:
        return f"{len(steps)} step sizes, must be a multiple of {columns}"
    return next((f"a step of size {size}, must be from 0 to {MOST:g}" for size in steps if not 0 <= size <= MOST), None)
