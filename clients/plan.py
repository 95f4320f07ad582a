"""The server decides, the message tells all: what one round asks of a client."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

Phase = Literal["full", "partial"]


@dataclass(frozen=True)
class RoundPlan:
    """One round's order, sent with the weights; a device that lost its memory needs nothing else.

    round: from 1. groups: indexes of the layer groups to train and to send back, None for all.
    learning_rate: of this round. layout: the server's `clients.layers.layout`, which the client's must equal.
    diagnostics: whether clients record the size of their steps (`clients.diagnostics`).
    """

    round: int
    groups: tuple[int, ...] | None
    learning_rate: float
    layout: str
    diagnostics: bool = False

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
        )
