"""Checkpoints: one file that holds all that a run needs to go on to the same bits.

The model is the file's arrays, beside those of the strategy's state and of what inline clients remember; its metadata
hold the rounds so far, the rest of that state, and the configuration. Everything else is a function of these: the
schedule and all random draws are keyed by the round.
"""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from omegaconf import DictConfig, OmegaConf

from app.config import ConfigError
from app.files import PART, whole
from app.sealed import read_sealed, save_sealed
from clients.weights import Weights

_FREE = (
    "resume", "rounds", "runtime", "checkpoint", "evaluation", "diagnostics", "loggers",
    "cohort.start_timeout", "cohort.round_timeout",
)  # fmt: skip
"""Keys that may differ between a checkpoint and the run that resumes it: they do not change the model's path.

`rounds` does where rates or pruning follow it.
"""
_SHOWN = 6
"""How many keys that differ are named."""
_KEPT = 2
"""How many checkpoints stay, so that there is one before a broken newest one."""
_STATE = "state/"
"""Before the names of the arrays beside the model's; no name of a model's array has a slash."""
FORMAT = 6
"""Grows whenever a checkpoint holds something else: other fields in a row, another state of a strategy."""


@dataclass(frozen=True)
class Checkpoint:
    """The model after the last of `rows`, and the strategy's own state, of JSON types and arrays.

    clients: what clients keep of their own, where that is in this process (`clients.memory.own_of_clients`).
    """

    weights: Weights
    rows: list[dict[str, Any]]
    strategy: dict[str, Any]
    clients: dict[str, Any] = field(default_factory=dict)

    @property
    def round(self) -> int:
        """The last round that is done."""
        return int(self.rows[-1]["round"])

    def weights_like(self, wanted: Weights, path: str) -> Weights:
        """The arrays of these names. Raises ConfigError, naming `path`, where the program now builds another model."""
        for name, array in wanted.items():
            found = self.weights.get(name)
            if found is None or (found.shape, found.dtype) != (array.shape, array.dtype):
                raise ConfigError(f"resume={path}: of another model ({name}: {_kind(found)} then, {_kind(array)} now)")
        return {name: self.weights[name] for name in wanted}


def _kind(array: NDArray[Any] | None) -> str:
    return "none" if array is None else f"{array.dtype} {list(array.shape)}"


def save(run_dir: Path, checkpoint: Checkpoint, cfg: DictConfig) -> Path:
    """Write a checkpoint so that a kill at any moment leaves either all of it or nothing."""
    folder = run_dir / "checkpoints"
    folder.mkdir(exist_ok=True)
    path = folder / f"round-{checkpoint.round:06d}.safetensors"
    config = json.dumps(OmegaConf.to_container(cfg, resolve=True))
    state, arrays = _without_arrays({"strategy": checkpoint.strategy, "clients": checkpoint.clients})
    arrays = {**checkpoint.weights, **arrays}
    texts = {"rows": json.dumps(checkpoint.rows), "state": state, "config": config}
    with whole(path) as beside:
        save_sealed(beside, FORMAT, arrays, texts)
    for old in sorted(folder.glob("round-*.safetensors"))[:-_KEPT]:
        old.unlink()
    return path


def forget_after(run_dir: Path, last_round: int) -> None:
    """Remove checkpoints of later rounds, and halves of any, which an earlier run left in the same directory."""
    for half in run_dir.glob(f"checkpoints/*{PART}"):
        half.unlink()
    for old in run_dir.glob("checkpoints/round-*.safetensors"):
        if int(old.stem.removeprefix("round-")) > last_round:
            old.unlink()


def run_of(resumed: Path) -> Path:
    """The run directory that `resume=` names, by itself or by a checkpoint in it."""
    return resumed if resumed.is_dir() else resumed.parent.parent


def newest_first(run_dir: Path) -> list[Path]:
    """A run's checkpoints."""
    return sorted(run_dir.glob("checkpoints/round-*.safetensors"), reverse=True)


def load(path: Path, cfg: DictConfig) -> Checkpoint:
    """The checkpoint at `path`, or the newest readable one of the run directory `path`.

    Raises ConfigError where there is none, or where it belongs to another configuration.
    """
    candidates = [path] if path.is_file() else newest_first(path)
    complaints = []
    for candidate in candidates:
        try:
            checkpoint, config = _read(candidate)
        except ValueError as error:
            complaints.append(f"{candidate.name}: {error}")
            continue
        _refuse_other(config, OmegaConf.to_container(cfg, resolve=True), candidate)
        return checkpoint
    if complaints:
        raise ConfigError(f"resume={path}: none of its checkpoints can be read ({'; '.join(complaints)})")
    found = f"no {path / 'checkpoints' / 'round-*.safetensors'}" if path.is_dir() else "no such file or folder"
    raise ConfigError(f"resume={path}: {found}; give a run's directory, or one of its checkpoints")


def _read(path: Path) -> tuple[Checkpoint, Any]:
    arrays, texts = read_sealed(path, FORMAT)
    weights = {name: array for name, array in arrays.items() if not name.startswith(_STATE)}
    checkpoint = Checkpoint(weights, json.loads(texts["rows"]), **_with_arrays(texts["state"], arrays))
    return checkpoint, json.loads(texts["config"])


def _without_arrays(state: dict[str, Any]) -> tuple[str, Weights]:
    """A state as JSON in which names stand for the arrays, and the arrays by these names."""
    arrays: Weights = {}

    def name_of(array: NDArray[Any]) -> dict[str, str]:
        if not isinstance(array, np.ndarray):
            raise TypeError(f"a {type(array).__name__} in a strategy's state: must be of JSON types or a NumPy array")
        name = f"{_STATE}{len(arrays)}"
        arrays[name] = array
        return {_STATE: name}

    return json.dumps(state, default=name_of), arrays


def _with_arrays(text: str, arrays: Weights) -> dict[str, Any]:
    """The inverse of `_without_arrays`."""
    state: dict[str, Any] = json.loads(text, object_hook=lambda node: arrays[node[_STATE]] if _STATE in node else node)
    return state


def _refuse_other(theirs: Any, ours: Any, path: Path) -> None:
    """Raise ConfigError naming every key that differs and matters."""
    then, now = _flat(theirs), _flat(ours)
    follows = now.get("client.final_lr") is not None or now.get("strategy.prune") == "at_end"
    free = [key for key in _FREE if not (key == "rounds" and follows)]
    different = [
        f"{key}: {then.get(key)} then, {now.get(key)} now"
        for key in sorted({*then, *now})
        if then.get(key) != now.get(key) and not any(key == name or key.startswith(f"{name}.") for name in free)
    ]
    if different:
        more = "" if len(different) <= _SHOWN else f"; and {len(different) - _SHOWN} more"
        said = "; ".join(different[:_SHOWN]) + more
        raise ConfigError(f"resume={path}: belongs to another configuration; give what it was started with ({said})")


def _flat(node: Any, prefix: str = "") -> dict[str, Any]:
    if not isinstance(node, dict):
        return {prefix: node}
    return {
        key: value
        for name, child in node.items()
        for key, value in _flat(child, f"{prefix}.{name}".lstrip(".")).items()
    }
