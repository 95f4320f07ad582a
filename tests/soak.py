"""A federation in which clients fail, send NaN or are late, by a draw that is the same in every run.

As a program it plays many rounds of it and compares with the same run without those clients:
    python -m tests.soak [rounds]
"""

import random
import sys
import tempfile
from collections import Counter
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar
from unittest.mock import patch

import numpy as np
from flwr.app import Message

from app.grids import InlineGrid
from clients.messages import PLAN, model_record, read_reply, reply_content
from clients.wire import pack
from strategies.cohort import Cohort
from tests.runs import play
from tests.tiny import COSTS, failure

SHARES = {"fails": 0.10, "nan": 0.05, "slow": 0.05}
SOAK = ("task.clients=10", "task.examples=6", "client.batch_size=6", "strategy.warmup=1", "strategy.full_between=1")


def fate(server_round, partition):
    """What happens to a client in a round."""
    draw = random.Random(f"{server_round} {partition}").random()
    for name, share in SHARES.items():
        if draw < share:
            return name
        draw -= share
    return "honest"


class Clock:
    """Stands for the time that a grid waits: it passes only when nobody answers."""

    def __init__(self):
        self.now = 0.0

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        self.now += 3600


class FaultyGrid(InlineGrid):
    """Plays each client's fate; a slow one's reply comes when the next round has begun."""

    fates: ClassVar[Counter] = Counter()
    resident: ClassVar[list[float]] = []
    """Megabytes held at the start of each round."""

    def push_messages(self, messages):
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        self.resident.append(pages * 4096 / 1e6)
        self._late = [InlineGrid._answer(self, message) for message in self._pending.values()]
        self._pending.clear()
        return super().push_messages(messages)

    def pull_messages(self, message_ids):
        if self._late:
            return [self._late.pop()]
        return super().pull_messages([i for i in message_ids if self._fate(self._pending.get(i)) != "slow"])

    def _fate(self, message):
        if message is None:
            return "answered"
        plan = message.content.config_records[PLAN]
        return fate(plan["round"], plan["partition"])

    def _answer(self, message):
        kind = self._fate(message)
        self.fates[kind] += 1
        if kind == "fails":
            return failure(message)
        reply = super()._answer(message)
        if kind == "nan":
            weights = read_reply(reply.content).weights
            ruined = {name: np.full_like(a, np.nan) if a.dtype.kind == "f" else a for name, a in weights.items()}
            return Message(reply_content(model_record(pack(ruined)), 6, COSTS), reply_to=message)
        return reply


@contextmanager
def faults():
    """Runs within have faulty clients."""
    FaultyGrid.fates.clear()
    FaultyGrid.resident.clear()
    with patch("app.inline.InlineGrid", FaultyGrid), patch("app.grids.time", Clock()):
        yield


@contextmanager
def left_out():
    """Runs within never ask the clients that would be faulty."""
    sample = Cohort.sample

    def honest(self, server_round, partitions):
        return [p for p in sample(self, server_round, partitions) if fate(server_round, p) == "honest"]

    with patch.object(Cohort, "sample", honest):
        yield


def main(rounds):
    """Print what happened, the memory, and both hashes; 1 where the runs differ or the memory grew."""
    overrides = (*SOAK, f"rounds={rounds}", "evaluation.every=50", "checkpoint.every=50")
    with tempfile.TemporaryDirectory() as folder:
        with faults():
            run = play(Path(folder) / "faulty", *overrides)
        with left_out():
            other = play(Path(folder) / "left out", *overrides)
        same = run.sha256 == other.sha256
        counted = {name: run.summary[f"{name}_total"] for name in ("completed", "failed", "rejected")}
    resident, tenth = FaultyGrid.resident, max(1, rounds // 10)
    grown = resident[-1] - resident[tenth]
    print(f"{rounds} rounds: {counted}, {dict(FaultyGrid.fates)}; equal to the run without those clients: {same}")
    print(f"MB resident every {tenth} rounds:", *(f"{mb:.1f}" for mb in resident[::tenth]))
    print(f"from a tenth of the rounds to the end: {grown:+.1f} MB")
    return 0 if same and grown < 20 else 1


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 500))
