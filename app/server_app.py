"""Flower's ServerApp: builds the run from its configuration, and records what it does."""

import logging
import time
from datetime import datetime
from pathlib import Path

import torch
from flwr.app import ArrayRecord, Context, MetricRecord
from flwr.serverapp import Grid, ServerApp
from flwr.superlink.grid.inmemory_grid import InMemoryGrid
from omegaconf import DictConfig

from app import checkpoint
from app.checkpoint import Checkpoint
from app.config import ConfigError, from_run_config, make, plain
from app.console import RunConsole, closing_line
from app.grids import StreamingGrid
from app.mismatch import add_steps
from app.report import write_report
from app.run_record import RunRecord
from clients.evaluation import evaluate
from clients.numpy_client import shared
from clients.tasks.task import Task
from clients.weights import load_weights, not_finite, weights_of
from strategies.cohort import Cohort, RunFailed
from strategies.fedavg import FedAvgStrategy
from strategies.roster import DeviceRoster, Roster, SimulatedRoster

app = ServerApp()

ERROR_FILE = "error.txt"
"""Holds the one line that says why a run failed."""


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Entry point of `flwr run`: in Flower's simulation, or over a SuperLink with SuperNodes."""
    started = datetime.now().astimezone()
    run_dir = Path(str(context.run_config.get("run-dir") or f"outputs/{started:%Y-%m-%d}/{started:%H-%M-%S}"))
    run_dir = run_dir.absolute()
    simulated = isinstance(grid, InMemoryGrid)
    try:
        serve(from_run_config(context.run_config), grid, run_dir, "simulation" if simulated else "deployment")
    except (ConfigError, RunFailed, ValueError) as error:
        run_dir.mkdir(parents=True, exist_ok=True)
        (run_dir / ERROR_FILE).write_text(f"{error}\n")
        print(f"fedslice: {error}", flush=True)
        raise


def serve(cfg: DictConfig, grid: Grid, run_dir: Path, runtime: str) -> None:
    """Play the whole run over `grid` and leave its files in `run_dir`. Raises RunFailed if it cannot."""
    torch.set_num_threads(cfg.client.threads)
    logging.getLogger("flwr").setLevel(logging.WARNING)  # the run's own console says what happens
    task: Task = make(cfg, "task")
    model = task.build_model(cfg.seed)
    done = checkpoint.load(Path(cfg.resume), cfg) if cfg.resume else None
    if done is not None:
        load_weights(model, done.weights)
    devices = runtime == "deployment"
    roster: Roster = DeviceRoster(cfg.cohort.start_timeout) if devices else SimulatedRoster(task.clients)
    strategy = build_strategy(cfg, task, roster, done)
    split = None if devices else task.split_statistics()
    test = task.test_examples()
    console = RunConsole(cfg.rounds)
    record = RunRecord(run_dir, cfg, runtime, done.rows if done else ())
    if split is not None:
        record.save_split(split)
    clock = time.perf_counter()

    def after_round(server_round: int, arrays: ArrayRecord) -> MetricRecord | None:
        """Evaluate and record; Flower calls it with 0 before the first round."""
        nonlocal clock
        if done is not None and server_round == 0:
            return None
        report, started = strategy.report, time.perf_counter()
        accuracy = loss = None
        if report.round % cfg.evaluation.every == 0 or report.round == cfg.rounds:
            load_weights(model, strategy.weights)
            loss, accuracy = evaluate(model, task, test, cfg.evaluation.batch_size, cfg.batch_norm)
        now = time.perf_counter()
        report.seconds_server += now - started
        console.round(record.add(report, accuracy, loss, now - clock))
        if report.steps:
            add_steps(run_dir, report, len(strategy.groups))
        if cfg.checkpoint.every and report.round and report.round % cfg.checkpoint.every == 0:
            checkpoint.save(run_dir, Checkpoint(strategy.weights, record.rows, strategy.state()), cfg)
        clock = time.perf_counter()
        return None

    try:
        strategy.start(
            StreamingGrid(grid, console.reply),
            ArrayRecord(),  # the strategy itself keeps the model, by name and unpacked
            num_rounds=cfg.rounds - strategy.last_round,
            timeout=cfg.cohort.round_timeout,
            evaluate_fn=after_round,
        )
    finally:
        console.close()
    _check_work(record, cfg.cohort.min_clients)
    if strange := not_finite(strategy.weights):
        raise RunFailed(f"the final model is not finite: NaN or infinity in {strange}")
    summary = record.finish(strategy.weights)
    write_report([run_dir], run_dir / "report.html")
    print(closing_line(summary), f"report: {run_dir / 'report.html'}", sep="\n", flush=True)


def _check_work(record: RunRecord, needed: int) -> None:
    """Raise RunFailed where no round had enough accepted replies, however few rounds there were."""
    if any(row["completed"] >= needed for row in record.rows[1:]):
        return
    first = next((f"client {p}: {reason}" for p, reason in record.rows[-1]["reasons"].items()), "nobody replied")
    raise RunFailed(f"no round had {needed} accepted replies; {first}")


def build_strategy(cfg: DictConfig, task: Task, roster: Roster, done: Checkpoint | None = None) -> FedAvgStrategy:
    """The strategy that the configuration names, with the initial model or a checkpoint's."""
    model = task.build_model(cfg.seed)
    weights = weights_of(model, set(shared(model, cfg.batch_norm)))
    if done is not None:
        if done.round >= cfg.rounds:
            raise ConfigError(f"rounds={cfg.rounds}: must be above {done.round}, which the checkpoint has reached")
        weights = {name: done.weights[name] for name in weights}
    cohort: Cohort = make(cfg, "cohort")
    if isinstance(roster, SimulatedRoster) and cohort.min_clients > roster.clients:
        raise ConfigError(f"cohort.min_clients={cohort.min_clients}: must be at most {roster.clients}, task.clients")
    strategy: FedAvgStrategy = make(
        cfg, "strategy", weights=weights, roster=roster, cohort=cohort,
        learning_rate=cfg.client.lr, last_round=done.round if done else 0,
        downlink=cfg.downlink,
        groups=plain(cfg.groups),
        diagnostics=cfg.diagnostics,
    )  # fmt: skip
    if done is not None:
        strategy.restore(done.strategy)
    return strategy
