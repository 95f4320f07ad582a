"""The command line within this process, and runs that several tests look at."""

import os
import sys

import pytest

from app.__main__ import main


@pytest.fixture
def cli(monkeypatch, capsys, tmp_path):
    """`python -m app` in an empty folder, without another process: exit status, stdout, stderr."""

    def run(*arguments):
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("HYDRA_FULL_ERROR", os.environ.get("HYDRA_FULL_ERROR", "0"))  # undone afterwards
        monkeypatch.setattr(sys, "argv", ["python -m app", *arguments])
        capsys.readouterr()
        status = main()
        return status, *capsys.readouterr()

    return run


@pytest.fixture
def files_left(tmp_path):
    """Names of the files that were left in the folder in which `cli` runs."""
    return lambda: sorted(path.name for path in tmp_path.rglob("*") if path.is_file())
