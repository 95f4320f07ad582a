"""A cache for what is worked out about a model, which goes with the model.

`functools.lru_cache` would keep the models themselves: in a process that plays one run after the other, all of them.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, TypeVarTuple
from weakref import WeakKeyDictionary

from torch import nn

MOST = 256
"""How many results are kept for each function and model."""

T = TypeVar("T")
Arguments = TypeVarTuple("Arguments")


def per_model(function: Callable[[nn.Module, *Arguments], T]) -> Callable[[nn.Module, *Arguments], T]:
    """Call `function` once for a model and hashable arguments. Its results must not refer to the model itself."""
    kept: WeakKeyDictionary[nn.Module, dict[Any, T]] = WeakKeyDictionary()

    @wraps(function)
    def remembering(model: nn.Module, *arguments: *Arguments) -> T:
        own = kept.setdefault(model, {})
        if arguments not in own:
            if len(own) == MOST:
                del own[next(iter(own))]
            own[arguments] = function(model, *arguments)
        return own[arguments]

    return remembering
