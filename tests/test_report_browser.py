"""The report in a real headless browser: it renders, nothing goes wrong, and the numbers are those of rounds.jsonl."""

import json

import pytest

from app.report import write_report
from tests.browser import needs_browser, told_by
from tests.made_runs import sparse_rows, write_run

pytestmark = needs_browser


def sound(told):
    """Nothing went wrong, nothing was asked for from elsewhere, and nothing is wider than the window."""
    assert told["wrong"] == []
    assert told["requests"] == []
    assert told["page"] <= told["window"]
    assert all(0 < chart["width"] <= told["window"] for chart in told["shown"])


def rows(run):
    return [json.loads(line) for line in (run / "rounds.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("width", [1200, 500])  # a window of the browser is no narrower, even without a screen
def test_a_sparse_run_is_drawn_as_recorded(tmp_path, width):
    run = write_run(tmp_path / "run", (0.1, 0.5, 0.9, 0.875), recorded=sparse_rows())
    write_report([run], tmp_path / "report.html")
    told = told_by(tmp_path / "report.html", width=width)
    sound(told)
    charts = {chart["title"]: chart for chart in told["shown"]}
    drawn = {
        "Accuracy": ["accuracy"], "Loss": ["loss", "train_loss"], "Peak memory": ["memory_server_mb"],
        "Sparsity": ["sparsity_down", "sparsity_up", "sparsity_model"], "Agreement of kept sets": ["mask_iou"],
    }  # fmt: skip
    for title, names in drawn.items():
        half_pixel = 0.5 / charts[title]["pixel"]
        for heights, name in zip(charts[title]["heights"], names, strict=True):
            recorded = [row[name] for row in rows(run) if row[name] is not None]
            assert heights == pytest.approx(recorded, abs=half_pixel), (title, name)
    densities = [list(row["densities"].values()) for row in rows(run)[1:]]
    assert charts["Density by layer"]["customdata"] == [list(column) for column in zip(*densities, strict=True)]
    assert charts["Density by layer"]["cells"] == charts["Slices trained"]["cells"] == 1
    assert "reached accuracy 0.8750 after 3 rounds; best 0.9000, first in round 2" in told["text"]
    assert "Not recorded: Size of local steps by layer group." in told["text"]


def test_a_comparison_is_sorted_by_what_the_reader_picks(tmp_path):
    runs = [
        write_run(tmp_path / name, (0.1, final), strategy=name) for name, final in (("FedPart", 0.8), ("Fedavg", 0.7))
    ]
    runs.append(write_run(tmp_path / "sparse", (0.1, 0.75), strategy="SparsyFed", mask_iou=0.5, sparsity_model=0.9))
    write_report(runs, tmp_path / "report.html")
    head = "[...document.querySelectorAll('th button')].find(b => b.innerText.startsWith('{}')).click();"
    order = {
        "": ["FedPart", "Fedavg", "SparsyFed"],
        head.format("final accuracy"): ["Fedavg", "SparsyFed", "FedPart"],
        head.format("mask IoU") * 2: ["SparsyFed", "FedPart", "Fedavg"],  # what was not recorded stays at the end
    }
    for act, names in order.items():
        told = told_by(tmp_path / "report.html", act)
        sound(told)
        assert [row[0] for row in told["rows"]] == names
    sparse = next(row for row in told["rows"] if row[0] == "SparsyFed")
    assert sparse[2] == "0.7500"
    assert sparse[-4:] == ["0.9000", "0.5000", "not recorded", "not recorded"]
