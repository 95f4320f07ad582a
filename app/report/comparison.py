"""Which runs are the same but for their seed, what to call them, and their numbers as mean and deviation."""

import json
import math
import re
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from app.console import size
from app.report.labels import flatten, labels
from app.report.runs import Run, number

NOT_RECORDED = "not recorded"


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
    """A number of a run, how it is written, and whether its deviation over the seeds is written too.

    missing: what stands for it where `needs`, a field of the rounds, was recorded and there is still no number.
    """

    title: str
    value: Callable[[Run], float | None]
    text: Callable[[float], str]
    spread: bool = False
    missing: str = NOT_RECORDED
    needs: str = "round"

    def mean(self, group: Group) -> float | None:
        """Over the group's runs; None if one of them lacks the number."""
        values = [self.value(run) for run in group.runs]
        return None if None in values else statistics.fmean(v for v in values if v is not None)

    def cell(self, group: Group) -> str:
        """The mean, with the sample deviation (n - 1) where there are several runs."""
        mean = self.mean(group)
        if mean is None:
            return self.missing if all(run.series(self.needs) for run in group.runs) else NOT_RECORDED
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


def unbroken(text: str) -> str:
    """No line break between a number and its unit, nor between ± and its number."""
    return re.sub(r"(?<=±) |(?<=\d) (?=%|[kMGTP]?(?:B|MAC)\b)", "\N{NO-BREAK SPACE}", text)


_BOTH = ("bytes_down", "bytes_up")

ACCURACY = Column("final accuracy", lambda run: run.accuracy, rate, spread=True)
BYTES_OF_DENSE = Column("bytes of dense", lambda run: run.ratio(_BOTH, ("bytes_dense",)), percent)
MACS_OF_DENSE = Column("MACs of dense", lambda run: run.ratio(("macs",), ("macs_dense",)), percent)

_ALWAYS = (
    ACCURACY,
    Column("best accuracy", lambda run: run.best_accuracy, rate, spread=True),
    Column("bytes up", lambda run: run.total("bytes_up"), size),
    Column("bytes down", lambda run: run.total("bytes_down"), size),
    BYTES_OF_DENSE,
    Column("uplink of dense", lambda run: run.ratio(("bytes_up",), ("bytes_dense_up",)), percent),
    MACS_OF_DENSE,
)
_SPARSE = (
    Column("sparsity", lambda run: run.last("sparsity_model"), rate),
    Column("mask IoU", lambda run: run.mean("mask_iou"), rate, spread=True),
    Column("regrowth", lambda run: run.mean("regrowth"), rate, spread=True),
    Column("settled round", lambda run: number((run.summary or {}).get("settled_round")), "{:.3g}".format,
           missing="not settled", needs="kept_change"),
)  # fmt: skip
"""Of the final model; means over the rounds; when the kept set came to rest (see the summary)."""


def columns(runs: Sequence[Run]) -> tuple[Column, ...]:
    """What runs are compared by; sparsity only where some run recorded it."""
    level, sparse = reached_by_all(runs), any(run.series("sparsity_model") for run in runs)
    return (*_ALWAYS, *([level] if level else []), *(_SPARSE if sparse else ()))


def reached_by_all(runs: Sequence[Run]) -> Column | None:
    """What it cost to reach the accuracy that all finished runs reach; None where there is none."""
    level = common_accuracy(runs)
    if level is None:
        return None
    title = f"bytes to reach {level:.2f}"
    return Column(title, lambda run: bytes_to_reach(run, level), size, True, "not reached", needs="accuracy")


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
    flat = [flatten(run.config) for run in runs]
    # Copies of the seed that interpolation left elsewhere vary with it. Resuming a run does not change its result.
    copies = {k for k in flat[0] if k.rpartition(".")[2] == "seed" and all(s.get(k) == s.get("seed") for s in flat)}
    groups: dict[tuple[str, bool], list[int]] = {}
    for i, run in enumerate(runs):
        flat[i] = {k: v for k, v in flat[i].items() if k not in copies | {"seed", "resume"}}
        groups.setdefault((json.dumps(flat[i], sort_keys=True, default=str), run.finished), []).append(i)
    names = labels([flat[members[0]] for members in groups.values()])
    return [
        Group(name if finished else f"{name} (unfinished)", tuple(runs[i] for i in members))
        for name, ((_, finished), members) in zip(names, groups.items(), strict=True)
    ]
