"""Which arrays a client lacks: the server sends down what changed since the client last answered.

FedPart's paper counts the uplink and sends the full model down. Here the server remembers, for each client, the
round of its last accepted reply, and for each array, the round that last changed it. A client that lost its
memory says so and is sent the full model; nothing but bytes depends on it.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from clients.lossy import Wire, rounded
from clients.seeds import numpy_generator
from clients.weights import Weights


class Downlink:
    """Account of what clients hold. With `slices` off everyone is sent everything."""

    def __init__(self, names: Iterable[str], slices: bool) -> None:
        self._slices = slices
        self._changed = dict.fromkeys(names, 0)
        self._seen: dict[int, int] = {}

    def base(self, partition: int) -> int | None:
        """The round whose model the client holds, as far as is known; None where it needs everything."""
        return self._seen.get(partition) if self._slices else None

    def lacking(self, weights: Weights, base: int | None) -> Weights:
        """Those arrays of the global model that changed since the start of round `base`."""
        return {name: array for name, array in weights.items() if base is None or self._changed[name] >= base}

    def rounded(self, weights: Weights, wire: Wire, seed: int) -> Weights:
        """The model as it is sent: each array rounded once for every change, so that what a client holds stays so."""
        return {
            name: rounded(name, array, wire, numpy_generator("round-down", seed, self._changed[name], place))
            for place, (name, array) in enumerate(weights.items())
        }

    def keeps(self, partial: bool) -> bool:
        """Whether clients shall remember this round's model: after a full round nothing of it is left to save."""
        return self._slices and partial

    def confirm(self, partition: int, server_round: int) -> None:
        """The client answered a round whose model it was told to remember."""
        self._seen[partition] = server_round

    def forget(self, partition: int) -> None:
        """The client lost its memory."""
        self._seen.pop(partition, None)

    def merged(self, names: Iterable[str], server_round: int) -> None:
        """The round changed these arrays."""
        self._changed.update(dict.fromkeys(names, server_round))

    def state(self) -> dict[str, Any]:
        """What a checkpoint needs, as plain JSON types."""
        return {"changed": self._changed, "seen": {str(p): r for p, r in self._seen.items()}}

    def restore(self, state: Mapping[str, Any]) -> None:
        """The inverse of `state`."""
        self._changed.update(state["changed"])
        self._seen = {int(partition): int(seen) for partition, seen in state["seen"].items()}
