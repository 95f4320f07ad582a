"""Step sizes around an averaging, by hand."""

import json

from app.mismatch import STEPS_FILE, add_steps, carry_steps, step_ratios
from strategies.cost import RoundReport


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
    old, new = tmp_path / "old", tmp_path / "new"
    (old / "checkpoints").mkdir(parents=True)
    new.mkdir()
    for server_round in (1, 2, 3):
        record(old, server_round, (0,), [[1.0]])
    carry_steps(old / "checkpoints" / "round-000002.safetensors", new, 2)
    assert [json.loads(line)["round"] for line in (new / STEPS_FILE).read_text().splitlines()] == [1, 2]
