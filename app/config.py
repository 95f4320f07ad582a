"""From overrides to checked objects: Hydra composes, constructors are the schema.

Every mistake becomes one line that names the key, the value and what is allowed (`ConfigError`), before anything
starts. Values are checked against the annotations of the constructor that they are for, and then by it.
"""

import inspect
import json
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, get_type_hints

from hydra import compose as hydra_compose
from hydra import initialize_config_dir
from hydra.errors import HydraException, InstantiationException, OverrideParseException
from hydra.utils import get_class, instantiate
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from pydantic_core import SchemaError

CONF = Path(__file__).resolve().parent.parent / "conf"
HYDRA_VERSION_BASE = "1.3"
_PASSED = ("weights", "roster", "cohort", "learning_rate", "last_round", "downlink", "groups", "diagnostics")
"""Parameters of a strategy's constructor that the program itself passes."""
_READ = ("client.lr", "client.threads", "cohort.start_timeout", "cohort.round_timeout", "task.name", "task.clients")
"""Keys that are read from the configuration, whether or not a constructor could do without them."""


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
    except (HydraException, OmegaConfBaseException, ValueError) as error:
        raise ConfigError(one_line(error, overrides)) from None
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
    sections = _sections()
    _check_there(cfg, *sections)
    for name, schema in (("", RunSettings), ("evaluation", Evaluation), ("checkpoint", Checkpointing)):
        section = values[name] if name else {k: v for k, v in values.items() if k not in sections}
        _check_values(name, section, schema)
        _check_there(cfg, *(f"{name}.{field.name}".lstrip(".") for field in fields(schema)))
    _check_there(cfg, *_READ)
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
        # A part of the task may be a section of its own, and then names its key in full.
        named = re.split(r"[.:=]", str(cause), maxsplit=1)[0] in cfg
        raise ConfigError(str(cause) if named else f"{key}.{cause}") from None


def plain(node: Any) -> Any:
    """A configuration list or dictionary as Python's own; anything else as it is."""
    return OmegaConf.to_container(node, resolve=True) if OmegaConf.is_config(node) else node


def one_line(error: Exception, overrides: Sequence[str] = ()) -> str:
    """Hydra's or OmegaConf's complaint about `overrides` in one line that names the choices."""
    text = str(error)
    if isinstance(error, OverrideParseException):
        text = f"{error.override}: {text}"
    if text.startswith("Config group override must be"):  # Hydra does not say which
        for name, value in (override.partition("=")[::2] for override in overrides):
            if name in _groups() and value in ("", "null"):
                return f"{name}={value}: must be one of {', '.join(_groups()[name])}"
    if cause := error.__cause__:
        text = text if str(cause) in text else f"{text} {cause}"
    key = re.search(r"Could not override '([^']+)'", text)
    if key:
        return f"{key[1]}: no such key; {_choices(key[1])}"
    if missing := re.search(r"Missing mandatory value.*full_key: (\S+)", text, re.DOTALL):
        return f"{missing[1]}: needs a value"
    text = text.split("Config search path")[0].replace("Available options in", "; options in")
    return " ".join(text.split()).replace(" ;", ";")


@cache
def _groups() -> dict[str, list[str]]:
    """The configuration groups and their choices."""
    folders = (folder for folder in sorted(CONF.iterdir()) if folder.is_dir() and list(folder.glob("*.yaml")))
    return {folder.name: sorted(file.stem for file in folder.glob("*.yaml")) for folder in folders}


@cache
def _sections() -> list[str]:
    """The keys at the root of the configuration under which others stand."""
    root = OmegaConf.to_container(OmegaConf.load(CONF / "config.yaml"))
    assert isinstance(root, dict)
    own = [str(name) for name, node in root.items() if isinstance(node, dict) and name != "hydra"]
    return sorted({*own, *(name for name in _groups() if not _overlays(name))})


def _overlays(group: str) -> bool:
    """Whether a group's choices set keys anywhere, instead of a section of their own."""
    return any("@package _global_" in file.read_text() for file in (CONF / group).glob("*.yaml"))


def _check_there(cfg: DictConfig, *keys: str) -> None:
    """Check that nothing was taken away, and that sections are sections."""
    for key in keys:
        parent, _, name = key.rpartition(".")
        node: Any = OmegaConf.select(cfg, parent) if parent else cfg
        if name not in node or (key in _sections() and not OmegaConf.is_dict(node[name])):
            raise ConfigError(f"{key}: needs {'its keys' if key in _sections() else 'a value'}")


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
    for name, value in sorted(node.items()):  # so that `partition` comes before `task`, which points at it
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
    for name in ("self", "args", "kwargs", *(_PASSED if path == "strategy" else ())):
        annotations.pop(name, None)
    for name, value in given.items():
        key = f"{path}.{name}".lstrip(".")
        if name not in annotations:
            choices = ", ".join([*annotations, *([] if path else _sections())]) or "no keys"
            raise ConfigError(f"{key}={value}: no such key; {path or 'the configuration'} has {choices}")
        if not (isinstance(value, dict) and "_target_" in value):
            _check_value(key, value, annotations[name])


def _check_value(key: str, value: Any, annotation: Any) -> None:
    """Check one value against one annotation, without any conversion."""
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(annotation, config=ConfigDict(arbitrary_types_allowed=True))
        adapter.validate_json(json.dumps(value), strict=True)  # JSON, where a list may stand for a tuple
    except SchemaError:  # a protocol, which only an object can have
        raise ConfigError(f"{key}={value}: must be a section with the _target_ that it constructs") from None
    except ValidationError as error:
        wanted = "; or ".join(dict.fromkeys(problem["msg"] for problem in error.errors()))
        raise ConfigError(f"{key}={value}: {wanted[0].lower()}{wanted[1:]}") from None
