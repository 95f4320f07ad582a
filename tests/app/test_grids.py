"""The grid of this process works when asked, and the streaming one hands on what is there."""

import gc
import time
import weakref

import pytest
from flwr.app import ConfigRecord, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid

from app.grids import InlineGrid, StreamingGrid
from app.players import Here


def note(text):
    return RecordDict({"note": ConfigRecord({"text": text})})


def text_of(message):
    return message.content.config_records["note"]["text"]


@pytest.fixture
def worked():
    return []


@pytest.fixture
def grid(worked):
    """Echoes; the client raises where the text asks for it."""
    app = ClientApp()

    @app.train()
    def train(message, context):
        text = text_of(message)
        worked.append(text)
        if text == "raise":
            raise ZeroDivisionError("division by zero")
        return Message(note(f"{text} {context.run_config['greeting']}"), reply_to=message)

    return InlineGrid(Here(app), {"greeting": "hello"})


def messages(*texts):
    return [Message(note(text), 1, "train") for text in texts]


class SlowGrid(Grid):
    """Gives one reply each `seconds`, and never one to a message that says so."""

    def __init__(self, seconds):
        self.seconds = seconds
        self.pending = []
        self.last = time.monotonic()

    def push_messages(self, messages):
        self.pending = list(messages)
        for number, message in enumerate(self.pending):
            message.metadata.__dict__["_message_id"] = str(number)
        return [message.metadata.message_id for message in self.pending]

    def pull_messages(self, message_ids):
        ready = [m for m in self.pending if m.metadata.message_id in set(message_ids) and text_of(m) != "silent"]
        if not ready or time.monotonic() - self.last < self.seconds:
            return []
        self.last = time.monotonic()
        self.pending.remove(ready[0])
        return [Message(note("reply to " + text_of(ready[0])), reply_to=ready[0])]

    set_run = create_message = get_node_ids = send_and_receive = None
    run = None


def test_the_one_node(grid):
    assert list(grid.get_node_ids()) == [1]


def test_nothing_is_worked_on_before_its_reply_is_asked_for(grid, worked):
    replies = grid.send_and_receive(messages("a", "b", "c"))
    assert worked == []
    assert text_of(next(iter(replies))) == "a hello"
    assert worked == ["a"]
    assert [text_of(reply) for reply in replies] == ["b hello", "c hello"]
    assert worked == ["a", "b", "c"]


def test_replies_name_their_message(grid):
    sent = messages("a", "b")
    replies = list(grid.send_and_receive(sent))
    assert [r.metadata.reply_to_message_id for r in replies] == [m.metadata.message_id for m in sent]


def test_only_wanted_messages_are_worked_on(grid, worked):
    first, second = grid.push_messages(messages("a", "b"))
    assert [text_of(reply) for reply in grid.pull_messages([second])] == ["b hello"]
    assert worked == ["b"]
    assert grid.pull_messages([second]) == []
    assert [text_of(reply) for reply in grid.pull_messages([first, second])] == ["a hello"]


def test_a_client_that_raises_is_an_error_reply(grid):
    a, failed, b = grid.send_and_receive(messages("a", "raise", "b"))
    assert (text_of(a), text_of(b)) == ("a hello", "b hello")
    assert failed.has_error()
    assert not failed.has_content()
    assert "ZeroDivisionError: division by zero" in failed.error.reason


def test_no_messages_no_replies(grid):
    assert list(grid.send_and_receive([])) == []


def test_inline_stops_at_the_timeout(grid, worked):
    replies = iter(grid.send_and_receive(messages("a", "b"), timeout=0.05))
    next(replies)
    time.sleep(0.06)
    assert list(replies) == []
    assert worked == ["a"]


def test_streaming_yields_as_replies_come():
    counted = []
    replies = StreamingGrid(SlowGrid(0.15), lambda: counted.append(1)).send_and_receive(messages("a", "b", "c"))
    started, seen = time.monotonic(), []
    for reply in replies:
        seen.append((text_of(reply), time.monotonic() - started))
    assert [text for text, _ in seen] == ["reply to a", "reply to b", "reply to c"]
    assert seen[0][1] < 0.3 < seen[2][1] + 0.01
    assert len(counted) == 3


def test_streaming_sends_at_once():
    slow = SlowGrid(0)
    StreamingGrid(slow).send_and_receive(messages("a"))
    assert len(slow.pending) == 1


def test_streaming_stops_at_the_timeout():
    started = time.monotonic()
    replies = list(StreamingGrid(SlowGrid(0)).send_and_receive(messages("a", "silent", "b"), timeout=0.4))
    assert [text_of(reply) for reply in replies] == ["reply to a", "reply to b"]
    assert 0.4 <= time.monotonic() - started < 2


def test_what_is_there_when_the_time_is_over_counts():
    replies = StreamingGrid(SlowGrid(0)).send_and_receive(messages("a"), timeout=0)
    assert [text_of(reply) for reply in replies] == ["reply to a"]


def test_nothing_of_a_round_that_timed_out_is_kept(grid, worked):
    """Each message may hold a model. One client is played in each of three rounds, which takes all its time."""
    references = []
    for _ in range(3):
        sent = messages("a", "b", "c", "d", "e")
        references += map(weakref.ref, sent)
        replies = StreamingGrid(grid).send_and_receive(sent, timeout=0.05)
        next(replies)
        time.sleep(0.06)
        assert list(replies) == []
    del sent
    gc.collect()
    assert [reference() for reference in references] == [None] * 15
    assert worked == ["a"] * 3


def test_nobody_is_played_after_the_round(grid, worked):
    """What is sent again in mid-round has the same deadline."""
    streaming = StreamingGrid(grid)
    replies = streaming.send_and_receive(messages("a", "b"), timeout=0.05)
    next(replies)
    again = streaming.send_and_receive(messages("c"), timeout=0.05)
    time.sleep(0.06)
    assert [*replies, *again] == []
    assert worked == ["a"]
