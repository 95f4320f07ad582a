"""The words and tables of the page. All functions return HTML with every value escaped."""

import os
from collections.abc import Sequence
from html import escape
from pathlib import Path

from app.report.comparison import Column, Group
from app.report.leads import unfinished
from app.report.runs import Run
from app.report.summary import in_words, summary_rows
from app.units import NOT_RECORDED, macs, percent, rate, size, unbroken

_BOTH = ("bytes_down", "bytes_up")


def key_numbers(run: Run) -> str:
    """A row of the numbers that matter most."""
    best = f"best {rate(run.best_accuracy)}, round {run.best['round']}" if run.best else ""
    lost = int(run.total("failed", "rejected"))
    sampled = int(run.total("completed")) + lost
    numbers = (
        ("Accuracy", rate(run.accuracy), best),
        ("Bytes up and down", size(run.total(*_BOTH)), _of_dense(run.ratio(_BOTH, ("bytes_dense",)))),
        ("Bytes up", size(run.total("bytes_up")), _of_dense(run.ratio(("bytes_up",), ("bytes_dense_up",)))),
        ("Computation", macs(run.total("macs")), _of_dense(run.ratio(("macs",), ("macs_dense",)))),
        ("Client trainings", f"{int(run.total('completed')):,}", f"of {sampled:,}; {lost:,} failed or rejected"),
        ("Time", f"{run.total('seconds_round'):,.0f} s", f"{run.total('seconds_server'):,.1f} s of it the server's"),
    )
    items = (f'<div><dt>{k}</dt><dd>{v}</dd><dd class="more">{more}</dd></div>' for k, v, more in numbers)
    return f'<dl class="key">{"".join(items)}</dl>'


def _of_dense(ratio: float | None) -> str:
    return f"of dense: {NOT_RECORDED}" if ratio is None else f"{percent(ratio)} of dense"


def losses(runs: Sequence[Run]) -> str:
    """A table of the clients whose work was lost, and why; nothing where there are none."""
    several = len(runs) > 1
    names = _short_paths(runs)
    rows = [
        ([names[run.path]] if several else []) + [str(row["round"]), str(client), str(reason)]
        for run in runs
        for row in run.rows
        for client, reason in row["reasons"].items()
    ]
    if not rows:
        return ""
    head = (["run"] if several else []) + ["round", "client", "reason"]
    return f"<h2>Clients that failed or were rejected</h2>{_table(head, rows)}"


def run_table(run: Run) -> str:
    """All of the summary."""
    return f"<h2>Summary</h2>{_table(None, summary_rows(run))}"


def runs_table(runs: Sequence[Run]) -> str:
    """Each run with its seed and what its final model is."""
    head = ["run", "strategy", "seed", "final accuracy", "best, round", "sha256 of the model", "status"]
    rows, names = [], _short_paths(runs)
    for run in runs:
        best = f"{rate(run.best_accuracy)}, {run.best['round']}" if run.best else NOT_RECORDED
        status = "finished" if run.finished else unfinished(run)
        sha = in_words((run.summary or {}).get("model_sha256"))[:12]
        seed = in_words(run.config.get("seed"))
        rows.append([names[run.path], run.strategy, seed, rate(run.accuracy), best, sha, status])
    note = f'<p class="note">In {escape(str(_folder(runs)))}; the first 12 digits of each sha256.</p>'
    return f"<h2>Runs</h2>{note}{_table(head, rows)}"


def _folder(runs: Sequence[Run]) -> Path:
    return Path(os.path.commonpath([run.path.absolute().parent for run in runs]))


def _short_paths(runs: Sequence[Run]) -> dict[Path, str]:
    """Run directories as seen from the folder that holds them all."""
    return {run.path: str(run.path.absolute().relative_to(_folder(runs))) for run in runs}


def comparison_table(groups: Sequence[Group], columns: Sequence[Column]) -> str:
    """The comparison; a click on a head sorts by it."""
    heads = ["setting", "seeds", *(column.title for column in columns)]
    head = "".join(
        f'<th scope="col"{" class=number" if i > 1 else ""}><button type="button">{escape(h)}</button></th>'
        for i, h in enumerate(heads)
    )
    body = []
    for group in groups:
        cells = [f'<td data-value="{escape(text)}">{escape(text)}</td>' for text in (group.name, group.seeds)]
        for column in columns:
            mean = column.mean(group)
            value = "" if mean is None else repr(mean)
            text = escape(unbroken(column.cell(group)))
            shown = f'<span class="absent">{text}</span>' if mean is None else text
            cells.append(f'<td class="number" data-value="{value}">{shown}</td>')
        body.append(f"<tr>{''.join(cells)}</tr>")
    note = (
        "Means over the seeds, ± the sample standard deviation. Dense: the same messages and training, dense and full. "
        "Bytes to reach an accuracy: until the mean over the seeds is that high."
    )
    return (
        f'<p class="note">{note} Click a column\'s head to sort.</p><div class="scroll"><table class="compare">'
        f"<thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table></div>"
    )


def _table(head: Sequence[str] | None, rows: Sequence[Sequence[str]]) -> str:
    """A plain table; without a head the first cell of each row is its title."""
    first = "td" if head else 'th scope="row"'
    body = "".join(
        f"<tr><{first}>{escape(row[0])}</{first[:2]}>{''.join(f'<td>{escape(cell)}</td>' for cell in row[1:])}</tr>"
        for row in rows
    )
    heads = "".join(f'<th scope="col">{escape(title)}</th>' for title in head or ())
    top = f"<thead><tr>{heads}</tr></thead>" if head else ""
    return f'<div class="scroll"><table class="words">{top}<tbody>{body}</tbody></table></div>'
