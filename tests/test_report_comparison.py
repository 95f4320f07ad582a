"""Settings side by side: how runs are folded and named, and what it cost them to reach an accuracy."""

import pytest

from app.report.comparison import columns, common_accuracy, group_runs
from app.report.reading import load_run
from tests.made_runs import write_run
from tests.test_report import figures, report, words


def test_seeds_fold_into_mean_and_sample_deviation(tmp_path):
    finals = (0.80, 0.82, 0.87)  # mean 0.83; squares of -3, -1, 4 are 26; sqrt(26 / 2) = 3.6056
    runs = [write_run(tmp_path / str(seed), (0.1, 0.5, final), seed) for seed, final in enumerate(finals)]
    runs.append(write_run(tmp_path / "fedavg", (0.1, 0.5, 0.9), strategy="FedAvg"))
    html = report(*runs)
    assert "FedPart 0, 1, 2 0.8300 ± 0.0361 0.8300 ± 0.0361 80.0 kB" in words(html)
    assert "FedAvg 0 0.9000 0.9000 80.0 kB" in words(html)
    low, high, mean, other = figures(html)["chart0"]["data"]
    assert (low["y"][2], high["y"][2], mean["name"]) == (0.80, 0.87, "FedPart")
    assert mean["y"][2] == pytest.approx(0.83)
    assert mean["line"]["dash"] != other["line"]["dash"]
    assert mean["marker"]["symbol"] != other["marker"]["symbol"]


def test_groups_are_named_by_what_differs(tmp_path):
    copied = {"task.partition.alpha": 0.1, "partition.alpha": 0.1}  # as interpolation leaves it
    runs = [
        write_run(tmp_path / "a", config={"task.partition.alpha": 1.0, "partition.alpha": 1.0}),
        write_run(tmp_path / "b", config=copied | {"client.lr": 0.01}),
        write_run(tmp_path / "c", config=copied | {"client.lr": 0.01, "resume": "b"}, seed=3),
        write_run(tmp_path / "d", config=copied | {"client.lr": 0.01}, strategy="FedAvg"),
    ]
    groups = group_runs([load_run(run) for run in runs])
    assert [(group.name, group.seeds) for group in groups] == [
        ("FedPart, client.lr=0.001, partition.alpha=1.0", "0"),
        ("FedPart, client.lr=0.01, partition.alpha=0.1", "0, 3"),
        ("FedAvg, client.lr=0.01, partition.alpha=0.1", "0"),
    ]


def test_a_seed_that_is_held_fixed_is_no_copy_of_the_seed(tmp_path):
    runs = [write_run(tmp_path / str(seed), seed=seed, config={"partition.seed": 0}) for seed in (0, 1)]
    assert len(group_runs([load_run(run) for run in runs])) == 1


def groups_of(*runs):
    return group_runs([load_run(run) for run in runs])


def test_bytes_to_reach_the_accuracy_that_all_reach(tmp_path):
    runs = [write_run(tmp_path / "a", (0.1, 0.29, 0.5)), write_run(tmp_path / "b", (0.1, 0.2, 0.299, 0.2))]
    groups = groups_of(*runs)
    assert common_accuracy(groups) == 0.29
    reach = columns(groups)[-1]
    assert reach.title == "bytes to reach 0.29"
    assert [reach.mean(group) for group in groups] == [80_000, 160_000]
    assert common_accuracy(groups_of(write_run(tmp_path / "c", (0.1, 0.29)))) == 0.29  # though 0.29 * 100 < 29


def test_a_setting_reaches_what_its_seeds_reach_on_average(tmp_path):
    """Means 0.1, 0.5, 0.6 and 0.1, 0.4, 0.45: no round has the mean of the bests, (0.4 + 0.6) / 2 in rounds 1 and 2."""
    good = [write_run(tmp_path / f"a{seed}", (0.1, 0.5, 0.6), seed) for seed in (0, 1)]
    finals = (0.3, 0.6)
    weak = [write_run(tmp_path / f"b{i}", (0.1, 0.4, final), i, strategy="FedAvg") for i, final in enumerate(finals)]
    groups = groups_of(*good, *weak)
    assert common_accuracy(groups) == 0.45
    assert [columns(groups)[-1].cell(group) for group in groups] == ["80.0 kB", "160.0 kB"]


def test_a_setting_that_learned_nothing_sets_no_level_and_is_not_praised(tmp_path):
    good, bad = (
        write_run(tmp_path / "a", (0.1, 0.5, 0.9)),
        write_run(tmp_path / "b", (0.1, 0.1, 0.1), strategy="FedAvg"),
    )
    groups = groups_of(good, bad)
    assert common_accuracy(groups) == 0.45  # half of 0.9
    assert [columns(groups)[-1].cell(group) for group in groups] == ["80.0 kB", "not reached"]
    assert "Fewest bytes to reach 0.45: FedPart, 80.0 kB." in words(report(good, bad))
