"""From overrides to checked objects: Hydra composes, constructors are the schema.

Every mistake becomes one line that names the key, the value and what is allowed (`ConfigError`), before anything
starts. Values are checked against the annotations of the constructor that they are for, and then by it.
"""

import inspect
import json
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, get_type_hints

from hydra import compose as hydra_compose
from hydra import initialize_config_dir
from hydra.errors import HydraException, InstantiationException
from hydra.utils import get_class, instantiate
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

CONF = Path(__file__).resolve().parent.parent / "conf"
HYDRA_VERSION_BASE = "1.3"


class ConfigError(ValueError):
    """A configuration that cannot run; the message is one line for the person who wrote it."""


@dataclass(frozen=True)
class RunSettings:
    """The keys at the root of the configuration."""

    rounds: Annotated[int, Field(ge=1)]
    seed: Annotated[int, Field(ge=0, lt=2**32)]
    batch_norm: Literal["global", "local"]
    wire: Literal["lossless"]
    downlink: Literal["slice", "full"]
    resume: str | None
    groups: list[list[str]] | None
    diagnostics: bool


@dataclass(frozen=True)
class Evaluation:
    """The keys under `evaluation`."""

    every: Annotated[int, Field(ge=1)]
    batch_size: Annotated[int, Field(ge=1)]


@dataclass(frozen=True)
class Checkpointing:
    """The keys under `checkpoint`."""

    every: Annotated[int, Field(ge=0)]


def compose(overrides: Sequence[str] = ()) -> DictConfig:
    """The checked configuration that these overrides give, as on Hydra's command line."""
    try:
        with initialize_config_dir(str(CONF), version_base=HYDRA_VERSION_BASE):
            cfg = hydra_compose("config", list(overrides))
    except (HydraException, OmegaConfBaseException) as error:
        raise ConfigError(one_line(error)) from None
    return check(cfg)


def from_run_config(run_config: Mapping[str, Any]) -> DictConfig:
    """The configuration of a Flower run: a whole one as yaml, or Hydra overrides."""
    if text := str(run_config.get("cfg-yaml", "")):
        return check(OmegaConf.create(text))  # type: ignore[arg-type]
    try:
        return compose(shlex.split(str(run_config.get("overrides", ""))))
    except ValueError as error:
        raise ConfigError(str(error)) from None


def to_yaml(cfg: DictConfig) -> str:
    """The configuration with everything resolved."""
    return OmegaConf.to_yaml(cfg, resolve=True)


def check(cfg: DictConfig) -> DictConfig:
    """The same configuration, every value checked against the annotation of what it is for, and by its constructor."""
    try:
        values: Any = OmegaConf.to_container(cfg, resolve=True, throw_on_missing=True)
    except OmegaConfBaseException as error:
        raise ConfigError(one_line(error)) from None
    for name, schema in (("", RunSettings), ("evaluation", Evaluation), ("checkpoint", Checkpointing)):
        section = values.get(name, {}) if name else {k: v for k, v in values.items() if not isinstance(v, dict)}
        _check_values(name, section, schema)
    _check_targets("", values)
    for key in ("client", "cohort", "objective", "runtime", "task"):
        make(cfg, key)
    return cfg


def make(cfg: DictConfig, key: str, **extra: Any) -> Any:
    """The object that `cfg[key]` describes. Raises ConfigError with the key that is at fault."""
    try:
        # Through a partial, because Hydra would turn dataclasses among its own keyword arguments into dictionaries.
        return instantiate(cfg[key], _partial_=True)(**extra)
    except (ValueError, InstantiationException) as error:
        cause = error.__cause__ if isinstance(error, InstantiationException) else error
        if not isinstance(cause, ValueError):
            raise
        raise ConfigError(str(cause) if str(cause).startswith(f"{key}.") else f"{key}.{cause}") from None


def plain(node: Any) -> Any:
    """A configuration list or dictionary as Python's own; anything else as it is."""
    return OmegaConf.to_container(node, resolve=True) if OmegaConf.is_config(node) else node


def one_line(error: Exception) -> str:
    """Hydra's or OmegaConf's complaint in one line that names the choices."""
    text = str(error)
    if cause := error.__cause__:
        text = text if str(cause) in text else f"{text} {cause}"
    key = re.search(r"Could not override '([^']+)'", text)
    if key:
        return f"{key[1]}: no such key; {_choices(key[1])}"
    if missing := re.search(r"Missing mandatory value.*full_key: (\S+)", text, re.DOTALL):
        return f"{missing[1]}: needs a value"
    text = text.split("Config search path")[0].replace("Available options in", "; options in")
    return " ".join(text.split()).replace(" ;", ";")


def _choices(key: str) -> str:
    """The keys that stand beside a misspelt one."""
    with initialize_config_dir(str(CONF), version_base=HYDRA_VERSION_BASE):
        node: Any = hydra_compose("config")
    parent = ""
    for part in key.split(".")[:-1]:
        if not OmegaConf.is_dict(node) or part not in node:
            break
        node, parent = node[part], f"{parent}.{part}".lstrip(".")
    names = sorted(str(name) for name in node if name != "_target_") if OmegaConf.is_dict(node) else []
    return f"{parent or 'the configuration'} has {', '.join(names) or 'no keys'}"


def _check_targets(path: str, node: Any) -> None:
    """Check every node that names a constructor."""
    if not isinstance(node, dict):
        return
    for name, value in node.items():
        _check_targets(f"{path}.{name}".lstrip("."), value)
    if "_target_" in node:
        given = {name: value for name, value in node.items() if not name.startswith("_")}  # _convert_ is Hydra's
        _check_values(path, given, get_class(node["_target_"]))


def _check_values(path: str, given: Mapping[str, Any], schema: type) -> None:
    """Check values against the annotations of a class's constructor and of the constructors that it extends."""
    annotations: dict[str, Any] = {}
    for base in reversed(schema.__mro__):
        if base is not object and (constructor := vars(base).get("__init__")):
            hints = get_type_hints(constructor, include_extras=True)
            annotations.update({name: hints.get(name, Any) for name in inspect.signature(constructor).parameters})
    for name in ("self", "args", "kwargs"):
        annotations.pop(name, None)
    for name, value in given.items():
        key = f"{path}.{name}".lstrip(".")
        if name not in annotations:
            raise ConfigError(
                f"{key}={value}: no such key; {path or 'the configuration'} has {', '.join(annotations) or 'no keys'}"
            )
        if not (isinstance(value, dict) and "_target_" in value):
            _check_value(key, value, annotations[name])


def _check_value(key: str, value: Any, annotation: Any) -> None:
    """Check one value against one annotation, without any conversion."""
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(annotation, config=ConfigDict(arbitrary_types_allowed=True))
        adapter.validate_json(json.dumps(value), strict=True)  # JSON, where a list may stand for a tuple
    except ValidationError as error:
        wanted = "; or ".join(dict.fromkeys(problem["msg"] for problem in error.errors()))
        raise ConfigError(f"{key}={value}: {wanted[0].lower()}{wanted[1:]}") from None
