"""python -m app.report: what it prints, where it writes, and what it says about files that it cannot use."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from app.report.__main__ import main
from app.report.reading import find_runs
from app.units import size
from tests.made_runs import write_run


def test_command_line_compares_a_sweep(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for number, seed in ((2, 0), (10, 1)):
        write_run(Path("multirun/12-00-00") / f"{number}-fedpart", seed=seed)
    assert main(["multirun", "multirun/12-00-00"]) == 0
    out = capsys.readouterr().out
    assert "0.8750 ± 0.0000" in out
    assert size(120_000) in out
    assert out.splitlines()[-1] == f"report: {tmp_path}/multirun/12-00-00/comparison.html"
    assert Path("multirun/12-00-00/comparison.html").stat().st_size > 1_000_000
    assert not Path("comparison.html").exists()
    assert [path.name for path in find_runs([Path("multirun")])] == ["2-fedpart", "10-fedpart"]


def test_a_comparison_is_written_beside_runs_from_anywhere(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    runs = [write_run(Path("a/b")), write_run(tmp_path / "a/c/d", seed=1)]
    assert main([str(path) for path in runs]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == f"report: {tmp_path / 'a' / 'comparison.html'}"


def test_a_narrow_terminal_gets_lines_instead_of_a_table(tmp_path, capsys, monkeypatch):
    run = write_run(tmp_path / "run")
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "60")
    assert main([str(run)]) == 0
    assert re.search(r"best accuracy +0\.9000", capsys.readouterr().out)


def test_command_line_reports_one_run_in_its_directory(tmp_path, capsys, monkeypatch):
    run = write_run(tmp_path / "run")
    assert main([str(run)]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == f"report: {run / 'report.html'}"
    monkeypatch.chdir(tmp_path)
    assert main([str(run), "--out", "x.html"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == f"report: {tmp_path / 'x.html'}"
    assert (tmp_path / "x.html").is_file()


def _broken(run, name, text):
    (run / name).write_text(text)
    return [str(run)]


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("rounds.jsonl", "{}\n", "rounds.jsonl, line 1: round is 'missing', must be a number"),
        ("rounds.jsonl", "{nonsense\n", "rounds.jsonl, line 1: not JSON"),
        ("rounds.jsonl", "[1]\n", "rounds.jsonl, line 1: not a JSON object"),
        ("summary.json", "{", "summary.json: not JSON"),
        ("summary.json", "\xff", "summary.json: not JSON"),
        ("config.yaml", "a: [", "config.yaml: not yaml"),
        ("config.yaml", "- 1", "config.yaml: not a mapping"),
        ("config.yaml", "a: ${", "config.yaml: not yaml"),
    ],
)
def test_broken_files_are_one_line_and_status_2(tmp_path, capsys, name, text, said):
    assert main(_broken(write_run(tmp_path / "run"), name, text)) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


@pytest.mark.parametrize("field", [{"accuracy": "high"}, {"bytes_up": None}, {"groups": [-1]}, {"reasons": ["x"]}])
def test_fields_of_the_wrong_kind_are_named(tmp_path, capsys, field):
    assert main([str(write_run(tmp_path / "run", **field))]) == 2
    assert f"line 7: {next(iter(field))} is" in capsys.readouterr().err


def test_missing_files_and_folders(tmp_path, capsys):
    run = write_run(tmp_path / "run")
    assert main([str(run), "--out", str(tmp_path / "no" / "x.html")]) == 2
    (run / "config.yaml").unlink()
    assert main([str(run)]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 2
    assert "config.yaml" in error.splitlines()[1]


def test_no_runs_found_from_outside(tmp_path):
    command = [sys.executable, "-m", "app.report", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == f"fedslice: {tmp_path}: no run here: no rounds.jsonl in it or below it\n"
