"""The report against files made here, whose numbers are small enough to follow."""

import json
import re
from html import unescape

from app.report import write_report
from app.report.reading import find_runs
from tests.made_runs import rows_of, write_run


def report(*run_dirs):
    target = run_dirs[0].parent / "out.html"
    write_report(run_dirs, target)
    return target.read_text()


def figures(html):
    text = re.search(r'<script type="application/json" id="figures">(.*?)</script>', html, re.DOTALL)[1]
    return json.loads(text)


def titles(html):
    return re.findall(r"<h3>(.*?)</h3>", html)


def words(html):
    """The text that a reader sees."""
    body = re.sub(r"<(script|style).*?</\1>", "", html, flags=re.DOTALL)
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", body)).split())


def test_one_run_says_what_was_reached_and_what_it_cost(tmp_path):
    text = words(report(write_run(tmp_path / "run")))
    # Of 6 rounds 2 are full and 4 train a quarter: (2 + 4 / 4) / 6 = 50 %. 3 * 4000 B * 10 clients each way.
    assert "reached accuracy 0.8750 after 6 rounds; best 0.9000, first in round 5" in text
    assert (
        "sent 240.0 kB up and down, 50.0 % of what dense full training sends in these rounds (50.0 % on the uplink)"
        in text
    )
    assert "with 50.0 % of its multiply-accumulates" in text
    assert "Client trainings 60 of 60" in text
    assert "averaged running statistics" in text
    assert "bytes up 120,000 share of dense: bytes up and down 0.703537" in text
    assert "python 3.12.1, torch not recorded" in text
    assert "ab" * 32 in text


def test_charts_show_the_recorded_numbers(tmp_path):
    rows = rows_of((0.1, 0.4, 0.6, 0.7, 0.8, 0.9, 0.875))
    shown = [figure["data"] for figure in figures(report(write_run(tmp_path / "run"))).values()]
    accuracy, loss, by_bytes, by_macs, strip, sent, seconds, clients = shown
    assert accuracy[0]["y"] == [row["accuracy"] for row in rows]
    assert loss[0]["y"] == [row["loss"] for row in rows]
    assert loss[1]["x"] == [1, 2, 3, 4, 5, 6]
    assert by_bytes[0]["x"] == [0, 80_000, 160_000, 180_000, 200_000, 220_000, 240_000]
    assert by_macs[0]["x"] == [0, *(1e7 * n for n in (4, 8, 9, 10, 11, 12))]
    assert strip[0]["z"][1] == [1, 1, None, 2, None, None]  # group 1: both full rounds, then round 4
    assert [trace["y"][2] for trace in sent] == [10_000, 10_000, 80_000]
    assert [trace["y"][0] for trace in clients] == [10, 0, 0, 10]
    assert [trace["y"][0] for trace in seconds] == [1.5, 1.2, 0.1]


def test_null_is_not_recorded_and_never_zero(tmp_path):
    html = report(write_run(tmp_path / "run", (0.1, None, 0.6, None), strategy="FedAvg"))
    assert "accuracy not recorded after 3 rounds" in words(html)
    assert "Not recorded: Sparsity, Agreement of kept sets, Regrowth, Change of the kept set" in words(html)
    assert "Sparsity" not in titles(html)
    assert figures(html)["chart0"]["data"][0]["x"] == [0, 2]


def test_the_initial_model_counts_for_no_time_as_in_the_summary(tmp_path):
    """Six rounds of 1.5 s, of which the server's 0.1 s; the row of round 0 has as much."""
    assert "Time 9 s 0.6 s of it the server's" in words(report(write_run(tmp_path / "run")))


def test_clients_and_memory_come_last_in_one_row(tmp_path):
    run = write_run(tmp_path / "run", recorded={"memory_server_mb": [100.0] * 6})
    (run / "steps.jsonl").write_text('{"round": 1, "groups": [0], "sizes": [[1.0]]}\n')
    html = report(run)
    assert titles(html)[-2:] == ["Clients per round", "Peak memory"]
    wide = [bool(match) for match in re.findall(r'<figure( class="wide")?>', html)]
    assert wide[-3:] == [True, False, False]  # a row of its own before them, so that the two share one


def test_what_comes_from_files_is_escaped(tmp_path):
    evil = "</script><script>alert(1)</script>"
    one = write_run(tmp_path / "a", failed=1, reasons={"3": evil}, config={"client.note": evil})
    two = write_run(tmp_path / "b", config={"client.note": "plain", "task.name": evil}, finished=False)
    (two / "error.txt").write_text(evil)
    for html in (report(one), report(two), report(one, two)):
        assert "<script>alert" not in html
        assert html.count("alert(1)") > 0
    names = [trace["name"] for trace in figures(report(one, two))["chart0"]["data"]]
    assert all("<" not in name for name in names)  # plotly reads tags in names


def test_an_unfinished_run_is_shown_as_such(tmp_path):
    write_run(tmp_path / "done", seed=1)
    killed = write_run(tmp_path / "killed", (0.1, 0.4, 0.6), finished=False, config={"rounds": 6})
    with (killed / "rounds.jsonl").open("a") as file:
        file.write('{"round": 3, "pha')  # torn by the kill
    (killed / "error.txt").write_text("round 3: every client failed\n")
    assert "Unfinished: the run ended, or is still going, after round 2. It says: round 3" in words(report(killed))
    html = report(*find_runs([tmp_path]))
    assert "FedPart (unfinished)" in words(html)
    assert "FedPart 1 0.8750" in words(html)


def test_a_run_that_ended_before_its_first_row_is_shown(tmp_path):
    empty = write_run(tmp_path / "empty", finished=False)
    (empty / "rounds.jsonl").write_text("")
    assert "accuracy not recorded" in words(report(empty))
    assert "(unfinished)" in words(report(empty, write_run(tmp_path / "done")))


def test_the_file_loads_nothing_from_elsewhere(tmp_path):
    html = report(write_run(tmp_path / "run"))
    assert not re.search(r"<(script|link|img)[^>]*(src|href)=", html)
    assert "default-src 'none'" in html


def test_step_sizes_are_drawn_by_group_where_they_were_recorded(tmp_path):
    """Two iterations in round 1 lie at 0.25 and 0.75; a round in which a group was frozen interrupts its line."""
    from app.report.runs import Run
    from app.report.step_charts import step_chart

    run = Run(tmp_path, (), {}, None, None)
    assert step_chart(run).traces == []
    rows = [
        {"round": 1, "groups": [0, 1], "sizes": [[1.0, 5.0], [2.0, 6.0]]},
        {"round": 2, "groups": [1], "sizes": [[7.0]]},
    ]
    (tmp_path / "steps.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    chart = step_chart(run)
    assert [(trace["x"], trace["y"]) for trace in chart.traces] == [
        ([0.25, 0.75, 2], [1.0, 2.0, None]),
        ([0.25, 0.75, 1.5], [5.0, 6.0, 7.0]),
    ]
