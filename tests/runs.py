"""Whole runs on the digits, small enough to take a second or two."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file

from app.config import compose, make

ROOT = Path(__file__).resolve().parents[1]
QUICK = ("task.clients=3", "task.examples=40", "client.epochs=1", "rounds=3", "checkpoint.every=0")
"""A run of about a second; what a test gives as well wins, because Hydra takes the last one."""
PARTLY = ("strategy=fedpart", "strategy.warmup=1", "strategy.rounds_per_layer=1", "rounds=6")
"""One full round, then each of the five groups once."""


@dataclass(frozen=True)
class Run:
    """What a run left."""

    folder: Path

    @property
    def rows(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.folder / "rounds.jsonl").read_text().splitlines()]

    @property
    def timeless(self) -> list[dict[str, Any]]:
        """The rows without times and memory: what must be the same when the run is played again."""
        measured = ("seconds", "memory")
        return [{name: row[name] for name in row if not name.startswith(measured)} for row in self.rows]

    @property
    def summary(self) -> dict[str, Any]:
        return json.loads((self.folder / "summary.json").read_text())

    @property
    def sha256(self) -> str:
        return self.summary["model_sha256"]

    @property
    def weights(self) -> dict[str, np.ndarray]:
        return load_file(self.folder / "model.safetensors")

    @property
    def files(self) -> set[str]:
        return {str(path.relative_to(self.folder)) for path in self.folder.rglob("*") if path.is_file()}


def recorded(folder: Path) -> int:
    """How many rounds are on disk, the initial model not counted."""
    file = folder / "rounds.jsonl"
    return file.read_text().count("\n") - 1 if file.exists() else -1


def merged(*overrides: str) -> list[str]:
    """QUICK and these overrides, each key once, the last value winning."""
    return list({override.split("=")[0].lstrip("+"): override for override in (*QUICK, *overrides)}.values())


def play(folder: Path, *overrides: str) -> Run:
    """Play QUICK with these overrides in this process, as `python -m app` does."""
    cfg = compose(merged(*overrides))
    folder.mkdir(parents=True, exist_ok=True)
    make(cfg, "runtime").run(cfg, folder)
    return Run(folder)


def command(folder: Path, *overrides: str) -> list[str]:
    """The command line of the same run in another process, which leaves its files in `folder`."""
    return [sys.executable, "-m", "app", f"hydra.run.dir='{folder}'", *merged(*overrides)]


def shell(arguments: list[str], cwd: Path, **env: str) -> subprocess.CompletedProcess[str]:
    """Run another process on this checkout's code."""
    return subprocess.run(arguments, cwd=cwd, env=environ(**env), capture_output=True, text=True, check=False)


def environ(**env: str) -> dict[str, str]:
    """An environment in which other processes import this checkout and find its interpreter's scripts."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    return {**os.environ, "PYTHONPATH": str(ROOT), "PATH": path, **env}
