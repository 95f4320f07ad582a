"""Finding runs and reading their files, checked here so that nothing after it need check."""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError  # type: ignore[import-untyped]  # OmegaConf lets it through

from app.report.runs import Row, Run

ROUNDS = "rounds.jsonl"

_COUNTS = (
    "round", "completed", "failed", "rejected", "bytes_down", "bytes_up", "bytes_down_total", "bytes_up_total",
    "bytes_dense", "bytes_dense_up", "macs", "macs_dense", "seconds_round", "seconds_server", "seconds_train",
)  # fmt: skip
"""Fields that every round has."""

_MEASURES = ("accuracy", "loss", "train_loss")
"""Fields that are null where nothing was measured. Those of sparse strategies may be missing altogether."""


class ReportError(ValueError):
    """Files that no report can be made of; the message is one line that names the file."""


def find_runs(paths: Sequence[Path]) -> list[Path]:
    """The run directories among these folders or anywhere below them, each once. Raises ReportError without any."""
    found: dict[Path, Path] = {}
    for path in paths:
        here = [path] if (path / ROUNDS).is_file() else [file.parent for file in path.rglob(ROUNDS)]
        if not here:
            raise ReportError(f"{path}: no run here: no {ROUNDS} in it or below it")
        found.update({run.resolve(): run for run in sorted(here, key=_natural)})
    return list(found.values())


def load_run(path: Path) -> Run:
    """Read one run directory. Raises ReportError naming the file, and the line, that cannot be used."""
    summary_file, error_file = path / "summary.json", path / "error.txt"
    summary = _json(summary_file, _read(summary_file)) if summary_file.is_file() else None
    error = _read(error_file).strip() if summary is None and error_file.is_file() else None
    text = _read(path / ROUNDS)
    lines = text.splitlines()
    if summary is None and text and not text.endswith("\n"):
        lines.pop()  # a run that was killed may have torn its last line
    rows = tuple(_row(path / ROUNDS, number, line) for number, line in enumerate(lines, 1))
    return Run(path, rows, _config(path / "config.yaml"), summary, error)


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ReportError(f"{file}: not text: {error}") from None
    except OSError as error:
        raise ReportError(f"{file}: {error.strerror}") from None


def _config(file: Path) -> dict[str, Any]:
    try:
        config = OmegaConf.to_container(OmegaConf.create(_read(file)))
    except (YAMLError, OmegaConfBaseException, ValueError) as error:
        if isinstance(error, ReportError):
            raise
        raise ReportError(f"{file}: not yaml: {' '.join(str(error).split())}") from None
    if not isinstance(config, dict):
        raise ReportError(f"{file}: not a mapping of keys to values")
    return {str(key): value for key, value in config.items()}


def _row(file: Path, line_number: int, line: str) -> Row:
    where = f"{file}, line {line_number}"
    row = _json(where, line)
    for name in (*_COUNTS, *_MEASURES):
        optional = name in _MEASURES and name in row and row[name] is None
        if not optional and (isinstance(row.get(name), bool) or not isinstance(row.get(name), int | float)):
            raise ReportError(f"{where}: {name} is {row.get(name, 'missing')!r}, must be a number")
    if not isinstance(row.setdefault("sampled", []), list):
        raise ReportError(f"{where}: sampled is {row['sampled']!r}, must be a list of clients")
    densities = row.get("densities")
    if densities is not None and not (isinstance(densities, dict) and all(map(_is_rate, densities.values()))):
        raise ReportError(f"{where}: densities is {densities!r}, must map weights to rates in [0, 1]")
    groups, reasons = row.setdefault("groups", []), row.setdefault("reasons", {})
    if not isinstance(groups, list) or not all(type(index) is int and index >= 0 for index in groups):
        raise ReportError(f"{where}: groups is {groups!r}, must be a list of indexes")
    if not isinstance(reasons, dict):
        raise ReportError(f"{where}: reasons is {reasons!r}, must map clients to reasons")
    return row


def _is_rate(value: Any) -> bool:
    return isinstance(value, int | float) and 0 <= value <= 1


def _json(where: Path | str, text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise ReportError(f"{where}: not JSON: {error}") from None
    if not isinstance(value, dict):
        raise ReportError(f"{where}: not a JSON object")
    return value


def _natural(path: Path) -> list[tuple[int, str]]:
    """Sorts 2-fedavg before 10-fedavg."""
    return [(int(part or 0), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", str(path))]
