"""A run's summary in words: every entry of summary.json, called by what it is rather than by its key."""

import json
from typing import Any

from app.report.runs import Run
from app.units import NOT_RECORDED

_TITLES = {
    "batch_norm": "batch normalisation",
    "accuracy": "final accuracy",
    "loss": "final loss",
    "best_round": "best accuracy, first in round",
    "bytes_down_total": "bytes down",
    "bytes_up_total": "bytes up",
    "bytes_dense_total": "bytes up and down, dense and full",
    "bytes_dense_up_total": "bytes up, dense and full",
    "macs_total": "multiply-accumulates",
    "macs_dense_total": "multiply-accumulates, dense and full",
    "completed_total": "client trainings that completed",
    "failed_total": "client trainings that failed",
    "rejected_total": "client trainings that were rejected",
    "seconds_round_total": "seconds of all rounds",
    "seconds_server_total": "seconds of the server's work",
    "seconds_train_total": "seconds of local training, sum over clients",
    "ratio_bytes": "share of dense: bytes up and down",
    "ratio_bytes_down": "share of dense: bytes down",
    "ratio_bytes_up": "share of dense: bytes up",
    "ratio_macs": "share of dense: multiply-accumulates",
    "sparsity_model": "sparsity of the final model",
    "densities": "density by layer",
    "mean_mask_iou": "agreement of kept sets, mean IoU",
    "mean_regrowth": "regrowth, mean over rounds",
    "settled_round": "kept set settled in round",
    "step_ratio_full": "step after averaging over step before, full rounds",
    "step_ratio_partial": "step after averaging over step before, partial rounds",
    "model_sha256": "sha256 of the model",
}
"""Keys that say little by themselves; the others are read as they are, without underscores."""


def summary_rows(run: Run) -> list[list[str]]:
    """Title and value of each entry, and where and with which seed the run was made."""
    about: dict[str, Any] = {"run directory": str(run.path), **(run.summary or {"status": "unfinished"})}
    about["model_sha256"] = about.pop("model_sha256", None)  # last, but for the seed
    about["seed"] = run.config.get("seed")
    if about.get("settled_round", "") is None and run.series("kept_change"):
        about["settled_round"] = f"not within {run.rows[-1]['round']} rounds"
    return [[_TITLES.get(key, key.replace("_", " ")), _entry(key, value)] for key, value in about.items()]


def in_words(value: Any) -> str:
    """A value as it is, but null in words and nested ones in one line."""
    if value is None:
        return NOT_RECORDED
    if isinstance(value, dict):
        return ", ".join(f"{name} {in_words(inner)}" for name, inner in value.items())
    if isinstance(value, float):
        return f"{value:.6g}"
    return value if isinstance(value, str) else json.dumps(value)


def _entry(key: str, value: Any) -> str:
    return f"{value:,}" if key.endswith("_total") and isinstance(value, int) else in_words(value)
