"""What a strategy's answers must be; anything else is one line that names the question and the answer."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from clients.plan import RoundPlan
from clients.weights import Weights

_LONGEST = 60  # characters of an answer as it is shown


def planned(strategy: object, question: str, answer: Any) -> RoundPlan:
    """The answer to `plan` or `plan_for`. Raises ValueError where it is no plan."""
    if isinstance(answer, RoundPlan):
        return answer
    raise ValueError(f"{type(strategy).__name__}.{question} gave {_shown(answer)}; must be a RoundPlan")


def like_model(strategy: object, question: str, answer: Any, model: Weights) -> Weights:
    """The answer to `merge` or `settle`. Raises ValueError for other names, shapes or dtypes than the model's."""
    asked = f"{type(strategy).__name__}.{question} gave"
    if not isinstance(answer, Mapping):
        raise ValueError(f"{asked} {_shown(answer)}; must be arrays by the names of the model's")
    if differing := sorted({*map(str, answer)} ^ {*model}):
        raise ValueError(f"{asked} {'no' if differing[0] in model else 'a'} {differing[0]}; must be the model's names")
    for name, array in model.items():
        given = answer[name]
        if not isinstance(given, np.ndarray) or (given.shape, given.dtype) != (array.shape, array.dtype):
            raise ValueError(f"{asked} {name} as {_kind(given)}; must be {_kind(array)}")
    return dict(answer)


def _shown(answer: Any) -> str:
    text = " ".join(repr(answer).split())
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def _kind(value: Any) -> str:
    """`array (3, 4) of float32`."""
    return f"array {value.shape} of {value.dtype}" if isinstance(value, np.ndarray) else type(value).__name__
