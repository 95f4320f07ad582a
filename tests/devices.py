"""Real SuperLink and SuperNodes on loopback, for tests."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

from app.flower import environment, free_port, started, superlink
from app.keepsakes import FOLDER


@contextmanager
def federation(home: Path, node_configs: Sequence[str]) -> Iterator[Path]:
    """A SuperLink and one SuperNode per node-config; its home, for `flwr_run`."""
    with ExitStack() as stack:
        port = stack.enter_context(superlink(home))
        for number, config in enumerate(node_configs):
            node_home = home / f"node-{number}"
            node_home.mkdir()
            command = ["flower-supernode", "--insecure", "--superlink", f"127.0.0.1:{port}"]
            command += ["--port", str(free_port()), "--node-config", config]
            env = {**environment(node_home), FOLDER: str(node_home / "memory")}
            stack.enter_context(started(command, env, node_home / "supernode.log"))
        yield home


def own_digits(folder: Path, part: int, parts: int) -> Path:
    """A device's own data: every `parts`-th digit from `part` on, as npz."""
    digits = load_digits()
    path = folder / f"own data {part}.npz"
    np.savez(path, x=digits.images[part::parts].astype(np.uint8), y=digits.target[part::parts])
    return path


def at_work(log: str, server_round: int) -> bool:
    """Whether a device, by its log, has taken this round's message and not answered yet."""
    since = log.rpartition(f"ROUND {server_round}]")[2]
    return f"ROUND {server_round}]" in log and "Received successfully" in since
