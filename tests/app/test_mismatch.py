"""Step sizes around an averaging, by hand."""

import json

import pytest

from app.mismatch import STEPS_FILE, add_steps, step_ratios, steps_before
from strategies.cost import RoundReport
from tests.runs import QUICK, play


def record(run_dir, server_round, groups, sizes):
    """A round's step sizes: `sizes` has a row per iteration, a column per group; two clients made the same."""
    report = RoundReport(server_round, "partial" if groups else "full", groups)
    report.steps = [tuple(size for row in sizes for size in row)] * 2
    add_steps(run_dir, report, num_groups=2)


def test_the_mean_of_three_iterations_after_over_three_before(tmp_path):
    """Full: group 0 ends at 1, begins again at 2: ratio 2; group 1 stays at 3: ratio 1. Their mean is 1.5."""
    record(tmp_path, 1, (), [[9, 3], [1, 3], [1, 3], [1, 3]])
    record(tmp_path, 2, (), [[2, 3], [2, 3], [2, 3], [9, 3]])
    record(tmp_path, 3, (0,), [[4], [4], [4]])
    record(tmp_path, 4, (0,), [[3], [3], [3]])
    record(tmp_path, 5, (1,), [[7], [7], [7]])  # another group: nothing to compare
    assert step_ratios(tmp_path) == {"step_ratio_full": 1.5, "step_ratio_partial": 0.75}


def test_not_recorded_is_null(tmp_path):
    assert step_ratios(tmp_path) == {"step_ratio_full": None, "step_ratio_partial": None}


def test_the_file_holds_the_mean_over_clients_by_iteration(tmp_path):
    """The second client made one iteration only: it counts in the first row alone."""
    report = RoundReport(1)
    report.steps = [(2.0, 4.0, 6.0, 8.0), (4.0, 0.0)]
    add_steps(tmp_path, report, num_groups=2)
    row = json.loads((tmp_path / STEPS_FILE).read_text())
    assert row == {"round": 1, "phase": "full", "groups": [0, 1], "sizes": [[3.0, 2.0], [6.0, 8.0]]}


def test_a_resumed_run_takes_over_the_steps_up_to_its_checkpoint(tmp_path):
    (tmp_path / "checkpoints").mkdir(parents=True)
    for server_round in (1, 2, 3):
        record(tmp_path, server_round, (0,), [[1.0]])
    steps = steps_before(tmp_path / "checkpoints" / "round-000002.safetensors", 2)
    assert [json.loads(line)["round"] for line in steps.splitlines()] == [1, 2]


@pytest.mark.parametrize("place", ["run", "elsewhere"])
def test_a_run_that_is_resumed_has_the_steps_of_one_that_was_not(tmp_path, place):
    """In the folder where it was, too."""
    settings = (*QUICK, "task.examples=16", "diagnostics=true", "checkpoint.every=1")
    whole = play(tmp_path / "whole", *settings, "rounds=4")
    play(tmp_path / "run", *settings, "rounds=2")
    rest = play(tmp_path / place, *settings, "rounds=4", f"resume='{tmp_path / 'run'}'")
    assert (rest.folder / STEPS_FILE).read_text() == (whole.folder / STEPS_FILE).read_text()
    ratios = ("step_ratio_full", "step_ratio_partial")
    assert [rest.summary[name] for name in ratios] == [whole.summary[name] for name in ratios]
