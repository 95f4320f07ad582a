"""SparsyFed: clients train sparse, send sparse, and agree on what to keep.

Guastella, Sani, Iacob, Mora, Bellavista, Lane, *SparsyFed: Sparse Adaptive Federated Training*, ICLR 2025
(arXiv 2504.05153). One round:

1. The server sends its model w: dense in the first round, as sparse as averaging left it from then on.
2. Clients train theta = sign(w) |w|^beta, so that zeros stay zero (`clients.sparse.powerprop`).
3. Weight gradients are computed from activations that are pruned at each layer's own sparsity
   (`clients.pruned_layers`).
4. Clients prune w once, by one Top-K over all convolution and linear weights (`clients.sparse.keep_largest`).
5. The server averages by number of examples, zeros counting as zeros.

The same parts make the methods that it is compared to: with beta 1 and no pruned activations it is Top-K; with
`prune: at_end` naive federated Powerpropagation; with `ramp` a target that grows over the rounds, as in FedSparsify
(Stripelis et al. 2022; the cubic rise is Zhu and Gupta's, 2017).

Deviations: thresholds of activations are estimated from a sample (`clients.pruned_layers.threshold`). By default
every layer keeps at least a fifth of the target density, because a global Top-K empties layers whose weights are
small by initialisation, and then nothing learns; `floor: 0` is the paper's.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from clients.layers import names_in
from clients.plan import RoundPlan, SparseTraining, with_sparsity
from clients.sparse import check_floor, check_share, keep_largest, reparameterise
from clients.weights import Weights
from strategies.fedavg import FedAvgStrategy


class SparsyFedStrategy(FedAvgStrategy):
    """Sparse training to a target share of zeros.

    sparsity: the target, in [0, 1). beta: of the re-parameterisation, 1 for none, `spectral` for one of each layer's
    own (`clients.sparse.spectral_exponent`). prune_activations: for the weight gradient.
    prune: clients prune `each_round`, or the server once, `at_end`: `recovery` rounds before the last, in which zeros
    stay zero where beta is above 1.
    reprune: whether the server prunes the averaged model to the target too. ramp: rounds over which the target rises
    from 0; 0 has it from the first on. floor: part of the target density that every layer has at least, from 0 to 1.
    dense_layers: modules whose weights are never pruned. client_sparsity: targets of the clients in turn (client p has
    that at p modulo their number), who also prune what they receive; empty: all have the same.
    """

    def __init__(
        self,
        *args: Any,
        sparsity: float = 0.95,
        beta: float | Literal["spectral"] = 1.25,
        prune_activations: bool = True,
        prune: Literal["each_round", "at_end"] = "each_round",
        recovery: int = 0,
        reprune: bool = False,
        ramp: int = 0,
        floor: float = 0.2,
        dense_layers: Sequence[str] = (),
        client_sparsity: Sequence[float] = (),
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        for name, value in (("sparsity", sparsity), *(("client_sparsity", share) for share in client_sparsity)):
            check_share(name, value)
        if beta != "spectral" and not 1 <= beta < float("inf"):
            raise ValueError(f"beta={beta}: must be at least 1, or spectral")
        check_floor(floor)
        for name, count in (("ramp", ramp), ("recovery", recovery)):
            if count < 0:
                raise ValueError(f"{name}={count}: must be at least 0 rounds")
        if recovery and prune == "each_round":
            raise ValueError(f"recovery={recovery}: is for prune=at_end only")
        if client_sparsity and (ramp or prune == "at_end"):
            raise ValueError(
                f"client_sparsity={list(client_sparsity)}: needs ramp=0 and prune=each_round, not {ramp} and {prune}"
            )
        self.sparsity, self.ramp, self.reprune = sparsity, ramp, reprune
        self.beta = None if beta == "spectral" else beta
        self._prune_at = max(1, self.rounds - recovery) if prune == "at_end" else None
        self._pruned = False
        self.client_sparsity = tuple(client_sparsity)
        self._sparse = SparseTraining(
            weights="spectral" if self.beta is None else "plain" if self.beta == 1 else "powerprop",
            beta=self.beta or 1.0,
            prune_activations=prune_activations,
            floor=floor,
            dense=self._dense(dense_layers),
        )
        if self.last_round == 0:  # so that theta starts as the model's own initialisation has it
            self.weights = reparameterise(self.weights, self.prunable, self.beta, inverse=True)

    def plan(self, server_round: int) -> RoundPlan:
        """Train everything sparse, to this round's target."""
        sparsity = self.target(server_round) if self._prune_at is None else 0.0
        return replace(super().plan(server_round), sparse=replace(self._sparse, sparsity=sparsity))

    def plan_for(self, plan: RoundPlan, partition: int) -> RoundPlan:
        """The plan with the client's own target, where clients have their own."""
        targets = self.client_sparsity
        return with_sparsity(plan, targets[partition % len(targets)] if targets else None)

    def settle(self, plan: RoundPlan, weights: Weights) -> Weights:
        """The averaged model, pruned to the target where that is asked for; in a partial round only its slice moves."""
        once = self._prune_at is not None and plan.round >= self._prune_at and not self._pruned  # a round may fail
        if not (self.reprune or once):
            return weights
        self._pruned |= once
        names = [name for name in self.prunable if name not in self._sparse.dense]
        pruned = keep_largest(weights, self.target(plan.round), names, self._sparse.floor)
        chosen = names_in(self.groups, None if once else plan.groups)
        return {name: pruned[name] if name in chosen else array for name, array in weights.items()}

    def effective(self) -> Weights:
        """theta: the weights that the model computes with."""
        return reparameterise(self.weights, self.prunable, self.beta)

    def state(self) -> dict[str, Any]:
        """See `FedAvgStrategy.state`."""
        return {**super().state(), "pruned": self._pruned}

    def restore(self, state: Mapping[str, Any]) -> None:
        """See `FedAvgStrategy.restore`."""
        super().restore(state)
        self._pruned = bool(state["pruned"])

    def target(self, server_round: int) -> float:
        """This round's share of zeros: rises as 1 - (1 - t)^3 where it ramps."""
        left = max(0.0, 1 - server_round / self.ramp) if self.ramp else 0.0
        return self.sparsity * (1 - left**3)

    def _dense(self, modules: Sequence[str]) -> tuple[str, ...]:
        names = []
        for module in modules:
            own = [name for name in self.prunable if name.startswith(f"{module}.")]
            if not own:
                raise ValueError(f"dense_layers={module}: has no weight to prune; there are {', '.join(self.prunable)}")
            names += own
        return tuple(names)
