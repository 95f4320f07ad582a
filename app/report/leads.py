"""What the page says at its top: a run, or several, in a sentence or two. All functions return HTML, escaped."""

from collections.abc import Callable, Sequence
from html import escape

from app.report.comparison import ACCURACY, BYTES_OF_DENSE, MACS_OF_DENSE, Column, Group, learners, reaching
from app.report.runs import Run
from app.units import NOT_RECORDED, percent, rate, size, unbroken

_BOTH = ("bytes_down", "bytes_up")


def lead(run: Run) -> str:
    """The run in one sentence, and what is missing where it did not finish."""
    warning = f'<p class="warn">{escape(unfinished(run))}</p>' if not run.finished else ""
    if run.best is None:
        return f'{warning}<p class="lead">{escape(run.strategy)} on {escape(run.task)}: accuracy {NOT_RECORDED}.</p>'
    sent = f"It sent {size(run.total(*_BOTH))} up and down"
    if (share := run.ratio(_BOTH, ("bytes_dense",))) is not None:
        up, work = run.ratio(("bytes_up",), ("bytes_dense_up",)), run.ratio(("macs",), ("macs_dense",))
        sent += (
            f", {percent(share)} of what dense full training sends in these rounds ({percent(up)} on the uplink), "
            f"with {percent(work)} of its multiply-accumulates"
        )
    last = run.rows[-1]["round"]
    best = f"best {rate(run.best_accuracy)}, first in round {run.best['round']}"
    reached = f"{escape(run.strategy)} reached accuracy {rate(run.accuracy)} after {last} rounds; {best}"
    return f'{warning}<p class="lead">{unbroken(f"{reached}. {sent}.{_sparse(run)}")}</p>'


def _sparse(run: Run) -> str:
    sparsity, agreement, change = run.last("sparsity_model"), run.mean("mask_iou"), run.last("kept_change")
    if sparsity is None:
        return ""
    agree = "" if agreement is None else f"; the clients' kept sets agree by {rate(agreement)} (mean IoU)"
    said = f" Of the model's prunable weights {percent(sparsity)} are zero{agree}."
    if sparsity and change is not None and (run.summary or {}).get("settled_round", "") is None:
        said += f" The set of kept weights never settled: at the end a round still changed {percent(change)} of it."
    return said


def unfinished(run: Run) -> str:
    """How far a run came that has no summary, in plain text."""
    last = f"after round {run.rows[-1]['round']}" if run.rows else "before the initial model was evaluated"
    return f"Unfinished: the run ended, or is still going, {last}." + (f" It says: {run.error}" if run.error else "")


def comparison_lead(runs: Sequence[Run], groups: Sequence[Group]) -> str:
    """Which setting came out best, at what share of dense full training; tasks are not ranked against each other."""
    tasks = list(dict.fromkeys(run.task for run in runs))
    folded = f" in {len(groups)} settings" if len(groups) < len(runs) else ""
    said = [f"{len(runs)} runs{folded}, in comparison."]
    done = [group for group in groups if group.finished]
    if len(done) > 1 and len(tasks) == 1:
        reach = reaching(groups)
        level, learned = learners(done)  # who learned nothing is no example of saving
        of = "" if len(learned) == len(done) else f" of those that reach {level:.2f}, half of the best"
        said += [
            _first("Most accurate at the end", done, ACCURACY, max),
            _first(f"Least sent{of}", learned, BYTES_OF_DENSE, min, " of dense full training"),
            _first(f"Least computed{of}", learned, MACS_OF_DENSE, min),
            _first(f"Fewest {reach.title}", done, reach, min) if reach else "",
        ]
    return f'<p class="lead">{escape(unbroken(" ".join(filter(None, said))))}</p>'


def _first(title: str, groups: Sequence[Group], column: Column, best: Callable[..., float], of: str = "") -> str:
    """The groups whose mean is the best as it is written, with that mean."""
    means = {group.name: mean for group in groups if (mean := column.mean(group)) is not None}
    if not means:
        return ""
    text = column.text(best(means.values()))
    names = [name for name, mean in means.items() if column.text(mean) == text]
    return f"{title}: {'all alike' if 1 < len(names) == len(groups) else ' and '.join(names)}, {text}{of}."
