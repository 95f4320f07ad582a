"""Named arrays to bytes and back, lossless, each array in the smallest form (`clients.forms`).

A payload is a header (JSON, compressed: for each array its name, dtype, shape, form and the lengths of its parts)
and one byte string per array. Nothing is pickled. Every length is checked against the header before it is believed,
and a checksum (CRC-32) over all of it tells damaged bytes, which may well be other valid values, from what was
packed. It is no signature.
"""

import json
import math
import struct
import sys
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
import zstandard
from numpy.typing import NDArray

from clients.coding import decompress
from clients.forms import FORMS, smallest, word_of, words_of
from clients.weights import Weights

_CODES = ["f2", "f4", "f8", "c8", "c16", *(kind + size for kind in "iu" for size in "248")]
DTYPES = frozenset(["|b1", "|i1", "|u1", *(order + code for order in "<>" for code in _CODES)])
_LEVEL = 3
_MAX_HEADER = 1 << 24
_PREFIX = struct.Struct("<4sII")  # magic, length of the header, checksum of all that follows
_MAGIC = b"FSW2"


@dataclass(frozen=True)
class Payload:
    """Packed named arrays: one byte string per array and a header that tells how to read them."""

    arrays: tuple[bytes | memoryview, ...]
    header: bytes

    @property
    def nbytes(self) -> int:
        """Size in bytes as serialised by `to_bytes`."""
        return _PREFIX.size + len(self.header) + sum(map(len, self.arrays))

    def to_bytes(self) -> bytes:
        """The payload as one byte string, which is what travels."""
        checksum = 0
        for part in (self.header, *self.arrays):
            checksum = zlib.crc32(part, checksum)
        return b"".join([_PREFIX.pack(_MAGIC, len(self.header), checksum), self.header, *self.arrays])

    @classmethod
    def from_bytes(cls, data: bytes) -> "Payload":
        """The inverse of `to_bytes`. Raises ValueError for bytes that are not a payload."""
        if len(data) < _PREFIX.size or data[:4] != _MAGIC:
            raise ValueError(f"not a packed payload: {len(data)} bytes that begin with {data[:4]!r}")
        _, length, checksum = _PREFIX.unpack_from(data)
        end = _PREFIX.size + length
        header, view = data[_PREFIX.size : end], memoryview(data)
        arrays = []
        for entry in _entries(header):
            start, end = end, end + sum(entry[4])
            arrays.append(view[start:end])
        if end != len(data):
            raise ValueError(f"payload of {len(data)} bytes, {end} announced by its header")
        if zlib.crc32(view[_PREFIX.size :]) != checksum:
            raise ValueError(f"payload of {len(data)} bytes is damaged: its checksum is not the one that was sent")
        return cls(tuple(arrays), header)


def pack(weights: Weights, compress: bool = True) -> Payload:
    """Serialise named arrays without loss, each in its smallest form, or all raw where `compress` is off.

    Raises ValueError for a dtype other than numbers and booleans.
    """
    entries: list[list[Any]] = []
    arrays: list[bytes] = []
    for name, array in weights.items():
        if array.dtype.str not in DTYPES:
            raise ValueError(f"{name}: dtype {array.dtype} given; allowed are {sorted(DTYPES)}")
        form, parts = smallest(words_of(array), array.dtype.kind in "fc") if compress else ("raw", [array.tobytes()])
        entries.append([name, array.dtype.str, list(array.shape), form, [len(part) for part in parts]])
        arrays.append(b"".join(parts))
    header = json.dumps(entries, separators=(",", ":")).encode()
    return Payload(tuple(arrays), zstandard.compress(header, _LEVEL))


def unpack(arrays: Sequence[bytes | memoryview], header: bytes, most: int | None = None) -> Weights:
    """The arrays that `pack` was given, bit for bit; they are read-only.

    most: bytes that they may take in all. Raises ValueError for more, before any is allocated, and for a payload
    that does not decode.
    """
    entries = _entries(header)
    announced = sum(_nbytes(dtype, shape) for _, dtype, shape, _, _ in entries)
    if announced > (limit := sys.maxsize if most is None else most):
        raise ValueError(f"payload of {announced} bytes when unpacked, at most {limit} are allowed")
    if len(entries) != len(arrays):
        raise ValueError(f"{len(arrays)} arrays given, {len(entries)} announced by the header")
    return {
        name: _read(name, dtype, shape, form, lengths, data)
        for (name, dtype, shape, form, lengths), data in zip(entries, arrays, strict=True)
    }


def dense_nbytes(weights: Weights) -> int:
    """What `pack` would weigh with every array raw."""
    entries = [[name, a.dtype.str, list(a.shape), "raw", [a.nbytes]] for name, a in weights.items()]
    header = zstandard.compress(json.dumps(entries, separators=(",", ":")).encode(), _LEVEL)
    return _PREFIX.size + len(header) + sum(array.nbytes for array in weights.values())


def _read(
    name: str, dtype: str, shape: list[int], form: str, lengths: list[int], data: bytes | memoryview
) -> NDArray[Any]:
    """One array from its bytes; read-only."""
    kind, view = np.dtype(dtype), memoryview(data)
    word = word_of(kind)
    ends = list(accumulate(lengths, initial=0))
    try:
        if ends[-1] != len(view):
            raise ValueError(f"{len(view)} bytes given, {ends[-1]} announced by the header")
        parts = [view[start:end] for start, end in pairwise(ends)]
        words = FORMS[form].read(parts, _nbytes(dtype, shape) // word.itemsize, word, kind.kind in "fc")
        array = words.view(kind).reshape(shape)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None
    except MemoryError:
        raise ValueError(f"{name}: {dtype} {tuple(shape)} does not fit in memory") from None
    array.flags.writeable = False
    return array


def _nbytes(dtype: str, shape: list[int]) -> int:
    """Size of an array; Python's integers do not overflow."""
    return math.prod(shape) * np.dtype(dtype).itemsize


def _entries(header: bytes) -> list[list[Any]]:
    """The header's entries [name, dtype, shape, form, lengths], checked."""
    try:
        entries = json.loads(decompress(header, most=_MAX_HEADER))
        if not isinstance(entries, list) or not all(map(_is_entry, entries)):
            raise ValueError("entries are not [name, dtype, shape, form, lengths]")
        if len({entry[0] for entry in entries}) != len(entries):
            raise ValueError("a name stands twice")
    except (ValueError, RecursionError) as error:
        raise ValueError(f"payload header does not decode ({error})") from None
    return entries


def _is_entry(entry: Any) -> bool:
    """Whether a decoded header entry has the right types and allowed values."""
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
        and isinstance(lengths, list)
        and all(type(size) is int and 0 <= size < 1 << 40 for size in [*shape, *lengths])
        and len(lengths) == FORMS[form].parts(word_of(np.dtype(dtype)))
    )
