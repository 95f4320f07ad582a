"""What to call settings in a comparison: their strategy, and whatever else differs between them."""

import json
from collections.abc import Sequence
from typing import Any

from app.report.runs import class_name

Settings = dict[str, Any]


def flatten(node: Any, prefix: str = "") -> Settings:
    """Dotted keys to values."""
    found: Settings = {}
    for key, value in node.items():
        found.update(flatten(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value})
    return found


def labels(settings: Sequence[Settings]) -> list[str]:
    """The strategy of each, and the keys in which they differ: FedPart, client.lr=0.01, server_optimizer=adam."""
    known = [_with_kinds(s) for s in settings]
    keys = dict.fromkeys(k for s in known for k in s if k != "strategy")
    shown: dict[tuple[str, ...], str] = {}
    for key in sorted(filter(lambda k: _differs(k, known), keys), key=lambda k: k.count(".")):
        # Of a key and the copies that interpolation made, the one nearest the root is the one that was set.
        shown.setdefault((key.rpartition(".")[2], *(_text(s.get(key)) for s in known)), key)
    return [
        ", ".join(
            [
                s.get("strategy", "unknown strategy"),
                *(f"{k}={_text(s[k])}" for k in keys if k in shown.values() and k in s),
            ]
        )
        for s in known
    ]


def _with_kinds(settings: Settings) -> Settings:
    """A section's class, and the name or rule that it gives itself, become one word under the section's own key."""
    found: Settings = {}
    for key, value in settings.items():
        section, _, last = key.rpartition(".")
        if last == "_target_":
            given = settings.get(f"{section}.name") or settings.get(f"{section}.rule")
            found[section] = str(given or _kind(section, value))
        elif last not in ("name", "rule") or f"{section}._target_" not in settings:
            found[key] = value
    return found


def _kind(section: str, target: Any) -> str:
    """The word by which a class is chosen: InlineRuntime is runtime=inline, ServerOptimizer itself does nothing."""
    name = class_name(target)
    if section == "strategy":
        return name
    return name.lower().removesuffix(section.rpartition(".")[2].replace("_", "")) or "none"


def _differs(key: str, settings: Sequence[Settings]) -> bool:
    """Whether runs whose section is of the same kind differ in this key; a kind differs from any other."""
    seen: dict[str, set[str]] = {}
    for s in settings:
        seen.setdefault(_text(s.get(key.rpartition(".")[0])), set()).add(_text(s.get(key)))
    return any(len(values) > 1 for values in seen.values())


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=str)
