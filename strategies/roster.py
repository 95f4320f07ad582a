"""Which node plays which client, asked of the grid anew before each round."""

import logging
from collections.abc import Mapping
from itertools import count, pairwise
from typing import Protocol

from flwr.app import ConfigRecord, Message, RecordDict
from flwr.serverapp import Grid

from clients.messages import WHO
from clients.records import record_of
from strategies.cohort import RunFailed
from strategies.identity import Identity, read_identity

LOG = logging.getLogger("fedslice")
_NO_ORDER = (
    "have the same data-path and no partition-id, so that the same seed gives another result at each start; number "
    "them: --node-config 'partition-id=0 data-path=\"/path/to/its/own/data\"'"
)


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
    """On devices each node says, through its node-config, which client it is or where its own data are.

    Once a round was played nobody's number changes, nor does the number of parts into which common data are split:
    who comes later and does not fit in is left out, and named once on the console.
    """

    def __init__(self) -> None:
        self.clients = 0
        self._answers: dict[int, Identity | str] = {}  # or what is wrong with it
        self._nodes: dict[int, int] = {}  # who has, or had last, each number
        self._partitions: int | None = None
        self._told: set[str] = set()

    def nodes(self, grid: Grid, timeout: float, strict: bool = True) -> dict[int, int]:
        """Asks nodes that are new. Raises RunFailed, where `strict`, for a node-config that does not fit."""
        ids = sorted(grid.get_node_ids())
        known = {*ids, *self._nodes.values()}  # whoever was left out and is gone may come back put right
        self._answers = {node: answer for node, answer in self._answers.items() if node in known}
        self._ask([node for node in ids if node not in self._answers], grid, timeout)
        if strict:  # nobody has trained yet: numbers shall not depend on who came first
            self._nodes, self._partitions = {}, None
        there = {}
        for node in ids:
            answer = self._answers.get(node)
            if isinstance(answer, str):
                self._leave_out(node, answer, strict)
            elif answer is not None:
                there[node] = answer
        self._seat(there, strict)
        nodes = {number: node for number, node in sorted(self._nodes.items()) if node in there}
        self.clients = self._partitions or len(nodes)
        return nodes

    def _ask(self, nodes: list[int], grid: Grid, timeout: float) -> None:
        content = RecordDict({WHO: ConfigRecord()})
        messages = [Message(content, node, f"query.{WHO}") for node in nodes]
        for reply in grid.send_and_receive(messages, timeout=timeout) if messages else ():
            if reply.has_content():
                try:
                    answer: Identity | str = read_identity(record_of(reply.content, WHO, ConfigRecord))
                except ValueError as error:
                    answer = str(error)
                self._answers[reply.metadata.src_node_id] = answer

    def _seat(self, there: Mapping[int, Identity], strict: bool) -> None:
        """Give numbers to nodes that are new: first those that ask for one, then others by the name of their data."""
        new = there.keys() - self._nodes.values()
        for node, who in there.items():
            if node in new and who.partition is not None:
                if reason := self._misfit(who, there):
                    self._leave_out(node, reason, strict)
                else:
                    self._nodes[who.partition] = node
                    self._partitions = self._partitions or who.partitions
        unnumbered = sorted((who.data, node) for node, who in there.items() if who.partition is None)
        for data, node in unnumbered:
            if node in new:
                self._nodes[self._number(data, there)] = node
        for (data, node), (following, other) in pairwise(unnumbered):
            if data == following:
                self._tell(data, f"nodes {node} and {other} {_NO_ORDER}")

    def _misfit(self, who: Identity, there: Mapping[int, Identity]) -> str | None:
        """Why this node cannot have the number that it asks for."""
        if who.partitions and self._partitions and who.partitions != self._partitions:
            return f"num-partitions={who.partitions}: must be {self._partitions}, as in the rest of this run"
        holder = None if who.partition is None else self._nodes.get(who.partition)
        return f"partition-id={who.partition}: node {holder} has it already" if holder in there else None

    def _number(self, data: str, there: Mapping[int, Identity]) -> int:
        """That of a node that left and had data of the same name, or the first that nobody has or is to have."""
        for number, node in self._nodes.items():
            if node not in there and self._answers[node] == Identity(None, None, data):
                return number
        return next(number for number in count(self._partitions or 0) if number not in self._nodes)

    def _leave_out(self, node: int, reason: str, strict: bool) -> None:
        if strict:
            raise RunFailed(f"node {node}: {reason}")
        line = f"node {node} is left out: {reason}"
        self._tell(line, line)

    def _tell(self, what: str, line: str) -> None:
        """Log what was not told yet."""
        if what not in self._told:
            self._told.add(what)
            LOG.warning(line)
