"""What each key of the configuration may be: constructors are the schema, the rest is listed here."""

import inspect
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, get_type_hints

from omegaconf import DictConfig, OmegaConf
from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from pydantic_core import SchemaError

from app.annotations import in_words
from clients.lossy import Wire

_PASSED = (
    "weights", "roster", "cohort", "learning_rate", "final_learning_rate", "rounds", "last_round", "downlink", "groups",
    "diagnostics", "server_optimizer", "prunable", "wire", "wire_seed", "lineage",
)  # fmt: skip
"""Parameters of a strategy's constructor that the program itself passes."""


class ConfigError(ValueError):
    """A configuration that cannot run; the message is one line for the person who wrote it."""


@dataclass(frozen=True)
class RunSettings:
    """The keys at the root of the configuration."""

    rounds: Annotated[int, Field(ge=1)]
    seed: Annotated[int, Field(ge=0, lt=2**32)]
    batch_norm: Literal["global", "local"]
    wire: Wire
    downlink: Literal["slice", "full"]
    resume: str | None
    groups: list[list[str]] | None
    diagnostics: bool
    loggers: list[Literal["csv", "tensorboard", "mlflow", "wandb"]]


@dataclass(frozen=True)
class Evaluation:
    """The keys under `evaluation`."""

    every: Annotated[int, Field(ge=1)]
    batch_size: Annotated[int, Field(ge=1)]


@dataclass(frozen=True)
class Checkpointing:
    """The keys under `checkpoint`."""

    every: Annotated[int, Field(ge=0)]


def as_set(cfg: DictConfig, complaint: str) -> str:
    """The complaint `key=value: ...` with the key that a user sets, where this one only refers to that."""
    key, equals, rest = complaint.partition("=")
    return _referred(OmegaConf.to_container(cfg, resolve=False), key.split(".")) + equals + rest


def _referred(root: Any, path: list[str]) -> str:
    """The key that stands for `path` after all references, such as ${..data}, on the way there."""
    node = root
    for depth, name in enumerate(path, start=1):
        node = node.get(name) if isinstance(node, dict) else None
        if isinstance(node, str) and (reference := re.fullmatch(r"\$\{(\.*)([\w.]+)\}", node)):
            above = path[: depth - len(reference[1])] if reference[1] else []
            return _referred(root, [*above, *reference[2].split("."), *path[depth:]])
    return ".".join(path)


def check_values(path: str, given: Mapping[str, Any], schema: type, others: Sequence[str] = ()) -> None:
    """Check values against the annotations of a class's constructor and of the constructors that it extends.

    others: what else may stand there, to be named among the choices.
    """
    annotations: dict[str, Any] = {}
    for base in reversed(schema.__mro__):
        if base is not object and (constructor := vars(base).get("__init__")):
            hints = get_type_hints(constructor, include_extras=True)
            annotations.update({name: hints.get(name, Any) for name in inspect.signature(constructor).parameters})
    unlisted = ("name",) if path == "strategy" else ()  # a title that yaml gives, no setting
    for name in ("self", "args", "kwargs", *(_PASSED if path == "strategy" else ())):
        annotations.pop(name, None)
    for name, value in given.items():
        key = f"{path}.{name}".lstrip(".")
        if name not in annotations:
            choices = ", ".join([*(own for own in annotations if own not in unlisted), *others]) or "no keys"
            whose = f"{schema.__module__}.{schema.__name__} takes" if path else "the configuration has"
            raise ConfigError(f"{key}={value}: no such key; {whose} {choices}")
        if not (isinstance(value, dict) and "_target_" in value):
            _check_value(key, value, annotations[name])


def _check_value(key: str, value: Any, annotation: Any) -> None:
    """Check one value against one annotation, without any conversion."""
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(annotation, config=ConfigDict(arbitrary_types_allowed=True))
        adapter.validate_json(json.dumps(value), strict=True)  # JSON, where a list may stand for a tuple
    except SchemaError:  # a protocol, which only an object can have
        raise ConfigError(f"{key}={value}: must be a section with the _target_ that it constructs") from None
    except ValidationError:
        raise ConfigError(f"{key}={value}: must be {in_words(annotation)}") from None
