"""Layer mismatch in numbers: step sizes just after an averaging against just before it (FedPart, Figure 1)."""

import json
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import Any

from app.checkpoint import run_of
from app.files import append_line
from strategies.cost import RoundReport

STEPS_FILE = "steps.jsonl"
_WINDOW = 3
"""Local iterations before and after an averaging that are compared."""


def add_steps(run_dir: Path, report: RoundReport, num_groups: int) -> None:
    """Append a round's step sizes, mean over clients: a row per iteration, a column per group that learned."""
    groups = list(report.groups or range(num_groups))
    row = {"round": report.round, "phase": report.phase, "groups": groups, "sizes": report.mean_steps(len(groups))}
    append_line(run_dir / STEPS_FILE, json.dumps(row))


def steps_before(resumed: Path, last_round: int) -> str:
    """The file of step sizes up to `last_round` of the run (or a checkpoint in it) that is resumed."""
    source = run_of(resumed) / STEPS_FILE
    lines = source.read_text().splitlines(keepends=True) if source.is_file() else []
    return "".join(line for line in lines if json.loads(line)["round"] <= last_round)


def step_ratios(run_dir: Path) -> dict[str, float | None]:
    """Mean over groups and averagings of (size just after / size just before), full and partial rounds apart.

    Counted where a group learned in two rounds of the same phase in a row. None where nothing was recorded.
    """
    path = run_dir / STEPS_FILE
    rows = [json.loads(line) for line in path.read_text().splitlines()] if path.is_file() else []
    return {f"step_ratio_{phase}": _mean(_ratios(rows, phase)) for phase in ("full", "partial")}


def _ratios(rows: list[dict[str, Any]], phase: str) -> Iterable[float]:
    for before, after in pairwise(rows):
        if {before["phase"], after["phase"]} != {phase} or after["round"] != before["round"] + 1:
            continue
        for group in set(before["groups"]) & set(after["groups"]):
            earlier = [sizes[before["groups"].index(group)] for sizes in before["sizes"][-_WINDOW:]]
            later = [sizes[after["groups"].index(group)] for sizes in after["sizes"][:_WINDOW]]
            if fmean(earlier) > 0:
                yield fmean(later) / fmean(earlier)


def _mean(values: Iterable[float]) -> float | None:
    found = list(values)
    return fmean(found) if found else None
