"""The simulation runtime: the same run in Flower's simulation, over a SuperLink that lives as long as the run."""

import tempfile
from importlib.util import find_spec
from pathlib import Path

from omegaconf import DictConfig

from app.config import ConfigError, to_yaml
from app.flower import flwr_run, superlink
from app.keepsakes import FOLDER, IN_RUN
from app.server_app import ERROR_FILE, REFUSED
from strategies.cohort import RunFailed

_MOST_NODES = 100


class SimulationRuntime:
    """Flower's simulation with Ray workers.

    nodes: virtual nodes, each of which may play any client; None for as many as clients, at most 100.
    cpus_per_client: CPUs that one worker holds.
    """

    def __init__(self, nodes: int | None = None, cpus_per_client: int = 1) -> None:
        if nodes is not None and nodes < 1:
            raise ValueError(f"nodes={nodes}: must be at least 1")
        if cpus_per_client < 1:
            raise ValueError(f"cpus_per_client={cpus_per_client}: must be at least 1")
        self.nodes = nodes
        self.cpus_per_client = cpus_per_client

    def run(self, cfg: DictConfig, run_dir: Path) -> None:
        """Play the run that `cfg` describes; raises RunFailed or, where no round was played, ConfigError."""
        if find_spec("ray") is None:
            raise ConfigError("runtime=simulation: needs Ray; pip install 'fedslice[simulation]', or runtime=inline")
        nodes = self.nodes or min(cfg.task.clients, _MOST_NODES)
        options = f"num-supernodes={nodes} client-resources-num-cpus={self.cpus_per_client}"
        for name in (ERROR_FILE, "summary.json"):
            (run_dir / name).unlink(missing_ok=True)
        with tempfile.TemporaryDirectory(prefix="fedslice-") as folder:
            home = Path(folder)
            with superlink(home, "--simulation", variables={FOLDER: str(run_dir / IN_RUN)}):
                run_config = {"cfg-yaml": to_yaml(cfg), "run-dir": str(run_dir)}
                status = flwr_run(home, run_config, "--federation-config", options)
        error = run_dir / ERROR_FILE
        if error.is_file():
            line = error.read_text()
            if line.endswith(REFUSED):
                error.unlink()  # as in any runtime, nothing is left of a run that never was
                raise ConfigError(line.removesuffix(REFUSED).strip())
            raise RunFailed(line.strip())
        if status != "finished:completed" or not (run_dir / "summary.json").is_file():
            raise RunFailed(f"Flower's run ended as {status} without a summary; see its output above")
