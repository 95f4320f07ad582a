"""A payload's header: what is packed, and how to read it. JSON, compressed, checked before it is believed."""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from clients.coding import compressed, decompress
from clients.forms import FORMS, word_of

_CODES = ["f2", "f4", "f8", "c8", "c16", *(kind + size for kind in "iu" for size in "248")]
DTYPES = frozenset(["|b1", "|i1", "|u1", *(order + code for order in "<>" for code in _CODES)])
_MOST = 1 << 24
_DIMENSIONS = 64  # NumPy's limit; the product of very many sizes takes hours


@dataclass(frozen=True)
class Entry:
    """One packed array: its name, dtype (NumPy's type string) and shape, its form and the lengths of its parts."""

    name: str
    dtype: str
    shape: Sequence[int]
    form: str
    lengths: Sequence[int]

    @property
    def nbytes(self) -> int:
        """Size of the array when unpacked; Python's integers do not overflow."""
        return math.prod(self.shape) * np.dtype(self.dtype).itemsize

    @property
    def needs_known(self) -> bool:
        """Whether it is packed against an array that the receiver knows."""
        return FORMS[self.form].needs_known


@dataclass(frozen=True)
class Header:
    """All arrays, and the fingerprint of the known arrays that they are packed against; None without any."""

    entries: Sequence[Entry]
    known: str | None = None

    def to_bytes(self) -> bytes:
        """The header as it travels."""
        rows = [(e.name, e.dtype, e.shape, e.form, e.lengths) for e in self.entries]
        return compressed(json.dumps([self.known, *rows], separators=(",", ":")).encode())

    @classmethod
    def from_bytes(cls, data: bytes) -> "Header":
        """The inverse of `to_bytes`. Raises ValueError for bytes that are not a header."""
        try:
            known, entries = _checked(json.loads(decompress(data, most=_MOST)))
        except (ValueError, RecursionError) as error:
            raise ValueError(f"payload header does not decode ({error})") from None
        return cls(entries, known)


def _checked(decoded: Any) -> tuple[str | None, list[Entry]]:
    """A decoded header, of the right types and with allowed values."""
    if not (isinstance(decoded, list) and decoded and isinstance(decoded[0], str | None)):
        raise ValueError("not a fingerprint and entries")
    known, *entries = decoded
    if not all(map(_is_entry, entries)):
        raise ValueError("entries are not [name, dtype, shape, form, lengths]")
    if len({entry[0] for entry in entries}) != len(entries):
        raise ValueError("a name stands twice")
    return known, [Entry(*entry) for entry in entries]


def _is_entry(entry: Any) -> bool:
    if not isinstance(entry, list) or len(entry) != 5:
        return False
    name, dtype, shape, form, lengths = entry
    return (
        isinstance(name, str)
        and isinstance(dtype, str)
        and dtype in DTYPES
        and isinstance(form, str)
        and form in FORMS
        and isinstance(shape, list)
        and len(shape) <= _DIMENSIONS
        and isinstance(lengths, list)
        and all(type(size) is int and 0 <= size < 1 << 40 for size in [*shape, *lengths])
        and len(lengths) == FORMS[form].parts(word_of(np.dtype(dtype)))
    )
