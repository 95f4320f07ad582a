"""The inline runtime: the whole federation in this process, or in this one and a few workers."""

from contextlib import closing
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from app import client_app
from app.config import to_yaml
from app.grids import InlineGrid
from app.players import Here, Player
from app.serve import serve
from app.workers import Workers


class InlineRuntime:
    """No Ray, no Flower programs. Fastest for small models, easiest to debug.

    workers: 1 plays all clients one after another in this process; more play so many side by side in processes of
    their own, to the same bits.
    """

    def __init__(self, workers: int = 1) -> None:
        if workers < 1:
            raise ValueError(f"workers={workers}: must be at least 1")
        self.workers = workers

    def run(self, cfg: DictConfig, run_dir: Path) -> None:
        """Play the run that `cfg` describes; raises RunFailed where it did not do its work."""
        run_config: dict[str, Any] = {"cfg-yaml": to_yaml(cfg), "overrides": "", "run-dir": str(run_dir)}
        player: Player = Here(client_app.app) if self.workers == 1 else Workers(self.workers, run_config)
        with closing(player):
            grid = InlineGrid(player, run_config)
            serve(cfg, grid, run_dir, "inline", grid.context.state)
