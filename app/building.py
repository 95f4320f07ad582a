"""The strategy of a run, built from its configuration."""

import secrets
from collections.abc import Sequence

from omegaconf import DictConfig

from app.checkpoint import Checkpoint
from app.config import ConfigError, make, plain
from clients.numpy_client import shared
from clients.sparse_layers import prunable
from clients.tasks.task import Task
from clients.weights import weights_of
from strategies.cohort import Cohort
from strategies.fedavg import FedAvgStrategy
from strategies.roster import Roster, SimulatedRoster


def build_strategy(cfg: DictConfig, task: Task, roster: Roster, done: Checkpoint | None = None) -> FedAvgStrategy:
    """The strategy that the configuration names, with the initial model or a checkpoint's."""
    try:
        model = task.build_model(cfg.seed)
    except ValueError as error:  # a model of one's own is looked at when it is there
        raise ConfigError(str(error)) from None
    weights = weights_of(model, set(shared(model, cfg.batch_norm)))
    if done is not None:
        if done.round >= cfg.rounds:
            raise ConfigError(f"rounds={cfg.rounds}: must be above {done.round}, which the checkpoint has reached")
        weights = done.weights_like(weights, cfg.resume)
    keep_their_own = make(cfg, "objective").queue > 0 or cfg.wire != "lossless"
    cohort: Cohort = make(cfg, "cohort")
    if isinstance(roster, SimulatedRoster) and cohort.min_clients > roster.clients:
        raise ConfigError(f"cohort.min_clients={cohort.min_clients}: must be at most {roster.clients}, task.clients")
    strategy: FedAvgStrategy = make(
        cfg, "strategy", weights=weights, roster=roster, cohort=cohort,
        learning_rate=cfg.client.lr, final_learning_rate=cfg.client.final_lr, rounds=cfg.rounds,
        last_round=done.round if done else 0,
        downlink=cfg.downlink,
        groups=plain(cfg.groups),
        diagnostics=cfg.diagnostics,
        wire=cfg.wire,
        wire_seed=cfg.seed,
        lineage=secrets.token_hex(8) if keep_their_own else "",
        server_optimizer=make(cfg, "server_optimizer"),
        prunable=prunable(model),
    )  # fmt: skip
    _check_prunable(cfg, strategy, prunable(model))
    if done is not None:
        strategy.restore(done.strategy)
    return strategy


def _check_prunable(cfg: DictConfig, strategy: FedAvgStrategy, names: Sequence[str]) -> None:
    """Refuse to prune a weight that two layers share: it is one array, by the first one's name."""
    tied = [name for name in names if name not in strategy.weights]
    if tied and strategy.plan(strategy.last_round + 1).sparse is not None:
        raise ConfigError(
            f"task.model={cfg.task.model}: {tied[0]} is another layer's weight too; sparse strategies need "
            "a model whose layers have weights of their own"
        )
