"""What a person sees while a run goes on: a line a round, and a bar where there is a terminal."""

import logging
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from app.units import percent, size

LOG = logging.getLogger("fedslice")


class _Lines(logging.Handler):
    """Prints what strategies and clients have to say, above the bar."""

    def __init__(self, console: Console) -> None:
        super().__init__()
        self._console = console

    def emit(self, record: logging.LogRecord) -> None:
        self._console.print(record.getMessage(), markup=False)


class RunConsole:
    """Prints one line for each round; in a terminal a bar below them counts rounds and replies."""

    def __init__(self, rounds: int) -> None:
        self.rounds = rounds
        self._replies = 0
        self._console = Console(highlight=False, soft_wrap=True)
        columns = (TextColumn("round"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[replies]} replies"))
        # A file or a pipe gets no bar, even where an environment such as a CI's asks for colours.
        live = self._console.file.isatty() and not self._console.is_dumb_terminal
        self._bar = Progress(*columns, console=self._console, transient=True, disable=not live)
        self._task = self._bar.add_task("rounds", total=rounds, replies=0)
        self._bar.start()
        self._handler = _Lines(self._console)
        LOG.addHandler(self._handler)
        self._log_as_before = (LOG.level, LOG.propagate)
        LOG.setLevel(logging.INFO)
        LOG.propagate = False

    def reply(self) -> None:
        """Count one client's reply."""
        self._replies += 1
        self._bar.update(self._task, replies=self._replies)

    def round(self, row: dict[str, Any]) -> None:
        """Print a round's line."""
        self._bar.update(self._task, completed=row["round"], replies=0)
        self._replies = 0
        self._console.print(round_line(row, self.rounds))

    def close(self) -> None:
        """Take the bar away, and leave the logger as it was."""
        self._bar.stop()
        LOG.removeHandler(self._handler)
        level, LOG.propagate = self._log_as_before
        LOG.setLevel(level)


def round_line(row: dict[str, Any], rounds: int) -> str:
    """One round in one line: what was trained, how good the model is, what it cost."""
    what = "initial model" if row["phase"] is None else "full"
    if row["phase"] == "partial":
        what = f"groups {','.join(map(str, row['groups']))}"
    parts = [f"round {row['round']:>{len(str(rounds))}}/{rounds}", f"{what:<13}"]
    if row["accuracy"] is not None:
        loss = "is no number" if row["loss"] is None else f"{row['loss']:.4f}"
        parts.append(f"accuracy {row['accuracy']:.4f}  loss {loss}")
    if row["sampled"]:
        parts.append(f"up {size(row['bytes_up']):>8}  down {size(row['bytes_down']):>8}")
    parts.append(f"{row['seconds_round']:.1f} s")
    memory = [(who, row.get(f"memory_{who}_mb")) for who in ("server", "client")]
    parts += [f"{who} {peak:.0f} MB" for who, peak in memory if peak is not None]
    lost = [f"{row[name]} {name}" for name in ("failed", "rejected") if row[name]]
    return "  ".join([*parts, *lost])


def closing_line(summary: dict[str, Any]) -> str:
    """What a run reached and what that cost, in one line."""
    down, up = size(summary["bytes_down_total"]), size(summary["bytes_up_total"])
    of_dense = [f"{percent(summary[name])} of dense" for name in ("ratio_bytes", "ratio_macs")]
    best = f"best accuracy {summary['best_accuracy']:.4f} in round {summary['best_round']}"
    return f"{best}; {up} up and {down} down, {of_dense[0]}; multiply-accumulates {of_dense[1]}"
