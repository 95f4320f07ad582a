"""What stands in conf/: its groups, their choices, and the sections that they fill."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from hydra import compose, initialize_config_dir
from omegaconf import DictConfig, OmegaConf, open_dict

CONF = Path(__file__).resolve().parent.parent / "conf"
HYDRA_VERSION_BASE = "1.3"


def with_choices(overrides: Sequence[str]) -> tuple[DictConfig, dict[str, str | None]]:
    """The configuration that these overrides give, and the choice of each group. Raises what Hydra raises."""
    with initialize_config_dir(str(CONF), version_base=HYDRA_VERSION_BASE):
        cfg = compose("config", list(overrides), return_hydra_config=True)
    choices = dict(cfg.hydra.runtime.choices)
    with open_dict(cfg):
        del cfg["hydra"]
    return cfg, choices


@cache
def groups() -> dict[str, list[str]]:
    """The configuration groups and their choices."""
    folders = (folder for folder in sorted(CONF.iterdir()) if folder.is_dir() and list(folder.glob("*.yaml")))
    return {folder.name: sorted(file.stem for file in folder.glob("*.yaml")) for folder in folders}


@cache
def sections() -> list[str]:
    """The keys at the root of the configuration under which others stand."""
    root: Any = OmegaConf.to_container(OmegaConf.load(CONF / "config.yaml"))
    own = [str(name) for name, node in root.items() if isinstance(node, dict) and name != "hydra"]
    return sorted({*own, *(name for name in groups() if not overlays(name))})


def overlays(group: str) -> bool:
    """Whether a group's choices set keys anywhere, instead of a section of their own."""
    return any("@package _global_" in file.read_text() for file in (CONF / group).glob("*.yaml"))
