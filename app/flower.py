"""Starting Flower's own programs so that they leave nothing behind and ask nobody outside."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import tomli_w

from strategies.cohort import RunFailed

ROOT = Path(__file__).resolve().parent.parent
"""The Flower app's folder: the one with pyproject.toml."""
_CONNECTION = "fedslice"
_START_TIMEOUT = 60.0  # seconds
_GRACE = 5.0  # seconds


def environment(home: Path) -> dict[str, str]:
    """Environment for Flower's programs: a home of its own, no telemetry, no update check, no installing."""
    scripts = str(Path(sys.executable).parent)
    return {
        **os.environ,
        "PATH": os.pathsep.join([scripts, os.environ.get("PATH", "")]),
        "FLWR_HOME": str(home),
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
        "PYTHONUNBUFFERED": "1",
        "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    }


def free_port() -> int:
    """A port on loopback that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def started(command: list[str], env: Mapping[str, str], log_file: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A program in a process group of its own, which is ended with all its descendants at the end.

    Some of Flower's leave the group, and wait for ever for a SuperLink that is gone: they are known by a mark.
    """
    mark = f"FEDSLICE_STARTED_{uuid4().hex}"
    with log_file.open("ab") as log:
        process = subprocess.Popen(command, env={**env, mark: "1"}, stdout=log, stderr=log, start_new_session=True)
    try:
        yield process
    finally:
        for sign, patience in ((signal.SIGTERM, 10.0), (signal.SIGKILL, 5.0)):
            with suppress(ProcessLookupError, subprocess.TimeoutExpired):
                os.killpg(process.pid, sign)
                process.wait(patience)
        for pid in _left(mark, patience=_GRACE):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        _left(mark, patience=5.0)  # a killed process is there for a moment more


def _left(mark: str, patience: float) -> dict[int, str]:
    """Who still has the mark after so many seconds, or nobody as soon as that is so."""
    deadline = time.monotonic() + patience
    while (left := marked(mark)) and time.monotonic() < deadline:
        time.sleep(0.05)
    return left


def marked(mark: str) -> dict[int, str]:
    """Running processes whose environment holds `mark`, with their command lines; none where there is no /proc."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # gone, or somebody else's
            if mark.encode() in (folder / "environ").read_bytes():
                line = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                found[int(folder.name)] = line
    return {pid: line for pid, line in found.items() if line}


@contextmanager
def superlink(home: Path, *options: str, variables: Mapping[str, str] | None = None) -> Iterator[int]:
    """A SuperLink on loopback; its port, once it listens. Its log is `home`/superlink.log.

    variables: more of its environment, which its simulation's clients have too.
    """
    port, log_file = free_port(), home / "superlink.log"
    command = ["flower-superlink", "--insecure", "--host", "127.0.0.1", "--port", str(port), *options]
    home.mkdir(parents=True, exist_ok=True)
    connection = {"address": f"127.0.0.1:{port}", "insecure": True}
    config = {"superlink": {"default": _CONNECTION, _CONNECTION: connection}}
    (home / "config.toml").write_text(tomli_w.dumps(config))
    with started(command, {**environment(home), **(variables or {})}, log_file) as process:
        deadline = time.monotonic() + _START_TIMEOUT
        while not _listens(port):
            if process.poll() is not None or time.monotonic() > deadline:
                raise RunFailed(f"Flower's SuperLink did not start; its log is {log_file}")
            time.sleep(0.1)
        yield port


def flwr_run(home: Path, run_config: Mapping[str, Any], *options: str) -> str:
    """`flwr run --stream` over the SuperLink of `home`, output shown as it comes; the run's final status.

    Flower's own exit code is 0 for failed runs too, hence the question for the status.
    """
    if not (ROOT / "pyproject.toml").is_file():
        raise RunFailed(f"{ROOT} has no pyproject.toml, which `flwr run` needs: run from a checkout of the project")
    file = home / "run-config.toml"
    file.write_text(tomli_w.dumps(dict(run_config)))
    command = ["flwr", "run", str(ROOT), _CONNECTION, "--stream", "--run-config", str(file), *options]
    run_id, text = None, ""
    with subprocess.Popen(command, env=environment(home), stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        for line in process.stdout or ():
            text = line.decode(errors="replace")
            print(text, end="", flush=True)
            if found := re.search(r"Successfully started run (\d+)", text):
                run_id = found[1]
    if run_id is None:
        raise RunFailed(f"`flwr run` did not start the run: {text.strip()}")
    return _status(home, run_id)


def _status(home: Path, run_id: str) -> str:
    """Status of a run, such as finished:completed."""
    command = ["flwr", "ls", _CONNECTION, "--run-id", run_id, "--format", "json"]
    listing = subprocess.run(command, env=environment(home), capture_output=True, text=True, check=False).stdout
    try:
        return str(json.loads(listing)["runs"][0]["status"])
    except (ValueError, KeyError, IndexError):
        return f"unknown ({listing.strip()[-200:]})"


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
