"""Federated averaging against replies that are written by hand."""

import weakref
from dataclasses import replace
from itertools import permutations

import numpy as np
from flwr.app import ConfigRecord, Message

from clients.layers import layer_groups
from clients.messages import MODEL, PLAN, Reply, error_content
from clients.plan import RoundPlan
from clients.weights import weighted_mean, weights_of
from clients.wire import pack
from strategies import fedavg, reception
from strategies.cohort import Cohort
from strategies.fedavg import FedAvgStrategy
from strategies.roster import SimulatedRoster
from tests.strategies.by_hand import W, from_clients, good, play, strategy_of, w
from tests.tiny import ConvNet, ScriptedGrid, answer, asked, bits


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
    updates = [{n: (a + rng.exponential(size=a.shape)).astype(a.dtype) for n, a in model.items()} for _ in range(3)]
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
