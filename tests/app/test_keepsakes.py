"""What clients keep in files on their node: found again after a stop as it was then, and never anything else's."""

from contextlib import suppress

import numpy as np
import pytest
from flwr.app import Context, RecordDict

from app import players
from app.files import PART
from app.keepsakes import FOLDER, Keepsakes, carry_keepsakes
from clients.memory import LocalModels
from clients.messages import PLAN
from clients.plan import RoundPlan
from tests.runs import play

LINEAGE = "0123456789abcdef"


def plan(server_round, resumed_after=0, lineage=LINEAGE):
    return RoundPlan(server_round, None, 0.1, "layout", lineage=lineage, resumed_after=resumed_after)


def trains(folder, server_round, run_id=1, resumed_after=0, every=2, lineage=LINEAGE, partition=3):
    """A node without memory trains once; what it found, and keeps, is the number of the round."""
    state = RecordDict()
    own = LocalModels(state, partition)
    with Keepsakes(folder, plan(server_round, resumed_after, lineage), partition, run_id, every).around(state):
        found = [int(weights["w"][0]) for weights in own.recall()]
        own.push({"w": np.array([server_round], np.float32)}, queue=2)
    return found


def rounds_kept(folder):
    return sorted(int(file.name[6:12]) for file in folder.rglob("round-*"))


def test_a_node_that_lost_its_memory_has_it_again(tmp_path):
    assert trains(tmp_path, 1) == []
    assert trains(tmp_path, 2) == [1]
    assert trains(tmp_path, 5) == [2, 1]


def test_clients_of_one_node_have_their_own(tmp_path):
    trains(tmp_path, 1)
    assert trains(tmp_path, 2, partition=33) == []
    assert trains(tmp_path, 3, partition=33) == [2]


def test_files_say_more_than_an_old_memory(tmp_path):
    """As in Flower's simulation, where clients that one node plays at the same time overwrite each other's memory."""
    trains(tmp_path, 1)
    state = RecordDict()
    LocalModels(state, 3).push({"w": np.array([9.0], np.float32)}, queue=1)
    with Keepsakes(tmp_path, plan(2), 3, 1, 2).around(state):
        assert LocalModels(state, 3).recall()[0]["w"] == 1


def test_undone_rounds_are_not_found(tmp_path):
    """Rounds 3 to 5 were played, then the run went on from round 2; there the client trains in round 5 only."""
    for server_round in (1, 3, 4):
        trains(tmp_path, server_round)
    assert trains(tmp_path, 5, run_id=2, resumed_after=2) == [1]
    assert trains(tmp_path, 6, run_id=2, resumed_after=2) == [5, 1]
    assert 3 not in rounds_kept(tmp_path)


def test_undone_rounds_stay_undone(tmp_path):
    """Round 3 was undone. The client answers nothing until the run is stopped again, and goes on from round 5."""
    trains(tmp_path, 1)
    trains(tmp_path, 3)
    with suppress(RuntimeError), Keepsakes(tmp_path, plan(4, resumed_after=2), 3, 2, 2).around(RecordDict()):
        raise RuntimeError("out of power")
    assert trains(tmp_path, 6, run_id=3, resumed_after=5) == [1]


@pytest.mark.parametrize("every", [1, 2, 3, 5])
@pytest.mark.parametrize("taken", [range(1, 20), (1, 2, 9, 17), (4, 5, 6, 15, 16)])
def test_every_checkpoint_that_is_there_can_be_resumed(tmp_path, every, taken):
    """After any round r, the last two checkpoints are there: from both the client finds its newest round before."""
    for last in taken:
        trains(tmp_path, last, every=every)
        for saved in {last // every * every, max(0, last // every * every - every)}:
            newest = max((number for number in taken if number <= saved), default=None)
            keepsakes = Keepsakes(tmp_path, plan(saved + 1, resumed_after=saved), 3, 7, every)
            file = keepsakes.newest(saved)
            assert (None if file is None else int(file.name[6:12])) == newest
    assert len(rounds_kept(tmp_path)) <= 4


def test_a_run_resumed_twice_from_the_same_checkpoint(tmp_path):
    for server_round in (1, 2, 3, 4, 5, 6):
        trains(tmp_path, server_round)
    assert trains(tmp_path, 5, run_id=2, resumed_after=4) == [4, 3]
    for server_round in range(6, 12):
        trains(tmp_path, server_round, run_id=2, resumed_after=4)
    assert trains(tmp_path, 5, run_id=3, resumed_after=4) == [4, 3]


def test_another_training_has_none_of_it_and_few_stay(tmp_path):
    for number in range(6):
        assert trains(tmp_path, 2, lineage=f"{number:016x}") == []
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"training-{number:016x}" for number in range(2, 6)]


@pytest.mark.parametrize("lineage", ["../../../etc/cron.d", "", "0123456789ABCDEF", "0123456789abcdef0"])
def test_a_lineage_that_is_no_name(tmp_path, lineage):
    with pytest.raises(ValueError, match="must be 16 hexadecimal digits"):
        Keepsakes(tmp_path, plan(1, lineage=lineage), 0, 1, 1)


def test_a_broken_file_is_as_good_as_none(tmp_path, caplog):
    trains(tmp_path, 1)
    next(tmp_path.rglob("round-*")).write_bytes(b"broken")
    with caplog.at_level("WARNING", logger="fedslice"):
        assert trains(tmp_path, 2) == []
    assert "cannot be read" in caplog.text


def test_a_half_written_file_is_not_found(tmp_path):
    trains(tmp_path, 1)
    file = next(tmp_path.rglob("round-*"))
    file.rename(file.with_name(file.name + PART))
    assert trains(tmp_path, 2) == []


def test_a_resumed_simulation_takes_them_along(tmp_path):
    (tmp_path / "before" / "checkpoints").mkdir(parents=True)
    checkpoint = tmp_path / "before" / "checkpoints" / "round-000001.safetensors"
    checkpoint.touch()
    trains(tmp_path / "before" / "clients", 1)
    carry_keepsakes(checkpoint, tmp_path / "after")
    carry_keepsakes(tmp_path / "after", tmp_path / "after")
    assert trains(tmp_path / "after" / "clients", 2) == [1]
    carry_keepsakes(tmp_path / "no run", tmp_path / "other")
    assert not (tmp_path / "other").exists()


OWN = ("rounds=3", "task.examples=20", "task.clients=3", "strategy=fedavg", "objective=moon", "wire=int8")


def forgetful(monkeypatch):
    """The inline runtime as a Flower run whose node loses its memory before every message."""

    def answer(client_app, message, context):
        return said(client_app, message, Context(7, 1, {}, RecordDict(), context.run_config))

    said = players.answer
    monkeypatch.setattr(players, "answer", answer)


def test_a_device_that_restarts_before_every_message_gives_the_same_run(tmp_path, monkeypatch, capsys):
    whole = play(tmp_path / "whole", *OWN)
    forgetful(monkeypatch)
    monkeypatch.setenv(FOLDER, str(tmp_path / "memory"))
    kept = play(tmp_path / "kept", *OWN)
    assert (kept.sha256, kept.timeless) == (whole.sha256, whole.timeless)
    assert "trained without" not in capsys.readouterr().out


def test_without_a_folder_it_is_said(tmp_path, monkeypatch, capsys):
    whole = play(tmp_path / "whole", *OWN)
    assert "trained without" not in capsys.readouterr().out
    forgetful(monkeypatch)
    monkeypatch.delenv(FOLDER, raising=False)
    assert play(tmp_path / "lost", *OWN).sha256 != whole.sha256
    said = capsys.readouterr().out
    assert "round 1: clients" not in said
    assert "round 2: clients [0, 1, 2] trained without what they had kept" in said


def test_a_memory_that_is_too_old_is_said(tmp_path, monkeypatch, capsys):
    """What a node remembers of round 1 is not what it had after round 2."""
    state = RecordDict()

    def answer(client_app, message, context):
        place = state if message.content.config_records[PLAN]["round"] != 2 else RecordDict(dict(state))
        return said(client_app, message, Context(7, 1, {}, place, context.run_config))

    said = players.answer
    monkeypatch.setattr(players, "answer", answer)
    monkeypatch.delenv(FOLDER, raising=False)
    play(tmp_path / "run", *OWN)
    said_in_rounds = capsys.readouterr().out
    assert "round 3: clients [0, 1, 2] trained without what they had kept" in said_in_rounds
    assert said_in_rounds.count("trained without") == 1


def test_inline_writes_none(tmp_path, monkeypatch):
    monkeypatch.setenv(FOLDER, str(tmp_path / "memory"))
    play(tmp_path / "run", *OWN)
    assert not (tmp_path / "memory").exists()


def test_where_nothing_is_kept_nothing_is_sent_or_written(tmp_path, monkeypatch):
    forgetful(monkeypatch)
    monkeypatch.setenv(FOLDER, str(tmp_path / "memory"))
    play(tmp_path / "run", "rounds=2", "task.examples=20", "strategy=fedavg", "objective=fedprox")
    assert not (tmp_path / "memory").exists()
