"""Flower's records: how one is looked up, and what a message's content weighs.

Not by `RecordDict.array_records` and its like: each use of these makes a view that refers to itself, and so keeps
what it shows, a whole model perhaps, until Python happens to look for cycles.
"""

from typing import TypeVar

from flwr.app import ArrayRecord, ConfigRecord, MetricRecord, RecordDict

Record = TypeVar("Record", ArrayRecord, ConfigRecord, MetricRecord)


def record_of(content: RecordDict, name: str, kind: type[Record]) -> Record | None:
    """The record of that name; None where there is none, or one of another kind."""
    record = content.get(name)
    return record if isinstance(record, kind) else None


def nbytes(content: RecordDict) -> int:
    """Size in bytes of a message's content as serialised: packed arrays and all records beside them."""
    return packed_nbytes(content) + records_nbytes(content)


def packed_nbytes(content: RecordDict) -> int:
    """Size in bytes of the packed arrays alone."""
    records = (record for record in content.values() if isinstance(record, ArrayRecord))
    return sum(len(array.data) for record in records for array in record.values())


def records_nbytes(content: RecordDict) -> int:
    """Size in bytes of the configuration and metric records alone, as serialised."""
    return sum(len(record.deflate()) for record in content.values() if not isinstance(record, ArrayRecord))
