"""python -m app --help: groups and choices, every key with its default and meaning, examples.

Read from conf/ and its comments, so that it says what is there. `strategy=fedavg --help` shows the keys of that choice.
"""

import json
import re
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from app.choices import CONF, groups
from app.config import composed

_HEAD = """\
fedslice: federated learning that trains and sends only a slice of the model, and counts what that costs.

  python -m app [KEY=VALUE | GROUP=CHOICE ...]    one run; its last lines say where its files are
  python -m app -m KEY=A,B GROUP=C,D              a run for every combination
  python -m app ... --help                        this, for other choices: their keys differ
  python -m app ... --cfg job --resolve           the whole configuration, without a run

Examples
  python -m app strategy=fedavg rounds=10
  python -m app -m strategy=fedavg,fedpart seed=0,1,2      then: python -m app.report multirun/DATE/TIME
  python -m app task=cifar10 task.data=FOLDER partition=dirichlet partition.alpha=0.1
  python -m app task=images task.data=FOLDER task.shape=[3,32,32] task.classes=[cat,dog]
  python -m app resume=RUN_DIRECTORY                       goes on after the newest checkpoint

Beside it: app.report RUN..., app.inspect RUN..., app.gradient_noise RUN, app.costs KEY=VALUE...,
app.privacy KEY=VALUE..., app.vocabulary KEY=VALUE...
Completion in bash, for the installed command of the same meaning: eval "$(fedslice -sc install=bash)"
"""
_LEFT = 42  # columns for a key and its default
_WIDTH = 120


def help_text(overrides: Sequence[str]) -> str:
    """The whole help, for the choices that these overrides make; a mistake in them is a ConfigError."""
    cfg, chosen = composed(overrides)
    lines = [_HEAD, "Groups (GROUP=CHOICE; * is chosen)"]
    for group, choices in groups().items():
        lines.append(f"  {group}")
        for choice in choices:
            mark = "*" if chosen.get(group) == choice else " "
            lines += _row(f"  {mark} {choice}", _title(CONF / group / f"{choice}.yaml"))
    lines += ["", "Keys (KEY=VALUE, with the defaults of these choices)"]
    meanings = _meanings(CONF / "config.yaml")
    for group, name in chosen.items():
        if group in groups() and name:
            meanings.update({f"{group}.{key}": text for key, text in _inherited(CONF / group, name).items()})
    for key, value in _leaves(OmegaConf.to_container(cfg, resolve=False)):
        lines += _row(f"  {key}={_shown(value)}", meanings.get(key, ""))
    return "\n".join(lines)


def _row(left: str, right: str) -> list[str]:
    """Two columns; the right one is wrapped, and starts a line of its own where the left one is long."""
    wrapped = textwrap.wrap(right, _WIDTH - _LEFT) or [""]
    rows = [*([left, ""] if len(left) >= _LEFT and right else [left]), *[""] * (len(wrapped) - 1)]
    texts = ["", *wrapped] if len(rows) > len(wrapped) else wrapped
    return [f"{row:<{_LEFT}}{text}".rstrip() for row, text in zip(rows, texts, strict=True)]


def _shown(value: Any) -> str:
    if value == "???":
        return "(needed)"
    return json.dumps(value) if value is None or isinstance(value, bool | list) else str(value)


def _leaves(node: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Keys that can be set, and their values; first those of the root, then the sections'."""
    for name, value in sorted(node.items(), key=lambda item: isinstance(item[1], dict)):
        if isinstance(value, dict) and value:
            yield from _leaves(value, f"{prefix}{name}.")
        elif not name.startswith("_"):
            yield f"{prefix}{name}", value


def _title(file: Path) -> str:
    """The first sentence of the comment that a choice's file opens with."""
    opening = [line.removeprefix("#").strip() for line in file.read_text().splitlines() if line.startswith("#")]
    text = " ".join(line for line in opening if not line.startswith("@package"))
    first = re.split(r"(?<!al)\.\s", text, maxsplit=1)[0].removesuffix(".")
    return f"{first}." if first else ""


def _inherited(folder: Path, choice: str) -> dict[str, str]:
    """Meanings of a choice's keys, those of the choices that it builds on included."""
    file = folder / f"{choice}.yaml"
    found: dict[str, str] = {}
    for base in OmegaConf.to_container(OmegaConf.load(file)).get("defaults", []):  # type: ignore[union-attr]
        if isinstance(base, str) and base != "_self_":
            found |= _inherited(folder, base)
    return found | _meanings(file)


def _meanings(file: Path) -> dict[str, str]:
    """The comment behind each key, by its dotted name."""
    found: dict[str, str] = {}
    path: list[str] = []
    for line in file.read_text().splitlines():
        if match := re.match(r"( *)(\w+):.*?(?: +# (.*))?$", line):
            indent, name, comment = match.groups()
            path[len(indent) // 2 :] = [name]
            if comment:
                found[".".join(path)] = comment
    return found
