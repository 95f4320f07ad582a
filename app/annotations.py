"""What an annotation allows, in words: `sequential, reverse, random or a list of integers`."""

from collections.abc import Mapping, Sequence
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic.fields import FieldInfo

_WORDS: dict[Any, tuple[str, str]] = {
    bool: ("true or false", "true or false"),
    int: ("an integer", "integers"),
    float: ("a number", "numbers"),
    str: ("a text", "texts"),
    NoneType: ("null", "null"),
}
"""One, and several of them."""
_LIMITS = {"ge": "at least", "gt": "above", "le": "at most", "lt": "below"}


def in_words(annotation: Any) -> str:
    """What a value of this annotation must be."""
    return _either(_kinds(annotation, many=False))


def _either(kinds: Sequence[str]) -> str:
    *others, last = dict.fromkeys(kinds)
    return f"{', '.join(others)} or {last}" if others else last


def _kinds(annotation: Any, many: bool) -> list[str]:
    """The alternatives, each by itself; many: as the items of a list."""
    origin, args = get_origin(annotation), get_args(annotation)
    if annotation in _WORDS:
        return [_WORDS[annotation][many]]
    if origin is Annotated:
        return [" ".join([_either(_kinds(args[0], many)), *_limits(args[1:])])]
    if origin is Literal:
        return [str(value) for value in args]
    if origin in (Union, UnionType):
        return [kind for arg in args for kind in _kinds(arg, many)]
    if origin in (dict, Mapping):
        return ["names with values"]
    return [f"{'lists' if many else 'a list'} of {_either(_kinds(args[0], many=True))}"]


def _limits(metadata: Sequence[Any]) -> list[str]:
    """`of at least 0 and below 10`."""
    marks = [mark for field in metadata if isinstance(field, FieldInfo) for mark in field.metadata]
    found = [f"{word} {getattr(mark, name)}" for mark in marks for name, word in _LIMITS.items() if hasattr(mark, name)]
    return ["of", " and ".join(found)] if found else []
