"""Charts of what happened inside a run: slices, bytes, clients, seconds, memory and, where recorded, sparsity."""

from collections.abc import Sequence
from typing import Any

from app.report.charts import Chart, Trace, axes, gap, line, round_lines
from app.report.comparison import Group
from app.report.runs import Row, Run
from app.report.sparse_charts import density_map, sparse_charts, sparse_overlays
from app.report.step_charts import step_chart


def run_charts(run: Run) -> list[Chart]:
    """Everything that is drawn for a run of its own."""
    rows = [row for row in run.rows if row["round"] > 0]
    return [
        strip(run, "Slices trained"),
        _bytes(rows),
        _seconds(rows),
        *sparse_charts(run),
        step_chart(run),
        _clients(rows),
        _memory(run),
    ]


def group_charts(groups: Sequence[Group]) -> list[Chart]:
    """What several groups of runs did, side by side; maps of slices and densities for the first seed of each."""
    per_round = axes("round", "bytes", hovermode="x unified")
    per_round["yaxis"] |= {"tickformat": "~s", "ticksuffix": "B", "rangemode": "tozero"}
    seconds = axes("round", "seconds", hovermode="x unified")
    seconds["yaxis"] |= {"rangemode": "tozero"}
    charts = [
        Chart("Bytes per round", "Up and down together; mean over the seeds.", round_lines(groups, _sent), per_round),
        Chart("Seconds per round", "Wall clock; mean over the seeds.",
              round_lines(groups, lambda run: _after_start(run, "seconds_round")), seconds),
    ]  # fmt: skip
    partial = [group for group in groups if any(row["groups"] for row in group.runs[0].rows)]
    sparse = [group for group in groups if any(row.get("densities") for row in group.runs[0].rows)]
    return [
        *charts,
        *sparse_overlays(groups),
        *(strip(group.runs[0], f"Slices trained: {group.name}") for group in partial),
        *(density_map(group.runs[0], f"Density by layer: {group.name}") for group in sparse),
    ]


def strip(run: Run, title: str) -> Chart:
    """Round by layer group: which groups were trained; a full round fills its column."""
    rows = [row for row in run.rows if row["round"] > 0]
    count = 1 + max((index for row in rows for index in row["groups"]), default=0)
    partial = any(row["phase"] == "partial" for row in rows)

    def state(row: Row, index: int) -> int | None:
        if row["phase"] != "partial":
            return 1
        return 2 if index in row["groups"] else None

    trace: Trace = {
        "type": "heatmap", "x": [row["round"] for row in rows], "y": list(range(count)),
        "z": [[state(row, index) for row in rows] for index in range(count)],
        "colorscale": [[0, "var(--full)"], [1, "var(--s0)"]], "zmin": 1, "zmax": 2, "showscale": False,
        "xgap": gap(len(rows)), "ygap": gap(len(rows)), "hoverongaps": False,
        "text": [[("full model", "this group only")[row["phase"] == "partial"] for row in rows]] * count,
        "hovertemplate": "round %{x}, group %{y}: %{text}<extra></extra>",
    }  # fmt: skip
    layout = axes("round", "layer group" if partial else "")
    layout["yaxis"] |= {"autorange": "reversed", "dtick": max(1, count // 10), "showgrid": False, "tick0": 0}
    layout["yaxis"] |= {} if partial else {"showticklabels": False, "ticks": ""}
    layout["height"] = min(420, max(110 if not partial else 150, 90 + 16 * count))
    note = "Every round trained the full model."
    if partial:
        note = (
            "Shallow groups on top. Light full columns: rounds of the full model; strong cells: rounds of these groups "
            "only. Groups deeper than these, if there are any, were trained in full rounds alone."
        )
    return Chart(title, note, [trace], layout, wide=True)


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
    traces.append(line(6, "sampled", x, [len(row["sampled"]) for row in rows]))
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


def _memory(run: Run) -> Chart:
    """The most memory that processes have held so far."""
    kinds = {"memory_server_mb": "server", "memory_client_mb": "clients, the largest"}
    traces = [
        line(i, name, list(s), list(s.values()))
        for i, (key, name) in enumerate(kinds.items())
        if (s := run.series(key))
    ]
    layout = axes("round", "MB", hovermode="x unified")
    layout["yaxis"] |= {"rangemode": "tozero"}
    note = (
        "The most that a process has held so far. Where clients run in the server's process, they are one and the same."
    )
    return Chart("Peak memory", note, traces, layout)


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
