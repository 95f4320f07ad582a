"""A full disk: whichever write fails, one clear line, status 1, and every file that is there is whole."""

import errno
import json
import os
import resource
from contextlib import contextmanager

import pytest
from safetensors.numpy import load_file, save_file

from app.files import append_line, whole, write_text
from tests.runs import Run, merged, play

SMALL = ("task.clients=2", "task.examples=4", "rounds=2", "strategy.warmup=1", "checkpoint.every=1", "diagnostics=true")
WRITES = ["config.yaml", "rounds.jsonl", "split.json", "rounds.jsonl"] + 2 * ["rounds.jsonl", "steps.jsonl", "round-"]
WRITES += ["model.safetensors", "report.html", "summary.json"]
"""What a run of two rounds writes, in this order."""


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory):
    return play(tmp_path_factory.mktemp("unbroken"), *SMALL)


@pytest.fixture
def full_at(monkeypatch):
    """Makes the disk full at the n-th write and ever after; the number of writes so far."""
    original = os.fsync
    count = [0]

    def install(n):
        def fsync(file):
            count[0] += 1
            if count[0] >= n:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            original(file)

        monkeypatch.setattr("app.files.os.fsync", fsync)
        return count

    return install


@contextmanager
def largest_file(nbytes):
    """The kernel itself lets no file grow beyond this, and writes what fits."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (nbytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def check_whole(folder):
    """Everything that is there can be read to its end."""
    for path in filter(os.path.isfile, folder.rglob("*")):
        if path.suffix == ".safetensors":
            assert load_file(path)
        else:
            text = path.read_text()
            assert text.endswith("\n") or not text
            lines = {".json": [text], ".jsonl": text.splitlines()}.get(path.suffix, [])
            assert all(isinstance(json.loads(line), dict) for line in lines)
        assert path.suffix != ".part"


def test_what_a_run_writes(tmp_path, full_at):
    """So that the next test fails each of these writes once."""
    count = full_at(10**9)
    play(tmp_path, *SMALL)
    assert count == [len(WRITES)]


@pytest.mark.parametrize("n", range(len(WRITES)), ids=lambda n: f"{n}-{WRITES[n]}")
def test_full_at_each_write(n, tmp_path, full_at, cli, unbroken):
    full_at(n + 1)
    status, _, complaint = cli("hydra.run.dir=run", *merged(*SMALL))
    assert status == 1
    assert complaint.count("\n") == 1
    assert complaint.startswith(f"fedslice: {tmp_path / 'run'}/")
    assert WRITES[n] in complaint
    assert complaint.endswith(": cannot be written (No space left on device)\n")
    check_whole(tmp_path / "run")
    assert not (tmp_path / "run" / "summary.json").exists()
    if 6 < n < 9:  # after the first checkpoint; there is room again
        full_at(10**9)
        rest = play(tmp_path / "run", *SMALL, f"resume='{tmp_path / 'run'}'")
        assert (rest.timeless, rest.sha256) == (unbroken.timeless, unbroken.sha256)


@pytest.mark.parametrize(
    ("file", "limit", "every"),
    [("config.yaml", 1000, 0), ("rounds.jsonl", 1500, 0), ("round-000001", 200_000, 1), ("report", 10**6, 0)],
)
def test_refused_by_the_kernel_in_the_middle_of_a_write(file, limit, every, tmp_path, cli):
    with largest_file(limit):
        status, _, complaint = cli("hydra.run.dir=run", *merged(*SMALL, f"checkpoint.every={every}"))
    assert (status, complaint.count("\n")) == (1, 1)
    assert file in complaint
    assert "cannot be written (" in complaint
    assert "too large" in complaint
    check_whole(tmp_path / "run")
    if file == "rounds.jsonl":
        assert [row["round"] for row in Run(tmp_path / "run").rows] == [0, 1]


def test_a_file_that_cannot_be_replaced_stays_as_it_was(tmp_path):
    path = tmp_path / "text"
    write_text(path, "before")
    with largest_file(3), pytest.raises(OSError, match=f"{path}: cannot be written"):
        write_text(path, "afterwards")
    assert path.read_text() == "before"
    with largest_file(3), pytest.raises(OSError, match=f"{path}: cannot be written"):
        append_line(path, "wards")
    assert path.read_text() == "before"
    with largest_file(50), pytest.raises(OSError, match="cannot be written"), whole(path) as beside:
        save_file({}, beside, {"text": "a" * 100})
    assert [file.name for file in tmp_path.iterdir()] == ["text"]
