"""Layer groups, derived by rule from names and shapes, so that server and client need only exchange indexes.

FedPart (Wang et al. 2024, Section 3.1) trains "one or a few layers" a round. The rule here: a weight of two or
more dimensions (convolution, linear) opens a group, and the arrays that follow it in the model's order
(bias, normalisation parameters and their running statistics) belong to it, up to the next such weight.
"""

import hashlib
from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray
from torch import Tensor, nn

Groups = tuple[tuple[str, ...], ...]
Arrays = Mapping[str, NDArray[Any]] | Mapping[str, Tensor]


def layer_groups(source: nn.Module | Arrays) -> Groups:
    """Names of each group's arrays, shallow to deep; groups are disjoint and cover everything.

    Arrays before the first such weight (a normalisation of the input) join the first group.
    Raises ValueError where no array opens a group.
    """
    shapes = {name: array.shape for name, array in _arrays(source).items()}
    groups: list[list[str]] = []
    before_first: list[str] = []
    for name, shape in shapes.items():
        if len(shape) > 1:
            groups.append([name])
        elif groups:
            groups[-1].append(name)
        else:
            before_first.append(name)
    if not groups:
        raise ValueError(f"no layer groups: none of {list(shapes)} is a convolution or linear weight")
    groups[0] = before_first + groups[0]
    return tuple(map(tuple, groups))


def names_in(groups: Groups, indexes: tuple[int, ...] | None) -> tuple[str, ...]:
    """Names of all arrays in the groups that `indexes` choose, None choosing all."""
    if indexes is None:
        return tuple(name for group in groups for name in group)
    unknown = [index for index in indexes if not 0 <= index < len(groups)]
    if unknown:
        raise ValueError(f"layer groups {unknown}: the model has groups 0 to {len(groups) - 1}")
    return tuple(name for index in sorted(indexes) for name in groups[index])


def layout(source: nn.Module | Arrays) -> str:
    """Short fingerprint of the groups and shapes; two sides that agree on it mean the same by an index."""
    shapes = {name: tuple(array.shape) for name, array in _arrays(source).items()}
    text = repr([[(name, shapes[name]) for name in group] for group in layer_groups(source)])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _arrays(source: nn.Module | Arrays) -> Arrays:
    return source.state_dict() if isinstance(source, nn.Module) else source
