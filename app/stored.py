"""A finished run's configuration, task and model, read back from its directory."""

from dataclasses import dataclass
from pathlib import Path

from omegaconf import DictConfig, OmegaConf
from safetensors import SafetensorError
from safetensors.numpy import load_file
from torch import nn

from app.config import ConfigError, check, make
from clients.tasks.task import Task
from clients.weights import load_weights


@dataclass(frozen=True)
class StoredRun:
    """What a run was configured as, and the model that it ended with."""

    cfg: DictConfig
    task: Task
    model: nn.Module


def load_run(run_dir: Path) -> StoredRun:
    """A finished run. Raises ConfigError where there is none."""
    try:
        cfg = check(OmegaConf.load(run_dir / "config.yaml"))  # type: ignore[arg-type]
        theta = run_dir / "theta.safetensors"  # what the model computes with, where it is not what is stored
        weights = load_file(theta if theta.is_file() else run_dir / "model.safetensors")
    except FileNotFoundError as error:
        raise ConfigError(f"{run_dir}: not a finished run; it has no {Path(error.filename).name}") from None
    except (OSError, SafetensorError) as error:
        raise ConfigError(f"{run_dir}: does not read as a finished run ({error})") from None
    task: Task = make(cfg, "task")
    model = task.build_model(cfg.seed)
    load_weights(model, weights)
    return StoredRun(cfg, task, model)
