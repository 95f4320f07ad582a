"""A round's answers, one at a time: each is accounted for and, where it is accepted, added to the mean."""

import logging
import time
from collections.abc import Callable, Iterable

from flwr.app import Message
from flwr.serverapp import Grid

from clients.messages import error_of, read_reply
from clients.records import nbytes
from clients.weights import RunningMean, Weights
from strategies.consensus import Consensus
from strategies.cost import RoundReport
from strategies.exchange import Exchange
from strategies.replies import Asked, legible, most_bytes, refusal

LOG = logging.getLogger("fedslice")


class Reception:
    """Averages a round's replies as they come; holds one accumulator, whatever their number.

    exchange: the round's messages. model: the global model, which sets shapes and dtypes. sent: as clients got it.
    asked: what the reply of a client (its partition) must hold. stands_for: what a client's arrays mean in the average.
    consensus: is shown every accepted reply. report: the round's account.
    """

    def __init__(
        self,
        exchange: Exchange,
        model: Weights,
        sent: Weights,
        asked: Callable[[int], Asked],
        stands_for: Callable[[Weights], Weights],
        consensus: Consensus,
        report: RoundReport,
    ) -> None:
        self.mean = RunningMean()
        self._exchange = exchange
        self._model = model
        self._sent = sent
        self._asked = asked
        self._stands_for = stands_for
        self._consensus = consensus
        self._report = report
        self._lost: list[int] = []

    def collect(
        self, orders: list[Message], replies: Iterable[Message], grid: Grid, timeout: float, deadline: float
    ) -> None:
        """Receive all answers until `deadline`, `timeout` seconds after asking; say who was left out and why."""
        report = self._report
        for partition, reply in self._exchange.answers(orders, replies, grid, deadline):
            started = time.perf_counter()
            self._receive(partition, reply)
            report.seconds_server += time.perf_counter() - started
        for partition in set(report.sampled) - {*report.completed, *report.failed, *report.rejected}:
            report.failed[partition] = f"no reply within {timeout:g} s"
        for partition, reason in sorted({**report.failed, **report.rejected}.items()):
            LOG.warning("round %s: client %s left out: %s", report.round, partition, reason)
        if self._lost:
            LOG.warning(
                "round %s: clients %s trained without what they had kept of earlier rounds (local models, rounding "
                "errors): the result is another than with it", report.round, self._lost,
            )  # fmt: skip

    def _receive(self, partition: int, message: Message) -> None:
        """Account for one answer and, where it is accepted, add it to the mean."""
        report, reason = self._report, error_of(message)
        if reason is not None:
            weight = nbytes(message.content) if message.has_content() else 0
            report.received(weight, weight)
            report.failed[partition] = legible(reason)
            return
        self._exchange.received(message)
        try:
            reply = read_reply(message.content, most_bytes(self._model), known=self._sent)
            reason = refusal(reply, self._model, self._asked(partition), self._stands_for)
        except ValueError as error:
            reason = str(error)
        if reason is not None:
            report.rejected[partition] = legible(reason)
            return
        self._consensus.add(reply.weights)
        self.mean.add(self._stands_for(reply.weights), reply.examples)
        report.accept(partition, reply)
        if reply.lost:
            self._lost.append(partition)
        self._exchange.accepted(partition)
