"""Evidence for layer mismatch (FedPart, Figure 1): the size of every local step, where it was recorded."""

import json
from typing import Any

from app.mismatch import STEPS_FILE
from app.report.charts import Chart, Trace, axes, line
from app.report.runs import Run


def step_chart(run: Run) -> Chart:
    """Step sizes by layer group, over rounds; no traces where they were not recorded."""
    path = run.path / STEPS_FILE
    rows = [json.loads(text) for text in path.read_text().splitlines()] if path.is_file() else []
    groups = sorted({group for row in rows for group in row["groups"]})
    layout = axes("round: models are averaged at whole numbers", "size of the step")
    layout["yaxis"] |= {"type": "log"}
    note = (
        "Norm of the parameters' change in each local iteration, mean over clients. A jump just after a whole number "
        "is the sign of layers that do not fit each other after averaging; an optimizer that starts afresh, as Adam "
        "does here, begins with larger steps of its own, in full and partial rounds alike."
    )
    traces = [_trace(rows, group) for group in groups]
    return Chart("Size of local steps by layer group", note, traces, layout, wide=True)


def _trace(rows: list[dict[str, Any]], group: int) -> Trace:
    """One group's line, interrupted where it was frozen."""
    x: list[float] = []
    y: list[float | None] = []
    for row in rows:
        if group not in row["groups"]:
            x.append(row["round"])
            y.append(None)
            continue
        column, count = row["groups"].index(group), len(row["sizes"])
        x += [row["round"] - 1 + (at + 0.5) / count for at in range(count)]
        y += [sizes[column] for sizes in row["sizes"]]
    return line(group, f"group {group}", x, y)
