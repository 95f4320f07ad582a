"""What a sweep leaves where none of its runs could be played: nothing."""

from pathlib import Path
from typing import Any

from hydra.experimental.callback import Callback
from omegaconf import DictConfig

_OWN = "multirun.yaml"  # written by Hydra before it looks at the runs
_folders: list[Path] = []


class SweepFolder(Callback):
    """Takes down where a sweep puts its runs; Hydra tells nobody else when their configuration is at fault."""

    def on_multirun_start(self, config: DictConfig, **kwargs: Any) -> None:
        """See `Callback.on_multirun_start`."""
        _folders.append(Path(config.hydra.sweep.dir).absolute())


def tidy() -> None:
    """Remove the folders of sweeps that are over and have no runs."""
    while _folders:
        folder = _folders.pop()
        if folder.is_dir() and [path.name for path in folder.iterdir()] == [_OWN]:
            (folder / _OWN).unlink()
            folder.rmdir()
