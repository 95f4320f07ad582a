"""A federation in which clients fail, send NaN or are late, by a draw that is the same in every run.

As a program it plays many rounds of it and compares with the same run without those clients:
    python -m tests.soak [rounds]
"""

import random
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar
from unittest.mock import patch

import numpy as np

from app.players import Here
from clients.messages import PLAN
from clients.numpy_client import FederatedClient
from strategies.cohort import Cohort
from tests.runs import play

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


class FaultyPlayer(Here):
    """Never answers for clients that are too slow."""

    resident: ClassVar[list[float]] = []
    """Megabytes held at each message."""

    def take(self, message, context):
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        self.resident.append(pages * 4096 / 1e6)
        plan = message.content.config_records[PLAN]
        if fate(plan["round"], plan["partition"]) != "slow":
            super().take(message, context)


@contextmanager
def faults():
    """Runs within have faulty clients."""
    honest = FederatedClient.fit

    def fit(self, parameters, config):
        kind = fate(config["round"], self.partition)
        if kind == "fails":
            raise MemoryError("out of memory")
        arrays, examples, metrics = honest(self, parameters, config)
        if kind == "nan":
            arrays = [np.full_like(array, np.nan) if array.dtype.kind == "f" else array for array in arrays]
        return arrays, examples, metrics

    FaultyPlayer.resident.clear()
    with (
        patch("app.inline.Here", FaultyPlayer),
        patch("app.grids.time", Clock()),
        patch.object(FederatedClient, "fit", fit),
    ):
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
    resident, tenth = FaultyPlayer.resident, max(1, len(FaultyPlayer.resident) // 10)
    grown = resident[-1] - resident[tenth]
    print(f"{rounds} rounds: {counted}; equal to the run without those clients: {same}")
    print(f"MB resident every {tenth} messages:", *(f"{mb:.1f}" for mb in resident[::tenth]))
    print(f"from a tenth of the way to the end: {grown:+.1f} MB")
    return 0 if same and grown < 20 else 1


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 500))
