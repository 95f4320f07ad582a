"""A record is found by name and kind, and a message's arrays go with the message, not when Python looks for cycles."""

import gc
import weakref

import pytest
from flwr.app import ArrayRecord, ConfigRecord, MetricRecord, RecordDict

from app import players
from clients.records import record_of
from tests.runs import QUICK, play


def test_a_record_is_found_by_name_and_kind():
    content = RecordDict({"a": ConfigRecord({"x": 1}), "b": MetricRecord({"y": 2})})
    assert record_of(content, "a", ConfigRecord) is content["a"]
    assert record_of(content, "b", MetricRecord) is content["b"]
    assert record_of(content, "a", ArrayRecord) is None
    assert record_of(content, "c", ConfigRecord) is None


@pytest.fixture
def no_collection(tmp_path):
    """Nothing is freed but what nobody refers to; a first training, whose imports keep frames alive, is over."""
    play(tmp_path / "first", *QUICK, "rounds=1")
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("no_collection")
@pytest.mark.parametrize("overrides", [(), ("strategy=fedpart", "wire=int8"), ("objective=moon",)])
def test_of_all_replies_of_a_run_one_is_alive_at_a_time(tmp_path, monkeypatch, overrides):
    """Three clients in three rounds; of the orders' arrays, which are shared, those of the last round may stay."""
    replies, orders, alive = [], [], []
    answer = players.answer

    def watched(client_app, message, context):
        reply = answer(client_app, message, context)
        alive.append(sum(reference() is not None for reference in replies))
        replies.append(weakref.ref(reply.content["model"]))
        orders.append(weakref.ref(message.content["model"]))
        return reply

    monkeypatch.setattr(players, "answer", watched)
    play(tmp_path / "run", *QUICK, "task.examples=8", *overrides)
    assert len(replies) == 9
    assert max(alive) <= 1
    assert {reference() for reference in replies} == {None}
    assert len({id(reference()) for reference in orders if reference() is not None}) <= 1
