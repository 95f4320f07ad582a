"""Federated averaging, and the base of every strategy here.

McMahan et al., *Communication-Efficient Learning of Deep Networks from Decentralized Data*, AISTATS 2017,
Algorithm 1. A strategy answers two questions: what shall clients do this round (`plan`), and how do their
replies become the new model (`merge`). The rest of this file is what all strategies share. Deviation: a round
with fewer than `cohort.min_clients` accepted replies leaves the model as it is.
"""

import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Strategy

from clients.layers import layer_groups, layout
from clients.lossy import Wire
from clients.plan import RoundPlan
from clients.weights import RunningMean, Weights
from strategies.answers import like_model, planned
from strategies.cohort import Cohort, RunFailed
from strategies.consensus import Consensus
from strategies.cost import RoundReport
from strategies.downlink import Downlink
from strategies.exchange import Exchange
from strategies.learning_rate import rate_of_round
from strategies.reception import Reception
from strategies.replies import Asked
from strategies.roster import Roster
from strategies.server_optimizer import ServerOptimizer
from strategies.waiting import wait_for_nodes

LOG = logging.getLogger("fedslice")


class FedAvgStrategy(Strategy):
    """Trains the full model in every round and averages it by number of examples.

    weights: the initial global model, by name; `self.weights` is always the current one.
    roster, cohort: which clients there are, and which of them take part.
    learning_rate: of the clients; it decays to `final_learning_rate` over `rounds`, where there is one.
    last_round: rounds already done, where a run is resumed.
    downlink: `slice` sends down what changed since a client last answered, `full` always everything.
    groups: layer groups as lists of module names, where they are not to follow the rule.
    diagnostics: whether clients record the size of their steps.
    wire: how values travel both ways (`clients.lossy`); the global model itself is never rounded. wire_seed: keys it.
    lineage: names this training where clients keep something of their own (see `RoundPlan`).
    server_optimizer: how far the model follows what `merge` gives; by default all the way.
    prunable: names of the weights that sparse strategies may prune. name: as reports call the strategy.
    """

    def __init__(
        self,
        weights: Weights,
        roster: Roster,
        cohort: Cohort,
        learning_rate: float,
        last_round: int = 0,
        downlink: Literal["slice", "full"] = "slice",
        groups: Sequence[Sequence[str]] | None = None,
        diagnostics: bool = False,
        server_optimizer: ServerOptimizer | None = None,
        final_learning_rate: float | None = None,
        rounds: int = 1,
        prunable: Sequence[str] = (),
        name: str | None = None,
        wire: Wire = "lossless",
        wire_seed: int = 0,
        lineage: str = "",
    ) -> None:
        self.weights = weights
        self.roster = roster
        self.cohort = cohort
        self.learning_rate = learning_rate
        self.final_learning_rate = final_learning_rate
        self.rounds = rounds
        self.wire: Wire = wire
        self.wire_seed = wire_seed
        self.lineage = lineage
        self.server_optimizer = server_optimizer or ServerOptimizer()
        self.prunable = tuple(name for name in prunable if name in weights)
        self.name = name or type(self).__name__
        self.last_round = last_round
        self.diagnostics = diagnostics
        self.downlink = Downlink(weights, slices=downlink == "slice")
        self.groups = layer_groups(weights, groups)
        self.report = RoundReport(round=last_round)
        self.consensus = Consensus(())
        self._layout = layout(weights, self.groups)
        self._failed_in_a_row = 0
        self._trained: dict[int, int] = {}

    # The two questions -------------------------------------------------------------------------------------

    def plan(self, server_round: int) -> RoundPlan:
        """What clients shall do in this round: train everything."""
        rate = rate_of_round(server_round, self.learning_rate, self.final_learning_rate, self.rounds)
        return RoundPlan(server_round, None, rate, self._layout, self.diagnostics)

    def merge(self, plan: RoundPlan, mean: Weights) -> Weights:
        """The new model from the clients' mean; what nobody sent keeps its value.

        Arrays that stay are the same objects; none is written in place. What a strategy remembers from round to
        round (a mask, say) belongs into `state`; momentum and the like are the server optimizer's.
        """
        return {name: mean.get(name, array) for name, array in self.weights.items()}

    # What sparse strategies answer too -----------------------------------------------------------------------

    def plan_for(self, plan: RoundPlan, partition: int) -> RoundPlan:
        """The round's plan as one client gets it; where clients train other groups, each array's mean is over those."""
        return plan

    def stands_for(self, update: Weights) -> Weights:
        """What a client's arrays mean in the average: themselves."""
        return update

    def settle(self, plan: RoundPlan, weights: Weights) -> Weights:
        """The last thing done to a round's new model: nothing."""
        return weights

    def effective(self) -> Weights:
        """The weights that the model computes with, where those that are stored and sent stand for others."""
        return self.weights

    # Flower's questions ------------------------------------------------------------------------------------

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """One message per sampled client, in partition order."""
        cohort, everyone = self.cohort, server_round == 1
        nodes = wait_for_nodes(self.roster, grid, cohort.min_clients, cohort.start_timeout, everyone)
        started = time.perf_counter()
        this_round = server_round + self.last_round
        plan = planned(self, f"plan({this_round})", self.plan(this_round))
        plan = self._plan = replace(
            plan, wire=self.wire, wire_seed=self.wire_seed, lineage=self.lineage, resumed_after=self.last_round
        )
        sampled = {partition: nodes[partition] for partition in cohort.sample(plan.round, list(nodes))}
        self.report = RoundReport(plan.round, plan.phase, plan.groups or (), tuple(sampled))
        looked_at = self.prunable if plan.sparse else ()
        self.consensus = Consensus(looked_at)
        sent = self.downlink.rounded(self.weights, self.wire, self.wire_seed)
        exchange = Exchange(
            plan, sent, self.downlink, sampled, self.roster.clients, self.report, self._plan_as_sent, looked_at
        )
        self._reception = Reception(
            exchange, self.weights, sent, self._asked, self.stands_for, self.consensus, self.report
        )
        self._sent_plans: dict[int, RoundPlan] = {}
        self._grid, self._orders = grid, exchange.orders(sampled)
        self.report.seconds_server += time.perf_counter() - started
        self._deadline = time.monotonic() + cohort.round_timeout
        return self._orders

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Average accepted replies as they come, one at a time, and merge the mean into the model."""
        self._reception.collect(self._orders, replies, self._grid, self.cohort.round_timeout, self._deadline)
        started = time.perf_counter()
        self._conclude(self._reception.mean)
        self.report.seconds_server += time.perf_counter() - started
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

    # What a checkpoint needs beside the model --------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """As JSON types and NumPy arrays."""
        return {
            "downlink": self.downlink.state(),
            "failed_in_a_row": self._failed_in_a_row,
            "lineage": self.lineage,
            "trained": {str(partition): last for partition, last in self._trained.items()},
            "server_optimizer": self.server_optimizer.state(),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """The inverse of `state`."""
        self.downlink.restore(state["downlink"])
        self._failed_in_a_row = int(state["failed_in_a_row"])
        self.lineage = str(state["lineage"])
        self._trained = {int(partition): int(last) for partition, last in state["trained"].items()}
        self.server_optimizer.restore(state["server_optimizer"])

    def _asked(self, partition: int) -> Asked:
        """What a client's reply must hold."""
        return Asked.by(self._sent_plans[partition], self.groups, self.cohort.max_update_norm)

    def _plan_as_sent(self, plan: RoundPlan, partition: int) -> RoundPlan:
        own = planned(self, f"plan_for(plan, {partition})", self.plan_for(plan, partition))
        sent = self._sent_plans[partition] = replace(own, trained=self._trained.get(partition, 0))
        return sent

    # The round's end ---------------------------------------------------------------------------------------

    def _conclude(self, mean: RunningMean) -> None:
        """Merge the mean where enough replies were accepted; otherwise the model stays and the round failed."""
        accepted, needed = len(self.report.completed), self.cohort.min_clients
        self._trained.update(dict.fromkeys(self.report.completed, self.report.round))
        if accepted >= needed:
            self._failed_in_a_row = 0
            before = self.weights
            merged = like_model(self, "merge", self.merge(self._plan, mean.result()), before)
            stepped = self.server_optimizer.step(before, merged)
            self.weights = like_model(self, "settle", self.settle(self._plan, stepped), before)
            self._account_for_zeros(before)
            moved = [name for name, array in self.weights.items() if array is not before[name]]
            self.downlink.merged(moved, self._plan.round)
            return
        self._failed_in_a_row += 1
        LOG.warning(
            "round %s failed: %s of %s replies accepted; the model is kept", self.report.round, accepted, needed
        )
        if self._failed_in_a_row >= self.cohort.max_failed_rounds:
            reasons = {**self.report.failed, **self.report.rejected}
            first = next((f"client {p}: {reason}" for p, reason in sorted(reasons.items())), "nobody replied")
            raise RunFailed(f"{self._failed_in_a_row} rounds in a row without {needed} accepted replies; {first}")

    def _account_for_zeros(self, before: Weights) -> None:
        """Take down what is sparse, where the plan asks for it, and warn of layers that were emptied."""
        if self._plan.sparse is None or not self.prunable:
            return
        then, now = ({name: weights[name] for name in self.prunable} for weights in (before, self.weights))
        self.report.pruned(self.consensus, then, now)
        for name in (name for name in self.prunable if then[name].any() and not now[name].any()):
            LOG.warning("round %s: every weight of %s is zero now; strategy.floor keeps some", self.report.round, name)
