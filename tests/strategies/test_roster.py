"""Which node plays which client, and what is said where one is missing or misconfigured."""

import pytest
from flwr.app import ConfigRecord, Message, RecordDict

from clients.messages import WHO
from strategies.cohort import RunFailed
from strategies.roster import DeviceRoster, SimulatedRoster, wait_for_nodes
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
    with pytest.raises(RunFailed, match="nodes 7 and 9 both have partition-id=1"):
        DeviceRoster().nodes(devices({7: numbered(1), 8: numbered(0), 9: numbered(1)}), 1.0)


def test_nodes_that_disagree_on_the_number_of_partitions_are_an_error():
    with pytest.raises(RunFailed, match=r"nodes disagree on num-partitions: \[2, 3\]"):
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

    monkeypatch.setattr("strategies.roster.time.sleep", somebody_comes)
    assert wait_for_nodes(DeviceRoster(), grid, 1, 60.0, everyone=True) == {0: 8, 1: 9, 2: 7}


@pytest.mark.parametrize(
    ("there", "at_least", "everyone", "message"),
    [
        ({7: numbered(1)}, 1, True, r"only 1 of 3 clients within .*=0.01 s: partitions \[0, 2\] are missing"),
        ({7: numbered(0)}, 2, False, r"only 1 of 2 clients within .*=0.01 s: partitions \[1\] are missing"),
        ({}, 1, False, r"only 0 of 1 clients within .*: partitions \[0\] are missing"),
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

    monkeypatch.setattr("strategies.roster.time.monotonic", lambda: clock[0])
    monkeypatch.setattr("strategies.roster.time.sleep", lambda seconds: clock.__setitem__(0, clock[0] + seconds))
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
        seen.append(roster.nodes(grid, 1.0))
    assert seen == [{0: 11, 1: 22}, {1: 22}, {0: 33, 1: 22}, {0: 33, 1: 22, 2: 44}]


def test_nodes_that_are_there_and_silent_are_told_of():
    """One answers, one does not; a third client is not there at all."""
    grid = devices({7: numbered(0), 8: None})
    with pytest.raises(RunFailed, match=r"^only 1 of 3 .* \[1, 2\] are missing; 1 node is connected and has not said"):
        wait_for_nodes(DeviceRoster(), grid, 3, 0.05, everyone=False)
