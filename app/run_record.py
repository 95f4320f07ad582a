"""What a run leaves behind, written as it happens: rounds.jsonl, and at the end summary.json and the model."""

import json
import math
import platform
from collections.abc import Sequence
from hashlib import sha256
from importlib import metadata
from pathlib import Path
from typing import Any

from omegaconf import DictConfig
from safetensors.numpy import save_file

from app import checkpoint
from app.config import to_yaml
from app.files import append_line, whole, write_text
from app.mismatch import STEPS_FILE, step_ratios
from app.report import write_report
from clients.peak import peak_memory_mb
from clients.weights import Weights
from strategies.cost import RoundReport

Row = dict[str, Any]
REPORT = "report.html"

_OF_ONE_RUN = (
    "summary.json", "error.txt", "model.safetensors", "theta.safetensors", REPORT, "rounds.csv",
)  # fmt: skip

_SPARSE = ("sparsity_down", "sparsity_up", "sparsity_model", "mask_iou", "regrowth", "kept_change", "densities")
"""Fields of sparse strategies: null where no weights are pruned."""
_SETTLED = 0.01
"""A kept set that changes by less than this share from one round to the next has settled."""


class RunRecord:
    """Writes a run's files into `run_dir`; `rows` are all rounds so far, round 0 being the initial model.

    rows, steps: those of the rounds before, and their file of step sizes, where the run is resumed.
    """

    def __init__(self, run_dir: Path, cfg: DictConfig, runtime: str, rows: Sequence[Row] = (), steps: str = "") -> None:
        self.run_dir = run_dir
        self.cfg = cfg
        self.runtime = runtime
        self.rows = list(rows)
        run_dir.mkdir(parents=True, exist_ok=True)
        write_text(run_dir / "config.yaml", to_yaml(cfg))
        done = self.rows[-1]["round"] if self.rows else -1
        checkpoint.forget_after(run_dir, done)
        for name in _OF_ONE_RUN:  # of an earlier run here: a summary's presence means success
            (run_dir / name).unlink(missing_ok=True)
        if steps:
            write_text(run_dir / STEPS_FILE, steps)
        else:
            (run_dir / STEPS_FILE).unlink(missing_ok=True)
        write_text(run_dir / "rounds.jsonl", "".join(json.dumps(row) + "\n" for row in self.rows))

    def save_split(self, statistics: dict[str, Any]) -> None:
        """Write how the training data are split among the clients."""
        write_text(self.run_dir / "split.json", json.dumps(statistics) + "\n")

    def add(self, report: RoundReport, accuracy: float | None, loss: float | None, seconds: float) -> Row:
        """Append a round and flush it to the disk."""
        row = self._row(report, accuracy, loss, seconds)
        append_line(self.run_dir / "rounds.jsonl", json.dumps(row))
        self.rows.append(row)
        return row

    def _row(self, report: RoundReport, accuracy: float | None, loss: float | None, seconds: float) -> Row:
        """A line of rounds.jsonl."""
        before = self.rows[-1] if self.rows else {"bytes_down_total": 0, "bytes_up_total": 0}
        return {
            "round": report.round,
            "phase": report.phase if report.round else None,
            "groups": list(report.groups),
            "accuracy": accuracy,
            "loss": loss if loss is not None and math.isfinite(loss) else None,  # JSON has no NaN
            "train_loss": report.train_loss,
            "sampled": list(report.sampled),
            "completed": len(report.completed),
            "failed": len(report.failed),
            "rejected": len(report.rejected),
            "reasons": {str(p): reason for p, reason in sorted({**report.failed, **report.rejected}.items())},
            "bytes_down": report.bytes_down,
            "bytes_up": report.bytes_up,
            "bytes_down_total": before["bytes_down_total"] + report.bytes_down,
            "bytes_up_total": before["bytes_up_total"] + report.bytes_up,
            "bytes_dense": report.bytes_dense,
            "bytes_dense_up": report.bytes_dense_up,
            "macs": report.macs,
            "macs_dense": report.macs_dense,
            **{name: getattr(report, name) for name in _SPARSE},
            "seconds_round": seconds,
            "seconds_server": report.seconds_server,
            "seconds_train": report.seconds_train,
            "memory_server_mb": _rounded(peak_memory_mb()),
            "memory_client_mb": _rounded(report.memory_client),
        }

    def finish(self, weights: Weights, effective: Weights) -> dict[str, Any]:
        """Write the model, the report and, last of all, the summary: whoever finds it has everything.

        effective: what the model computes with; written too, as theta.safetensors, where it is something else.
        """
        files = {"model.safetensors": weights} | ({} if effective is weights else {"theta.safetensors": effective})
        for name, arrays in files.items():
            with whole(self.run_dir / name) as beside:
                save_file(dict(arrays), beside)
        results, model = {**self._results(), **step_ratios(self.run_dir)}, self.run_dir / "model.safetensors"
        summary = {**self._identity(), **results, "model_sha256": sha256(model.read_bytes()).hexdigest()}
        write_report([self.run_dir], self.run_dir / REPORT, summary)
        write_text(self.run_dir / "summary.json", json.dumps(summary, indent=2) + "\n")
        return summary

    def _identity(self) -> dict[str, Any]:
        """What was run, and with what."""
        packages = ("fedslice", "flwr", "torch", "numpy")
        local = self.cfg.batch_norm == "local"
        return {
            "strategy": self.cfg.strategy.get("name") or str(self.cfg.strategy._target_).split(".")[-2],  # its file's
            "task": self.cfg.task.name,
            "seed": self.cfg.seed,
            "runtime": self.runtime,
            "batch_norm": self.cfg.batch_norm,
            "evaluated_with": "statistics of the test inputs" if local else "averaged running statistics",
            "versions": {"python": platform.python_version(), **{name: _version(name) for name in packages}},
        }

    def _results(self) -> dict[str, Any]:
        """Accuracy reached, totals, and ratios to dense full training."""
        rounds = self.rows[1:]
        evaluated = [row for row in self.rows if row["accuracy"] is not None]
        best = max(evaluated, key=lambda row: float(row["accuracy"]), default=None)
        total = {name: sum(row[name] for row in rounds) for name in _SUMMED}
        dense_down = total["bytes_dense"] - total["bytes_dense_up"]
        return {
            "rounds": self.rows[-1]["round"],
            "accuracy": self.rows[-1]["accuracy"],
            "loss": self.rows[-1]["loss"],
            "best_accuracy": best and best["accuracy"],
            "best_round": best and best["round"],
            **{f"{name}_total": value for name, value in total.items()},
            "ratio_bytes": _ratio(total["bytes_down"] + total["bytes_up"], total["bytes_dense"]),
            "ratio_bytes_down": _ratio(total["bytes_down"], dense_down),
            "ratio_bytes_up": _ratio(total["bytes_up"], total["bytes_dense_up"]),
            "ratio_macs": _ratio(total["macs"], total["macs_dense"]),
            **_sparse_results(rounds),
        }


_SUMMED = (
    "bytes_down", "bytes_up", "bytes_dense", "bytes_dense_up", "macs", "macs_dense",
    "completed", "failed", "rejected", "seconds_round", "seconds_server", "seconds_train",
)  # fmt: skip


def _sparse_results(rounds: Sequence[Row]) -> dict[str, Any]:
    """Sparsity at the end, means over the rounds, and the round from which a sparse model's kept set had settled."""
    means = {name: [row[name] for row in rounds if row[name] is not None] for name in ("mask_iou", "regrowth")}
    settled = None
    for row in reversed(rounds):
        if not row["sparsity_model"] or row["kept_change"] is None or row["kept_change"] >= _SETTLED:
            break
        settled = row["round"]
    return {
        **{name: rounds[-1][name] if rounds else None for name in ("sparsity_model", "densities")},
        **{f"mean_{name}": sum(values) / len(values) if values else None for name, values in means.items()},
        "settled_round": settled,
    }


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole else None


def _rounded(megabytes: float | None) -> float | None:
    return None if megabytes is None else round(megabytes, 1)


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
