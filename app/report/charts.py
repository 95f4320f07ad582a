"""Charts of accuracy, loss and cost, the same for one run and for many. Plain plotly figures, as JSON knows them.

Colours are names of the style sheet's variables, so that one figure suits light, dark and paper. Lines differ by
dash and marker as well as by colour.
"""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from app.report.comparison import Group
from app.report.runs import Run, folded
from app.units import macs, size

Trace = dict[str, Any]

COLOURS = 7
"""Series colours that the style sheet has: --s0 to --s6."""

_RATES = ("accuracy", "rate")
_DASHES = ("solid", "dash", "dot", "dashdot", "longdash")
_MARKERS = ("circle", "square", "diamond", "triangle-up", "x", "cross")


@dataclass(frozen=True)
class Chart:
    """A figure with what stands above it: a title and a sentence that says how to read it.

    Without traces it is not drawn: what it would show was not recorded, and the page says so. wide: a row of its own.
    """

    title: str
    note: str
    traces: list[Trace]
    layout: dict[str, Any]
    wide: bool = False


def line(index: int, name: str, x: Sequence[float], y: Sequence[float | None], **more: Any) -> Trace:
    """A line that can be told from the others without colour; `name` is escaped, as plotly reads tags in it."""
    every = max(1, len(x) // 12)  # a marker on each point would hide the line
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": escape(name),
        "x": list(x),
        "y": list(y),
        "line": {"color": f"var(--s{index % COLOURS})", "dash": _DASHES[index % len(_DASHES)], "width": 2},
        "marker": {
            "symbol": _MARKERS[index % len(_MARKERS)],
            "opacity": 1,
            "line": {"width": 0},
            "size": [7 if i % every == 0 or i == len(x) - 1 else 0 for i in range(len(x))],
        },
        **more,
    }


def axes(x: str, y: str, **more: Any) -> dict[str, Any]:
    """A quiet layout with these axis titles."""
    axis = {"gridcolor": "var(--grid)", "zeroline": False, "automargin": True, "linecolor": "var(--grid)"}
    return {
        "xaxis": {**axis, "title": {"text": x}, "showgrid": False, "showline": True, "ticks": "outside"},
        # No rate is above 1, but an axis around a constant one would be.
        "yaxis": {
            **axis,
            "title": {"text": y, "standoff": 10},
            **({"autorangeoptions": {"clipmax": 1.02}} if y in _RATES else {}),
        },
        **more,
    }


def gap(columns: int) -> int:
    """Pixels between the cells of a map; on a phone, many columns would be nothing but gaps."""
    return 1 if columns <= 40 else 0


def shared_charts(groups: Sequence[Group]) -> list[Chart]:
    """Accuracy and loss against rounds, and accuracy against what it cost."""
    several = len(groups) > 1 or len(groups[0].runs) > 1
    folded = any(len(group.runs) > 1 for group in groups)
    band = " The line is the mean over the seeds, the band reaches from the lowest to the highest." if folded else ""
    loss = curves(groups, "round", "loss", str)
    if not several:
        run = groups[0].runs[0]
        loss = [{**trace, "name": "test loss"} for trace in loss]
        train = run.series("train_loss")
        loss.append(line(1, "training loss", list(train), list(train.values())))
    of_loss = "" if several else " The training loss is the clients' mean, before their replies are merged."
    sent = axes("bytes sent, up and down", "accuracy")
    sent["xaxis"] |= {"tickformat": "~s", "ticksuffix": "B"}
    work = axes("multiply-accumulates of local training", "accuracy")
    work["xaxis"] |= {"tickformat": "~s"}
    return [
        Chart("Accuracy", f"Of the global model on the test data, after each round.{band}",
              curves(groups, "round", "accuracy", str), axes("round", "accuracy")),
        Chart("Loss", f"Of the global model on the test data.{of_loss}{band}", loss, axes("round", "loss")),
        Chart("Accuracy for bytes sent", "Further left is cheaper: all messages up and down so far, as serialised.",
              curves(groups, "cost_bytes", "accuracy", size), sent),
        Chart("Accuracy for computation", "All clients' local training so far, at the real freezing and densities.",
              curves(groups, "cost_macs", "accuracy", macs), work),
    ]  # fmt: skip


def round_lines(groups: Sequence[Group], value: Callable[[Run], dict[int, float]]) -> list[Trace]:
    """A line for each group: the mean of a value over its runs, round by round."""
    traces = []
    for index, group in enumerate(groups):
        points = folded([value(run) for run in group.runs])
        traces.append(line(index, group.name, list(points), [statistics.fmean(v) for v in points.values()]))
    return traces


def curves(groups: Sequence[Group], x: str, y: str, text: Callable[[float], str]) -> list[Trace]:
    """A line for each group, within a band from lowest to highest where it has several runs."""
    traces: list[Trace] = []
    for index, group in enumerate(groups):
        ys = folded([run.series(y) for run in group.runs])
        if not ys:
            continue
        xs = {r: statistics.fmean(run.series(x)[r] for run in group.runs) for r in ys}
        if len(group.runs) > 1:
            traces += _band(index, list(xs.values()), list(ys.values()), f"group{index}")
        where = [f"round {r}" if x == "round" else f"round {r}, {text(xs[r])}" for r in xs]
        means = [statistics.fmean(values) for values in ys.values()]
        traces.append(line(index, group.name, list(xs.values()), means, legendgroup=f"group{index}",
                           text=where, hovertemplate="%{text}: <b>%{y:.4~g}</b>"))  # fmt: skip
    return traces


def _band(index: int, x: list[float], values: Sequence[Sequence[float]], legend_group: str) -> list[Trace]:
    """Two lines that are not seen, and the area between them."""
    edge = {
        "type": "scatter", "mode": "lines", "x": x, "line": {"width": 0}, "hoverinfo": "skip",
        "showlegend": False, "legendgroup": legend_group,
    }  # fmt: skip
    low, high = [min(v) for v in values], [max(v) for v in values]
    return [
        {**edge, "y": low},
        {**edge, "y": high, "fill": "tonexty", "fillcolor": f"var(--s{index % COLOURS}-soft)"},
    ]
