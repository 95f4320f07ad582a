"""Flower's ServerApp: plays the run that its configuration describes, over whatever grid Flower gives it."""

from datetime import datetime
from pathlib import Path

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp
from flwr.superlink.grid.inmemory_grid import InMemoryGrid
from safetensors import SafetensorError

from app.config import ConfigError, from_run_config
from app.serve import serve
from strategies.cohort import RunFailed

app = ServerApp()

ERROR_FILE = "error.txt"
"""Holds the one line that says why a run failed."""
REFUSED = "No round was played: the configuration, or the data, must be another.\n"
"""The second line there, for what is wrong with either."""


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Entry point of `flwr run`: in Flower's simulation, or over a SuperLink with SuperNodes."""
    started = datetime.now().astimezone()
    run_dir = Path(str(context.run_config.get("run-dir") or f"outputs/{started:%Y-%m-%d}/{started:%H-%M-%S-%f}"))
    run_dir = run_dir.absolute()
    simulated = isinstance(grid, InMemoryGrid)
    try:
        serve(from_run_config(context.run_config), grid, run_dir, "simulation" if simulated else "deployment")
    except (RunFailed, ValueError, OSError, SafetensorError) as error:
        run_dir.mkdir(parents=True, exist_ok=True)
        (run_dir / ERROR_FILE).write_text(f"{error}\n{REFUSED if isinstance(error, ConfigError) else ''}")
        print(f"fedslice: {error}", flush=True)
        raise
