"""Which runs are the same but for their seed, what to call them, and their numbers as mean and deviation."""

import json
import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from app.console import size
from app.report.runs import Run, class_name

NOT_RECORDED = "not recorded"

Settings = dict[str, Any]


@dataclass(frozen=True)
class Group:
    """Runs that differ only by seed, all of them finished or all unfinished."""

    name: str
    runs: tuple[Run, ...]

    @property
    def seeds(self) -> str:
        """The seeds, in the order of the runs."""
        return ", ".join(str(run.config.get("seed", NOT_RECORDED)) for run in self.runs)


@dataclass(frozen=True)
class Column:
    """A number of a run, how it is written, and whether its deviation over the seeds is written too."""

    title: str
    value: Callable[[Run], float | None]
    text: Callable[[float], str]
    spread: bool = False
    missing: str = NOT_RECORDED

    def mean(self, group: Group) -> float | None:
        """Over the group's runs; None if one of them lacks the number."""
        values = [self.value(run) for run in group.runs]
        return None if None in values else statistics.fmean(v for v in values if v is not None)

    def cell(self, group: Group) -> str:
        """The mean, with the sample deviation (n - 1) where there are several runs."""
        mean = self.mean(group)
        if mean is None:
            return self.missing
        if not self.spread or len(group.runs) < 2:
            return self.text(mean)
        deviation = statistics.stdev(v for v in map(self.value, group.runs) if v is not None)
        return f"{self.text(mean)} ± {self.text(deviation)}"


def rate(value: float | None) -> str:
    """A rate in [0, 1], such as an accuracy, in four digits."""
    return NOT_RECORDED if value is None else f"{value:.4f}"


def percent(value: float | None) -> str:
    """A ratio for people; small ones keep their digits."""
    if value is None:
        return NOT_RECORDED
    return f"{100 * value:.1f} %" if value >= 0.1 or value == 0 else f"{100 * value:.3g} %"


def macs(value: float) -> str:
    """Multiply-accumulates for people: 1 GMAC is 10^9."""
    for unit in ("", "k", "M", "G", "T"):
        if value < 1000:
            return f"{value:.0f} MAC" if not unit else f"{value:.1f} {unit}MAC"
        value /= 1000
    return f"{value:.1f} PMAC"


def columns(runs: Sequence[Run]) -> tuple[Column, ...]:
    """What runs are compared by."""
    both, dense = ("bytes_down", "bytes_up"), ("bytes_dense",)
    found = (
        Column("final accuracy", lambda run: run.accuracy, rate, spread=True),
        Column("best accuracy", lambda run: run.best_accuracy, rate, spread=True),
        Column("bytes up", lambda run: run.total("bytes_up"), size),
        Column("bytes down", lambda run: run.total("bytes_down"), size),
        Column("bytes of dense", lambda run: run.ratio(both, dense), percent),
        Column("uplink of dense", lambda run: run.ratio(("bytes_up",), ("bytes_dense_up",)), percent),
        Column("MACs of dense", lambda run: run.ratio(("macs",), ("macs_dense",)), percent),
    )
    level = common_accuracy(runs)
    if level is None:
        return found
    reach = Column(
        f"bytes to reach {level:.2f}", lambda run: bytes_to_reach(run, level), size, spread=True, missing="not reached"
    )
    return (*found, reach)


def common_accuracy(runs: Sequence[Run]) -> float | None:
    """The highest accuracy that all finished runs reach, rounded down to two digits."""
    best = [run.best_accuracy for run in runs if run.finished]
    reached = [accuracy for accuracy in best if accuracy is not None]
    if not reached or len(reached) < len(best):
        return None
    return math.floor(min(reached) * 100 + 1e-9) / 100  # 0.29 * 100 is 28.999999999999996


def bytes_to_reach(run: Run, accuracy: float) -> float | None:
    """Bytes up and down until the first round whose model is that accurate; None if none is."""
    cost = run.series("cost_bytes")
    return next((cost[r] for r, reached in run.series("accuracy").items() if reached >= accuracy), None)


def group_runs(runs: Sequence[Run]) -> list[Group]:
    """Fold runs that differ only by seed, in order of first appearance, and name them by what differs."""
    flat = [_flatten(run.config) for run in runs]
    # Copies of the seed that interpolation left elsewhere vary with it. Resuming a run does not change its result.
    copies = {k for k in flat[0] if k.rpartition(".")[2] == "seed" and all(s.get(k) == s.get("seed") for s in flat)}
    groups: dict[tuple[str, bool], list[int]] = {}
    for i, run in enumerate(runs):
        flat[i] = {k: v for k, v in flat[i].items() if k not in copies | {"seed", "resume"}}
        groups.setdefault((json.dumps(flat[i], sort_keys=True, default=str), run.finished), []).append(i)
    names = _names([flat[members[0]] for members in groups.values()])
    return [
        Group(name if finished else f"{name} (unfinished)", tuple(runs[i] for i in members))
        for name, ((_, finished), members) in zip(names, groups.items(), strict=True)
    ]


def _names(settings: Sequence[Settings]) -> list[str]:
    """The strategy of each, and the keys in which they differ: FedPart, client.lr=0.01."""
    keys = dict.fromkeys(k for s in settings for k in s if k != "strategy._target_")
    shown: dict[tuple[str, ...], str] = {}
    for key in sorted(filter(lambda k: _differs(k, settings), keys), key=lambda k: k.count(".")):
        # Of a key and the copies that interpolation made, the one nearest the root is the one that was set.
        shown.setdefault((key.rpartition(".")[2], *(_text(s.get(key)) for s in settings)), key)
    names = []
    for s in settings:
        parts = [f"{k.removesuffix('._target_')}={_value(k, s[k])}" for k in keys if k in shown.values() and k in s]
        names.append(", ".join([class_name(s.get("strategy._target_", "unknown strategy")), *parts]))
    return names


def _differs(key: str, settings: Sequence[Settings]) -> bool:
    """Whether runs whose section is of the same class differ in this key; a class differs from any other."""
    kind = "" if key.endswith("_target_") else f"{key.rpartition('.')[0]}._target_"
    seen: dict[str, set[str]] = {}
    for s in settings:
        seen.setdefault(_text(s.get(kind)), set()).add(_text(s.get(key)))
    return any(len(values) > 1 for values in seen.values())


def _flatten(node: Any, prefix: str = "") -> Settings:
    """Dotted keys to values."""
    found: Settings = {}
    for key, value in node.items():
        found.update(_flatten(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value})
    return found


def _value(key: str, value: Any) -> str:
    return class_name(value) if key.endswith("_target_") else _text(value)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=str)
