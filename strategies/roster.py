"""Which node plays which client, asked of the grid anew before each round."""

import logging
import time
from collections.abc import Mapping
from typing import Any, Protocol

from flwr.app import ConfigRecord, Message, RecordDict
from flwr.serverapp import Grid

from clients.messages import WHO
from clients.records import record_of
from strategies.cohort import RunFailed

LOG = logging.getLogger("fedslice")
_POLL = 0.2  # seconds


class Roster(Protocol):
    """Maps clients to nodes."""

    def nodes(self, grid: Grid, timeout: float, strict: bool) -> dict[int, int]:
        """Node id of each partition whose node is connected now, in partition order.

        timeout: seconds that nodes have to answer who they are.
        strict: a node that does not say which client it is ends the run; otherwise it is left out.
        """

    @property
    def clients(self) -> int:
        """How many clients there are in all."""


class SimulatedRoster:
    """In a simulation any node can play any client, because the message says which and the data are shared."""

    def __init__(self, clients: int) -> None:
        if clients < 1:
            raise ValueError(f"clients={clients}: must be at least 1")
        self.clients = clients

    def nodes(self, grid: Grid, timeout: float, strict: bool = True) -> dict[int, int]:
        """Partitions dealt out to the nodes in turn."""
        ids = sorted(grid.get_node_ids())
        return {partition: ids[partition % len(ids)] for partition in range(self.clients)} if ids else {}


class DeviceRoster:
    """On devices each node says, through its node-config, which client it is or where its own data are."""

    def __init__(self) -> None:
        self.clients = 0
        self._answers: dict[int, Mapping[str, Any]] = {}
        self._numbers: dict[int, int] = {}

    def nodes(self, grid: Grid, timeout: float, strict: bool = True) -> dict[int, int]:
        """Asks nodes that are new. Raises RunFailed, where `strict`, for a node-config that does not fit."""
        ids = sorted(grid.get_node_ids())
        content = RecordDict({WHO: ConfigRecord()})
        new = [Message(content, node, f"query.{WHO}") for node in ids if node not in self._answers]
        for reply in grid.send_and_receive(new, timeout=timeout) if new else ():
            if reply.has_content():
                node = reply.metadata.src_node_id
                self._answers[node] = record_of(reply.content, WHO, ConfigRecord) or {"error": "did not say who it is"}
        answers = {node: self._answers[node] for node in ids if node in self._answers}
        if not strict:
            answers = {node: answer for node, answer in answers.items() if "error" not in answer}
        return self._by_partition(answers, strict)

    def _by_partition(self, answers: dict[int, Mapping[str, Any]], strict: bool) -> dict[int, int]:
        """Partition to node; nodes with their own data and no number follow, in the order of their data's name."""
        nodes: dict[int, int] = {}
        for node, answer in answers.items():
            if "error" in answer:
                raise RunFailed(f"node {node}: {answer['error']}")
            if "partition-id" not in answer:
                continue
            partition = int(answer["partition-id"])
            if partition in nodes and strict:
                raise RunFailed(f"nodes {nodes[partition]} and {node} both have partition-id={partition}")
            nodes[partition] = node
        for node, number in self._number(answers, nodes).items():
            nodes[number] = node
        totals = {int(answer["num-partitions"]) for answer in answers.values() if "num-partitions" in answer}
        if len(totals) > 1 and strict:
            raise RunFailed(f"nodes disagree on num-partitions: {sorted(totals)}")
        self.clients = max([len(nodes), *totals])
        return dict(sorted(nodes.items()))

    def _number(self, answers: dict[int, Mapping[str, Any]], taken: Mapping[int, int]) -> dict[int, int]:
        """Numbers for nodes that have data of their own and no partition-id.

        A node keeps its number as long as it stays connected; one that comes back as a new node takes over that of
        a node that left and had data of the same name.
        """
        unnumbered = [node for node, answer in answers.items() if "partition-id" not in answer]
        gone = {node: number for node, number in self._numbers.items() if node not in answers}
        new = sorted((str(answers[node].get("data", "")), node) for node in unnumbered if node not in self._numbers)
        for data, node in new:
            former = next((old for old in gone if str(self._answers[old].get("data", "")) == data), None)
            used = {*self._numbers.values(), *taken}
            free = next(number for number in range(len(used) + 1) if number not in used)
            self._numbers[node] = free if former is None else gone.pop(former)
            if former is not None:
                del self._numbers[former]
        return {node: self._numbers[node] for node in unnumbered}


def wait_for_nodes(roster: Roster, grid: Grid, at_least: int, timeout: float, everyone: bool) -> dict[int, int]:
    """The roster's nodes, once `at_least` so many are there, or all of them where `everyone` is asked for.

    Raises RunFailed, saying who is missing, when they do not come within `timeout` seconds.
    """
    deadline = time.monotonic() + timeout
    seen = -1
    while True:
        nodes = roster.nodes(grid, max(0.0, deadline - time.monotonic()), strict=everyone)
        needed = max(1, at_least, roster.clients if everyone else 0)
        if len(nodes) >= needed:
            return nodes
        if len(nodes) != seen:
            seen = len(nodes)
            LOG.info("waiting for clients: %s of %s are there", seen, needed)
        if time.monotonic() > deadline:
            raise RunFailed(
                f"only {len(nodes)} of {needed} clients within cohort.start_timeout={timeout:g} s: "
                f"partitions {sorted(set(range(needed)) - set(nodes))} are missing{_silent(grid, nodes)}"
            )
        time.sleep(_POLL)


def _silent(grid: Grid, nodes: Mapping[int, int]) -> str:
    """What is known of nodes that are connected and did not come forward as clients."""
    silent = len(set(grid.get_node_ids()) - set(nodes.values()))
    if not silent:
        return ""
    who = "1 node is connected and has" if silent == 1 else f"{silent} nodes are connected and have"
    return f"; {who} not said in time which client it is: a slow device needs a longer start_timeout"
