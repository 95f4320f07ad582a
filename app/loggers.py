"""Where a run's rounds go besides rounds.jsonl: CSV, TensorBoard, MLflow, Weights & Biases, by the key `loggers`.

A logger is a class with `log` and `close`; a new one is a class and a line in `LOGGERS`. The packages behind them are
imported when they are asked for. MLflow and Weights & Biases are set up by their own environment variables
(MLFLOW_TRACKING_URI, WANDB_PROJECT, WANDB_MODE, ...).
"""

import csv
import json
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, Protocol

from app.config import ConfigError

Row = dict[str, Any]


class Logger(Protocol):
    """Takes rounds as they end."""

    def log(self, row: Row) -> None:
        """Take down a round, a line of rounds.jsonl."""

    def close(self) -> None:
        """The run is over."""


class CsvLogger:
    """`rounds.csv`: a line a round, flushed as it ends; lists and mappings are JSON, null is empty."""

    def __init__(self, run_dir: Path, config: dict[str, Any]) -> None:
        self._file = (run_dir / "rounds.csv").open("w", newline="", encoding="utf-8")
        self._writer: csv.DictWriter[str] | None = None

    def log(self, row: Row) -> None:
        """See `Logger`."""
        if self._writer is None:
            self._writer = csv.DictWriter(self._file, list(row))
            self._writer.writeheader()
        self._writer.writerow({k: json.dumps(v) if isinstance(v, list | dict) else v for k, v in row.items()})
        self._file.flush()

    def close(self) -> None:
        """See `Logger`."""
        self._file.close()


class TensorBoardLogger:
    """Event files in the run's folder `tensorboard`."""

    def __init__(self, run_dir: Path, config: dict[str, Any]) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self._writer: Any = SummaryWriter(str(run_dir / "tensorboard"))
        self._writer.add_text("config", f"```\n{json.dumps(config, indent=2)}\n```")

    def log(self, row: Row) -> None:
        """See `Logger`."""
        for name, value in measures(row).items():
            self._writer.add_scalar(name, value, row["round"])
        self._writer.flush()

    def close(self) -> None:
        """See `Logger`."""
        self._writer.close()


class MlflowLogger:
    """A run of MLflow, named after the run's folder."""

    def __init__(self, run_dir: Path, config: dict[str, Any]) -> None:
        import mlflow

        self._mlflow = mlflow
        mlflow.start_run(run_name=run_dir.name)
        mlflow.log_dict(config, "config.json")

    def log(self, row: Row) -> None:
        """See `Logger`."""
        self._mlflow.log_metrics(measures(row), step=row["round"])

    def close(self) -> None:
        """See `Logger`."""
        self._mlflow.end_run()


class WandbLogger:
    """A run of Weights & Biases, named after the run's folder."""

    def __init__(self, run_dir: Path, config: dict[str, Any]) -> None:
        import wandb

        self._run = wandb.init(name=run_dir.name, dir=str(run_dir), config=config)

    def log(self, row: Row) -> None:
        """See `Logger`."""
        self._run.log(measures(row), step=row["round"])

    def close(self) -> None:
        """See `Logger`."""
        self._run.finish()


LOGGERS: Final[dict[str, tuple[type, str | None]]] = {
    "csv": (CsvLogger, None),
    "tensorboard": (TensorBoardLogger, "tensorboard"),
    "mlflow": (MlflowLogger, "mlflow"),
    "wandb": (WandbLogger, "wandb"),
}
"""Names to classes, and the packages that they need; an extra of the project has the same name as its package."""


def measures(row: Row) -> dict[str, float]:
    """The numbers of a round; what is null was not measured."""
    numbers = {name: value for name, value in row.items() if isinstance(value, int | float)}
    return {name: float(value) for name, value in numbers.items() if name != "round"}


def check_loggers(names: Sequence[str]) -> None:
    """Refuse loggers whose package is not installed, naming the extra that brings it."""
    for name in names:
        package = LOGGERS[name][1]
        if package and find_spec(package) is None:
            raise ConfigError(f"loggers={list(names)}: {name} needs a package; pip install 'fedslice[{name}]'")


def open_loggers(names: Sequence[str], run_dir: Path, config: dict[str, Any], rows: Sequence[Row]) -> list[Logger]:
    """The loggers of these names, which have taken the rounds so far (of a run that is resumed)."""
    loggers: list[Logger] = [LOGGERS[name][0](run_dir, config) for name in dict.fromkeys(names)]
    for row in rows:
        for logger in loggers:
            logger.log(row)
    return loggers
