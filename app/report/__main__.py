"""python -m app.report RUN... [--out FILE]: compare runs on the console and as one HTML file."""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from app.files import write_text
from app.report.comparison import columns, group_runs
from app.report.page import page
from app.report.reading import ReportError, find_runs, load_run
from app.report.runs import Run


def main(argv: Sequence[str] | None = None) -> int:
    """The exit status: 0 done, 2 no report can be made."""
    parser = argparse.ArgumentParser(prog="python -m app.report", description="Compare runs by what they left.")
    parser.add_argument(
        "runs", nargs="+", type=Path, metavar="RUN", help="a run directory, or a folder that holds some"
    )
    parser.add_argument("--out", type=Path, metavar="FILE", help="default: report.html in the run directory if there "
                        "is one run, comparison.html in the folder of all of them if there are several")  # fmt: skip
    args = parser.parse_args(argv)
    try:
        run_dirs = find_runs([path.resolve() for path in args.runs])
        runs = [load_run(path) for path in run_dirs]
        target = (args.out or default_target(run_dirs)).absolute()
        write_text(target, page(runs))
    except (ReportError, OSError) as error:
        print(f"fedslice: {error}", file=sys.stderr)
        return 2
    print_table(runs)
    print(f"report: {target}")
    return 0


def default_target(run_dirs: Sequence[Path]) -> Path:
    """In the run's own directory, or in the folder that holds all of the runs."""
    return run_dirs[0] / "report.html" if len(run_dirs) == 1 else Path(os.path.commonpath(run_dirs)) / "comparison.html"


def print_table(runs: Sequence[Run]) -> None:
    """The comparison as on the page; one below the other where the terminal is too narrow for a table."""
    groups = group_runs(runs)
    compared = columns(groups)
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=10_000)  # a file or a pipe has no width to keep to
    table = Table("setting", "seeds")
    for column in compared:
        table.add_column(column.title, justify="right")
    for group in groups:
        cells = (group.name, group.seeds, *(column.cell(group) for column in compared))
        table.add_row(*map(Text, cells))  # Text, as rich would read markup in a plain string
    if Measurement.get(console, console.options.update_width(10_000), table).maximum <= console.width:
        console.print(table)
        return
    for group in groups:
        console.print(Text(f"{group.name} (seeds {group.seeds})", style="bold"))
        for column in compared:
            console.print(Text(f"  {column.title:<22}{column.cell(group):>24}"))


if __name__ == "__main__":
    sys.exit(main())
