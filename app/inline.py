"""The inline runtime: the whole federation in this process."""

from pathlib import Path

from omegaconf import DictConfig

from app import checkpoint, client_app
from app.config import to_yaml
from app.grids import InlineGrid
from app.serve import serve
from clients.memory import Memory


class InlineRuntime:
    """All clients one after another; no Ray, no other process. Fastest for small models, easiest to debug."""

    def run(self, cfg: DictConfig, run_dir: Path) -> None:
        """Play the run that `cfg` describes; raises RunFailed where it did not do its work."""
        grid = InlineGrid(client_app.app, {"cfg-yaml": to_yaml(cfg), "overrides": "", "run-dir": str(run_dir)})
        if cfg.resume:  # the simulated devices still hold what they held when the checkpoint was made
            done = checkpoint.load(Path(cfg.resume), cfg)
            Memory(grid.context.state).remember(done.round + 1, done.weights)
        serve(cfg, grid, run_dir, "inline")
