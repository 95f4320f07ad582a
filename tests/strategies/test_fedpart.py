"""FedPart against FedAvg, and its partial rounds against what stands outside of them, with real local training."""

from itertools import pairwise

import pytest
from flwr.app import ArrayRecord, RecordDict

from clients.adapter import train_reply
from clients.layers import layer_groups, names_in
from clients.memory import Memory
from clients.messages import METRICS, error_of, has_forgotten, read_reply
from clients.numpy_client import FederatedClient, shared
from clients.training import LocalTraining
from clients.weights import weights_of
from clients.wire import pack
from strategies.cohort import Cohort
from strategies.fedavg import FedAvgStrategy
from strategies.fedpart import FedPartStrategy
from strategies.roster import SimulatedRoster
from strategies.server_optimizer import Momentum
from tests.tiny import ScriptedGrid, TinyTask, asked, bits, changed, macs_of

TASK = TinyTask()
ADAM = LocalTraining(epochs=1, batch_size=4, weight_decay=0.01)
SGD = LocalTraining(epochs=1, batch_size=4, optimizer="sgd", momentum=0.9, weight_decay=0.01)


class Federation:
    """Clients that train for real on one shared model; keeps every reply."""

    def __init__(self, training=ADAM, batch_norm="global"):
        self.training, self.batch_norm = training, batch_norm
        self.model = TASK.build_model()
        self.replies = []
        self.memory = Memory(RecordDict())
        self.grid = ScriptedGrid(self.answer)

    def client(self, order):
        examples = TASK.client_examples(order.partition)
        return FederatedClient(self.model, TASK, examples, self.training, order.partition, batch_norm=self.batch_norm)

    def answer(self, message):
        self.replies.append(train_reply(message, self.memory, self.client))
        assert error_of(self.replies[-1]) is None
        return self.replies[-1]

    def play(self, strategy_class, rounds, **settings):
        """The model and the report after each round, from the initial one on."""
        model = TASK.build_model()
        weights = weights_of(model, set(shared(model, self.batch_norm)))
        strategy = strategy_class(weights, SimulatedRoster(TASK.clients), Cohort(), 0.05, **settings)
        seen = []
        strategy.start(
            self.grid,
            ArrayRecord(),
            num_rounds=rounds,
            evaluate_fn=lambda *_: seen.append((bits(strategy.weights), strategy.report)),
        )
        return seen


@pytest.mark.parametrize("batch_norm", ["global", "local"])
@pytest.mark.parametrize("training", [ADAM, SGD], ids=["adam", "sgd"])
def test_never_partial_is_fedavg_bit_for_bit(training, batch_norm):
    average = Federation(training, batch_norm).play(FedAvgStrategy, 3)
    fedpart = Federation(training, batch_norm).play(FedPartStrategy, 3, warmup=3)
    assert [weights for weights, _ in fedpart] == [weights for weights, _ in average]
    assert len({tuple(weights.values()) for weights, _ in fedpart}) == 4  # and every round did something
    costs = [
        [(r.bytes_down, r.bytes_up, r.bytes_dense, r.macs, r.macs_dense, r.train_loss) for _, r in run[1:]]
        for run in (average, fedpart)
    ]
    assert costs[0] == costs[1]


@pytest.mark.parametrize("batch_norm", ["global", "local"])
@pytest.mark.parametrize("training", [ADAM, SGD], ids=["adam", "sgd"])
def test_a_partial_round_changes_its_group_on_the_server_and_not_a_bit_else(training, batch_norm):
    run = Federation(training, batch_norm).play(FedPartStrategy, 5, warmup=1, rounds_per_layer=1, full_between=1)
    reports = [report for _, report in run[1:]]
    assert [report.groups for report in reports] == [(), (0,), (1,), (2,), ()]
    assert [report.phase for report in reports] == ["full", "partial", "partial", "partial", "full"]
    groups = layer_groups(shared(TASK.build_model(), batch_norm))
    for (before, _), (after, report) in pairwise(run):
        assert changed(before, after) == set(names_in(groups, report.groups or None))


def test_server_moments_move_nothing_outside_the_slice():
    """Momentum of the full round waits in the groups whose turn it is not."""
    run = Federation().play(
        FedPartStrategy, 4, warmup=1, rounds_per_layer=1, full_between=1, server_optimizer=Momentum(0.5)
    )
    groups = layer_groups(TASK.build_model())
    for (before, _), (after, report) in pairwise(run):
        assert changed(before, after) == set(names_in(groups, report.groups or None))


def test_uplink_to_the_byte():
    """Up goes the packed slice and the metrics beside it, and nothing of what is frozen."""
    federation = Federation()
    reports = [r for _, r in federation.play(FedPartStrategy, 4, warmup=1, rounds_per_layer=1, full_between=0)[1:]]
    groups = layer_groups(TASK.build_model())
    for number, report in enumerate(reports):
        replies = federation.replies[3 * number : 3 * number + 3]
        expected = 0
        for reply in replies:
            weights = read_reply(reply.content).weights
            assert tuple(weights) == names_in(groups, report.groups or None)
            expected += len(pack(weights).to_bytes()) + len(reply.content.metric_records[METRICS].deflate())
        assert report.bytes_up == expected
    # The classifier is 8 of the model's 96 numbers: its round sends far less than the full one.
    assert reports[3].bytes_up < 0.7 * reports[0].bytes_up


def test_macs_are_those_of_the_slices():
    reports = [r for _, r in Federation().play(FedPartStrategy, 4, warmup=1, rounds_per_layer=1, full_between=0)[1:]]
    model = TASK.build_model()
    full = macs_of(model, TASK.shape, tuple(model.state_dict()))
    slices = [macs_of(model, TASK.shape, group) for group in layer_groups(model)]
    # three clients, ten examples each, one epoch
    assert [report.macs for report in reports] == [30 * count for count in [full, *slices]]
    assert {report.macs_dense for report in reports} == {30 * full}


SCHEDULE = {"warmup": 1, "rounds_per_layer": 2, "full_between": 1}


def test_sending_down_only_what_clients_lack_changes_bytes_and_nothing_else():
    whole, sliced = (Federation().play(FedPartStrategy, 8, downlink=how, **SCHEDULE) for how in ("full", "slice"))
    assert [weights for weights, _ in whole] == [weights for weights, _ in sliced]
    down = [[report.bytes_down for _, report in run[1:]] for run in (whole, sliced)]
    # Clients are told to remember from round 2 on, so round 3 is the first that sends only group 0, which moved.
    assert down[0][:2] == down[1][:2]
    assert all(few < many for many, few in zip(down[0][2:7], down[1][2:7], strict=True))
    assert [report.bytes_up for _, report in whole] == [report.bytes_up for _, report in sliced]


class Restarting(Federation):
    """A node whose memory is gone before its first order of a round."""

    forgotten = 0

    def __init__(self, server_round):
        super().__init__()
        self.restarts = {server_round}

    def answer(self, message):
        if asked(message).plan.round in self.restarts:
            self.restarts, self.memory = set(), Memory(RecordDict())
        reply = train_reply(message, self.memory, self.client)
        self.forgotten += has_forgotten(reply)
        return reply


def test_devices_that_lose_their_memory_are_sent_everything_and_the_result_is_the_same():
    federation = Restarting(4)
    run = federation.play(FedPartStrategy, 8, **SCHEDULE)
    assert federation.forgotten > 0
    assert [weights for weights, _ in run] == [w for w, _ in Federation().play(FedPartStrategy, 8, **SCHEDULE)]
    assert [report.completed for _, report in run[1:]] == [[0, 1, 2]] * 8
    # What they said and what they were then sent is counted too.
    sent = sum(recount(message) for message in federation.grid.sent)
    assert sum(report.bytes_down for _, report in run) == sent


def test_who_is_sent_everything_need_not_remember_anything():
    """Round 8 is full and changes every array, so that round 9 sends all of them, once."""
    federation = Restarting(9)
    federation.play(FedPartStrategy, 9, **SCHEDULE)
    assert not federation.restarts
    assert federation.forgotten == 0


def recount(message):
    data = sum(len(array.data) for record in message.content.array_records.values() for array in record.values())
    return data + sum(len(record.deflate()) for record in message.content.config_records.values())


def test_local_statistics_are_never_sent():
    federation = Federation(batch_norm="local")
    federation.play(FedPartStrategy, 3, warmup=1, rounds_per_layer=1)
    names = {name for reply in federation.replies for name in read_reply(reply.content).weights}
    assert names == {name for name, _ in TASK.build_model().named_parameters()}


def test_the_same_run_twice_gives_the_same_bits_and_clients_may_be_new_each_time():
    first = [weights for weights, _ in Federation().play(FedPartStrategy, 4, warmup=1, order="random")]
    again = [weights for weights, _ in Federation().play(FedPartStrategy, 4, warmup=1, order="random")]
    assert first == again

    class Forgetful(Federation):
        def client(self, order):
            self.model = TASK.build_model()  # a device that restarted
            return super().client(order)

    assert [weights for weights, _ in Forgetful().play(FedPartStrategy, 4, warmup=1, order="random")] == first


def test_a_random_order_is_keyed_by_the_cohorts_seed():
    model = weights_of(TASK.build_model())
    orders = set()
    for seed in range(8):
        strategy = FedPartStrategy(
            model, SimulatedRoster(1), Cohort(seed=seed), 0.1, warmup=0, rounds_per_layer=1, order="random"
        )
        orders.add(tuple(strategy.plan(number).groups for number in (1, 2, 3)))
    assert len(orders) > 1


def test_a_list_and_several_groups_a_round():
    model = weights_of(TASK.build_model())
    strategy = FedPartStrategy(
        model, SimulatedRoster(1), Cohort(), 0.1, warmup=0, rounds_per_layer=1, groups_per_round=2, order=[2, 0, 1]
    )
    assert [strategy.plan(number).groups for number in (1, 2, 3)] == [(0, 2), (1,), None]
    assert strategy.plan(1).learning_rate == 0.1


def test_a_group_beyond_the_model_is_an_error_at_the_start():
    with pytest.raises(ValueError, match=r"order=\[3\]: must list layer groups from 0 to 2"):
        FedPartStrategy(weights_of(TASK.build_model()), SimulatedRoster(1), Cohort(), 0.1, order=[3])
