"""What Hydra, OmegaConf and PyYAML complain of, in one line that says what to write instead."""

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import fields
from difflib import get_close_matches
from typing import Any

from hydra.errors import HydraException, OverrideParseException
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import MarkedYAMLError  # type: ignore[import-untyped]

from app.choices import groups, sections, with_choices
from app.schema import ConfigError, RunSettings
from app.targets import in_project


def one_line(error: Exception, overrides: Sequence[str] = ()) -> str:
    """The complaint about these overrides in one line that names the choices."""
    text = str(error)
    if isinstance(error, ConfigError):
        return text
    if isinstance(error, MarkedYAMLError) and (mark := error.problem_mark):
        return f"{in_project(mark.name)}, line {mark.line + 1}, column {mark.column + 1}: {error.problem}"
    if isinstance(error, OverrideParseException):
        return malformed(str(error.override), overrides)
    if cause := error.__cause__:
        text = text if str(cause) in text else f"{text} {cause}"
    for pattern, answer in _ANSWERS.items():
        if found := re.search(pattern, text, re.DOTALL):
            return answer(found[1], overrides)
    text = text.split("Config search path")[0].replace("Available options in", "; options in")
    return " ".join(text.split()).replace(" ;", ";")


def malformed(text: str, overrides: Sequence[str]) -> str:
    """What is wrong with a word of the command line that is neither KEY=VALUE nor an option."""
    key, equals, value = text.partition("=")
    bare = key.strip().lstrip("-")
    known = bare.partition(".")[0] in {*groups(), *sections(), *(field.name for field in fields(RunSettings))}
    if key.startswith("-") and not known:
        return f"{text}: no such option; --help lists the keys, --hydra-help Hydra's options"
    if not equals or not re.fullmatch(r"[~+]*[\w.@/-]+", bare):
        after = list(overrides)[list(overrides).index(text) + 1 :] if text in overrides else []
        follows = after[0] if after and "=" not in after[0] and not after[0].startswith("-") else "VALUE"
        example = f"{bare}={follows}" if known else "strategy=fedavg"
        return f"{text}: must be KEY=VALUE without spaces, such as {example}; --help lists the keys"
    if (key, value) != (bare, value.strip()):
        return f"{text}: must be {bare}={value.strip()}, without {'dashes' if key.startswith('-') else 'spaces'}"
    if any(value.count(opened) != value.count(closed) for opened, closed in ("[]", "{}", "()")):
        return f"{text}: brackets do not match; quote what has spaces: '{key}=[1, 2]'"
    return f"{text}: has signs that want quotes of their own around the value: '{key}=\"VALUE\"'"


def _no_choice(text: str, overrides: Sequence[str]) -> str:
    """A group that is given something else than the name of a choice; Hydra does not say which."""
    for name, _, value in (override.partition("=") for override in overrides):
        if not name:
            return malformed(f"={value}", overrides)
        if name in groups() and value not in groups()[name]:
            return f"{name}={value}: must be one of {', '.join(groups()[name])}"
    return text


def _not_found(text: str, overrides: Sequence[str]) -> str:
    group, _, choice = text.partition("/")
    return f"{group}={choice}: must be one of {', '.join(groups().get(group, []))}"


def _needed(key: str, overrides: Sequence[str]) -> str:
    return f"{key}: needs a value"


def _several(override: str, overrides: Sequence[str]) -> str:
    key, _, value = override.partition("=")
    others = "" if key in groups() else f"""; for a list, {key}=[{value}]; for a text, '{key}="{value}"'"""
    return f"{override}: to play several, add -m{others}"


def _there_already(key: str, overrides: Sequence[str]) -> str:
    added = next((text for text in overrides if re.fullmatch(rf"\++{re.escape(key)}=.*", text)), f"+{key}")
    return f"{added}: {key} is there already: {added.lstrip('+')}"


def _not_there(key: str, overrides: Sequence[str]) -> str:
    return f"~{key}: no such key"


def _no_such_key(key: str, overrides: Sequence[str]) -> str:
    """What stands beside a key that is not there, and where else it is."""
    asked = next((text for text in overrides if text.partition("=")[0] == key), key)
    node, choices = _without(key, overrides)
    if nested := [f"{section}.{key}" for section in sections() if key in node[section]]:
        return f"{asked}: no such key, but {' and '.join(nested)} is one"
    parent = ""
    for part in key.split(".")[:-1]:
        if not OmegaConf.is_dict(node) or part not in node:
            break
        node, parent = node[part], f"{parent}.{part}".lstrip(".")
    names = sorted(str(own) for own in node if not str(own).startswith("_")) if OmegaConf.is_dict(node) else []
    whose = f"{parent}={choices[parent]}" if choices.get(parent) else parent or "the configuration"
    return f"{asked}: no such key; {whose} has {', '.join(names) or 'no keys'}{_meant(key, parent, names)}"


def _meant(key: str, parent: str, names: Sequence[str]) -> str:
    """Which key may have been meant by one that is not among the names beside it."""
    above, _, name = key.rpartition(".")
    if above == parent and (others := [choice for choice in groups().get(parent, ()) if _has(parent, choice, key)]):
        return f"; {parent}={'|'.join(others)} has it"
    near = get_close_matches(name, names, n=1)
    return f", of which {near[0]} is nearest" if near else ""


def _has(group: str, choice: str, key: str) -> bool:
    """Whether a choice has this key; one that cannot be read has not."""
    with suppress(HydraException, OmegaConfBaseException, MarkedYAMLError):
        cfg, _ = with_choices([f"{group}={choice}"])
        return key.partition(".")[2] in cfg[group]
    return False


def _without(key: str, overrides: Sequence[str]) -> tuple[Any, dict[str, str | None]]:
    """The configuration of the choices among the overrides, in a sweep of the first that lacks the key."""
    pairs = [override.partition("=")[::2] for override in overrides]
    chosen = {name: value.split(",") for name, value in pairs if {*value.split(",")} <= {*groups().get(name, ())}}
    group = key.partition(".")[0]
    for choice in chosen.get(group, [""]):
        own = {name: values[0] for name, values in chosen.items()} | ({group: choice} if choice else {})
        cfg, choices = with_choices([f"{name}={value}" for name, value in own.items()])
        if key.partition(".")[2] not in (cfg.get(group) or {}):
            break
    return cfg, choices


_ANSWERS: dict[str, Callable[[str, Sequence[str]], str]] = {
    r"^(Config group override must be .*)": _no_choice,
    r"Could not override '([^']+)'": _no_such_key,
    r"Could not find '(\w+/[^']*)'": _not_found,
    r"Missing mandatory value.*full_key: (\S+)": _needed,
    r"Ambiguous value for argument '([^\n]*)'\n": _several,
    r"Multiple values for (\w+)": _there_already,
    r"An item is already at '([^']+)'": _there_already,
    r"force-add of config groups is not supported: '\+\+(\w+)": _there_already,
    r"Could not delete from config. '([^']+)' does not exist": _not_there,
}
"""What Hydra says, and who says it in other words."""
