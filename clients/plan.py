"""The server decides, the message tells all: what one round asks of a client."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, cast

from clients.lossy import Wire

Phase = Literal["full", "partial"]
Parameterisation = Literal["plain", "powerprop", "spectral", "swat", "fixed"]


@dataclass(frozen=True)
class SparseTraining:
    """What of a local round is sparse (SparsyFed and the methods that it is compared to).

    sparsity: share of zeros to train at; extra: share of all weights that is sent up beyond that (ZeroFL).
    weights: what layers compute with: the weights themselves; `powerprop` of them, with `beta`, or with each
    layer's `spectral` exponent; their largest (`swat`); or only those that are not zero as received (`fixed`).
    prune_activations: for the weight gradient, at each layer's own sparsity. prune_received: to `sparsity`, before
    training, from the second round on. floor: part of the target density that every layer has at least. dense:
    names of weights that are never pruned.
    """

    sparsity: float = 0.0
    extra: float = 0.0
    weights: Parameterisation = "plain"
    beta: float = 1.0
    prune_activations: bool = False
    prune_received: bool = False
    floor: float = 0.0
    dense: tuple[str, ...] = ()

    def to_config(self) -> dict[str, Any]:
        """Flat values that a Flower ConfigRecord holds; what is as by default is left out."""
        values = {field.name: getattr(self, field.name) for field in fields(self) if getattr(self, field.name)}
        return {f"sparse-{name}": list(value) if name == "dense" else value for name, value in values.items()}

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> "SparseTraining | None":
        """What `to_config` wrote, None where nothing of it is there."""
        values = {
            field.name: config[f"sparse-{field.name}"] for field in fields(cls) if f"sparse-{field.name}" in config
        }
        if "dense" in values:
            values["dense"] = tuple(map(str, values["dense"]))
        return cls(**values) if values else None


@dataclass(frozen=True)
class RoundPlan:
    """One round's order, sent with the weights; a device that lost its memory needs nothing else.

    round: from 1. groups: indexes of the layer groups to train and to send back, None for all.
    learning_rate: of this round. layout: the server's `clients.layers.layout`, which the client's must equal.
    diagnostics: whether clients record the size of their steps (`clients.diagnostics`).
    wire, wire_seed: how the reply's values travel (`clients.lossy`), and what keys their rounding.
    sparse: what is sparse in the local round; None trains and sends dense. epochs: instead of the configured ones.
    lineage: where clients keep something of their own, the name of this training, which outlives stops; then
    resumed_after: the round from which it last went on, and trained: that of this client's last accepted reply, or 0.
    """

    round: int
    groups: tuple[int, ...] | None
    learning_rate: float
    layout: str
    diagnostics: bool = False
    sparse: SparseTraining | None = None
    epochs: int | None = None
    wire: Wire = "lossless"
    wire_seed: int = 0
    lineage: str = ""
    resumed_after: int = 0
    trained: int = 0

    @property
    def phase(self) -> Phase:
        """Whether the whole model is trained or only some of its layer groups."""
        return "full" if self.groups is None else "partial"

    def to_config(self) -> dict[str, Any]:
        """Flat values that a Flower ConfigRecord holds; full rounds leave `groups` out."""
        config: dict[str, Any] = {
            "round": self.round,
            "learning-rate": self.learning_rate,
            "layout": self.layout,
        }
        if self.groups is not None:
            config["groups"] = list(self.groups)
        if self.diagnostics:
            config["diagnostics"] = True
        if self.wire != "lossless":
            config.update({"wire": self.wire, "wire-seed": self.wire_seed})
        if self.epochs is not None:
            config["epochs"] = self.epochs
        if self.lineage:  # a float is as long as any other, so that bytes do not tell of a stop
            config.update(
                {"lineage": self.lineage, "resumed-after": float(self.resumed_after), "trained": self.trained}
            )
        if self.sparse is not None:
            config.update(self.sparse.to_config())
        return config

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> "RoundPlan":
        """The plan that `to_config` wrote. Raises ValueError for a key that is missing."""
        missing = [name for name in ("round", "learning-rate", "layout") if name not in config]
        if missing:
            raise ValueError(f"the server's plan lacks {missing}; it has {sorted(config)}")
        groups = config.get("groups")
        return cls(
            round=int(config["round"]),
            groups=None if groups is None else tuple(int(index) for index in groups),
            learning_rate=float(config["learning-rate"]),
            layout=str(config["layout"]),
            diagnostics=bool(config.get("diagnostics", False)),
            sparse=SparseTraining.from_config(config),
            epochs=int(config["epochs"]) if "epochs" in config else None,
            wire=cast(Wire, str(config.get("wire", "lossless"))),
            wire_seed=int(config.get("wire-seed", 0)),
            lineage=str(config.get("lineage", "")),
            resumed_after=int(config.get("resumed-after", 0)),
            trained=int(config.get("trained", 0)),
        )


def with_sparsity(plan: RoundPlan, own: float | None) -> RoundPlan:
    """The plan with a client's own target, to which it prunes what it receives too; as it is for None or dense."""
    if own is None or plan.sparse is None:
        return plan
    return replace(plan, sparse=replace(plan.sparse, sparsity=own, prune_received=True))
