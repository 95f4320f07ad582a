"""Playing a run over any grid: begin it, evaluate and record each round, conclude."""

import logging
import time
from pathlib import Path
from typing import Any

import torch
from flwr.app import ArrayRecord, RecordDict
from flwr.serverapp import Grid
from omegaconf import DictConfig

from app import checkpoint
from app.building import build_strategy
from app.checkpoint import Checkpoint
from app.config import ConfigError, make, plain
from app.console import LOG, RunConsole, closing_line
from app.grids import StreamingGrid
from app.keepsakes import carry_keepsakes
from app.loggers import check_loggers, open_loggers
from app.mismatch import add_steps, steps_before
from app.recall import recall
from app.run_record import REPORT, RunRecord
from clients.evaluation import evaluate
from clients.macs import not_counted
from clients.memory import own_of_clients
from clients.tasks.task import Examples, Task
from clients.weights import load_weights, not_finite
from strategies.cohort import RunFailed
from strategies.cost import RoundReport
from strategies.fedavg import FedAvgStrategy
from strategies.roster import DeviceRoster, Roster, SimulatedRoster


def serve(cfg: DictConfig, grid: Grid, run_dir: Path, runtime: str, memory: RecordDict | None = None) -> None:
    """Play the whole run over `grid` and leave its files in `run_dir`. Raises RunFailed if it cannot.

    memory: what clients remember, where it is in this process.
    """
    check_loggers(cfg.loggers)
    torch.set_num_threads(cfg.client.threads)
    logging.getLogger("flwr").setLevel(logging.WARNING)  # the run's own console says what happens
    task: Task = make(cfg, "task")
    done = checkpoint.load(Path(cfg.resume), cfg) if cfg.resume else None
    devices = runtime == "deployment"
    roster: Roster = DeviceRoster() if devices else SimulatedRoster(task.clients)
    strategy = build_strategy(cfg, task, roster, done)
    split, test = _read_data(task, devices)  # what the data forbid shows before any file is written
    record = _begin(cfg, run_dir, runtime, split, done)
    watch = RoundWatch(cfg, task, strategy, record, test, memory)
    try:
        if done is not None:
            recall(done, strategy, memory)
        strategy.start(
            StreamingGrid(grid, watch.console.reply),
            ArrayRecord(),  # the strategy itself keeps the model, by name and unpacked
            num_rounds=cfg.rounds - strategy.last_round,
            timeout=cfg.cohort.round_timeout,
            evaluate_fn=watch,
        )
    except RunFailed:
        watch(strategy.report.round, ArrayRecord())  # the round that ends a run is recorded too
        raise
    finally:
        watch.close()
    conclude(record, strategy)


def _begin(
    cfg: DictConfig, run_dir: Path, runtime: str, split: dict[str, Any] | None, done: Checkpoint | None
) -> RunRecord:
    """The record of a run that begins, with what is known of it already, or of one that goes on."""
    steps = steps_before(Path(cfg.resume), done.round) if done else ""
    record = RunRecord(run_dir, cfg, runtime, done.rows if done else (), steps)
    if split is not None:
        record.save_split(split)
    if done is not None:
        carry_keepsakes(Path(cfg.resume), run_dir)
    return record


def _read_data(task: Task, devices: bool) -> tuple[dict[str, Any] | None, Examples]:
    """How the training data are split, where devices do not have their own, and the test set."""
    try:
        return None if devices else task.split_statistics(), task.test_examples()
    except (OSError, ValueError) as error:
        raise ConfigError(str(error)) from None


class RoundWatch:
    """Evaluates and records each round; Flower calls it after every one, and with 0 before the first."""

    def __init__(
        self,
        cfg: DictConfig,
        task: Task,
        strategy: FedAvgStrategy,
        record: RunRecord,
        test: Examples,
        memory: RecordDict | None,
    ) -> None:
        self._cfg, self._task, self._strategy, self._record, self._test = cfg, task, strategy, record, test
        self._memory = memory
        self._model = task.build_model(cfg.seed).to(memory_format=torch.channels_last)
        self._loggers = open_loggers(cfg.loggers, record.run_dir, plain(cfg), record.rows)
        if unknown := not_counted(self._model):
            LOG.warning("multiply-accumulates leave out %s: convolutions, linear layers and attention are counted",
                        ", ".join(unknown))  # fmt: skip
        self.console = RunConsole(cfg.rounds)  # last, for whoever began it must close it
        self._clock = time.perf_counter()

    def close(self) -> None:
        """Nothing more will be shown or logged."""
        self.console.close()
        for logger in self._loggers:
            logger.close()

    def __call__(self, server_round: int, arrays: ArrayRecord) -> None:
        """Take down the round that is over; nothing for the start of a run that is resumed."""
        report, strategy = self._strategy.report, self._strategy
        if report.round < len(self._record.rows):
            return
        started = time.perf_counter()
        loss, accuracy = self._evaluate(report)
        now = time.perf_counter()
        report.seconds_server += now - started
        row = self._record.add(report, accuracy, loss, now - self._clock)
        self.console.round(row)
        for logger in self._loggers:
            logger.log(row)
        if report.steps:
            add_steps(self._record.run_dir, report, len(strategy.groups))
        every = self._cfg.checkpoint.every
        if every and report.round and (report.round % every == 0 or report.round == self._cfg.rounds):
            own = own_of_clients(self._memory) if self._memory is not None else {}
            state = Checkpoint(strategy.weights, self._record.rows, strategy.state(), own)
            checkpoint.save(self._record.run_dir, state, self._cfg)
        self._clock = time.perf_counter()

    def _evaluate(self, report: RoundReport) -> tuple[float, float] | tuple[None, None]:
        """Loss and accuracy of the global model, in the rounds in which they are asked for."""
        cfg = self._cfg
        if report.round % cfg.evaluation.every and report.round != cfg.rounds:
            return None, None
        load_weights(self._model, self._strategy.effective())
        return evaluate(self._model, self._task, self._test, cfg.evaluation.batch_size, cfg.batch_norm)


def conclude(record: RunRecord, strategy: FedAvgStrategy) -> None:
    """Write what stands at the end of a run. Raises RunFailed where the run did not do its work."""
    needed = strategy.cohort.min_clients
    if not any(row["completed"] >= needed for row in record.rows[1:]):
        first = next((f"client {p}: {reason}" for p, reason in record.rows[-1]["reasons"].items()), "nobody replied")
        raise RunFailed(f"no round had {needed} accepted replies; {first}")
    if strange := not_finite(strategy.weights):
        raise RunFailed(f"the final model is not finite: NaN or infinity in {strange}")
    summary = record.finish(strategy.weights, strategy.effective())
    print(closing_line(summary), f"report: {record.run_dir / REPORT}", sep="\n", flush=True)
