"""The report as one HTML file: self-contained, with everything that comes from files escaped."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import Any

from plotly.offline import get_plotlyjs

from app.files import write_text
from app.report.charts import Chart, shared_charts
from app.report.comparison import Group, columns, group_runs
from app.report.leads import comparison_lead, lead
from app.report.reading import load_run
from app.report.run_charts import group_charts, run_charts
from app.report.runs import Run
from app.report.sections import comparison_table, key_numbers, losses, run_table, runs_table
from app.report.style import CSS, DRAW, SORT
from app.units import NOT_RECORDED

# Nothing is loaded from anywhere, whatever a file may have smuggled in.
_POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:"


def write_report(run_dirs: Sequence[Path], target: Path, summary: Mapping[str, Any] | None = None) -> None:
    """Write the report of one run, or the comparison of several, to `target`. Raises ReportError, OSError.

    summary: of the one run, where its file is still to be written.
    """
    runs = [load_run(path) for path in run_dirs]
    write_text(target, page(runs if summary is None else [replace(run, summary=dict(summary)) for run in runs]))


def page(runs: Sequence[Run]) -> str:
    """The whole HTML text."""
    groups = group_runs(runs)
    title = f"{runs[0].strategy} on {runs[0].task}" if len(runs) == 1 else f"{len(runs)} runs in comparison"
    return document(title, _one(runs[0], groups) if len(runs) == 1 else _many(runs, groups))


def document(title: str, body: str) -> str:
    """A page with this body, its style and its scripts; `title` is escaped here, `body` is HTML."""
    return "\n".join(
        (
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
            f"<title>{escape(title)} - fedslice</title>\n<style>{CSS}</style>\n</head>\n<body>",
            body,
            f"<script>{get_plotlyjs()}</script>\n<script>{DRAW}{SORT}</script>\n</body>\n</html>\n",
        )
    )


def _one(run: Run, groups: Sequence[Group]) -> str:
    """The body for a single run."""
    charts = [*shared_charts(groups), *run_charts(run)] if run.rows else []
    return "\n".join(
        (
            f"<header><h1>{escape(run.strategy)} on {escape(run.task)}</h1>{lead(run)}</header>",
            key_numbers(run),
            figures(charts),
            losses([run]),
            run_table(run),
        )
    )


def _many(runs: Sequence[Run], groups: Sequence[Group]) -> str:
    """The body for several runs."""
    drawn = [group for group in groups if all(run.rows for run in group.runs)]
    charts = [*shared_charts(drawn), *group_charts(drawn)] if drawn else []
    tasks = ", ".join(dict.fromkeys(run.task for run in runs))
    return "\n".join(
        (
            f"<header><h1>fedslice on {escape(tasks)}</h1>{comparison_lead(runs, groups)}</header>",
            comparison_table(groups, columns(groups)),
            figures(charts),
            losses(runs),
            runs_table(runs),
        )
    )


def figures(charts: Sequence[Chart]) -> str:
    """The charts' places, and their data for the script that draws them; a line names those without data."""
    places: list[str] = []
    data: dict[str, Any] = {}
    for index, chart in enumerate(chart for chart in charts if chart.traces):
        name = f"chart{index}"
        legend = sum(trace.get("showlegend", True) for trace in chart.traces)
        height = 300 if legend < 4 else 260 + 19 * legend  # long legends must not squeeze the plot
        data[name] = {"data": chart.traces, "layout": {"height": height} | chart.layout}
        wide = ' class="wide"' if chart.wide else ""
        places.append(
            f"<figure{wide}><figcaption><h3>{escape(chart.title)}</h3>"
            f'<p class="note">{escape(chart.note)}</p></figcaption>'
            f'<div class="plot" id="{name}" role="img" aria-label="Chart: {escape(chart.title)}"></div></figure>'
        )
    absent = ", ".join(chart.title for chart in charts if not chart.traces)
    line = f'<p class="note">{NOT_RECORDED.capitalize()}: {escape(absent)}.</p>' if absent else ""
    # Inside a script element only "<" can end the data early.
    text = json.dumps(data, allow_nan=False).replace("<", "\\u003c")
    return (
        f'<section class="charts" aria-label="Charts">{"".join(places)}</section>{line}\n'
        f'<script type="application/json" id="figures">{text}</script>'
    )
