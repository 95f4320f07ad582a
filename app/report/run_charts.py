"""Charts of what happened inside a run: slices, bytes, clients, seconds and, where recorded, sparsity."""

from collections.abc import Sequence
from typing import Any

from app.report.charts import Chart, Trace, axes, line, round_lines
from app.report.comparison import NOT_RECORDED, Group
from app.report.runs import Row, Run
from app.report.step_charts import step_charts

SPARSE = {
    "sparsity_down": "sparsity as sent to clients",
    "sparsity_up": "sparsity of replies, mean",
    "sparsity_model": "sparsity of the global model",
    "mask_iou": "overlap of the clients' kept sets (mean IoU)",
    "regrowth": "regrowth (sparsity of replies - of the model)",
}
"""Fields that only sparse strategies record."""


def run_charts(run: Run) -> list[Chart]:
    """Everything that is drawn for a run of its own."""
    rows = [row for row in run.rows if row["round"] > 0]
    charts = [strip(run, "Slices trained"), _bytes(rows), _clients(rows), _seconds(rows), *step_charts(run)]
    recorded = {name: series for name in SPARSE if (series := run.series(name))}
    if recorded:
        traces = [line(i, SPARSE[name], list(s), list(s.values())) for i, (name, s) in enumerate(recorded.items())]
        absent = ", ".join(SPARSE[name] for name in SPARSE if name not in recorded)
        note = "Over the prunable weights, as shares of them." + (
            f" {NOT_RECORDED.capitalize()}: {absent}." * bool(absent)
        )
        charts.append(Chart("Sparsity", note, traces, axes("round", "rate")))
    return charts


def group_charts(groups: Sequence[Group]) -> list[Chart]:
    """What several groups of runs did, side by side; sparsity only where some run recorded it."""
    per_round = axes("round", "bytes", hovermode="x unified")
    per_round["yaxis"] |= {"tickformat": "~s", "ticksuffix": "B", "rangemode": "tozero"}
    seconds = axes("round", "seconds", hovermode="x unified")
    seconds["yaxis"] |= {"rangemode": "tozero"}
    charts = [
        Chart("Bytes per round", "Up and down together; mean over the seeds.", round_lines(groups, _sent), per_round),
        Chart("Seconds per round", "Wall clock; mean over the seeds.",
              round_lines(groups, lambda run: _after_start(run, "seconds_round")), seconds),
    ]  # fmt: skip
    for name, title in SPARSE.items():
        having = [group for group in groups if all(run.series(name) for run in group.runs)]
        if having:
            traces = [t for t in round_lines(groups, lambda run, name=name: run.series(name)) if t["x"]]  # type: ignore[misc]
            note = f"{NOT_RECORDED.capitalize()} for: {', '.join(g.name for g in groups if g not in having) or 'none'}."
            charts.append(Chart(title[0].upper() + title[1:], note, traces, axes("round", "rate")))
    partial = [group for group in groups if any(row["groups"] for row in group.runs[0].rows)]
    return charts + [strip(group.runs[0], f"Slices trained: {group.name}") for group in partial]


def strip(run: Run, title: str) -> Chart:
    """Round by layer group: which groups were trained; a full round fills its column."""
    rows = [row for row in run.rows if row["round"] > 0]
    count = 1 + max((index for row in rows for index in row["groups"]), default=0)
    partial = any(row["phase"] == "partial" for row in rows)

    def state(row: Row, index: int) -> int | None:
        if row["phase"] != "partial":
            return 1
        return 2 if index in row["groups"] else None

    gap = 1 if len(rows) <= 120 else 0  # thinner columns would be all gap
    trace: Trace = {
        "type": "heatmap", "x": [row["round"] for row in rows], "y": list(range(count)),
        "z": [[state(row, index) for row in rows] for index in range(count)],
        "colorscale": [[0, "var(--full)"], [1, "var(--s0)"]], "zmin": 1, "zmax": 2, "showscale": False,
        "xgap": gap, "ygap": gap, "hoverongaps": False,
        "text": [[("full model", "this group only")[row["phase"] == "partial"] for row in rows]] * count,
        "hovertemplate": "round %{x}, group %{y}: %{text}<extra></extra>",
    }  # fmt: skip
    layout = axes("round", "layer group" if partial else "")
    layout["yaxis"] |= {"autorange": "reversed", "dtick": max(1, count // 10), "showgrid": False, "tick0": 0}
    layout["yaxis"] |= {} if partial else {"showticklabels": False}
    layout["height"] = min(420, max(110 if not partial else 150, 90 + 16 * count))
    note = "Every round trained the full model."
    if partial:
        note = (
            "Shallow groups on top. Light full columns: rounds of the full model; strong cells: rounds of these groups "
            "only. Groups deeper than these, if there are any, were trained in full rounds alone."
        )
    return Chart(title, note, [trace], layout)


def _bytes(rows: Sequence[Row]) -> Chart:
    """Stacked bars of what was sent, and the dense weight of the same messages."""
    x = [row["round"] for row in rows]
    traces = [
        _bars(0, "up", x, [row["bytes_up"] for row in rows], ""),
        _bars(4, "down", x, [row["bytes_down"] for row in rows], "/"),
        line(3, "dense and full", x, [row["bytes_dense"] for row in rows]),
    ]
    layout = axes("round", "bytes", barmode="stack", hovermode="x unified")
    layout["yaxis"] |= {"tickformat": "~s", "ticksuffix": "B", "rangemode": "tozero"}
    note = "As serialised, indexes and headers included; the line is what the same messages would weigh dense and full."
    return Chart("Bytes per round", note, traces, layout)


def _clients(rows: Sequence[Row]) -> Chart:
    """Stacked bars of what became of the sampled clients."""
    x = [row["round"] for row in rows]
    kinds = (("completed", 0, ""), ("failed", 1, "x"), ("rejected", 3, "/"))
    traces = [_bars(colour, name, x, [row[name] for row in rows], pattern) for name, colour, pattern in kinds]
    layout = axes("round", "clients", barmode="stack", hovermode="x unified")
    layout["yaxis"] |= {"rangemode": "tozero"}
    return Chart("Clients per round", "Failed: no usable answer. Rejected: an answer that was refused.", traces, layout)


def _seconds(rows: Sequence[Row]) -> Chart:
    """Where the time of a round went."""
    x = [row["round"] for row in rows]
    kinds = {"seconds_round": "wall clock", "seconds_train": "local training", "seconds_server": "server"}
    traces = [line(i, name, x, [row[key] for row in rows]) for i, (key, name) in enumerate(kinds.items())]
    layout = axes("round", "seconds", hovermode="x unified")
    layout["yaxis"] |= {"rangemode": "tozero"}
    note = "Local training is the sum over the clients, which is above wall clock where they work side by side."
    return Chart("Seconds per round", note, traces, layout)


def _bars(colour: int, name: str, x: list[int], y: list[float], pattern: str) -> Trace:
    """Bars told apart by pattern as well as by colour."""
    marker: dict[str, Any] = {"color": f"var(--s{colour})"}
    if pattern:
        marker["pattern"] = {
            "shape": pattern,
            "size": 6,
            "solidity": 0.3,
            "fgcolor": "var(--paper)",
            "fillmode": "overlay",
        }
    return {"type": "bar", "name": name, "x": x, "y": y, "marker": marker}


def _after_start(run: Run, name: str) -> dict[int, float]:
    return {r: value for r, value in run.series(name).items() if r > 0}


def _sent(run: Run) -> dict[int, float]:
    up, down = run.series("bytes_up"), run.series("bytes_down")
    return {r: up[r] + down[r] for r in up if r > 0}
