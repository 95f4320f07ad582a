"""One deadline for a round, by a clock that the test moves."""

import pytest
from flwr.app import ArrayRecord, Message

from app.grids import StreamingGrid
from clients.messages import forgotten_content
from strategies.downlink import Downlink
from tests.strategies.by_hand import W, good, play, strategy_of, w
from tests.tiny import ScriptedGrid, asked, bits

TIMEOUT = 10.0


@pytest.fixture
def clock(monkeypatch):
    now = [1000.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    monkeypatch.setattr("time.sleep", lambda seconds: now.__setitem__(0, now[0] + seconds))
    return now


class Devices(ScriptedGrid):
    """Partition to what it does with its first, second ... message: seconds, and what it says then; else silence."""

    def __init__(self, clock, does):
        super().__init__(self.say)
        self.clock, self.does, self.due = clock, {part: list(acts) for part, acts in does.items()}, {}
        self.sent_at = []

    def push_messages(self, messages):
        messages = list(messages)
        ids = super().push_messages(messages)
        for message in messages:
            acts = self.does[asked(message).partition]
            seconds, says = acts.pop(0) if acts else (float("inf"), None)
            self.due[message.metadata.message_id] = self.clock[0] + seconds, says
            self.sent_at.append(self.clock[0] - 1000)
        return ids

    def pull_messages(self, message_ids):
        there = [name for name in message_ids if name in self.due and self.due[name][0] <= self.clock[0]]
        return list(super().pull_messages(there))

    def say(self, message):
        return self.due.pop(message.metadata.message_id)[1](message)


def forgets(message):
    return Message(forgotten_content(), reply_to=message)


def play_round(clock, does, **hooks):
    """The strategy after a round in which all clients are believed to remember the model, and how long it took."""
    strategy = strategy_of(len(does), round_timeout=TIMEOUT)
    strategy.downlink = Downlink(W, slices=True)
    for partition in does:
        strategy.downlink.confirm(partition, 1)
    for name, hook in hooks.items():
        setattr(strategy, name, hook)
    grid = Devices(clock, does)
    strategy.start(StreamingGrid(grid), ArrayRecord(), num_rounds=1, timeout=TIMEOUT)
    return strategy.report, grid, clock[0] - 1000, strategy


@pytest.mark.parametrize("seconds", [0.5, 5, 9.5])
def test_who_says_late_that_it_forgot_and_falls_silent_does_not_prolong_the_round(seconds, clock):
    report, grid, took, _ = play_round(clock, {0: [(1, good(w(1, 1)))], 1: [(seconds, forgets)]})
    assert TIMEOUT <= took < TIMEOUT + 0.2
    assert report.completed == [0]
    assert report.failed == {1: "no reply within 10 s"}
    assert len(grid.sent) == 3


def test_who_forgot_is_sent_everything_at_once_and_counts_though_another_stays_silent(clock):
    does = {0: [], 1: [(1, forgets), (3, good(w(1, 10)))], 2: [(2, forgets), (7.5, good(w(3, 20)))]}
    report, grid, took, strategy = play_round(clock, does)
    assert grid.sent_at[3:] == pytest.approx([1, 2], abs=0.2)
    assert TIMEOUT <= took < TIMEOUT + 0.2
    assert (report.completed, list(report.failed)) == ([1, 2], [0])
    assert bits(strategy.weights) == bits(w(2, 15))
    assert report.bytes_down == sum(len(m.content["model"]["model"].data) for m in grid.sent) + sum(
        len(m.content["plan"].deflate()) for m in grid.sent
    )


def test_the_servers_own_work_counts(clock):
    """Merging client 0's reply takes it 6 of the 10 seconds."""

    def slow(update):
        clock[0] += 6
        return update

    does = {0: [(1, good(w(1, 1)))], 1: [(2, forgets)]}
    _, grid, took, _ = play_round(clock, does, stands_for=slow)
    assert grid.sent_at[2] == pytest.approx(7, abs=0.2)
    assert TIMEOUT <= took < TIMEOUT + 0.2


def test_nothing_is_sent_when_the_time_is_over(clock):
    def slow(update):
        clock[0] += 20
        return update

    does = {0: [(1, good(w(1, 1)))], 1: [(1, forgets)]}
    report, grid, _, strategy = play_round(clock, does, stands_for=slow)
    assert len(grid.sent) == 2
    assert list(report.failed) == [1]
    assert strategy.downlink.base(1) is None  # so that the next round sends it everything


def test_a_grid_that_returns_all_replies_at_the_end_is_given_what_is_left(clock):
    timeouts = []

    class Flowers(ScriptedGrid):
        def send_and_receive(self, messages, *, timeout=None):
            timeouts.append(timeout)
            clock[0] += 8
            return list(super().send_and_receive(messages))

    strategy = strategy_of(1, round_timeout=TIMEOUT)
    strategy.downlink = Downlink(W, slices=True)
    strategy.downlink.confirm(0, 1)
    grid = Flowers(lambda message: forgets(message) if len(grid.sent) == 1 else good(w(1, 1))(message))
    play(strategy, grid)
    assert timeouts[1] == pytest.approx(2)
    assert strategy.report.completed == [0]
