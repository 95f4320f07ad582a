"""kill -9 at random moments: no corrupt file, no finished round lost, and in the end the bits of an unbroken run.

FEDSLICE_KILLS=30 sets another number of kills.
"""

import json
import os
import random
import signal
import subprocess
import time

from safetensors.numpy import load_file

from app.checkpoint import load
from app.config import compose
from tests.runs import Run, command, environ, merged, play

KILLS = int(os.environ.get("FEDSLICE_KILLS", "2"))
LONG = ("strategy.warmup=1", "strategy.rounds_per_layer=1", "strategy.full_between=1", "checkpoint.every=1")


def finished(folder):
    """The last round that is on the disk, by its line."""
    path = folder / "rounds.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    return json.loads(lines[-1])["round"] if lines else -1


def kill_somewhere(process, folder, generator):
    """Kill while it starts, or a part of a round after a round more is on the disk; whether it was still alive."""
    before, started = finished(folder), time.monotonic()
    patience = generator.uniform(0, 10) if generator.random() < 0.3 else 300
    while finished(folder) <= before and process.poll() is None and time.monotonic() < started + patience:
        time.sleep(0.002)
    if finished(folder) > before:
        # Less than a round: the first after a start takes longer than the others.
        time.sleep(generator.random() * min(row["seconds_round"] for row in Run(folder).rows[1:]))
    alive = process.poll() is None
    os.kill(process.pid, signal.SIGKILL) if alive else None
    process.wait()
    return alive


def check(folder, cfg, reached):
    """Every file can be read, and the newest checkpoint holds all rounds but for the last line's, if that."""
    for path in folder.glob("checkpoints/*.safetensors"):
        assert load_file(path)
    rows = Run(folder).rows
    assert [row["round"] for row in rows] == list(range(len(rows)))
    assert not (folder / "summary.json").exists()
    done = load(folder, cfg).round
    assert done >= rows[-1]["round"] - 1
    assert rows[-1]["round"] >= reached
    return done


def test_killed_again_and_again(tmp_path):
    """Each time it goes on from where it was; a line may be ahead of its checkpoint by the time between the two."""
    rounds, folder, generator = 4 * KILLS + 4, tmp_path / "killed", random.Random(KILLS)
    overrides = (*LONG, f"rounds={rounds}")
    cfg, reached, kills = compose(merged(*overrides)), 0, 0
    while kills < KILLS:
        resume = (f"resume='{folder}'",) if kills else ()
        arguments = command(folder, *overrides, *resume)
        process = subprocess.Popen(arguments, cwd=tmp_path, env=environ(), stdout=subprocess.DEVNULL)
        while not reached and not list(folder.glob("checkpoints/*.safetensors")):  # the first time, one to go on from
            assert process.poll() is None
            time.sleep(0.01)
        assert kill_somewhere(process, folder, generator)
        kills += 1
        reached = check(folder, cfg, reached)
    rest = play(folder, *overrides, f"resume='{folder}'")
    whole = play(tmp_path / "whole", *overrides)
    assert (rest.timeless, rest.sha256) == (whole.timeless, whole.sha256)
    assert list(folder.glob("**/*.part")) == []
