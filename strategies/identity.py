"""What a device says of itself when it is asked which client it is."""

import reprlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from strategies.replies import legible


@dataclass(frozen=True)
class Identity:
    """Which client a node is.

    partition: its number; None where it gave none. partitions: into how many parts the task's data are split; None
    where the node has data of its own. data: a name for these.
    """

    partition: int | None
    partitions: int | None
    data: str


def read_identity(answer: Mapping[str, Any] | None) -> Identity:
    """Raises ValueError, in one line, for an answer that says no such thing."""
    if not answer:
        raise ValueError("did not say who it is")
    if "error" in answer:
        raise ValueError(legible(str(answer["error"])) or "did not say who it is")
    partition, partitions, data = (answer.get(key) for key in ("partition-id", "num-partitions", "data"))
    for key, value in (("partition-id", partition), ("num-partitions", partitions)):
        if not (_is_count(value) or (value is None and data is not None)):
            raise ValueError(f"{key}={_short(value)}: must be a whole number from 0")
    if data is not None:
        if not isinstance(data, str) or not data:
            raise ValueError(f"data={_short(data)}: must be a name")
        return Identity(partition, None, data)
    if partition is not None and partitions is not None and partition >= partitions:
        raise ValueError(f"partition-id={partition}: must be below num-partitions={partitions}")
    return Identity(partition, partitions, "")


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _short(value: Any) -> str:
    return legible(reprlib.repr(value))
