"""What the report says of sparse strategies, and how settings are called, from files made here."""

import math

import pytest

from app.report.comparison import columns, group_runs
from app.report.labels import labels
from app.report.reading import load_run
from app.report.sparse_charts import density_map, sparse_charts
from app.units import percent, unbroken
from tests.made_runs import sparse_rows, write_run
from tests.test_report import figures, report, titles, words

THREE = (0.1, 0.5, 0.6, 0.7)


def sparse(folder, seed=0, **constant):
    return write_run(folder, THREE, seed, "SparsyFed", recorded=sparse_rows(**constant), summary={"settled_round": 3})


def by_title(html):
    return dict(zip(titles(html), figures(html).values(), strict=True))


def test_a_run_shows_what_it_recorded_of_sparsity(tmp_path):
    html = report(sparse(tmp_path / "run"))
    charts = by_title(html)
    assert [trace["y"] for trace in charts["Sparsity"]["data"]] == [
        [0.0, 0.8, 0.875], [0.9, 0.9, 0.9], [0.8, 0.875, 0.89],
    ]  # fmt: skip
    for title, name in (("Agreement of kept sets", "mask_iou"), ("Regrowth", "regrowth"),
                        ("Change of the kept set", "kept_change")):  # fmt: skip
        (trace,) = charts[title]["data"]
        assert (trace["x"], trace["y"]) == ([1, 2, 3], sparse_rows()[name])
    assert [t["name"] for t in charts["Peak memory"]["data"]] == ["server"]  # clients told nothing
    assert "Of the model's prunable weights 89.0 % are zero; the clients' kept sets agree by 0.5000" in words(html)
    assert "Not recorded: Size of local steps by layer group." in words(html)


def test_densities_are_drawn_by_weight_and_round(tmp_path):
    run = load_run(sparse(tmp_path / "run"))
    (trace,) = density_map(run).traces
    assert trace["y"] == ["a", "b"]
    assert trace["customdata"] == [[1.0, 1.0, 1.0], [0.1, 0.01, 0.0]]
    assert trace["z"] == [[0, 0, 0], [-1, -2, -4]]  # nothing kept is drawn as the least, 10^-4
    assert (trace["zmin"], trace["zmax"]) == (-4, 0)


@pytest.mark.parametrize(
    ("values", "kind"),
    [([0.1, 0.025, 0.005], "log"), ([0.1, 0.025, 0.02], None), ([0.1, 0.0, 0.001], None), ([0.1, -0.1, 0.1], None)],
)
def test_an_axis_is_logarithmic_only_where_all_has_a_place_on_it(tmp_path, values, kind):
    charts = {chart.title: chart for chart in sparse_charts(load_run(sparse(tmp_path / "run", regrowth=values)))}
    assert charts["Regrowth"].layout["yaxis"].get("type") == kind
    assert charts["Regrowth"].traces[0]["y"] == values


def test_what_a_round_lacks_is_left_out_and_not_zero(tmp_path):
    run = sparse(tmp_path / "run", regrowth=[0.1, None, 0.2], mask_iou=[None] * 3, sparsity_up=[math.nan] * 3)
    html = report(run)
    assert (by_title(html)["Regrowth"]["data"][0]["x"]) == [1, 3]
    assert "Not recorded: Agreement of kept sets" in words(html)
    assert "Not recorded: replies, mean." in words(html)


def test_a_comparison_of_sparse_and_dense_runs(tmp_path):
    runs = [sparse(tmp_path / "a"), sparse(tmp_path / "b", 1, mask_iou=[0.25, 0.5, 0.9])]
    runs.append(write_run(tmp_path / "dense", THREE, strategy="FedAvg", config={"rounds": 3}))
    loaded = [load_run(run) for run in runs]
    groups = group_runs(loaded)
    cells = {c.title: [c.cell(group) for group in groups] for c in columns(groups)}
    assert cells["sparsity"] == ["0.8900", "not recorded"]
    assert cells["mask IoU"] == ["0.5250 ± 0.0354", "not recorded"]  # means 0.5 and 0.55; 0.05 / sqrt(2) = 0.0354
    assert cells["regrowth"] == ["0.0450 ± 0.0000", "not recorded"]  # (0.1 + 0.025 + 0.01) / 3
    assert cells["settled round"] == ["3", "not recorded"]
    html = report(*runs)
    low, high, mean = by_title(html)["Agreement of kept sets"]["data"]
    assert (low["y"], high["y"], mean["y"]) == ([0.25, 0.5, 0.75], [0.25, 0.5, 0.9], [0.25, 0.5, 0.825])
    assert "kept by either. Not recorded for: FedAvg." in words(html)
    assert "Density by layer: SparsyFed" in titles(html)


def test_a_sparse_run_that_did_not_settle_says_so(tmp_path):
    run = load_run(write_run(tmp_path / "run", THREE, recorded=sparse_rows(), summary={"settled_round": None}))
    groups = group_runs([run])
    (settled,) = (column for column in columns(groups) if column.title == "settled round")
    assert settled.cell(*groups) == "not settled"
    text = words(report(run.path))
    assert "kept set settled in round not within 3 rounds" in text
    assert "The set of kept weights never settled: at the end a round still changed 0.500 % of it." in text
    assert "never settled" not in words(report(sparse(tmp_path / "settled")))
    dense = write_run(tmp_path / "dense", THREE, strategy="FedAvg", summary={"settled_round": None})
    assert "kept set settled in round not recorded" in words(report(dense))


def test_the_sentence_of_a_comparison_names_who_comes_first(tmp_path):
    runs = [write_run(tmp_path / "a"), write_run(tmp_path / "b", seed=1)]
    runs.append(write_run(tmp_path / "c", (0.1, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95), strategy="FedAvg"))
    text = words(report(*runs))
    assert "3 runs in 2 settings, in comparison. Most accurate at the end: FedAvg, 0.9500." in text
    assert "Least sent: FedPart, 50.0 % of dense full training. Least computed: FedPart, 50.0 %." in text
    assert "Fewest bytes to reach 0.90: FedPart, 220.0 kB." in text
    same = [write_run(tmp_path / "d", config={"client.lr": 1}), write_run(tmp_path / "e", config={"client.lr": 2})]
    assert "Least sent: all alike, 50.0 % of dense" in words(report(*same))
    idle = write_run(tmp_path / "g", (0.1,) * 7, strategy="TopK")
    assert "Least sent of those that reach 0.47, half of the best: FedPart, 50.0 %" in words(report(*runs, idle))
    assert "of the best: FedAvg, 100 %" in words(report(runs[2], idle))  # one is not "all alike"
    other = write_run(tmp_path / "f", summary={"task": "cifar10"})
    assert "Most accurate" not in words(report(runs[0], other))  # tasks are not ranked against each other
    assert "bytes to reach 0." not in words(report(runs[0], other))


def settings(rule=None, lr=0.1, **more):
    kind = "Adaptive" if rule else "ServerOptimizer"
    found = {"strategy._target_": "strategies.fedpart.FedPartStrategy"}
    found["server_optimizer._target_"] = f"strategies.server_optimizer.{kind}"
    return found | ({"server_optimizer.rule": rule, "server_optimizer.lr": lr} if rule else {}) | more


def test_sections_are_called_as_they_are_chosen():
    assert labels([settings("adam"), settings("yogi", 0.01), settings()]) == [
        "FedPart, server_optimizer=adam", "FedPart, server_optimizer=yogi", "FedPart, server_optimizer=none",
    ]  # fmt: skip
    assert labels([settings("adam", 0.1), settings("adam", 0.01)]) == [
        "FedPart, server_optimizer.lr=0.1", "FedPart, server_optimizer.lr=0.01",
    ]  # fmt: skip
    runtimes = [settings(**{"runtime._target_": f"app.{name}Runtime"}) for name in ("Inline", "Simulation")]
    assert labels(runtimes) == ["FedPart, runtime=inline", "FedPart, runtime=simulation"]


def test_a_strategy_that_names_itself_is_called_so(tmp_path):
    run = write_run(tmp_path / "run", strategy="SparsyFed", config={"strategy.name": "topk"})
    assert "topk reached accuracy" in words(report(run))
    assert group_runs([load_run(run)])[0].name == "topk"


def test_numbers_stay_with_their_units():
    assert unbroken("1.5 MB ± 2 kB, 3 % of 4 GMAC after 5 Big rounds").count("\N{NO-BREAK SPACE}") == 5


@pytest.mark.parametrize(
    ("share", "text"),
    [(0, "0 %"), (0.0004712, "0.0471 %"), (0.0471, "4.71 %"), (0.5, "50.0 %"), (0.7514, "75.1 %"), (0.09996, "10.0 %"),
     (0.9996, "100 %"), (1, "100 %"), (12.344, "1234 %"), (None, "not recorded")],
)  # fmt: skip
def test_a_share_has_three_digits(share, text):
    assert percent(share) == text


@pytest.mark.parametrize("value", [[0.5], {"a": 2}, {"a": "x"}])
def test_densities_that_are_none_are_refused(tmp_path, value):
    run = write_run(tmp_path / "run", densities=value)
    with pytest.raises(ValueError, match="line 7: densities is"):
        load_run(run)
