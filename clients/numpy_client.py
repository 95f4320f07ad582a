"""The client that every strategy talks to: it trains all of the model or a slice, as the message says."""

import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import cached_property, lru_cache
from typing import Any

import torch
from flwr.app import RecordDict
from flwr.client import NumPyClient
from numpy.typing import NDArray
from torch import Tensor, nn

from clients.diagnostics import StepSizes
from clients.evaluation import evaluate
from clients.layers import Groups, layer_groups, layout, names_in
from clients.memory import LocalModels
from clients.objectives import Objective, Plain
from clients.partial import estimate_statistics, norms, training_only
from clients.peak import peak_memory_mb
from clients.plan import RoundPlan, SparseTraining, with_sparsity
from clients.prefix import Split, activations, split
from clients.round_macs import RoundMacs
from clients.sparse import check_share
from clients.sparse_layers import sparse_layers
from clients.sparse_round import measured_densities, prune_received, pruned_update
from clients.tasks.task import Examples, Task
from clients.training import Key, LocalTraining, batches, train
from clients.weights import is_statistic, load_weights, weights_of


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
        trained = names_in(groups, plan.groups)
        key = Key(self.seed, plan.round, self.partition)
        previous = self.local_models.recall() if self.objective.queue else []
        with ExitStack() as stack:
            layers = stack.enter_context(sparse_layers(self.model, plan.sparse))
            self._own_statistics(plan)
            learning = stack.enter_context(training_only(self.model, trained, training.frozen_norm))
            loss_of = stack.enter_context(self.objective.loss(self.model, learning, previous))
            given = self._cached_prefix(trained, training)
            steps = StepSizes(self._parameters(groups, plan)) if plan.diagnostics else None
            loss = train(
                self.model, learning, self.task, self.examples, training, plan.learning_rate, key, loss_of, given,
                after_step=steps or (lambda: None),
            )  # fmt: skip
        if self.objective.queue:
            self.local_models.push(weights_of(self.model), self.objective.queue)
        update = pruned_update(self.model, plan, trained, names_in(groups, None))
        work = RoundMacs(self.model, self._example, len(self.examples), training)
        beside = work.of_passes(training.epochs * self.objective.models(len(previous)))  # the models it asks
        densities = measured_densities(self.model, layers)
        metrics = {
            "names": list(update),
            "loss": loss,
            "macs": work.of_training(trained, given is not None, plan.sparse, densities)
            + work.of_passes(int(self._estimates(plan)))
            + beside,
            "macs-dense": work.of_training(names_in(groups, None)) + beside,
            "seconds": time.perf_counter() - started,
            "memory": peak_memory_mb(),
            **({} if steps is None else {"steps": [size for row in steps.sizes for size in row]}),
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

    def _parameters(self, groups: Groups, plan: RoundPlan) -> list[list[torch.nn.Parameter]]:
        """The parameters of each group that the plan trains."""
        named = dict(self.model.named_parameters())
        chosen = range(len(groups)) if plan.groups is None else plan.groups
        return [[named[name] for name in groups[index] if name in named] for index in chosen]

    def _load(self, parameters: list[NDArray[Any]], names: list[str] | None) -> None:
        names = list(shared(self.model, self.batch_norm)) if names is None else names
        load_weights(self.model, dict(zip(names, parameters, strict=True)))

    def _own_statistics(self, plan: RoundPlan) -> None:
        """Where statistics stay at home, measure this client's own."""
        if self.batch_norm == "local":  # what another client of this process left must not be seen
            rows = batches(len(self.examples), self.training.batch_size) if self._estimates(plan) else ()
            estimate_statistics(self.model, (self.task.prepare(self.examples.inputs[r]) for r in rows))

    def _estimates(self, plan: RoundPlan) -> bool:
        """Whether something normalises by this client's own statistics: full training uses those of the batch."""
        frozen = plan.phase == "partial" and self.training.frozen_norm == "eval"
        needed = frozen or self.objective.models(previous=0) > 0
        return self.batch_norm == "local" and needed and bool(norms(self.model))

    def _cached_prefix(
        self, trained: tuple[str, ...], training: LocalTraining
    ) -> tuple[Split, tuple[Tensor, ...]] | None:
        """The split below what is trained and the activations there; None where caching them is not possible."""
        limit = training.cache_mb * 2**20
        if not limit or self.task.augments or self.objective.needs_inputs or training.epochs == 1:
            return None
        parts = split(self.model, trained, training.frozen_norm)
        if parts is None:
            return None
        rows = batches(len(self.examples), training.batch_size)
        inputs = (training.arrange(self.task.prepare(self.examples.inputs[r])) for r in rows)
        with training.autocast():
            values = activations(parts, inputs, len(self.examples), limit)
        return None if values is None else (parts, values)

    @cached_property
    def _example(self) -> Tensor:
        """A model input of the size that training works on: a text is as long as the longest of its batch."""
        return self.task.prepare(self.examples.inputs[: self.training.batch_size])[:1]


@lru_cache(maxsize=8)
def _grouped(model: nn.Module, batch_norm: str, modules: Groups | None) -> tuple[Groups, str]:
    """The model's layer groups and their layout, which are the same in every round."""
    arrays = shared(model, batch_norm)
    groups = layer_groups(arrays, modules)
    return groups, layout(arrays, groups)


def shared(model: nn.Module, batch_norm: str) -> dict[str, Tensor]:
    """The model's tensors that are exchanged: all under `global`, without running statistics under `local`."""
    return {
        name: tensor for name, tensor in model.state_dict().items() if batch_norm == "global" or not is_statistic(name)
    }
