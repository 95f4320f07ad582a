"""The inline runtime: the whole federation in this process."""

from pathlib import Path

from omegaconf import DictConfig

from app import client_app
from app.config import to_yaml
from app.grids import InlineGrid
from app.server_app import serve


class InlineRuntime:
    """All clients one after another; no Ray, no other process. Fastest for small models, easiest to debug."""

    def run(self, cfg: DictConfig, run_dir: Path) -> None:
        """Play the run that `cfg` describes; raises RunFailed where it did not do its work."""
        grid = InlineGrid(client_app.app, {"cfg-yaml": to_yaml(cfg), "overrides": "", "run-dir": str(run_dir)})
        serve(cfg, grid, run_dir, "inline")
