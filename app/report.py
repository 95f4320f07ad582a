"""The report of a run, as one HTML file."""

from collections.abc import Sequence
from pathlib import Path


def write_report(run_dirs: Sequence[Path], target: Path) -> None:
    """Write the report of these runs to `target`."""
    target.write_text(f"{len(run_dirs)} runs")
