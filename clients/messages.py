"""What travels in a Flower message, written once for both sides, and what it weighs.

A message holds one packed `Array`: every separate array would cost two objects and a round trip each. Its
weight is what is serialised: the packed bytes and the records beside them, indexes and headers included.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict

from clients.plan import RoundPlan
from clients.records import record_of
from clients.weights import Weights
from clients.wire import Payload, unpack

MODEL, PLAN, METRICS, ERROR, FORGOTTEN = "model", "plan", "metrics", "error", "forgotten"
WHO = "who"
"""Action and record name of the question which client a node is."""
_STYPE = "fedslice.packed"
_INT64_MAX = 2**63 - 1


@dataclass(frozen=True)
class Order:
    """Server to client: the weights it lacks, this round's plan, and which client it is to be.

    base: the round whose model the client is believed to remember, which has the other arrays; None where all
    are sent. keep: whether to remember this round's model.
    """

    weights: Weights
    plan: RoundPlan
    partition: int
    clients: int
    base: int | None
    keep: bool


@dataclass(frozen=True)
class Reply:
    """Client to server: the trained arrays, the number of examples behind them, and what the training cost.

    memory: peak of the client's process in MB; None where it does not know. lost: it should have had something of its
    own from earlier rounds (a local model, a rounding error), and trained without.
    """

    weights: Weights
    examples: int
    loss: float
    macs: int
    macs_dense: int
    seconds: float
    memory: float | None = None
    steps: tuple[float, ...] = ()
    lost: bool = False


class _Here(bytes):
    """Packed bytes as long as they are in the process that packed them, with the arrays that they hold."""

    weights: Weights

    def __reduce__(self) -> tuple[type[bytes], tuple[bytes]]:
        return bytes, (bytes(self),)  # another process gets the bytes alone


def model_record(payload: Payload, weights: Weights | None = None) -> ArrayRecord:
    """A payload as the one array of a record. The record may be shared by many messages.

    weights: exactly what the payload unpacks to, to be given to a receiver in this process as it is.
    """
    data = payload.to_bytes()
    if weights is not None:
        data = _Here(data)
        data.weights = {name: array.view() for name, array in weights.items()}
        for array in data.weights.values():
            array.flags.writeable = False  # as unpacked arrays are
    return ArrayRecord({MODEL: Array("uint8", (len(data),), _STYPE, data)})


def order_content(
    model: ArrayRecord, plan: RoundPlan, partition: int, clients: int, base: int | None = None, keep: bool = False
) -> RecordDict:
    """Content of a message that asks client `partition` of `clients` to train; see `Order`."""
    config = ConfigRecord({**plan.to_config(), "partition": partition, "clients": clients, "keep": keep})
    if base is not None:
        config["base"] = base
    return RecordDict({MODEL: model, PLAN: config})


def read_order(content: RecordDict) -> Order:
    """The inverse of `order_content`. Raises ValueError for content that is not an order."""
    config: Mapping[str, Any] = record_of(content, PLAN, ConfigRecord) or {}
    plan = RoundPlan.from_config(config)
    missing = [name for name in ("partition", "clients") if name not in config]
    if missing:
        raise ValueError(f"the server's order lacks {missing}")
    base = config.get("base")
    return Order(
        weights=dict(_unpacked_order(_packed(content))),
        plan=plan,
        partition=int(config["partition"]),
        clients=int(config["clients"]),
        base=None if base is None else int(base),
        keep=bool(config.get("keep", False)),
    )


def partition_of(content: RecordDict) -> int:
    """The client that an order is for, without unpacking it."""
    return int(str(content[PLAN]["partition"]))


def reply_content(model: ArrayRecord, examples: int, metrics: Mapping[str, Any]) -> RecordDict:
    """Content of a client's reply; values that Flower could not serialise are refused here (ValueError)."""
    values: dict[str, int | float] = {"examples": int(examples)}
    for name in ("loss", "macs", "macs-dense", "seconds"):
        values[name] = metrics[name]
    too_large = [name for name, value in values.items() if isinstance(value, int) and abs(value) > _INT64_MAX]
    if too_large:
        raise ValueError(f"{too_large[0]}={values[too_large[0]]}: must fit in 64 bits")
    if (memory := metrics.get("memory")) is not None:
        values["memory"] = float(memory)  # a float is as long as any other, so that bytes are the same in every run
    if metrics.get("lost"):
        values["lost"] = 1
    record = MetricRecord({**values})
    if steps := metrics.get("steps"):
        record["steps"] = list(steps)
    return RecordDict({MODEL: model, METRICS: record})


def error_content(reason: str) -> RecordDict:
    """Content of a reply that says why there is no update."""
    sendable = reason.encode(errors="replace").decode()  # names of files may hold what is no UTF-8
    return RecordDict({ERROR: ConfigRecord({"reason": sendable})})


def forgotten_content() -> RecordDict:
    """Content of a reply that says: my memory is lost, send me everything."""
    return RecordDict({FORGOTTEN: ConfigRecord()})


def has_forgotten(message: Message) -> bool:
    """Whether a reply says that the client's memory is lost."""
    return message.has_content() and record_of(message.content, FORGOTTEN, ConfigRecord) is not None


def error_of(message: Message) -> str | None:
    """Why a reply carries no update: the client's own reason, or Flower's; None where it carries one."""
    if message.has_error():
        return message.error.reason or f"Flower error {message.error.code}"
    record = record_of(message.content, ERROR, ConfigRecord)
    return None if record is None else str(record.get("reason"))


def read_reply(content: RecordDict, most: int | None = None, known: Weights | None = None) -> Reply:
    """The inverse of `reply_content`. Raises ValueError for content that is not a reply.

    most: bytes that its arrays may take when unpacked. known: the model that the client was sent.
    """
    metrics: Mapping[str, Any] = record_of(content, METRICS, MetricRecord) or {}
    names = ("examples", "loss", "macs", "macs-dense", "seconds")
    missing = [name for name in names if name not in metrics or isinstance(metrics[name], list)]
    if missing:
        raise ValueError(f"the reply lacks {missing}")
    fractions = [name for name in ("examples", "macs", "macs-dense") if not isinstance(metrics[name], int)]
    if fractions:
        raise ValueError(f"{fractions[0]}={metrics[fractions[0]]}: must be an integer")
    return Reply(
        weights=_unpacked(_packed(content), most, known),
        examples=metrics["examples"],
        loss=float(metrics["loss"]),
        macs=metrics["macs"],
        macs_dense=metrics["macs-dense"],
        seconds=float(metrics["seconds"]),
        memory=_memory(metrics.get("memory")),
        steps=_floats(metrics.get("steps", [])),
        lost=bool(metrics.get("lost", 0)),
    )


def _memory(value: Any) -> float | None:
    """A metric that may be missing."""
    if isinstance(value, list):
        raise ValueError(f"memory={value}: must be a number")
    return None if value is None else float(value)


def _floats(values: Any) -> tuple[float, ...]:
    """A metric that must be a list."""
    if not isinstance(values, list):
        raise ValueError(f"steps={values}: must be a list")
    return tuple(map(float, values))


@lru_cache(maxsize=1)
def _unpacked_order(data: bytes) -> Weights:
    """Clients that one process plays are mostly sent the same bytes; unpacked once, for arrays are read-only."""
    return _unpacked(data)


def _unpacked(data: bytes, most: int | None = None, known: Weights | None = None) -> Weights:
    if isinstance(data, _Here):
        return data.weights
    payload = Payload.from_bytes(data)
    return unpack(payload.arrays, payload.header, most, known)


def _packed(content: RecordDict) -> bytes:
    record = record_of(content, MODEL, ArrayRecord)
    array = None if record is None else record.get(MODEL)
    if array is None or array.stype != _STYPE:
        raise ValueError(f"no packed model in a message with {sorted(content)}")
    return array.data
