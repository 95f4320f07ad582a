"""A run as its files tell it: rounds.jsonl, summary.json and config.yaml."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

Row = dict[str, Any]


@dataclass(frozen=True)
class Run:
    """One run as its files tell it; `summary` is None and `error` may say why where it did not finish."""

    path: Path
    rows: tuple[Row, ...]
    config: dict[str, Any]
    summary: dict[str, Any] | None
    error: str | None

    @property
    def finished(self) -> bool:
        """Whether it did its work: the summary is written last of all."""
        return self.summary is not None

    @property
    def strategy(self) -> str:
        """The short name of what was run, such as FedPart: the name that it gives itself, or its class."""
        section = _section(self.config, "strategy")
        return str(section.get("name") or class_name(section.get("_target_", "unknown strategy")))

    @property
    def task(self) -> str:
        """The name of what was learned."""
        return str((self.summary or {}).get("task") or _section(self.config, "task").get("name", "unknown task"))

    @property
    def accuracy(self) -> float | None:
        """Of the last round that is recorded."""
        return number(self.rows[-1]["accuracy"]) if self.rows else None

    @property
    def best(self) -> Row | None:
        """The first of the rounds with the highest accuracy."""
        evaluated = [row for row in self.rows if number(row["accuracy"]) is not None]
        return max(evaluated, key=lambda row: float(row["accuracy"]), default=None)

    @property
    def best_accuracy(self) -> float | None:
        """The highest accuracy of all rounds."""
        return None if self.best is None else float(self.best["accuracy"])

    def total(self, *names: str) -> float:
        """The sum of these fields over all rounds; as in the summary, the initial model's row is not one of them."""
        return float(sum(row[name] for row in self.rows if row["round"] > 0 for name in names))

    def ratio(self, parts: Sequence[str], wholes: Sequence[str]) -> float | None:
        """One total as a share of another; None where there is nothing to compare with."""
        whole = self.total(*wholes)
        return self.total(*parts) / whole if whole else None

    def last(self, name: str) -> float | None:
        """A field's value in the last round that recorded it."""
        return next(reversed(self.series(name).values()), None)

    def mean(self, name: str) -> float | None:
        """A field's mean over the rounds that recorded it."""
        values = self.series(name).values()
        return sum(values) / len(values) if values else None

    def series(self, name: str) -> dict[int, float]:
        """Round to a field's value, rounds without a finite one left out; cost_* are sums up to that round."""
        if name == "cost_bytes":
            values = [row["bytes_down_total"] + row["bytes_up_total"] for row in self.rows]
        elif name == "cost_macs":
            values = list(accumulate(row["macs"] for row in self.rows))
        else:
            values = [row.get(name) for row in self.rows]
        found = {row["round"]: number(value) for row, value in zip(self.rows, values, strict=True)}
        return {server_round: value for server_round, value in found.items() if value is not None}


def folded(series: Sequence[dict[int, float]]) -> dict[int, list[float]]:
    """Round to its values in all of the series, for the rounds that all of them have."""
    return {r: [one[r] for one in series] for r in series[0] if all(r in one for one in series)}


def number(value: Any) -> float | None:
    """The value if it is a finite number; what was not recorded stays None."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return value if is_number and math.isfinite(value) else None


def class_name(target: Any) -> str:
    """`strategies.fedpart.FedPartStrategy` is FedPart to people."""
    return str(target).rpartition(".")[2].removesuffix("Strategy")


def _section(config: dict[str, Any], name: str) -> dict[str, Any]:
    section = config.get(name)
    return section if isinstance(section, dict) else {}
