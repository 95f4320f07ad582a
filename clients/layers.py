"""Layer groups, derived by rule from names and shapes, so that server and client need only exchange indexes.

FedPart (Wang et al. 2024, Section 3.1) trains "one or a few layers" a round. The rule:

- a `weight` of two or more dimensions (convolution, linear, embedding) opens a group, and the arrays that follow
  it in the model's order (bias, normalisation parameters and their running statistics) belong to it;
- an attention module (it has an `in_proj_weight`, or a `q_proj_weight` where keys or values have another width)
  is one group, and the rest of the encoder layer around it, feed-forward and norms, is another.

A model with other weights (a recurrent layer, a bare parameter) has no such groups; they are then given by hand,
as lists of module names (`groups` in the configuration).
"""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from numpy.typing import NDArray
from torch import Tensor, nn

from clients.weights import arrays_of

_ATTENTION = ("in_proj_weight", "q_proj_weight")
Groups = tuple[tuple[str, ...], ...]
Arrays = Mapping[str, NDArray[Any]] | Mapping[str, Tensor]


def layer_groups(source: nn.Module | Arrays, modules: Sequence[Sequence[str]] | None = None) -> Groups:
    """Names of each group's arrays, shallow to deep; groups are disjoint and cover everything.

    modules: for each group the names of the modules whose arrays it holds, instead of the rule.
    Arrays before the first weight (a normalisation of the input) join the first group.
    Raises ValueError where the rule does not fit the model, or the given groups do not cover it exactly.
    """
    shapes = {name: tuple(array.shape) for name, array in _arrays(source).items()}
    if modules is not None:
        return _given_groups(list(shapes), modules)
    attentions = [name.removesuffix(own) for name in shapes for own in _ATTENTION if name.endswith(own)]
    groups: dict[str, list[str]] = {}
    before_first: list[str] = []
    current: str | None = None
    for name, shape in shapes.items():
        current = _group_of(name, shape, attentions, current)
        (before_first if current is None else groups.setdefault(current, [])).append(name)
    if not groups:
        raise ValueError(f"no layer groups: none of {list(shapes)} is a convolution or linear weight")
    first, *others = groups.values()
    return tuple(map(tuple, [before_first + first, *others]))


def _group_of(name: str, shape: tuple[int, ...], attentions: Sequence[str], current: str | None) -> str | None:
    """A key for the group that an array belongs to, given that of the array before it."""
    for attention in attentions:
        block = attention.removesuffix(".").rpartition(".")[0] + "."
        if name.startswith(attention):
            return attention
        if block != "." and name.startswith(block):
            return block
    if len(shape) < 2:
        return current
    if name.rpartition(".")[2] != "weight":
        raise ValueError(
            f"no rule for {name} of shape {shape}: name the layer groups by module, for example "
            "'groups=[[embedding],[rnn],[fc]]'"
        )
    return name


def _given_groups(names: Sequence[str], modules: Sequence[Sequence[str]]) -> Groups:
    """Groups by module names: a module has the arrays whose names begin with its own and a dot."""
    groups = []
    taken: dict[str, str] = {}
    for members in modules:
        group = []
        for module in members:
            own = [name for name in names if name == module or name.startswith(f"{module}.")]
            twice = [name for name in own if name in taken]
            if not own or twice:
                what = f"{twice[0]} is in {taken[twice[0]]} too" if twice else f"the model has {', '.join(names)}"
                raise ValueError(f"groups: module {module!r}: {what}")
            taken.update(dict.fromkeys(own, module))
            group += own
        groups.append(tuple(name for name in names if name in group))
    left = [name for name in names if name not in taken]
    if left or not all(groups):
        raise ValueError(f"groups: {', '.join(left) or 'an empty group'} belongs to no group; every array needs one")
    return tuple(groups)


def names_in(groups: Groups, indexes: tuple[int, ...] | None) -> tuple[str, ...]:
    """Names of all arrays in the groups that `indexes` choose, None choosing all."""
    if indexes is None:
        return tuple(name for group in groups for name in group)
    unknown = [index for index in indexes if not 0 <= index < len(groups)]
    if unknown:
        raise ValueError(f"layer groups {unknown}: the model has groups 0 to {len(groups) - 1}")
    return tuple(name for index in sorted(indexes) for name in groups[index])


def layout(source: nn.Module | Arrays, groups: Groups) -> str:
    """Short fingerprint of the groups and shapes; two sides that agree on it mean the same by an index."""
    shapes = {name: tuple(array.shape) for name, array in _arrays(source).items()}
    text = repr([[(name, shapes[name]) for name in group] for group in groups])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _arrays(source: nn.Module | Arrays) -> Arrays:
    return arrays_of(source) if isinstance(source, nn.Module) else source
