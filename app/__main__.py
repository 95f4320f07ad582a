"""The command line: python -m app [overrides], with Hydra's own options (-m for sweeps, --help, --cfg job)."""

import os
import sys
from pathlib import Path

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException
from omegaconf import DictConfig
from omegaconf.errors import OmegaConfBaseException

from app.config import CONF, HYDRA_VERSION_BASE, ConfigError, check, make, one_line
from app.server_app import build_strategy
from strategies.cohort import RunFailed
from strategies.roster import SimulatedRoster


@hydra.main(version_base=HYDRA_VERSION_BASE, config_path=str(CONF), config_name="config")
def job(cfg: DictConfig) -> None:
    """One run: check everything that can be checked, then play it in the runtime that the configuration names."""
    check(cfg)
    runtime = make(cfg, "runtime")
    task = make(cfg, "task")
    build_strategy(cfg, task, SimulatedRoster(task.clients))
    run_dir = Path(HydraConfig.get().runtime.output_dir).absolute()
    runtime.run(cfg, run_dir)
    print(f"report: {run_dir / 'report.html'}")


def main() -> int:
    """The exit status: 0 done, 1 the run did not do its work, 2 the configuration cannot run."""
    os.environ["HYDRA_FULL_ERROR"] = "1"  # Hydra then raises instead of printing a page and exiting
    try:
        job()
    except (HydraException, OmegaConfBaseException) as error:
        print(f"fedslice: {one_line(error)}", file=sys.stderr)
        return 2
    except ConfigError as error:
        print(f"fedslice: {error}", file=sys.stderr)
        return 2
    except (RunFailed, ValueError) as error:
        print(f"fedslice: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
