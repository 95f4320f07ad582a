"""The command line: python -m app [overrides], --help, and Hydra's own options (-m for sweeps, --cfg job)."""

import os
import shlex
import sys
from pathlib import Path

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException
from hydra.types import RunMode
from omegaconf import DictConfig
from omegaconf.errors import OmegaConfBaseException
from safetensors import SafetensorError
from yaml import YAMLError  # type: ignore[import-untyped]  # OmegaConf lets it through

from app.arguments import one_by_one, parsed
from app.building import build_strategy
from app.checkpoint import newest_first
from app.choices import CONF, HYDRA_VERSION_BASE
from app.complaints import one_line
from app.config import ConfigError, check, make
from app.console import LOG
from app.help import help_text
from app.loggers import check_loggers
from app.sweeps import tidy
from strategies.cohort import RunFailed
from strategies.roster import SimulatedRoster


def play(cfg: DictConfig) -> int:
    """One run: check all that can be checked, then play it in its runtime; the exit status (see `main`)."""
    run_dir = Path(HydraConfig.get().runtime.output_dir).absolute()
    try:
        task = make(check(cfg), "task")
        build_strategy(cfg, task, SimulatedRoster(task.clients))
        check_loggers(cfg.loggers)
        make(cfg, "runtime").run(cfg, run_dir)
    except (RunFailed, ValueError, OSError, SafetensorError) as error:
        print(f"fedslice: {error}", file=sys.stderr)
        return 2 if isinstance(error, ConfigError) else 1
    except KeyboardInterrupt:
        raise KeyboardInterrupt(_how_to_go_on(run_dir)) from None
    finally:
        if run_dir.is_dir() and not any(run_dir.iterdir()):  # Hydra's, of a run that never was
            run_dir.rmdir()
    return 0


def _how_to_go_on(run_dir: Path) -> str:
    """What is left of an interrupted run."""
    if any(newest_first(run_dir)):
        given = [text for text in HydraConfig.get().overrides.task if not text.startswith("resume=")]
        command = shlex.join(["python", "-m", "app", *given, f"resume={run_dir}"])
        return f"interrupted; {command} goes on after its newest checkpoint"
    return f"interrupted before the first checkpoint (checkpoint.every); {run_dir} cannot be resumed"


def _of_directory(error: OSError) -> str:
    """What is wrong with the place that Hydra was to make a run's directory in."""
    return f"{error.filename}: the run's directory cannot be made ({error.strerror}); hydra.run.dir=FOLDER is another"


def main() -> int:
    """The exit status, of a sweep the worst; its last line says how its runs are compared.

    0 done, 1 a run did not do its work, 2 a configuration cannot run, 130 interrupted.
    """
    arguments = sys.argv[1:]
    os.environ["HYDRA_FULL_ERROR"] = "1"  # Hydra then raises instead of printing a page and exiting
    try:
        if parsed(arguments).help:
            print(help_text(parsed(arguments).overrides))
            return 0
        sys.argv[1:] = one_by_one(arguments)
        return _play_all()
    except (HydraException, OmegaConfBaseException, ValueError, YAMLError) as error:
        print(f"fedslice: {one_line(error, arguments)}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"fedslice: {_of_directory(error)}", file=sys.stderr)
        return 1
    except KeyboardInterrupt as error:
        print(f"fedslice: {error or 'interrupted'}", file=sys.stderr)
        return 130
    finally:
        tidy()


def _play_all() -> int:
    """Play the run, or the runs of a sweep, that the command line asks for; the worst exit status."""
    worst, sweep = 0, None

    @hydra.main(version_base=HYDRA_VERSION_BASE, config_path=str(CONF), config_name="config")
    def job(cfg: DictConfig) -> None:
        nonlocal worst, sweep
        LOG.disabled = False  # Hydra's quiet logging silences all loggers that are there, ours too
        worst = max(worst, play(cfg))
        if HydraConfig.get().mode is RunMode.MULTIRUN:
            sweep = HydraConfig.get().sweep.dir

    job()
    if sweep and not worst:
        print(f"compare: {shlex.join(['python', '-m', 'app.report', sweep])}")
    return worst


if __name__ == "__main__":
    sys.exit(main())
