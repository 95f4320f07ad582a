"""What a device remembers of the global model between rounds: only ever a saving, never needed.

Kept in Flower's `Context.state`, which stays on the node and is gone when the node restarts. The server sends
what changed since the model of round `base`; a device that remembers that model or a later one has the rest.
(Later is as good: what the server leaves out has not changed since `base`. So the clients that one simulated
node plays can share its memory.)
"""

from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict
from numpy.typing import NDArray

from clients.records import record_of
from clients.weights import Weights
from clients.wire import Payload, pack, unpack

_MODEL, _ROUND, _OWN_ROUND = "memory-model", "memory-round", "own-round"
_STYPE = "fedslice.packed"


def state_of(state: RecordDict, partition: int) -> RecordDict:
    """What client `partition` may look at: the node's memory and its own, not that of the node's other clients.

    A client's own keys end in its number.
    """
    others = {key for key in state if key.rpartition("-")[2].isdigit() and not key.endswith(f"-{partition}")}
    return RecordDict({key: record for key, record in state.items() if key not in others})


def own_of_clients(state: RecordDict) -> dict[str, list[NDArray[np.uint8]]]:
    """All that the clients of a node keep of their own (`LocalModels`), packed, for a checkpoint."""
    records = {key: r for key, r in state.items() if isinstance(r, ArrayRecord) and key != _MODEL}
    return {key: [np.frombuffer(array.data, np.uint8) for array in records[key].values()] for key in sorted(records)}


def give_back(state: RecordDict, own: Mapping[str, Sequence[NDArray[np.uint8]]]) -> None:
    """The inverse of `own_of_clients`."""
    for key, arrays in own.items():
        state[key] = _record([array.tobytes() for array in arrays])


def _record(packed: Sequence[bytes]) -> ArrayRecord:
    return ArrayRecord({str(at): Array("uint8", (len(data),), _STYPE, data) for at, data in enumerate(packed)})


class LocalModels:
    """A client's own arrays of previous rounds, newest first, in its node's `Context.state`.

    kind: its local models (for `objective=moon`), or what rounding took from its update (`clients.lossy`).
    """

    def __init__(
        self, state: RecordDict, partition: int, kind: Literal["local-models", "residual"] = "local-models"
    ) -> None:
        self._state = state
        self._key = f"{kind}-{partition}"

    def recall(self) -> list[Weights]:
        """All that are remembered."""
        payloads = [Payload.from_bytes(data) for data in self._packed()]
        return [unpack(payload.arrays, payload.header) for payload in payloads]

    def push(self, weights: Weights, queue: int) -> None:
        """Remember one more and forget those beyond `queue`."""
        newest = pack(weights, compress=False).to_bytes()
        self._state[self._key] = _record([newest, *self._packed()[: queue - 1]])

    def _packed(self) -> list[bytes]:
        record = record_of(self._state, self._key, ArrayRecord)
        return [] if record is None else [array.data for array in record.values()]


class Memory:
    """The last global model that a node received, in its `Context.state`."""

    def __init__(self, state: RecordDict) -> None:
        self._state = state

    def own_round(self, partition: int) -> int:
        """The round in which client `partition` last put down something of its own; 0 where it has nothing here."""
        record = record_of(self._state, f"{_OWN_ROUND}-{partition}", ArrayRecord)
        return 0 if record is None else int.from_bytes(record["0"].data, "big")

    def note_own_round(self, partition: int, server_round: int) -> None:
        """Date what client `partition` has of its own."""
        self._state[f"{_OWN_ROUND}-{partition}"] = _record([server_round.to_bytes(8, "big")])

    def residual(self, partition: int) -> LocalModels:
        """What rounding took from a client's last update."""
        return LocalModels(self._state, partition, "residual")

    @property
    def round(self) -> int | None:
        """The round at whose start the remembered model was the global one; None without memory."""
        record = record_of(self._state, _ROUND, ConfigRecord)
        return None if record is None else int(str(record["round"]))

    def recall(self, base: int) -> Weights | None:
        """The remembered model, where it is that of round `base` or a later one; otherwise None."""
        model = record_of(self._state, _MODEL, ArrayRecord)
        if model is None or self.round is None or self.round < base:
            return None
        payload = Payload.from_bytes(model[_MODEL].data)
        return unpack(payload.arrays, payload.header)

    def remember(self, server_round: int, weights: Weights) -> None:
        """Keep the global model of the start of `server_round`; once is enough for all clients of a node."""
        if self.round == server_round:
            return
        data = pack(weights, compress=False).to_bytes()
        self._state[_MODEL] = ArrayRecord({_MODEL: Array("uint8", (len(data),), _STYPE, data)})
        self._state[_ROUND] = ConfigRecord({"round": server_round})
