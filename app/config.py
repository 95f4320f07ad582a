"""From overrides to checked objects: Hydra composes, constructors are the schema.

Every mistake becomes one line that names the key, the value and what is allowed (`ConfigError`), before anything
starts. Values are checked against the annotations of the constructor that they are for, and then by it.
"""

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from hydra.errors import HydraException, InstantiationException
from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError  # type: ignore[import-untyped]  # OmegaConf lets it through

from app.choices import groups, overlays, sections, with_choices
from app.complaints import one_line
from app.schema import Checkpointing, ConfigError, Evaluation, RunSettings, as_set, check_values
from app.targets import check_kind, check_named, check_targets
from strategies.fedavg import FedAvgStrategy

__all__ = ["ConfigError", "check", "compose", "composed", "from_run_config", "make", "plain", "to_yaml"]

_READ = (
    "client.lr", "client.final_lr", "client.threads", "cohort.start_timeout", "cohort.round_timeout",
    "task.name", "task.clients",
)  # fmt: skip
"""Keys that are read from the configuration, whether or not a constructor could do without them."""


def compose(overrides: Sequence[str] = ()) -> DictConfig:
    """The checked configuration that these overrides give, as on Hydra's command line."""
    return check(composed(overrides)[0])


def composed(overrides: Sequence[str]) -> tuple[DictConfig, dict[str, str | None]]:
    """The configuration that these overrides give, unchecked, and the choice of each group."""
    try:
        return with_choices(overrides)
    except (HydraException, OmegaConfBaseException, ValueError, YAMLError) as error:
        raise ConfigError(one_line(error, overrides)) from None


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
    _check_there(cfg, *sections())
    for name in ("client", "cohort", *(group for group in groups() if not overlays(group))):
        check_named(name, values[name])
    for name, schema in (("", RunSettings), ("evaluation", Evaluation), ("checkpoint", Checkpointing)):
        section = values[name] if name else {k: v for k, v in values.items() if k not in sections()}
        check_values(name, section, schema, others=() if name else sections())
        _check_there(cfg, *(f"{name}.{field.name}".lstrip(".") for field in fields(schema)))
    try:
        check_targets("", values)
    except ConfigError as error:
        raise ConfigError(as_set(cfg, str(error))) from None
    check_kind(values["strategy"]["_target_"], FedAvgStrategy)
    _check_there(cfg, *_READ)
    for key in ("client", "cohort", "objective", "runtime", "server_optimizer", "task"):
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
        # A part of the task may be a section of its own, and then names its key in full; a sentence has no key.
        first = re.split(r"[.:=]", str(cause), maxsplit=1)[0]
        part = re.search(r"full_key: (\S+)", str(error))
        text = str(cause) if first in cfg or " " in first else f"{part[1] if part else key}.{cause}"
        raise ConfigError(as_set(cfg, text)) from None


def plain(node: Any) -> Any:
    """A configuration list or dictionary as Python's own; anything else as it is."""
    return OmegaConf.to_container(node, resolve=True) if OmegaConf.is_config(node) else node


def _check_there(cfg: DictConfig, *keys: str) -> None:
    """Check that nothing was taken away, and that sections are sections."""
    for key in keys:
        parent, _, name = key.rpartition(".")
        node: Any = OmegaConf.select(cfg, parent) if parent else cfg
        if name not in node or (key in sections() and not OmegaConf.is_dict(node[name])):
            raise ConfigError(f"{key}: needs {'its keys' if key in sections() else 'a value'}")
