"""What Flower's simulation takes beyond the inline runtime for the same rounds, by number of virtual nodes.

    A   ResNet-8 (7x7 stem), 20 clients, 5 a round, 500 examples each, batches of 50
    B   a 62,000-parameter network, 1,000 clients, 50 a round, one step of 20 examples each

The floor is `runtime=inline` with as many processes as the simulation has workers, one for each core. Times are of
whole rounds on the wall, the median of those after the first two, times workers, over clients. The model at the end
must be the same. Nothing else may run meanwhile.
    python benchmarks/bench_simulation.py [A|B ...]
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

from bench_inline import COMMON, A, B

ROOT = Path(__file__).resolve().parent.parent
PLAY = ("rounds=8", "evaluation.every=1000", "checkpoint.every=0")
CLIENTS = {"A": 5, "B": 50}
"""In a round."""


def play(folder: Path, workers: int, *overrides: str) -> tuple[float, str]:
    """Play a run; seconds of a round, and the model's hash."""
    path = os.pathsep.join([str(ROOT / "benchmarks"), str(ROOT)])
    command = [sys.executable, "-m", "app", *COMMON, *PLAY, *overrides, f"hydra.run.dir={folder}"]
    env = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stdout + done.stderr)
    rows = [json.loads(line) for line in (folder / "rounds.jsonl").read_text().splitlines()]
    seconds = median(row["seconds_round"] for row in rows[3:-1])  # the last is evaluated
    return seconds * workers, json.loads((folder / "summary.json").read_text())["model_sha256"]


def compare(name: str, case: tuple[str, ...], nodes: tuple[int, ...]) -> None:
    """Print milliseconds of a client in both runtimes."""
    workers, clients = os.cpu_count() or 1, CLIENTS[name]
    with tempfile.TemporaryDirectory() as folder:
        inline, floor = play(Path(folder) / "inline", workers, *case, f"runtime.workers={workers}")
        print(f"{name}  inline, {workers} workers: {inline / clients * 1e3:.1f} ms a client")
        for count in nodes:
            where = Path(folder) / str(count)
            simulated, model = play(where, workers, *case, "runtime=simulation", f"runtime.nodes={count}")
            if model != floor:
                sys.exit("the simulation gave another model than the inline runtime")
            beyond = (simulated - inline) / clients * 1e3
            print(
                f"{name}  simulation, {count} nodes: {simulated / clients * 1e3:.1f} ms a client, {beyond:.1f} beyond"
            )


def main(cases: list[str]) -> None:
    """Run and print the cases."""
    for name in cases or ["A", "B"]:
        match name:
            case "A":
                compare(name, A, nodes=(2, 20))
            case "B":
                compare(name, B, nodes=(2, 10, 100))
            case _:
                sys.exit(f"{name}: must be one of A, B")


if __name__ == "__main__":
    main(sys.argv[1:])
