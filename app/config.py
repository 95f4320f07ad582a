"""From overrides to checked objects: Hydra composes, constructors are the schema.

Every mistake becomes one line that names the key, the value and what is allowed (`ConfigError`), before anything
starts. Values are checked against the annotations of the constructor that they are for, and then by it.
"""

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import fields
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any

from hydra import compose as hydra_compose
from hydra import initialize_config_dir
from hydra.errors import HydraException, InstantiationException, OverrideParseException
from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf, open_dict
from omegaconf.errors import OmegaConfBaseException

from app.schema import Checkpointing, ConfigError, Evaluation, RunSettings, as_set, check_targets, check_values

__all__ = [
    "CONF", "HYDRA_VERSION_BASE", "ConfigError", "check", "compose", "composed",
    "from_run_config", "groups", "make", "one_line", "plain", "to_yaml",
]  # fmt: skip

CONF = Path(__file__).resolve().parent.parent / "conf"
HYDRA_VERSION_BASE = "1.3"
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
        with initialize_config_dir(str(CONF), version_base=HYDRA_VERSION_BASE):
            cfg = hydra_compose("config", list(overrides), return_hydra_config=True)
    except (HydraException, OmegaConfBaseException, ValueError) as error:
        raise ConfigError(one_line(error, overrides)) from None
    choices = dict(cfg.hydra.runtime.choices)
    with open_dict(cfg):
        del cfg["hydra"]
    return cfg, choices


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
        check_values(name, section, schema, others=() if name else sections)
        _check_there(cfg, *(f"{name}.{field.name}".lstrip(".") for field in fields(schema)))
    _check_there(cfg, *_READ)
    try:
        check_targets("", values)
    except ConfigError as error:
        raise ConfigError(as_set(cfg, str(error))) from None
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


def one_line(error: Exception, overrides: Sequence[str] = ()) -> str:
    """Hydra's or OmegaConf's complaint about `overrides` in one line that names the choices."""
    text = str(error)
    if isinstance(error, OverrideParseException):
        text = f"{error.override}: {text}"
    if text.startswith("Config group override must be"):  # Hydra does not say which
        for name, value in (override.partition("=")[::2] for override in overrides):
            if name in groups() and value in ("", "null"):
                return f"{name}={value}: must be one of {', '.join(groups()[name])}"
    if cause := error.__cause__:
        text = text if str(cause) in text else f"{text} {cause}"
    key = re.search(r"Could not override '([^']+)'", text)
    if key:
        return f"{key[1]}: no such key; {_choices(key[1], overrides)}"
    if choice := re.search(r"Could not find '(\w+)/([^']*)'", text):
        return f"{choice[1]}={choice[2]}: must be one of {', '.join(groups().get(choice[1], []))}"
    if missing := re.search(r"Missing mandatory value.*full_key: (\S+)", text, re.DOTALL):
        return f"{missing[1]}: needs a value"
    text = text.split("Config search path")[0].replace("Available options in", "; options in")
    return " ".join(text.split()).replace(" ;", ";")


@cache
def groups() -> dict[str, list[str]]:
    """The configuration groups and their choices."""
    folders = (folder for folder in sorted(CONF.iterdir()) if folder.is_dir() and list(folder.glob("*.yaml")))
    return {folder.name: sorted(file.stem for file in folder.glob("*.yaml")) for folder in folders}


@cache
def _sections() -> list[str]:
    """The keys at the root of the configuration under which others stand."""
    root = OmegaConf.to_container(OmegaConf.load(CONF / "config.yaml"))
    assert isinstance(root, dict)
    own = [str(name) for name, node in root.items() if isinstance(node, dict) and name != "hydra"]
    return sorted({*own, *(name for name in groups() if not _overlays(name))})


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


def _choices(key: str, overrides: Sequence[str]) -> str:
    """The keys that stand beside a misspelt one, with the choices of groups among the overrides."""
    pairs = [override.partition("=") for override in overrides]
    chosen = [f"{name}={value}" for name, _, value in pairs if value in groups().get(name, [])]
    with initialize_config_dir(str(CONF), version_base=HYDRA_VERSION_BASE):
        node: Any = hydra_compose("config", chosen)
    parent = ""
    for part in key.split(".")[:-1]:
        if not OmegaConf.is_dict(node) or part not in node:
            break
        node, parent = node[part], f"{parent}.{part}".lstrip(".")
    names = sorted(str(name) for name in node if name != "_target_") if OmegaConf.is_dict(node) else []
    near = get_close_matches(key.rpartition(".")[2], names, n=1)
    meant = f", of which {near[0]} is nearest" if near else ""
    return f"{parent or 'the configuration'} has {', '.join(names) or 'no keys'}{meant}"
