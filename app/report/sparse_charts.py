"""Charts of sparse strategies: how sparse, how far clients agree, what regrows, and where the weights are kept."""

import math
from collections.abc import Sequence
from html import escape
from typing import Any

from app.report.charts import Chart, Trace, axes, curves, gap, line
from app.report.comparison import Group
from app.report.runs import Run
from app.units import NOT_RECORDED

_SPARSITY = {
    "sparsity_down": "as sent to clients",
    "sparsity_up": "replies, mean",
    "sparsity_model": "global model",
}
_OVERLAYS = {
    "sparsity_model": ("Sparsity of the global model", "Share of zeros among the prunable weights."),
    "mask_iou": (
        "Agreement of kept sets",
        "Mean over all pairs of clients: kept by both, as a share of kept by either.",
    ),
    "regrowth": ("Regrowth", "Sparsity that averaging loses: the replies' mean minus that of the global model."),
    "kept_change": ("Change of the kept set", "One minus the IoU of the global model's kept sets, before and after."),
}
_LEAST = 1e-4
"""Densities below are drawn in one colour, as a logarithm has no place for none at all; hovering tells them."""


def sparse_charts(run: Run) -> list[Chart]:
    """Sparsity, agreement, regrowth and densities of one run, round by round."""
    series = {name: run.series(name) for name in _SPARSITY}
    traces = [line(i, _SPARSITY[name], list(s), list(s.values())) for i, (name, s) in enumerate(series.items()) if s]
    absent = ", ".join(_SPARSITY[name] for name, points in series.items() if not points)
    note = "Share of zeros among the prunable weights." + f" {NOT_RECORDED.capitalize()}: {absent}." * bool(absent)
    alone = [Group(run.strategy, (run,))]
    return [
        Chart("Sparsity", note, traces, axes("round", "rate")),
        *(_overlay(alone, name) for name in _OVERLAYS if name != "sparsity_model"),
        density_map(run),
    ]


def sparse_overlays(groups: Sequence[Group]) -> list[Chart]:
    """The same of several groups of runs, each measure in a chart of its own."""
    return [_overlay(groups, name) for name in _OVERLAYS]


def density_map(run: Run, title: str = "Density by layer") -> Chart:
    """Round by pruned weight: the share that the global model keeps, in a colour for its logarithm."""
    rows = [row for row in run.rows if row.get("densities")]
    names = list(dict.fromkeys(name for row in rows for name in row["densities"]))
    shares = [[row["densities"].get(name) for row in rows] for name in names]  # (weights, rounds)
    levels = [[None if s is None else math.log10(max(s, _LEAST)) for s in at] for at in shares]
    lowest = math.floor(min((level for at in levels for level in at if level is not None), default=-1.0))
    ticks = list(range(min(lowest, -1), 1))
    trace: Trace = {
        "type": "heatmap", "x": [row["round"] for row in rows], "z": levels, "customdata": shares,
        "y": [escape(name.removesuffix(".weight")) for name in names],
        "zmin": ticks[0], "zmax": 0, "colorscale": [[0, "var(--full)"], [0.5, "var(--s5)"], [1, "var(--s0)"]],
        "colorbar": _bar(ticks), "xgap": gap(len(rows)), "ygap": 1, "hoverongaps": False,
        "hovertemplate": "round %{x}, %{y}: <b>%{customdata:.4~%}</b> kept<extra></extra>",
    }  # fmt: skip
    layout = axes("round", "", height=min(640, 150 + 18 * len(names)), margin={"l": 56, "r": 10, "t": 50, "b": 44})
    layout["yaxis"] |= {"autorange": "reversed", "showgrid": False, "type": "category"}
    note = (
        "Share of each pruned weight that the global model keeps; the colour is its logarithm, empty is not recorded."
    )
    return Chart(title, note, [trace] if rows else [], layout, wide=True)


def _overlay(groups: Sequence[Group], name: str) -> Chart:
    """One measure of several groups, with a logarithmic axis where it spans more than a decade."""
    title, note = _OVERLAYS[name]
    traces = curves(groups, "round", name, str)
    absent = [group.name for group in groups if not all(run.series(name) for run in group.runs)]
    if traces and absent:
        note += f" {NOT_RECORDED.capitalize()} for: {', '.join(absent)}."
    layout = axes("round", "rate")
    values = [value for trace in traces for value in trace["y"]]
    if values and min(values) > 0 and max(values) > 10 * min(values):
        layout["yaxis"] |= {"type": "log", "dtick": "D2", "tickformat": "~g"}
    return Chart(title, note, traces, layout)


def _bar(ticks: Sequence[int]) -> dict[str, Any]:
    """A colour bar above the map, where it takes no width from a narrow page."""
    return {
        "orientation": "h", "x": 0, "xanchor": "left", "y": 1, "yanchor": "bottom", "lenmode": "pixels", "len": 200,
        "thickness": 8, "outlinewidth": 0, "tickangle": 0, "tickvals": ticks,
        "ticktext": [f"{'≤ ' * (10.0**tick <= _LEAST)}{100 * 10.0**tick:g}{' %' * (tick == 0)}" for tick in ticks],
    }  # fmt: skip
