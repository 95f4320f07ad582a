"""One round's messages: to each client what it lacks, and from each an answer, in an order that never changes."""

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from flwr.app import ArrayRecord, Message
from flwr.serverapp import Grid
from numpy.typing import NDArray

from clients.messages import has_forgotten, model_record, order_content
from clients.plan import RoundPlan
from clients.records import nbytes, packed_nbytes, records_nbytes
from clients.weights import Weights
from clients.wire import dense_nbytes, pack
from strategies.cost import RoundReport
from strategies.downlink import Downlink


class Exchange:
    """The messages of one round. Keeps account of their bytes in `report`.

    nodes: node id of each sampled partition, in partition order. clients: how many clients there are in all.
    plan_for: the plan as one client gets it. prunable: names of the weights whose zeros are counted.
    """

    def __init__(
        self,
        plan: RoundPlan,
        weights: Weights,
        downlink: Downlink,
        nodes: Mapping[int, int],
        clients: int,
        report: RoundReport,
        plan_for: Callable[[RoundPlan, int], RoundPlan] = lambda plan, partition: plan,
        prunable: Collection[str] = (),
    ) -> None:
        self._plan = plan
        self._weights = weights
        self._downlink = downlink
        self._nodes = nodes
        self._clients = clients
        self._report = report
        self._plan_for = plan_for
        self._prunable = prunable
        self._keep = downlink.keeps(partial=plan.phase == "partial")
        self._dense = dense_nbytes(weights)
        self._packed: dict[tuple[str, ...], ArrayRecord] = {}
        self._zeros: dict[tuple[str, ...], tuple[int, int]] = {}

    def orders(self, partitions: Iterable[int]) -> list[Message]:
        """A message to each of these clients; those who lack the same share its packed arrays."""
        return [self._order(partition) for partition in partitions]

    def answers(
        self, orders: list[Message], replies: Iterable[Message], grid: Grid, deadline: float
    ) -> Iterator[tuple[int, Message]]:
        """Each client's answer, in partition order, because the last bits of a sum depend on it.

        Answers that come ahead of their turn are held back, packed. Clients that have forgotten are sent the full
        model at once, and waited for like the others, until `deadline` (by `time.monotonic`). Whoever stays silent is
        passed over.
        """
        waiting, ahead = list(self._nodes), {}
        sent = {order.metadata.message_id: p for order, p in zip(orders, waiting, strict=True)}
        waves = [replies]
        for wave in waves:  # those who have forgotten add to them
            for reply in wave:
                partition = sent.pop(reply.metadata.reply_to_message_id, None)
                if partition is None:  # it answers no message of this round, or one that was answered already
                    continue
                if has_forgotten(reply) and self._downlink.base(partition) is not None:
                    self._report.received(nbytes(reply.content), nbytes(reply.content))
                    self._downlink.forget(partition)
                    if (left := deadline - time.monotonic()) > 0:
                        again = self.orders([partition])
                        waves.append(grid.send_and_receive(again, timeout=left))
                        sent[again[0].metadata.message_id] = partition
                    continue
                ahead[partition] = reply
                while waiting and waiting[0] in ahead:
                    yield waiting[0], ahead.pop(waiting.pop(0))
        yield from sorted(ahead.items(), key=lambda item: item[0])

    def received(self, reply: Message) -> None:
        """Account for an answer's bytes, beside what it would weigh dense and full."""
        records = records_nbytes(reply.content)
        self._report.received(packed_nbytes(reply.content) + records, self._dense + records)

    def accepted(self, partition: int) -> None:
        """The client did what its order said, so it also holds what it was told to keep."""
        if self._keep:
            self._downlink.confirm(partition, self._plan.round)

    def _order(self, partition: int) -> Message:
        base = self._downlink.base(partition)
        lacking = self._downlink.lacking(self._weights, base)
        if len(lacking) == len(self._weights):
            base = None  # it is sent everything, so that it need not remember anything
        key = tuple(lacking)
        if key not in self._packed:
            self._packed[key] = model_record(pack(lacking))
            self._zeros[key] = _zeros([lacking[name] for name in self._prunable if name in lacking])
        plan = self._plan_for(self._plan, partition)
        content = order_content(self._packed[key], plan, partition, self._clients, base, self._keep)
        records = records_nbytes(content)
        self._report.sent(packed_nbytes(content) + records, self._dense + records, *self._zeros[key])
        return Message(content, self._nodes[partition], "train", group_id=str(self._plan.round))


def _zeros(arrays: list[NDArray[Any]]) -> tuple[int, int]:
    """How many values the arrays have, and how many of them are zero."""
    values = sum(array.size for array in arrays)
    return values, values - sum(int(np.count_nonzero(array)) for array in arrays)
