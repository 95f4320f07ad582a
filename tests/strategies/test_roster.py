"""Which node plays which client, and what is said where one is missing or misconfigured."""

import itertools
import logging

import pytest
from flwr.app import ConfigRecord, Message, RecordDict

from clients.messages import WHO
from strategies.cohort import RunFailed
from strategies.roster import DeviceRoster, SimulatedRoster
from strategies.waiting import wait_for_nodes
from tests.tiny import ScriptedGrid, failure


def devices(answers):
    """A grid of nodes that answer who they are; an answer None is silence, a string an error of Flower's."""

    def answer(message):
        said = answers[message.metadata.dst_node_id]
        if said is None:
            return None
        if isinstance(said, str):
            return failure(message, said)
        return Message(RecordDict({WHO: ConfigRecord(said)}), reply_to=message)

    return ScriptedGrid(answer, list(answers))


def numbered(partition, total=3):
    return {"partition-id": partition, "num-partitions": total}


def test_a_simulation_deals_clients_out_in_turn():
    roster = SimulatedRoster(5)
    assert roster.nodes(ScriptedGrid(node_ids=[30, 10]), 1.0) == {0: 10, 1: 30, 2: 10, 3: 30, 4: 10}
    assert roster.nodes(ScriptedGrid(node_ids=[]), 1.0) == {}
    assert roster.clients == 5


def test_a_simulation_needs_clients():
    with pytest.raises(ValueError, match="clients=0: must be at least 1"):
        SimulatedRoster(0)


def test_devices_are_known_by_their_partition_not_by_their_node():
    roster = DeviceRoster()
    nodes = roster.nodes(devices({7: numbered(2), 8: numbered(0), 9: numbered(1)}), 1.0)
    assert list(nodes.items()) == [(0, 8), (1, 9), (2, 7)]
    assert roster.clients == 3


def test_devices_that_are_not_there_yet_count():
    roster = DeviceRoster()
    assert roster.nodes(devices({7: numbered(2, total=5)}), 1.0) == {2: 7}
    assert roster.clients == 5


def test_devices_with_their_own_data_follow_in_the_order_of_its_name_whatever_their_ids():
    answers = {"b": {"data": "b"}, "a": {"data": "a"}, "one": {"partition-id": 1, "data": "z"}}
    for ids in ([5, 6, 7], [9, 3, 1]):
        names = dict(zip(ids, answers, strict=True))
        nodes = DeviceRoster().nodes(devices({node: answers[name] for node, name in names.items()}), 1.0)
        assert {partition: names[node] for partition, node in nodes.items()} == {0: "a", 1: "one", 2: "b"}


def test_only_new_nodes_are_asked():
    roster = DeviceRoster()
    answers = {1: numbered(0), 2: None}
    grid = devices(answers)
    assert roster.nodes(grid, 1.0) == {0: 1}
    answers[2] = numbered(1)
    answers[3] = numbered(2)
    grid.node_ids = [1, 2, 3]
    assert roster.nodes(grid, 1.0) == {0: 1, 1: 2, 2: 3}
    assert [message.metadata.dst_node_id for message in grid.sent] == [1, 2, 2, 3]
    grid.node_ids = [1, 3]  # node 2 went offline
    assert roster.nodes(grid, 1.0) == {0: 1, 2: 3}
    assert len(grid.sent) == 4


def test_a_node_whose_answer_failed_is_asked_again():
    roster = DeviceRoster()
    answers = {1: "crashed", 2: numbered(0, 2)}
    grid = devices(answers)
    assert roster.nodes(grid, 1.0) == {0: 2}
    answers[1] = numbered(1, 2)
    assert roster.nodes(grid, 1.0) == {0: 2, 1: 1}


def test_a_node_config_that_says_nothing_ends_the_run_with_its_reason():
    error = "its node-config {} does not say which data to train on; start it with --node-config 'partition-id=0'"
    with pytest.raises(RunFailed, match=r"node 8: its node-config .* start it with --node-config"):
        DeviceRoster().nodes(devices({7: numbered(0), 8: {"error": error}}), 1.0)


def test_two_nodes_with_one_partition_are_named():
    with pytest.raises(RunFailed, match="node 9: partition-id=1: node 7 has it already"):
        DeviceRoster().nodes(devices({7: numbered(1), 8: numbered(0), 9: numbered(1)}), 1.0)


def test_nodes_that_disagree_on_the_number_of_partitions_are_an_error():
    with pytest.raises(RunFailed, match="node 8: num-partitions=3: must be 2"):
        DeviceRoster().nodes(devices({7: numbered(0, 2), 8: numbered(1, 3)}), 1.0)


def test_waiting_ends_as_soon_as_enough_are_there():
    grid = ScriptedGrid(node_ids=[1])
    assert wait_for_nodes(SimulatedRoster(3), grid, 1, 0.01, everyone=True) == {0: 1, 1: 1, 2: 1}
    some = devices({7: numbered(2)})
    assert wait_for_nodes(DeviceRoster(), some, 1, 0.01, everyone=False) == {2: 7}


def test_waiting_asks_again_until_they_come(monkeypatch):
    answers = {7: numbered(2)}
    grid = devices(answers)

    def somebody_comes(seconds):
        node = 7 + len(answers)
        answers[node] = numbered(len(answers) - 1)
        grid.node_ids.append(node)

    monkeypatch.setattr("strategies.waiting.time.sleep", somebody_comes)
    assert wait_for_nodes(DeviceRoster(), grid, 1, 60.0, everyone=True) == {0: 8, 1: 9, 2: 7}


@pytest.mark.parametrize(
    ("there", "at_least", "everyone", "message"),
    [
        ({7: numbered(1)}, 1, True, r"only 1 of 3 clients within .*=0.01 s: partitions \[0, 2\] are missing"),
        ({7: numbered(0)}, 2, False, r"only 1 of 2 clients within .*=0.01 s: partitions \[1\] are missing"),
        ({}, 1, False, r"only 0 of 1 clients within .*: partitions \[0\] are missing"),
        ({7: numbered(1, 2**40)}, 1, True, r"partitions \[0, 2, .*, 19, 20\] and 1099511627755 more are missing"),
        ({7: None}, 1, True, r"only 0 of 1 clients within .*: partitions \[0\] are missing"),
    ],
)
def test_time_limit_says_who_is_missing(there, at_least, everyone, message):
    with pytest.raises(RunFailed, match=message):
        wait_for_nodes(DeviceRoster(), devices(there), at_least, 0.01, everyone)


def test_a_silent_node_does_not_prolong_the_wait(monkeypatch):
    """It comes online in the 9th of 10 seconds and never answers: the wait is over after 10, and a poll."""
    clock = [0.0]

    class SilentGrid(ScriptedGrid):
        def get_node_ids(self):
            return [7] if clock[0] > 9 else []

        def send_and_receive(self, messages, *, timeout=None):
            clock[0] += timeout
            return []

    monkeypatch.setattr("strategies.waiting.time.monotonic", lambda: clock[0])
    monkeypatch.setattr("strategies.waiting.time.sleep", lambda seconds: clock.__setitem__(0, clock[0] + seconds))
    with pytest.raises(RunFailed, match=r"only 0 of 1 clients within .*=10 s"):
        wait_for_nodes(DeviceRoster(), SilentGrid(), 1, 10.0, everyone=True)
    assert 10 <= clock[0] < 10.5


def test_a_device_keeps_its_number_when_another_leaves_and_one_that_returns_gets_it_back():
    """Nodes 11 (data a) and 22 (data b) are 0 and 1; 11 leaves; it returns as node 33; then a stranger comes."""
    answers = {11: {"data": "a"}, 22: {"data": "b"}, 33: {"data": "a"}, 44: {"data": "c"}}
    roster = DeviceRoster()
    seen = []
    for there in ((11, 22), (22,), (22, 33), (22, 33, 44)):
        grid = devices({node: answers[node] for node in there})
        seen.append(roster.nodes(grid, 1.0, strict=not seen))
    assert seen == [{0: 11, 1: 22}, {1: 22}, {0: 33, 1: 22}, {0: 33, 1: 22, 2: 44}]


def test_nodes_that_are_there_and_silent_are_told_of():
    """One answers, one does not; a third client is not there at all."""
    grid = devices({7: numbered(0), 8: None})
    with pytest.raises(RunFailed, match=r"^only 1 of 3 .* \[1, 2\] are missing; 1 node is connected and has not said"):
        wait_for_nodes(DeviceRoster(), grid, 3, 0.05, everyone=False)


# Those who come later ----------------------------------------------------------------------------------------


def join(answers, later, caplog):
    """A roster after its strict round and three more in which `later` are there too: partitions, clients, log lines."""
    roster = DeviceRoster()
    first = roster.nodes(devices(answers), 1.0)
    clients = roster.clients
    with caplog.at_level(logging.WARNING, logger="fedslice"):
        caplog.clear()
        for _ in range(3):
            nodes = roster.nodes(devices({**answers, **later}), 1.0, strict=False)
    assert {partition: nodes[partition] for partition in first} == first
    return nodes, (clients, roster.clients), caplog.messages


VALUES = [
    0, 1, 2, 3, -1, 2**62, 0.0, 1.0, 0.5, float("nan"), float("inf"), "", "0", "x", "\x1b[2J\n" * 99, b"", b"0", True,
    False, [], [0], [1.0], ["0"], [b"0"], [True], [7] * 10_000,
]  # fmt: skip
PAIRS = [*itertools.product(VALUES, VALUES)]
MALFORMED = [
    *({"partition-id": part, "num-partitions": total} for part, total in PAIRS
      if type(part) is not int or type(total) is not int or not 0 <= part < total),
    *({key: value} for key in ("partition-id", "num-partitions", "else") for value in VALUES),
    *({"data": value} for value in VALUES if not isinstance(value, str) or not value),
    *({"data": "a", "partition-id": value} for value in VALUES if type(value) is not int or value < 0),
    *({"error": value} for value in VALUES),
    {},
]  # fmt: skip


def test_a_malformed_answer_is_one_line_in_the_first_round():
    for said in MALFORMED:
        with pytest.raises(RunFailed, match=r"^node 9: .") as error:
            DeviceRoster().nodes(devices({7: numbered(0), 9: said}), 1.0)
        assert str(error.value).isprintable()
        assert len(str(error.value)) <= 320


def test_later_a_malformed_answer_is_left_out_and_said_once_in_one_line(caplog):
    for said in MALFORMED:
        nodes, clients, lines = join({7: numbered(0), 8: numbered(1)}, {9: said}, caplog)
        assert (nodes, clients) == ({0: 7, 1: 8}, (3, 3))
        (line,) = lines
        assert line.startswith("node 9 is left out: ")
        assert line.isprintable()
        assert len(line) <= 320


def test_a_malformed_answer_is_told_with_its_value_and_what_is_allowed(caplog):
    (line,) = join({7: numbered(0)}, {9: {"partition-id": "x", "num-partitions": 3}}, caplog)[2]
    assert line == "node 9 is left out: partition-id='x': must be a whole number from 0"
    (line,) = join({7: numbered(0)}, {9: numbered(3)}, caplog)[2]
    assert line == "node 9 is left out: partition-id=3: must be below num-partitions=3"


@pytest.mark.parametrize("total", [1, 3, 4, 2**62])
def test_the_number_of_partitions_stays_what_it_was_in_the_first_round(total, caplog):
    """Were it to change, every device would split its data anew in mid-run."""
    nodes, clients, lines = join({7: numbered(0, 2), 8: numbered(1, 2)}, {5: numbered(0, total)}, caplog)
    assert (nodes, clients) == ({0: 7, 1: 8}, (2, 2))
    assert lines == [f"node 5 is left out: num-partitions={total}: must be 2, as in the rest of this run"]


def test_nor_does_it_change_when_those_who_agreed_are_gone(caplog):
    roster = DeviceRoster()
    roster.nodes(devices({7: numbered(0, 2), 8: numbered(1, 2)}), 1.0)
    assert roster.nodes(devices({5: numbered(0, 3), 6: numbered(1, 2)}), 1.0, strict=False) == {1: 6}
    assert roster.clients == 2


def test_nor_by_devices_with_data_of_their_own(caplog):
    """Their numbers follow those of the partitions, so that a device that is late finds its own free."""
    roster = DeviceRoster()
    assert roster.nodes(devices({7: numbered(0, 2), 8: {"data": "a"}}), 1.0) == {0: 7, 2: 8}
    there = devices({7: numbered(0, 2), 8: {"data": "a"}, 6: numbered(1, 2), 5: {"data": "b"}})
    assert roster.nodes(there, 1.0, strict=False) == {0: 7, 1: 6, 2: 8, 3: 5}
    assert roster.clients == 2


@pytest.mark.parametrize("held", [{"data": "a"}, {"data": "a", "partition-id": 0}, numbered(0)])
@pytest.mark.parametrize("late", [{"data": "b", "partition-id": 0}, numbered(0)])
@pytest.mark.parametrize("node", [6, 8])
def test_who_has_a_number_keeps_it(held, late, node, caplog):
    """Whatever the later node's id; that one is named, and takes over once the first is gone."""
    nodes, _, lines = join({7: held}, {node: late}, caplog)
    assert nodes == {0: 7}
    assert lines == [f"node {node} is left out: partition-id=0: node 7 has it already"]
    roster = DeviceRoster()
    roster.nodes(devices({7: held}), 1.0)
    roster.nodes(devices({7: held, node: late}), 1.0, strict=False)
    assert roster.nodes(devices({node: late}), 1.0, strict=False) == {0: node}
    assert roster.nodes(devices({7: held, node: late}), 1.0, strict=False)[0] == node


@pytest.mark.parametrize("wrong", [{}, numbered(0, 3), numbered(0, 2)])
def test_who_was_left_out_may_come_back_put_right(wrong):
    """With keys, Flower knows it as the same node."""
    roster = DeviceRoster()
    right = {7: numbered(0, 2), 9: numbered(1, 2)}
    roster.nodes(devices({7: right[7]}), 1.0)
    seen = [roster.nodes(devices(there), 1.0, strict=False) for there in ({**right, 9: wrong}, {7: right[7]}, right)]
    assert seen == [{0: 7}, {0: 7}, {0: 7, 1: 9}]


def test_numbers_do_not_depend_on_who_came_first_while_the_run_waits_to_begin():
    answers = {1: {"data": "c"}, 2: {"data": "b", "partition-id": 0}, 3: {"data": "a"}}
    for order in itertools.permutations(answers):
        roster = DeviceRoster()
        for count in (1, 2, 3):
            nodes = roster.nodes(devices({node: answers[node] for node in order[:count]}), 1.0)
        assert nodes == {0: 2, 1: 3, 2: 1}


def test_equal_names_of_data_that_nothing_can_order_are_warned_of_once(caplog):
    same = {3: {"data": "a"}, 9: {"data": "a"}, 5: {"data": "b"}}
    with caplog.at_level(logging.WARNING, logger="fedslice"):
        roster = DeviceRoster()
        for strict in (True, True, False):
            roster.nodes(devices(same), 1.0, strict)
    (line,) = caplog.messages
    assert line.startswith("nodes 3 and 9 have the same data-path and no partition-id")
    assert "partition-id=0 data-path=" in line
    assert "\n" not in line


@pytest.mark.parametrize("second", [{"data": "b"}, {"data": "a", "partition-id": 4}, numbered(0)])
def test_what_can_be_ordered_is_not_warned_of(second, caplog):
    DeviceRoster().nodes(devices({3: {"data": "a"}, 9: second}), 1.0)
    assert caplog.messages == []
