"""Failing, ruined and late clients change nothing for the rest; `python -m tests.soak` plays 500 rounds of it."""

from collections import Counter

from tests.runs import play
from tests.soak import SOAK, fate, faults, left_out

ROUNDS = 12


def test_faulty_clients_are_as_if_left_out(tmp_path):
    with faults():
        run = play(tmp_path / "faulty", *SOAK, f"rounds={ROUNDS}")
    with left_out():
        other = play(tmp_path / "left out", *SOAK, f"rounds={ROUNDS}")
    assert run.sha256 == other.sha256
    assert [row["accuracy"] for row in run.rows] == [row["accuracy"] for row in other.rows]
    fates = Counter(fate(server_round, partition) for server_round in range(1, ROUNDS + 1) for partition in range(10))
    assert min(fates[kind] for kind in ("fails", "nan", "slow")) > 2
    assert run.summary["completed_total"] == fates["honest"] == other.summary["completed_total"]
    assert run.summary["failed_total"] == fates["fails"] + fates["slow"]
    assert run.summary["rejected_total"] == fates["nan"]
    reasons = Counter(reason for row in run.rows for reason in row["reasons"].values())
    assert reasons["no reply within 3600 s"] == fates["slow"]
