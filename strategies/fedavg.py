"""Federated averaging, and the base of every strategy here.

McMahan et al., *Communication-Efficient Learning of Deep Networks from Decentralized Data*, AISTATS 2017,
Algorithm 1. A strategy answers two questions: what shall clients do this round (`plan`), and how do their
replies become the new model (`merge`). The rest of this file is what all strategies share: sending, accepting
and averaging replies one at a time, and keeping account. Deviation: a round with fewer than
`cohort.min_clients` accepted replies leaves the model as it is.
"""

import logging
import time
from collections.abc import Iterable, Iterator

from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Strategy

from clients.layers import layer_groups, layout, names_in
from clients.messages import error_of, model_record, nbytes, order_content, read_reply, records_nbytes
from clients.plan import RoundPlan
from clients.weights import RunningMean, Weights
from clients.wire import dense_nbytes, pack
from strategies.cohort import Cohort, RunFailed
from strategies.cost import RoundReport
from strategies.replies import refusal
from strategies.roster import Roster, wait_for_nodes

LOG = logging.getLogger("fedslice")


class FedAvgStrategy(Strategy):
    """Trains the full model in every round and averages it by number of examples.

    weights: the initial global model, by name; `self.weights` is always the current one.
    roster, cohort: which clients there are, and which of them take part.
    learning_rate: of the clients. last_round: rounds already done, where a run is resumed.
    """

    def __init__(
        self, weights: Weights, roster: Roster, cohort: Cohort, learning_rate: float, last_round: int = 0
    ) -> None:
        self.weights = weights
        self.roster = roster
        self.cohort = cohort
        self.learning_rate = learning_rate
        self.last_round = last_round
        self.groups = layer_groups(weights)
        self.report = RoundReport(round=last_round)
        self._layout = layout(weights)
        self._dense = dense_nbytes(weights)
        self._messages: list[Message] = []
        self._plan = RoundPlan(last_round, None, learning_rate, self._layout)
        self._failed_in_a_row = 0

    # The two questions -------------------------------------------------------------------------------------

    def plan(self, server_round: int) -> RoundPlan:
        """What clients shall do in this round: train everything."""
        return RoundPlan(server_round, None, self.learning_rate, self._layout)

    def merge(self, plan: RoundPlan, mean: Weights) -> Weights:
        """The new model from the clients' mean; what nobody sent keeps its value."""
        return {name: mean.get(name, array) for name, array in self.weights.items()}

    # Flower's questions ------------------------------------------------------------------------------------

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """One message per sampled client, in partition order; the packed model is shared by all of them."""
        server_round += self.last_round
        nodes = wait_for_nodes(
            self.roster,
            grid,
            self.cohort.min_clients,
            self.cohort.start_timeout,
            everyone=server_round == self.last_round + 1,
        )
        started = time.perf_counter()
        plan = self._plan = self.plan(server_round)
        sampled = self.cohort.sample(server_round, list(nodes))
        self.report = RoundReport(server_round, plan.phase, plan.groups or (), tuple(sampled))
        model = model_record(pack(self.weights))
        self._messages = []  # kept, because the ids by which replies are known are set when they are pushed
        for partition in sampled:
            content = order_content(model, plan, partition, self.roster.clients)
            self.report.sent(nbytes(content), self._dense + records_nbytes(content))
            self._messages.append(Message(content, nodes[partition], "train", group_id=str(server_round)))
        self.report.seconds_server += time.perf_counter() - started
        return self._messages

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Average accepted replies as they come, one at a time, and merge the mean into the model."""
        mean, report = RunningMean(), self.report
        for partition, reply in self._in_order(replies):
            started = time.perf_counter()
            self._receive(partition, reply, mean)
            report.seconds_server += time.perf_counter() - started
        for partition in set(report.sampled) - {*report.completed, *report.failed, *report.rejected}:
            report.failed[partition] = f"no reply within {self.cohort.round_timeout:g} s"
        for partition, reason in sorted({**report.failed, **report.rejected}.items()):
            LOG.warning("round %s: client %s left out: %s", report.round, partition, reason)
        self._conclude(mean)
        return None, None

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Nothing: the global model is evaluated centrally."""
        return []

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Message]) -> MetricRecord | None:
        """Nothing: see `configure_evaluate`."""
        return None

    def summary(self) -> None:
        """Log what this strategy is about to do."""
        size = sum(array.size for array in self.weights.values())
        LOG.info("%s: %s values in %s layer groups", type(self).__name__, f"{size:,}", len(self.groups))

    # Replies -----------------------------------------------------------------------------------------------

    def _in_order(self, replies: Iterable[Message]) -> Iterator[tuple[int, Message]]:
        """Replies in partition order, because the last bits of a sum depend on it; those ahead are held back."""
        partition_of = {
            sent.metadata.message_id: partition
            for sent, partition in zip(self._messages, self.report.sampled, strict=True)
        }
        waiting = list(self.report.sampled)
        ahead: dict[int, Message] = {}
        for reply in replies:
            partition = partition_of.pop(reply.metadata.reply_to_message_id, None)
            if partition is None:  # it answers no message of this round, or one that was answered already
                continue
            ahead[partition] = reply
            while waiting and waiting[0] in ahead:
                yield waiting[0], ahead.pop(waiting.pop(0))
        yield from sorted(ahead.items(), key=lambda item: item[0])

    def _receive(self, partition: int, message: Message, mean: RunningMean) -> None:
        """Account for one reply and, where it is accepted, add it to the mean."""
        reason = error_of(message)
        if reason is not None:
            weight = nbytes(message.content) if message.has_content() else 0
            self.report.received(weight, weight)
            self.report.failed[partition] = reason
            return
        self.report.received(nbytes(message.content), self._dense + records_nbytes(message.content))
        try:
            reply = read_reply(message.content)
            reason = refusal(reply, self.weights, names_in(self.groups, self._plan.groups))
        except ValueError as error:
            reason = str(error)
        if reason is not None:
            self.report.rejected[partition] = reason
            return
        mean.add(reply.weights, reply.examples)
        self.report.accept(partition, reply)

    def _conclude(self, mean: RunningMean) -> None:
        """Merge the mean where enough replies were accepted; otherwise the model stays and the round failed."""
        started = time.perf_counter()
        accepted, needed = len(self.report.completed), self.cohort.min_clients
        if accepted >= needed:
            self._failed_in_a_row = 0
            self.weights = self.merge(self._plan, mean.result())
        else:
            self._failed_in_a_row += 1
            LOG.warning("round %s failed: %s of %s replies accepted; the model is kept",
                self.report.round, accepted, needed)  # fmt: skip
        if self._failed_in_a_row >= self.cohort.max_failed_rounds:
            reasons = {**self.report.failed, **self.report.rejected}
            first = next((f"client {p}: {reason}" for p, reason in sorted(reasons.items())), "nobody replied")
            raise RunFailed(f"{self._failed_in_a_row} rounds in a row without {needed} accepted replies; {first}")
        self.report.seconds_server += time.perf_counter() - started
