"""One client's local round: what is frozen, measured and kept before training, the training, and its work."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace

from torch import Tensor, nn

from clients.diagnostics import StepSizes
from clients.layers import Groups, names_in
from clients.objectives import Objective
from clients.partial import estimate_statistics, norms, training_only
from clients.plan import RoundPlan
from clients.prefix import Split, activations, split
from clients.round_macs import RoundMacs
from clients.sparse_layers import sparse_layers
from clients.sparse_round import measured_densities
from clients.tasks.task import Examples, Task
from clients.training import Key, LocalTraining, batches, train
from clients.weights import Weights, arrays_of, is_statistic, load_weights, weights_of


@dataclass(frozen=True)
class Trained:
    """What a round gave beside the weights, which are in the model.

    loss: mean over all examples and epochs. macs, macs_dense: as needed, and as full dense training would need.
    steps: step sizes by layer group, row by row, where the plan asks for them (`clients.diagnostics`).
    """

    loss: float
    macs: int
    macs_dense: int
    steps: tuple[float, ...] = ()


@dataclass(frozen=True)
class LocalRound:
    """A round over a client's own examples, as its plan says.

    model: with the weights just received. groups: the model's layer groups. previous: the client's own local models
    of earlier rounds, newest first. batch_norm: see `FederatedClient`.
    """

    model: nn.Module
    task: Task
    examples: Examples
    training: LocalTraining
    plan: RoundPlan
    groups: Groups
    objective: Objective
    batch_norm: str
    previous: Sequence[Weights]

    def train(self, key: Key) -> Trained:
        """Train what the plan names; `key` keys all randomness."""
        plan, training = self.plan, self.training
        with ExitStack() as stack:
            layers = stack.enter_context(sparse_layers(self.model, plan.sparse))
            self._own_statistics(stack)
            learning = stack.enter_context(training_only(self.model, self._trained, training.frozen_norm))
            loss_of = stack.enter_context(self.objective.loss(self.model, learning, self.previous))
            given = self._cached_prefix()
            steps = StepSizes(self._parameters()) if plan.diagnostics else None
            loss = train(
                self.model, learning, self.task, self.examples, training, plan.learning_rate, key, loss_of, given,
                after_step=steps or (lambda: None),
            )  # fmt: skip
        needed, dense = self._macs(given is not None, measured_densities(self.model, layers))
        sizes = () if steps is None else tuple(size for row in steps.sizes for size in row)
        return Trained(loss, needed, dense, sizes)

    @property
    def _trained(self) -> tuple[str, ...]:
        """Names of the arrays that the plan trains."""
        return names_in(self.groups, self.plan.groups)

    def _parameters(self) -> list[list[nn.Parameter]]:
        """The parameters of each group that the plan trains."""
        named = dict(self.model.named_parameters())
        chosen = range(len(self.groups)) if self.plan.groups is None else self.plan.groups
        return [[named[name] for name in self.groups[index] if name in named] for index in chosen]

    def _own_statistics(self, stack: ExitStack) -> None:
        """Where statistics stay at home, measure this client's own, for the time of a partial round."""
        if self.batch_norm == "local":  # what another client of this process left must not be seen
            if self.plan.groups is not None:
                statistics = [name for name in arrays_of(self.model) if is_statistic(name)]
                stack.callback(load_weights, self.model, weights_of(self.model, statistics))
            rows = batches(len(self.examples), self.training.batch_size) if self._estimates(self.plan) else ()
            estimate_statistics(self.model, (self.task.prepare(self.examples.inputs[r]) for r in rows))

    def _estimates(self, plan: RoundPlan) -> bool:
        """Whether something normalises by this client's own statistics: full training uses those of the batch."""
        frozen = plan.phase == "partial" and self.training.frozen_norm == "eval"
        needed = frozen or self.objective.models(previous=0) > 0
        return self.batch_norm == "local" and needed and bool(norms(self.model))

    def _cached_prefix(self) -> tuple[Split, tuple[Tensor, ...]] | None:
        """The split below what is trained and the activations there; None where caching them is not possible."""
        training = self.training
        limit = training.cache_mb * 2**20
        if not limit or self.task.augments or self.objective.needs_inputs or training.epochs == 1:
            return None
        parts = split(self.model, self._trained, training.frozen_norm)
        if parts is None:
            return None
        rows = batches(len(self.examples), training.batch_size)
        inputs = (training.arrange(self.task.prepare(self.examples.inputs[r])) for r in rows)
        with training.autocast():
            values = activations(parts, inputs, len(self.examples), limit)
        return None if values is None else (parts, values)

    def _macs(self, cached: bool, densities: Mapping[str, float]) -> tuple[int, int]:
        """Multiply-accumulates as needed, and as the same round would need full and dense."""
        # An input of the size that training works on: a text is as long as the longest of its batch.
        example = self.task.prepare(self.examples.inputs[: self.training.batch_size])[:1]
        work = RoundMacs(self.model, example, len(self.examples), self.training)
        beside = work.of_passes(self.training.epochs * self.objective.models(len(self.previous)))  # the models it asks
        full = replace(self.plan, groups=None)
        needed = work.of_training(self._trained, cached, self.plan.sparse, densities)
        dense = work.of_training(names_in(self.groups, None))
        return (
            needed + beside + work.of_passes(int(self._estimates(self.plan))),
            dense + beside + work.of_passes(int(self._estimates(full))),
        )
