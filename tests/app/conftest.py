"""The command line within this process, and runs that several tests look at."""

import os
import sys

import pytest

from app import checkpoint, client_app
from app.__main__ import LOG, main
from tests.runs import PARTLY, play


@pytest.fixture
def cli(monkeypatch, capsys, tmp_path):
    """`python -m app` in an empty folder, without another process: exit status, stdout, stderr."""

    def run(*arguments):
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("HYDRA_FULL_ERROR", os.environ.get("HYDRA_FULL_ERROR", "0"))  # undone afterwards
        monkeypatch.setattr(LOG, "disabled", LOG.disabled)  # by Hydra, and undone too
        monkeypatch.setattr(sys, "argv", ["python -m app", *arguments])
        capsys.readouterr()
        status = main()
        return status, *capsys.readouterr()

    return run


@pytest.fixture
def files_left(tmp_path):
    """Names of the files that were left in the folder in which `cli` runs."""
    return lambda: sorted(path.name for path in tmp_path.rglob("*") if path.is_file())


@pytest.fixture(scope="session")
def partly(tmp_path_factory):
    """A FedPart run whose checkpoints of every round are all kept."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checkpoint, "_KEPT", 100)
        return play(tmp_path_factory.mktemp("partly"), *PARTLY, "checkpoint.every=1")


@pytest.fixture
def replies(monkeypatch):
    """Contents of all replies that clients of this process send."""
    seen, original = [], client_app.train_reply

    def listen(*args):
        reply = original(*args)
        seen.append(reply.content)
        return reply

    monkeypatch.setattr(client_app, "train_reply", listen)
    return seen
