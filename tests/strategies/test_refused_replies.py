"""Replies that fail or are refused: named, counted and left out, and the rest are averaged."""

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, Message, MetricRecord, RecordDict

from clients.messages import METRICS, MODEL, error_content, forgotten_content, model_record
from clients.wire import pack
from strategies.cohort import Cohort, RunFailed
from strategies.roster import SimulatedRoster
from strategies.zerofl import ZeroFLStrategy
from tests.strategies.by_hand import W, from_clients, good, play, strategy_of, w
from tests.tiny import COSTS, ScriptedGrid, answer, asked, bits, failure


def content(data=None, **metrics):
    """A reply's content with any bytes for a model."""
    data = pack(w(1, 1)).to_bytes() if data is None else data
    record = ArrayRecord({MODEL: Array("uint8", (len(data),), "fedslice.packed", data)})
    return RecordDict({MODEL: record, METRICS: MetricRecord({"examples": 3, **COSTS, **metrics})})


def raw(*args, **metrics):
    return lambda message: Message(content(*args, **metrics), reply_to=message)


def sends_record(record):
    return lambda message: Message(record, reply_to=message)


PACKED = pack(w(1, 1)).to_bytes()
FAILED = {
    "error of the client": (sends_record(error_content("ValueError: no data")), "ValueError: no data"),
    "error of many lines": (sends_record(error_content("Boom\n\x1b[2J at line 1\n")), "Boom [2J at line 1"),
    "error of Flower": (lambda message: failure(message, "node died"), "node died"),
    "silence": (lambda message: None, "no reply within 3600 s"),
}
REJECTED = {
    "nan": (good(w(np.nan, 1)), "NaN or infinity in ['w.weight']"),
    "infinity": (good(w(1, np.inf)), "NaN or infinity in ['w.weight']"),
    "shape": (
        good({**W, "w.weight": np.ones((2, 1), np.float32)}),
        "w.weight is float32 (2, 1), must be float32 (1, 2)",
    ),
    "dtype": (good({**W, "w.weight": np.ones((1, 2))}), "w.weight is float64 (1, 2), must be float32 (1, 2)"),
    "unknown name": (good({**W, "v": np.ones(2)}), "arrays ['v'] were not asked for"),
    "missing name": (good({"w.weight": W["w.weight"]}), "arrays ['n'] are missing"),
    "no arrays": (good({}), "arrays ['w.weight', 'n'] are missing"),
    "no example": (good(w(1, 1), 0), "0 examples"),
    "negative examples": (good(w(1, 1), -1), "-1 examples"),
    "absurd examples": (good(w(1, 1), 10**12), "1000000000000 examples"),
    "infinite examples": (raw(examples=float("inf")), "examples=inf: must be an integer"),
    "infinite macs": (raw(macs=float("inf")), "macs=inf: must be an integer"),
    "nan loss": (good(w(1, 1), loss=float("nan")), "loss=nan, must be from"),
    "steps that nobody asked for": (good(w(1, 1), steps=[0.5]), "1 step sizes were not asked for"),
    "a bomb": (good({**W, "w.weight": np.zeros((1000, 3000), np.float32)}), "payload of 12000"),
    "empty content": (sends_record(RecordDict()), "the reply lacks"),
    "no metrics": (sends_record(RecordDict({MODEL: model_record(pack(w(1, 1)))})), "the reply lacks"),
    "no model": (sends_record(RecordDict({METRICS: MetricRecord({"examples": 3, **COSTS})})), "no packed model"),
    "garbage": (raw(b"garbage!" * 9), "not a packed payload"),
    "empty bytes": (raw(b""), "not a packed payload"),
    "truncated": (raw(PACKED[:-3]), "payload of"),
    "truncated header": (raw(PACKED[:20]), "payload header does not decode"),
    "half a header": (raw(PACKED[:6]), "not a packed payload"),
}


@pytest.mark.parametrize("what", [*FAILED, *REJECTED])
def test_one_bad_client_is_named_and_counted_and_the_rest_are_averaged(what):
    bad, reason = {**FAILED, **REJECTED}[what]
    replies = {0: good(w(1, 10), 1), 1: bad, 2: good(w(5, 20), 3)}
    strategy = play(strategy_of(), ScriptedGrid(from_clients(replies)))
    assert bits(strategy.weights) == bits(w(4, 17.5))  # (1*1 + 3*5) / 4; (1*10 + 3*20) / 4
    report = strategy.report
    assert report.completed == [0, 2]
    ours, other = (report.failed, report.rejected) if what in FAILED else (report.rejected, report.failed)
    assert list(ours) == [1]
    assert ours[1].startswith(reason)
    assert other == {}
    assert report.examples == 4
    assert report.macs == 14


@pytest.mark.parametrize("what", [*FAILED, *REJECTED])
def test_nobody_left_keeps_the_model_and_rounds_in_a_row_end_the_run(what):
    bad, reason = {**FAILED, **REJECTED}[what]
    strategy = strategy_of(2, weights=w(3, 4), max_failed_rounds=3)
    play(strategy, ScriptedGrid(bad), rounds=2)
    assert bits(strategy.weights) == bits(w(3, 4))
    assert strategy.report.train_loss is None
    with pytest.raises(RunFailed, match="3 rounds in a row without 1 accepted replies; client 0: ") as error:
        play(strategy, ScriptedGrid(bad))
    assert reason in str(error.value)


def test_a_good_round_starts_the_count_anew():
    """Rounds 1, 2, 4 and 5 fail; with three in a row allowed to end the run, it does not end."""

    def every_third(message):
        return answer(message, w(1, 1)) if asked(message).plan.round % 3 == 0 else failure(message)

    strategy = play(strategy_of(2, max_failed_rounds=3), ScriptedGrid(every_third), rounds=6)
    assert strategy.report.round == 6
    with pytest.raises(RunFailed, match="2 rounds in a row"):
        play(strategy_of(2, max_failed_rounds=2), ScriptedGrid(every_third), rounds=6)


def test_too_few_accepted_replies_are_a_failed_round():
    replies = {0: good(w(1, 1)), 1: failure, 2: good(w(2, 2))}
    strategy = play(strategy_of(weights=w(3, 4), min_clients=3), ScriptedGrid(from_clients(replies)))
    assert bits(strategy.weights) == bits(w(3, 4))
    assert strategy.report.completed == [0, 2]


def test_an_update_beyond_the_limit_is_left_out_like_any_bad_reply():
    """From zeros, (1, 10) is 10.05 away and (5, 20) is 20.6; the count `n` does not matter."""
    replies = {0: good(w(1, 10, n=10**6), 1), 1: good(w(5, 20), 3)}
    strategy = play(strategy_of(2, max_update_norm=10.1), ScriptedGrid(from_clients(replies)))
    assert bits(strategy.weights) == bits(w(1, 10, n=10**6))
    assert strategy.report.rejected == {1: "update of norm 20.6155, must be at most 10.1"}


def test_what_zerofl_does_not_send_is_no_change():
    """The 3 stays, so that the update is 0.5 long, and not 3.04."""
    strategy = ZeroFLStrategy(w(3, 4), SimulatedRoster(1), Cohort(max_update_norm=0.6), 0.1, prunable=["w.weight"])
    play(strategy, ScriptedGrid(good(w(0, 4.5))))
    assert strategy.report.rejected == {}
    assert bits(strategy.weights) == bits(w(3, 4.5))


def test_clients_left_out_are_logged_with_round_and_reason(caplog):
    replies = {0: good(w(1, 1)), 1: good(w(np.nan, 1)), 2: lambda message: None}
    with caplog.at_level("WARNING", logger="fedslice"):
        play(strategy_of(round_timeout=5.0), ScriptedGrid(from_clients(replies)))
    text = caplog.text
    assert "round 1: client 1 left out: NaN or infinity in ['w.weight']" in text
    assert "round 1: client 2 left out: no reply within 5 s" in text


def test_a_client_that_has_forgotten_what_it_was_never_told_is_refused():
    forgetful = sends_record(forgotten_content())
    grid = ScriptedGrid(from_clients([good(w(1, 10)), forgetful]))
    strategy = play(strategy_of(2), grid)
    assert bits(strategy.weights) == bits(w(1, 10))
    assert list(strategy.report.rejected) == [1]
    assert len(grid.sent) == 2  # it is not asked again and again


def test_a_reply_that_would_exhaust_the_memory_is_refused_unread():
    """3 million zeros are 12 MB from a few hundred bytes; the model has 8 bytes, so 1 MiB and 32 bytes are allowed."""
    bomb = {"w.weight": np.zeros((1000, 3000), np.float32)}
    strategy = strategy_of(1, weights=w(3, 4), max_failed_rounds=2)
    play(strategy, ScriptedGrid(good(bomb)))
    assert strategy.report.rejected[0] == "payload of 12000000 bytes when unpacked, at most 1048640 are allowed"
