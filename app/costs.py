"""What a schedule costs, without training: python -m app.costs experiment=fedpart_resnet8_cifar10.

Counts, for one client that takes part in every round, the bytes of the arrays that travel (raw, headers left
out) and the multiply-accumulates that training needs. A run reports what was really sent, which compression,
headers, lost memories and clients that sit out make a little different. Sparse training is estimated: as if each
layer were as sparse as the whole, its zeros anywhere, and averaging lost none of them.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from math import log2

from omegaconf import DictConfig
from rich.console import Console
from rich.table import Table as RichTable

from app.building import build_strategy
from app.config import compose, make
from app.units import macs, percent, size
from clients.layers import names_in
from clients.macs import layers_per_example, macs_per_example
from clients.plan import RoundPlan, SparseTraining
from clients.sparse import sparsity_of
from clients.sparse_round import needed_macs
from clients.tasks.task import Task
from strategies.answers import planned
from strategies.fedavg import FedAvgStrategy
from strategies.roster import SimulatedRoster


@dataclass(frozen=True)
class Cost:
    """Totals of a run for one client; per example for the MACs of one local epoch's worth of examples."""

    up: int
    down: int
    macs: int
    macs_dense: int
    dense: int
    partial_rounds: int


def cost_of(cfg: DictConfig) -> Cost:
    """Totals over all rounds of the configuration's schedule."""
    task: Task = make(cfg, "task")
    strategy = build_strategy(cfg, task, SimulatedRoster(task.clients))
    model, training = task.build_model(cfg.seed), make(cfg, "client")
    shape, dtype = tuple(task.blank().shape), task.blank().dtype
    everything = names_in(strategy.groups, None)
    may_cache = not task.augments and not make(cfg, "objective").needs_inputs
    cached = bool(training.cache_mb) and may_cache and training.epochs > 1
    up = down = macs = partial_rounds = 0
    sparsity, holds = 0.0, dict.fromkeys(everything, False)
    for server_round in range(1, cfg.rounds + 1):
        plan = planned(strategy, f"plan({server_round})", strategy.plan(server_round))
        trained = names_in(strategy.groups, plan.groups)
        partial = plan.phase == "partial"
        layers = layers_per_example(model, shape, dtype, trained, training.frozen_norm, cached and partial)
        densities = dict.fromkeys(strategy.prunable, _density(plan.sparse, sparsity))
        once, each = (needed_macs(part, plan.sparse, densities) for part in layers)
        macs += round(once + each * (plan.epochs or training.epochs))
        down += _nbytes(strategy, [name for name in everything if not holds[name]], sparsity)
        sent = _sent(plan.sparse, sparsity)
        up += _nbytes(strategy, trained, sent)
        sparsity = _merged(strategy, plan, sent)
        keeps = cfg.downlink == "slice" and partial
        holds = {name: keeps and name not in trained for name in everything}
        partial_rounds += partial
    dense = cfg.rounds * _nbytes(strategy, everything, 0.0)
    full = (
        macs_per_example(model, shape, dtype, everything, training.frozen_norm, False)[1] * training.epochs * cfg.rounds
    )
    return Cost(up, down, macs, full, dense, partial_rounds)


def _density(sparse: SparseTraining | None, received: float) -> float:
    """Share of its weights that a layer computes with, from the sparsity of the model that it received."""
    if sparse is None or sparse.weights == "plain":  # without re-parameterisation zeros learn from the first step on
        return 1.0
    return 1 - (sparse.sparsity if sparse.weights == "swat" else received)


def _sent(sparse: SparseTraining | None, received: float) -> float:
    """Share of zeros in a reply: those that were pruned, or those that were received where zeros stay zero."""
    if sparse is None:
        return 0.0
    stays = received if sparse.weights in ("powerprop", "spectral", "fixed") else 0.0
    return max(stays, sparse.sparsity - sparse.extra, 0.0)


def _merged(strategy: FedAvgStrategy, plan: RoundPlan, sent: float) -> float:
    """Share of zeros in the model after a round, of which the strategy is told as if nothing had been learned."""
    strategy.weights = strategy.settle(plan, strategy.weights)
    pruned = sparsity_of([strategy.weights[name] for name in strategy.prunable]) or 0.0
    dense = plan.sparse is not None and plan.sparse.weights == "swat"  # ZeroFL's model stays dense
    return max(0.0 if dense else sent, pruned)


def _nbytes(strategy: FedAvgStrategy, names: Sequence[str], sparsity: float) -> int:
    """Bytes of these arrays; of sparse ones the entropy of where their values stand, and the values."""
    kept, total = 1 - sparsity, 0.0
    bits = -sum(share * log2(share) for share in (kept, sparsity) if share)
    for name in names:
        array = strategy.weights[name]
        sparse = sparsity and name in strategy.prunable
        total += array.size * bits / 8 + array.nbytes * kept if sparse else array.nbytes
    return round(total)


def table_of(cfg: DictConfig, cost: Cost) -> RichTable:
    """The costs beside those of full dense training over the same rounds."""
    title = f"{cfg.task.name}, {cfg.task.get('model', 'model')}: {cfg.rounds} rounds, {cost.partial_rounds} partial"
    table = RichTable("", "this schedule", "full and dense", "ratio", title=title)
    both = 2 * cost.dense
    for name, value, whole in (
        ("up", cost.up, cost.dense),
        ("down", cost.down, cost.dense),
        ("both", cost.up + cost.down, both),
    ):
        table.add_row(f"bytes {name}, per client", size(value), size(whole), percent(value / whole))
    work = (macs(cost.macs), macs(cost.macs_dense), percent(cost.macs / cost.macs_dense))
    table.add_row("MACs, per client and example", *work)
    return table


def main(overrides: Sequence[str]) -> int:
    """Print the table; 2 for a configuration that cannot run."""
    if {"-h", "--help"} & set(overrides):
        print(__doc__)
        return 0
    try:
        cfg = compose(overrides)
        table = table_of(cfg, cost_of(cfg))
    except ValueError as error:
        print(f"fedslice: {error}", file=sys.stderr)
        return 2
    Console().print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
