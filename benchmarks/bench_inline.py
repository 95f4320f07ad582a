"""Cost of the inline runtime over the training itself, in CPU time, and what workers and many clients change.

    A        ResNet-8 (7x7 stem), 20 clients, 5 a round, 500 examples each, batches of 50
    B        a 62,000-parameter network, 1,000 clients, 50 a round, one step of 20 examples each
    workers  wall time of A with two workers over one; two idle cores are needed
    clients  B's CPU time with 10,000 clients over that with 100, 10 a round
    memory   peak memory after 50 rounds of A, and of B, over that after 5; B's clients have their examples before

The floor of A and B is a plain loop over the same clients' batches with one model and one optimizer: no weights are
loaded, sent or averaged. Floor and federation take turns, round by round; the median of the ratios counts. Packing
the replies is told apart: bytes are counted as they would travel, so that they must be compressed without a network.
    python benchmarks/bench_inline.py [A|B|workers|clients|memory ...]
"""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from statistics import median
from typing import Any
from unittest.mock import patch

import torch
from flwr.app import ArrayRecord, ConfigRecord
from torch.nn import functional as F

from app import client_app
from app.building import build_strategy
from app.config import compose, make, to_yaml
from app.grids import InlineGrid
from app.players import Here
from app.workers import Workers
from clients import adapter
from clients.peak import peak_memory_mb
from clients.training import batches
from clients.weights import Weights
from clients.wire import Payload, pack
from strategies.roster import SimulatedRoster

COMMON = (
    "strategy=fedavg", "task=cifar10", "task.source._target_=noise.NoiseImages", "partition=draw", "task.flip=false",
    "task.rotation=0", "client.optimizer=sgd", "client.epochs=1", "rounds=1000",
)  # fmt: skip
A = ("task.clients=20", "cohort.fraction=0.25", "task.examples=500", "client.batch_size=50")
SMALL = ("task._target_=noise.SmallNetTask", "task.examples=20", "client.batch_size=20")
B = (*SMALL, "task.clients=1000", "cohort.fraction=0.05")


class Federation:
    """A run without its files and evaluations: rounds alone."""

    def __init__(self, *overrides: str, workers: int = 1) -> None:
        self.cfg = compose([*COMMON, *overrides])
        self.task = make(self.cfg, "task")
        run_config: dict[str, Any] = {"cfg-yaml": to_yaml(self.cfg), "overrides": ""}
        self.player = Here(client_app.app) if workers == 1 else Workers(workers, run_config)
        self.grid = InlineGrid(self.player, run_config)
        self.strategy = build_strategy(self.cfg, self.task, SimulatedRoster(self.task.clients))
        self.model = self.task.build_model(0).train()
        self.optimizer = make(self.cfg, "client").build_optimizer(list(self.model.parameters()), 1e-3)
        self.rounds = 0

    def round(self) -> None:
        """Play the next round."""
        self.rounds += 1
        orders = self.strategy.configure_train(self.rounds, ArrayRecord(), ConfigRecord(), self.grid)
        self.strategy.aggregate_train(self.rounds, self.grid.send_and_receive(orders, timeout=3600))
        if failed := self.strategy.report.failed:
            sys.exit(f"round {self.rounds}: {failed}")

    def floor(self) -> None:
        """The training of the last round's clients alone."""
        for partition in self.strategy.report.sampled:
            examples = self.task.client_examples(partition)
            for rows in batches(len(examples), self.cfg.client.batch_size):
                outputs = self.model(self.task.prepare(examples.inputs[rows]))
                loss = F.cross_entropy(outputs, examples.targets[rows])
                self.optimizer.zero_grad(set_to_none=True)
                loss.backward()
                self.optimizer.step()
                loss.item()

    def prepare(self) -> None:
        """Make the next round's examples, which both sides then find."""
        sampled = self.strategy.cohort.sample(self.rounds + 1, list(range(self.task.clients)))
        site = client_app._site(to_yaml(self.cfg), "")
        for task in (self.task, site.task):
            for partition in sampled:
                task.client_examples(partition)


@contextmanager
def federation(*overrides: str, workers: int = 1) -> Iterator[Federation]:
    """One that has played a round, for what is only done once."""
    made = Federation(*overrides, workers=workers)
    with closing(made.player):
        made.round()
        yield made


def seconds(work: Callable[[], None], clock: Callable[[], float] = time.process_time) -> float:
    """What `work` takes."""
    started = clock()
    work()
    return clock() - started


class Packing:
    """The clients' `pack`, and the CPU time that it has taken."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self, weights: Weights, **options: Any) -> Payload:
        """Pack, and take the time."""
        started = time.process_time()
        payload = pack(weights, **options)
        self.seconds += time.process_time() - started
        return payload


def over_floor(name: str, case: tuple[str, ...], rounds: int) -> None:
    """Print a federation's CPU time over that of its training."""
    with federation(*case) as made, patch.object(adapter, "pack", Packing()) as packing:
        made.floor()
        pairs = []
        for _ in range(rounds):
            made.prepare()
            pairs.append((seconds(made.round), seconds(made.floor)))
        clients = len(made.strategy.report.sampled)
    beyond = median(whole - floor for whole, floor in pairs) / clients * 1e3
    floor = median(floor for _, floor in pairs) / clients * 1e3
    ratio = median(whole / floor for whole, floor in pairs)
    packed = packing.seconds / rounds / clients * 1e3
    print(
        f"{name:8} {ratio:.3f} x the plain loop; {beyond:.2f} ms a client beyond its {floor:.2f} ms of training, "
        f"{packed:.2f} of them to pack its reply"
    )


def two_workers(rounds: int = 5) -> None:
    """Print the wall time of two workers over one."""
    even = "cohort.fraction=0.3"  # 6 clients a round: 5 cannot be halved
    with federation(*A, even) as one, federation(*A, even, workers=2) as two:
        pairs = [(seconds(two.round, time.perf_counter), seconds(one.round, time.perf_counter)) for _ in range(rounds)]
        same = all((two.strategy.weights[name] == array).all() for name, array in one.strategy.weights.items())
    if not same:
        sys.exit("two workers gave another model than one")
    print(f"workers  {median(two / one for two, one in pairs):.3f} x the wall time of one; the same model, bit for bit")


def many_clients(turns: int = 5, rounds: int = 8) -> None:
    """Print CPU time of a round with 10,000 clients over 100, and what the former add to the peak of memory."""

    def some_rounds(made: Federation) -> float:
        times = []
        for _ in range(rounds):
            made.prepare()  # which also builds anew what the other federation drove out of the process
            times.append(seconds(made.round))
        return median(times)

    with federation(*SMALL, "task.clients=100", "cohort.fraction=0.1") as few:
        some_rounds(few)
        before = peak_memory_mb() or float("nan")
        with federation(*SMALL, "task.clients=10000", "cohort.fraction=0.001") as many:
            ratio = median(some_rounds(many) / some_rounds(few) for _ in range(turns))
        memory = (peak_memory_mb() or float("nan")) / before
    print(f"clients  {ratio:.3f} x CPU, {memory:.3f} x memory: a round of 10 of 10,000 clients over 10 of 100")


def growth(name: str) -> None:
    """Print how a process's peak memory grows after the fifth round."""
    with federation(*{"A": A, "B": B}[name]) as made:
        examples = client_app._site(to_yaml(made.cfg), "").task
        for partition in range(made.task.clients):
            examples.client_examples(partition)
        peaks = []
        for _ in range(49):
            made.round()
            peaks.append(peak_memory_mb() or float("nan"))
    print(f"memory   {peaks[-1] / peaks[3]:.3f} x the peak of {peaks[3]:.0f} MB in round 5, after 50 rounds of {name}")


def main(cases: list[str]) -> None:
    """Run and print the cases."""
    torch.set_num_threads(1)
    for name in cases or ["A", "B", "workers", "clients", "memory"]:
        match name:
            case "A":
                over_floor("A", A, rounds=5)
            case "B":
                over_floor("B", B, rounds=20)
            case "workers":
                two_workers()
            case "clients":
                many_clients()
            case "memory":
                for case in ("A", "B"):  # a process each: a peak is never taken back
                    subprocess.run([sys.executable, __file__, f"memory {case}"], check=True)
            case "memory A" | "memory B":
                growth(name[-1])
            case _:
                sys.exit(f"{name}: must be one of A, B, workers, clients, memory")


if __name__ == "__main__":
    main(sys.argv[1:])
