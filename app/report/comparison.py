"""Which runs are the same but for their seed, what to call them, and their numbers as mean and deviation."""

import json
import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from app.report.labels import flatten, labels
from app.report.runs import Run, folded, number
from app.units import NOT_RECORDED, percent, rate, size

_APART = {"seed", "resume", "checkpoint.every", "loggers"}
_ROUNDING = 1e-9
"""More than floats lose: 0.29 * 100 is 28.999999999999996."""


@dataclass(frozen=True)
class Group:
    """Runs that differ only by seed, all of them finished or all unfinished."""

    name: str
    runs: tuple[Run, ...]

    @property
    def seeds(self) -> str:
        """The seeds, in the order of the runs."""
        return ", ".join(str(run.config.get("seed", NOT_RECORDED)) for run in self.runs)

    @property
    def finished(self) -> bool:
        """Whether all of them did their work."""
        return all(run.finished for run in self.runs)

    def mean_accuracy(self) -> dict[int, float]:
        """Round to the mean accuracy over the runs, where all of them have one."""
        together = folded([run.series("accuracy") for run in self.runs])
        return {r: statistics.fmean(values) for r, values in together.items()}


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


def columns(groups: Sequence[Group]) -> tuple[Column, ...]:
    """What settings are compared by; sparsity only where some run recorded it."""
    level = reaching(groups)
    sparse = any(run.series("sparsity_model") for group in groups for run in group.runs)
    return (*_ALWAYS, *([level] if level else []), *(_SPARSE if sparse else ()))


def reaching(groups: Sequence[Group]) -> Column | None:
    """Bytes up and down until the mean accuracy over a setting's seeds is the common one; None if there is none."""
    level = common_accuracy(groups)
    if level is None:
        return None
    cost: dict[Path, float] = {}
    for group in groups:
        first = next((r for r, mean in group.mean_accuracy().items() if mean >= level - _ROUNDING), None)
        if first is not None:
            cost |= {run.path: run.series("cost_bytes")[first] for run in group.runs}
    title = f"bytes to reach {level:.2f}"  # no deviation: its seeds are all looked at in the same round
    return Column(title, lambda run: cost.get(run.path), size, missing="not reached", needs="accuracy")


def common_accuracy(groups: Sequence[Group]) -> float | None:
    """The highest mean accuracy that all finished settings reach, or half of the best one's where that is more.

    Half, so that a setting that learned next to nothing leaves a level that means something. Rounded down to two
    digits; None where a setting has no accuracy, and for runs of several tasks.
    """
    if len({run.task for group in groups for run in group.runs}) > 1:
        return None
    best = [max(group.mean_accuracy().values(), default=None) for group in groups if group.finished]
    reached = [accuracy for accuracy in best if accuracy is not None]
    if not reached or len(reached) < len(best):
        return None
    return math.floor(max(min(reached), max(reached) / 2) * 100 + _ROUNDING) / 100


def learners(groups: Sequence[Group]) -> tuple[float, list[Group]]:
    """The common accuracy and the settings that reach it; 0 and all where there is none."""
    level = common_accuracy(groups) or 0.0
    return level, [g for g in groups if max(g.mean_accuracy().values(), default=0.0) >= level - _ROUNDING]


def group_runs(runs: Sequence[Run]) -> list[Group]:
    """Fold runs that differ only by seed, in order of first appearance, and name them by what differs."""
    flat = [flatten(run.config) for run in runs]
    # Copies of the seed that interpolation left elsewhere vary with it. The others change no number of a run.
    copies = {k for k in flat[0] if k.rpartition(".")[2] == "seed" and all(s.get(k) == s.get("seed") for s in flat)}
    groups: dict[tuple[str, bool], list[int]] = {}
    for i, run in enumerate(runs):
        flat[i] = {k: v for k, v in flat[i].items() if k not in copies | _APART}
        groups.setdefault((json.dumps(flat[i], sort_keys=True, default=str), run.finished), []).append(i)
    names = labels([flat[members[0]] for members in groups.values()])
    return [
        Group(name if finished else f"{name} (unfinished)", tuple(runs[i] for i in members))
        for name, ((_, finished), members) in zip(names, groups.items(), strict=True)
    ]
