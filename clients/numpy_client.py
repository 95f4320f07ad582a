"""The client that every strategy talks to: it trains all of the model or a slice, as the message says."""

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from flwr.app import RecordDict
from flwr.client import NumPyClient
from numpy.typing import NDArray
from torch import Tensor, nn

from clients.evaluation import evaluate
from clients.layers import Groups, layer_groups, layout, names_in
from clients.local_round import LocalRound
from clients.memory import LocalModels
from clients.objectives import Objective, Plain
from clients.peak import peak_memory_mb
from clients.per_model import per_model
from clients.plan import RoundPlan, SparseTraining, with_sparsity
from clients.sparse import check_share
from clients.sparse_layers import sparse_layers
from clients.sparse_round import prune_received, pruned_update
from clients.tasks.task import Examples, Task
from clients.training import Key, LocalTraining
from clients.weights import arrays_of, is_statistic, load_weights, weights_of


class FederatedClient(NumPyClient):
    """One client's local work over its own examples.

    model: may be shared by many clients of one process; everything that matters is loaded before training.
    partition: which client this is; with `seed` and the round it keys all randomness.
    batch_norm: `global` exchanges running statistics like any array, `local` never sends them.
    objective: what to minimise, cross-entropy by default. local_models: where those that it wants are kept.
    groups: layer groups as lists of module names, where they are not to follow the rule.
    sparsity: this device's own target, instead of the plan's, where the plan is for sparse training.
    """

    def __init__(
        self,
        model: nn.Module,
        task: Task,
        examples: Examples,
        training: LocalTraining,
        partition: int = 0,
        seed: int = 0,
        batch_norm: str = "global",
        objective: Objective | None = None,
        local_models: LocalModels | None = None,
        groups: Sequence[Sequence[str]] | None = None,
        sparsity: float | None = None,
    ) -> None:
        if sparsity is not None:
            check_share("sparsity", sparsity)
        if len(examples) < 2:
            raise ValueError(f"client {partition} has {len(examples)} examples: at least 2 are needed to train")
        self.model = model
        self.task = task
        self.examples = examples
        self.training = training
        self.partition = partition
        self.seed = seed
        self.batch_norm = batch_norm
        self.groups = None if groups is None else tuple(map(tuple, groups))
        self.objective = Plain() if objective is None else objective
        self.local_models = LocalModels(RecordDict(), partition) if local_models is None else local_models
        self.sparsity = sparsity

    def get_parameters(self, config: dict[str, Any]) -> list[NDArray[Any]]:
        """The arrays that this client exchanges, in the model's order."""
        return list(weights_of(self.model, set(shared(self.model, self.batch_norm))).values())

    def fit(
        self, parameters: list[NDArray[Any]], config: dict[str, Any]
    ) -> tuple[list[NDArray[Any]], int, dict[str, Any]]:
        """Train as the plan in `config` says (`RoundPlan.to_config`).

        config["names"] names the parameters; without it they are all that the model exchanges, in its order.
        Returns the trained arrays, the number of local examples, and metrics: `names` of the returned arrays,
        `loss`, `macs` and `macs-dense` of this round, `seconds` of training, peak `memory` in MB, and `steps`
        (iterations x groups, row by row) where the plan asks for diagnostics.
        """
        started = time.perf_counter()
        torch.set_num_threads(self.training.threads)
        plan = with_sparsity(RoundPlan.from_config(config), self.sparsity)
        training = self.training if plan.epochs is None else replace(self.training, epochs=plan.epochs)
        groups = self._agreed_groups(plan)
        self._load(parameters, config.get("names"))
        prune_received(self.model, plan)
        previous = self.local_models.recall() if self.objective.queue else []
        local = LocalRound(
            self.model, self.task, self.examples, training, plan, groups, self.objective, self.batch_norm, previous
        )
        trained = local.train(Key(self.seed, plan.round, self.partition))
        if self.objective.queue:
            self.local_models.push(weights_of(self.model), self.objective.queue)
        update = pruned_update(self.model, plan, names_in(groups, plan.groups), names_in(groups, None))
        metrics = {
            "names": list(update),
            "loss": trained.loss,
            "macs": trained.macs,
            "macs-dense": trained.macs_dense,
            "seconds": time.perf_counter() - started,
            "memory": peak_memory_mb(),
            **({"steps": list(trained.steps)} if plan.diagnostics else {}),
        }
        return list(update.values()), len(self.examples), metrics

    def evaluate(self, parameters: list[NDArray[Any]], config: dict[str, Any]) -> tuple[float, int, dict[str, Any]]:
        """Loss, number of examples and accuracy of the given weights on this client's own examples.

        Where `config` has a sparse plan, the model computes as that says.
        """
        self._load(parameters, config.get("names"))
        with sparse_layers(self.model, SparseTraining.from_config(config)):
            loss, accuracy = evaluate(self.model, self.task, self.examples, batch_norm=self.batch_norm)
        return loss, len(self.examples), {"accuracy": accuracy}

    def _agreed_groups(self, plan: RoundPlan) -> Groups:
        """This model's layer groups, which must be the server's."""
        groups, ours = _grouped(self.model, self.batch_norm, self.groups)
        if ours != plan.layout:
            raise ValueError(
                f"layer groups disagree: this client's model has {len(groups)} groups (layout {ours}), the server's "
                f"layout is {plan.layout}; both need the same task, model, groups and batch_norm"
            )
        return groups

    def _load(self, parameters: list[NDArray[Any]], names: list[str] | None) -> None:
        names = list(shared(self.model, self.batch_norm)) if names is None else names
        load_weights(self.model, dict(zip(names, parameters, strict=True)))


@per_model
def _grouped(model: nn.Module, batch_norm: str, modules: Groups | None) -> tuple[Groups, str]:
    """The model's layer groups and their layout, which are the same in every round."""
    arrays = shared(model, batch_norm)
    groups = layer_groups(arrays, modules)
    return groups, layout(arrays, groups)


def shared(model: nn.Module, batch_norm: str) -> dict[str, Tensor]:
    """The model's tensors that are exchanged: all under `global`, without running statistics under `local`."""
    return {
        name: tensor for name, tensor in arrays_of(model).items() if batch_norm == "global" or not is_statistic(name)
    }
