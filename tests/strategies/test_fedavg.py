"""Federated averaging against replies that are written by hand."""

import weakref
from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict

from clients.layers import layer_groups
from clients.messages import METRICS, MODEL, PLAN, Reply, error_content, forgotten_content, model_record
from clients.plan import RoundPlan
from clients.weights import weighted_mean, weights_of
from clients.wire import pack
from strategies import fedavg, reception
from strategies.cohort import Cohort, RunFailed
from strategies.fedavg import FedAvgStrategy
from strategies.roster import SimulatedRoster
from tests.tiny import COSTS, ConvNet, ScriptedGrid, answer, asked, bits, failure

W = {"w.weight": np.zeros((1, 2), np.float32), "n": np.array(0)}


def strategy_of(clients=3, weights=W, **cohort):
    return FedAvgStrategy(weights, SimulatedRoster(clients), Cohort(**cohort), 0.1)


def play(strategy, grid, rounds=1):
    strategy.start(grid, ArrayRecord(), num_rounds=rounds)
    return strategy


def w(*values, n=0):
    return {"w.weight": np.array([values], np.float32), "n": np.array(n)}


def from_clients(answers):
    """Replies by partition: a function of the message."""
    return lambda message: answers[asked(message).partition](message)


def good(weights, examples=1, **metrics):
    return lambda message: answer(message, weights, examples, **metrics)


def test_the_average_by_hand():
    replies = {0: good(w(1, 10, n=4), 1), 1: good(w(5, 20, n=4), 3), 2: good(w(0, 0, n=7), 4, loss=1.5)}
    strategy = play(strategy_of(), ScriptedGrid(from_clients(replies)))
    # (1*1 + 3*5 + 4*0) / 8 = 2; (1*10 + 3*20 + 4*0) / 8 = 8.75; (1*4 + 3*4 + 4*7) / 8 = 5.5, to even: 6
    assert bits(strategy.weights) == bits(w(2, 8.75, n=6))
    report = strategy.report
    assert (report.round, report.phase, report.groups, report.sampled) == (1, "full", (), (0, 1, 2))
    assert (report.completed, report.failed, report.rejected) == ([0, 1, 2], {}, {})
    assert report.train_loss == 1.0  # (4 * 0.5 + 4 * 1.5) / 8
    assert (report.macs, report.macs_dense, report.seconds_train) == (21, 33, 0.75)


def test_it_is_the_weighted_mean_bit_for_bit():
    rng = np.random.default_rng(0)
    model = weights_of(ConvNet())
    updates = [{n: (a + rng.normal(size=a.shape)).astype(a.dtype) for n, a in model.items()} for _ in range(3)]
    grid = ScriptedGrid(from_clients([good(update, count) for update, count in zip(updates, (7, 1, 13), strict=True)]))
    strategy = play(strategy_of(weights=model), grid)
    assert bits(strategy.weights) == bits(weighted_mean(zip(updates, (7, 1, 13), strict=True)))


def test_one_client_makes_its_arrays_the_model():
    update = w(0.1, -0.0, n=3)
    assert bits(play(strategy_of(1), ScriptedGrid(good(update, 17))).weights) == bits(update)


def test_the_order_in_which_replies_come_changes_no_bit():
    # 0.1, 1e8 and -1e8 do not sum to the same in every order.
    replies = {0: good(w(0.1, 0.3), 3), 1: good(w(1e8, 0.7), 7), 2: good(w(-1e8, 0.1), 7)}
    results = set()
    for order in permutations(range(3)):
        grid = ScriptedGrid(from_clients(replies), arrange=lambda sent, order=order: [sent[at] for at in order])
        strategy = play(strategy_of(), grid)
        assert strategy.report.completed == [0, 1, 2]
        results.add(tuple(bits(strategy.weights).values()))
    assert len(results) == 1


def test_every_client_is_asked_with_the_plan_and_the_current_model():
    grid = ScriptedGrid(
        lambda message: answer(message, w(*(asked(message).weights["w.weight"][0] + 1))), node_ids=[4, 9]
    )
    strategy = play(strategy_of(), grid, rounds=2)
    orders = [asked(message) for message in grid.sent]
    assert [order.partition for order in orders] == [0, 1, 2] * 2
    assert [order.plan.round for order in orders] == [1] * 3 + [2] * 3
    assert {(order.plan.groups, order.plan.learning_rate, order.clients) for order in orders} == {(None, 0.1, 3)}
    assert [order.weights["w.weight"].tolist() for order in orders[::3]] == [[[0.0, 0.0]], [[1.0, 1.0]]]
    assert [message.metadata.dst_node_id for message in grid.sent[:3]] == [4, 9, 4]
    assert bits(strategy.weights) == bits(w(2, 2))


def test_a_resumed_run_counts_on():
    grid = ScriptedGrid(good(w(1, 1)))
    play(FedAvgStrategy(W, SimulatedRoster(1), Cohort(), 0.1, last_round=40), grid, rounds=2)
    assert [asked(message).plan.round for message in grid.sent] == [41, 42]


def test_a_fraction_samples_anew_in_each_round_and_by_the_seed():
    def sampled(seed):
        grid = ScriptedGrid(good(w(1, 1)))
        strategy = strategy_of(20, fraction=0.25, seed=seed)
        play(strategy, grid, rounds=3)
        partitions = [asked(message).partition for message in grid.sent]
        assert strategy.report.sampled == tuple(partitions[10:])
        return [partitions[at : at + 5] for at in (0, 5, 10)]

    first = sampled(0)
    assert all(round_ == sorted(set(round_)) for round_ in first)
    assert len({tuple(round_) for round_ in first}) == 3
    assert sampled(0) == first != sampled(1)


def test_the_node_ids_do_not_matter():
    def run(ids):
        grid = ScriptedGrid(lambda m: answer(m, w(asked(m).partition, 1), asked(m).partition + 1), node_ids=ids)
        return play(strategy_of(20, fraction=0.25), grid, rounds=2)

    first, second = run([1]), run([2**60 + 3, 17, 5])
    assert first.report.sampled == second.report.sampled
    assert bits(first.weights) == bits(second.weights)


# One reply at a time -----------------------------------------------------------------------------------------


def test_replies_are_taken_one_by_one_and_let_go(monkeypatch):
    """While reply k is averaged, k replies were asked for, and of the arrays of those before none is alive."""
    decoded, taken, alive = [], [], []

    def watched(content, most, known):
        reply = read(content, most, known)
        alive.append(sum(reference() is not None for reference in decoded))
        taken.append(grid.answered)
        decoded.append(weakref.ref(reply.weights["w.weight"]))
        return reply

    read = reception.read_reply
    monkeypatch.setattr(reception, "read_reply", watched)
    grid = ScriptedGrid(good(w(1, 2)))
    play(strategy_of(5), grid)
    assert taken == [1, 2, 3, 4, 5]
    assert alive == [0, 0, 0, 0, 0]


def test_those_ahead_are_held_back_until_their_turn(monkeypatch):
    merged = []
    accept = fedavg.RoundReport.accept

    def watched(report, partition, reply):
        merged.append((partition, grid.answered))
        accept(report, partition, reply)

    monkeypatch.setattr(fedavg.RoundReport, "accept", watched)
    grid = ScriptedGrid(good(w(1, 2)), arrange=lambda sent: [sent[at] for at in (1, 0, 2)])
    play(strategy_of(3), grid)
    assert merged == [(0, 2), (1, 2), (2, 3)]


def test_a_reply_counts_once_and_one_to_another_round_not_at_all():
    class Repeating(ScriptedGrid):
        def send_and_receive(self, messages, *, timeout=None):
            replies = list(super().send_and_receive(messages))
            return [*earlier, *replies, *replies]

    earlier = []
    grid = Repeating(from_clients([good(w(1, 10), 1), good(w(5, 20), 3)]))
    strategy = play(strategy_of(2), grid)
    assert bits(strategy.weights) == bits(w(4, 17.5))
    assert strategy.report.completed == [0, 1]
    assert strategy.report.bytes_up == sum(map(recount, map(grid.answer, grid.sent)))
    earlier.append(good(w(99, 99))(grid.sent[0]))
    assert bits(play(strategy, grid).weights) == bits(w(4, 17.5))


# What fails and what is refused ------------------------------------------------------------------------------


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


# What it cost ------------------------------------------------------------------------------------------------


def recount(message):
    """Bytes of a message, counted from its parts."""
    records = [*message.content.config_records.values(), *message.content.metric_records.values()]
    arrays = [array for record in message.content.array_records.values() for array in record.values()]
    return sum(len(array.data) for array in arrays) + sum(len(record.deflate()) for record in records)


def test_bytes_are_those_of_the_messages():
    model = weights_of(ConvNet())
    replies = []

    def reply(message):
        partition = asked(message).partition
        made = [
            lambda: answer(message, model, 5),
            lambda: answer(message, {**model, "fc.bias": np.full(2, np.nan, np.float32)}, 5),  # rejected
            lambda: Message(error_content("disk full"), reply_to=message),
            lambda: None,
        ][partition]()
        replies.append(made)
        return made

    grid = ScriptedGrid(reply)
    report = play(strategy_of(4, weights=model), grid).report
    assert report.bytes_down == sum(map(recount, grid.sent))
    assert report.bytes_up == sum(recount(made) for made in replies if made is not None)
    config = ConfigRecord({**asked(grid.sent[0]).plan.to_config(), "partition": 0, "clients": 4, "keep": False})
    assert report.bytes_down == 4 * (len(pack(model).to_bytes()) + len(config.deflate()))
    assert recount(replies[2]) == len(ConfigRecord({"reason": "disk full"}).deflate())


def test_dense_bytes_are_those_of_the_whole_model_uncompressed():
    zeros = {"w.weight": np.zeros((100, 100), np.float32)}
    grid = ScriptedGrid(good(zeros))
    report = play(strategy_of(2, weights=zeros), grid).report
    # 40,000 bytes of values four times, and little around them; what was sent are compressed zeros.
    assert 160_000 < report.bytes_dense < 160_000 + 4 * 500
    assert 80_000 < report.bytes_dense_up < 80_000 + 2 * 500
    assert report.bytes_down + report.bytes_up < 4 * 500


# A strategy that asks for less, as others are built ------------------------------------------------------------


class HeadOnly(FedAvgStrategy):
    def plan(self, server_round):
        return replace(super().plan(server_round), groups=(1,))


TWO = {"a.weight": np.zeros((1, 2), np.float32), "b.weight": np.ones((1, 2), np.float32)}


def test_what_nobody_sent_keeps_its_value():
    strategy = HeadOnly(TWO, SimulatedRoster(2), Cohort(), 0.1)
    play(strategy, ScriptedGrid(good({"b.weight": np.full((1, 2), 5, np.float32)})))
    assert bits(strategy.weights) == bits({"a.weight": TWO["a.weight"], "b.weight": np.full((1, 2), 5, np.float32)})
    assert list(strategy.weights) == ["a.weight", "b.weight"]
    assert (strategy.report.phase, strategy.report.groups) == ("partial", (1,))


def test_more_than_was_asked_for_is_refused():
    strategy = HeadOnly(TWO, SimulatedRoster(2), Cohort(), 0.1)
    play(strategy, ScriptedGrid(good(TWO)))
    assert strategy.report.rejected == dict.fromkeys((0, 1), "arrays ['a.weight'] were not asked for")


def test_merge_keeps_what_the_mean_lacks():
    strategy = FedAvgStrategy(TWO, SimulatedRoster(1), Cohort(), 0.1)
    merged = strategy.merge(RoundPlan(1, None, 0.1, ""), {"b.weight": np.full((1, 2), 9, np.float32)})
    assert merged["a.weight"] is TWO["a.weight"]
    assert merged["b.weight"].tolist() == [[9.0, 9.0]]
    assert layer_groups(merged) == strategy.groups


def test_the_plan_record_is_the_only_one_beside_the_model():
    grid = ScriptedGrid(good(w(1, 1)))
    play(strategy_of(1), grid)
    assert sorted(grid.sent[0].content) == [MODEL, PLAN]
    assert isinstance(reception.read_reply(answer(grid.sent[0], W).content), Reply)


def test_a_reply_that_would_exhaust_the_memory_is_refused_unread():
    """3 million zeros are 12 MB from a few hundred bytes; the model has 8 bytes, so 1 MiB and 32 bytes are allowed."""
    bomb = {"w.weight": np.zeros((1000, 3000), np.float32)}
    strategy = strategy_of(1, weights=w(3, 4), max_failed_rounds=2)
    play(strategy, ScriptedGrid(good(bomb)))
    assert strategy.report.rejected[0] == "payload of 12000000 bytes when unpacked, at most 1048640 are allowed"
