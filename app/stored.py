"""A finished run's configuration, task and model, read back from its directory."""

from dataclasses import dataclass
from pathlib import Path

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from safetensors.numpy import load_file
from torch import nn
from yaml import YAMLError  # type: ignore[import-untyped]  # OmegaConf lets it through

from app.config import ConfigError, check, make
from clients.tasks.damage import damaged
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
    theta = run_dir / "theta.safetensors"  # what the model computes with, where it is not what is stored
    try:
        cfg = check(OmegaConf.load(run_dir / "config.yaml"))  # type: ignore[arg-type]
        task: Task = make(cfg, "task")
        model = task.build_model(cfg.seed)
        read_weights(model, theta if theta.is_file() else run_dir / "model.safetensors")
    except FileNotFoundError as error:
        raise ConfigError(f"{run_dir}: not a finished run; it has no {Path(error.filename).name}") from None
    except (OSError, ValueError, YAMLError, OmegaConfBaseException) as error:
        raise ConfigError(f"{run_dir}: does not read as a finished run ({' '.join(str(error).split())})") from None
    return StoredRun(cfg, task, model)


def read_weights(model: nn.Module, file: Path) -> None:
    """Load a safetensors file into the model. Raises FileNotFoundError, else ValueError that begins with the file."""
    try:
        load_weights(model, load_file(file))
    except FileNotFoundError as error:  # safetensors' own does not say which
        raise FileNotFoundError(error.errno, "no such file", str(file)) from None
    except Exception as error:  # of safetensors and NumPy
        raise damaged(str(file), "weights of this model", error) from error
