"""Named arrays to bytes and back, lossless, each array in the smallest form (`clients.forms`).

A payload is a header (`clients.header`) and one byte string per array. Nothing is pickled. A checksum (CRC-32) over
all of it tells damaged bytes, which may well be other valid values, from what was packed; it is no signature. Where
both ends know the same arrays, such as those that a client was sent and trained from, what is packed may be told
by its difference from them.
"""

import struct
import sys
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
import xxhash
from numpy.typing import NDArray

from clients.forms import FORMS, smallest, word_of, words_of
from clients.header import DTYPES, Entry, Header
from clients.planes import Words
from clients.weights import Weights

Known = Mapping[str, NDArray[Any]]
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
        for entry in Header.from_bytes(header).entries:
            start, end = end, end + sum(entry.lengths)
            arrays.append(view[start:end])
        if end != len(data):
            raise ValueError(f"payload of {len(data)} bytes, {end} announced by its header")
        if zlib.crc32(view[_PREFIX.size :]) != checksum:
            raise ValueError(f"payload of {len(data)} bytes is damaged: its checksum is not the one that was sent")
        return cls(tuple(arrays), header)


def pack(weights: Weights, compress: bool = True, known: Known | None = None) -> Payload:
    """Serialise named arrays without loss, each in its smallest form, or all raw where `compress` is off.

    known: arrays that the receiver will have when it unpacks; of use are those of the same name, dtype and shape.
    Raises ValueError for a dtype other than numbers and booleans.
    """
    entries, arrays = [], []
    for name, array in weights.items():
        if array.dtype.str not in DTYPES:
            raise ValueError(f"{name}: dtype {array.dtype} given; allowed are {sorted(DTYPES)}")
        if compress:
            like = _known_words(known, name, array.dtype, array.shape)
            form, parts = smallest(words_of(array), array.dtype.kind in "fc", like)
        else:
            form, parts = "raw", [array.tobytes()]
        entries.append(Entry(name, array.dtype.str, list(array.shape), form, [len(part) for part in parts]))
        arrays.append(b"".join(parts))
    header = Header(entries, _fingerprint(entries, known))
    return Payload(tuple(arrays), header.to_bytes())


def unpack(
    arrays: Sequence[bytes | memoryview], header: bytes, most: int | None = None, known: Known | None = None
) -> Weights:
    """The arrays that `pack` was given, bit for bit; they are read-only.

    most: bytes that they may take in all. known: what the sender was told that this end has. Raises ValueError for
    more, before any is allocated, for a payload that needs other known arrays, and for one that does not decode.
    """
    read = Header.from_bytes(header)
    announced = sum(entry.nbytes for entry in read.entries)
    if announced > (limit := sys.maxsize if most is None else most):
        raise ValueError(f"payload of {announced} bytes when unpacked, at most {limit} are allowed")
    if len(read.entries) != len(arrays):
        raise ValueError(f"{len(arrays)} arrays given, {len(read.entries)} announced by the header")
    if (ours := _fingerprint(read.entries, known)) != read.known:
        raise ValueError(f"packed against known arrays {read.known}, the receiver's are {ours}")
    return {entry.name: _read(entry, data, known) for entry, data in zip(read.entries, arrays, strict=True)}


def dense_nbytes(weights: Weights) -> int:
    """What `pack` would weigh with every array raw."""
    entries = [Entry(name, a.dtype.str, list(a.shape), "raw", [a.nbytes]) for name, a in weights.items()]
    return _PREFIX.size + len(Header(entries).to_bytes()) + sum(array.nbytes for array in weights.values())


def _read(entry: Entry, data: bytes | memoryview, known: Known | None) -> NDArray[Any]:
    """One array from its bytes; read-only."""
    dtype, view, ends = np.dtype(entry.dtype), memoryview(data), list(accumulate(entry.lengths, initial=0))
    word = word_of(dtype)
    try:
        if ends[-1] != len(view):
            raise ValueError(f"{len(view)} bytes given, {ends[-1]} announced by the header")
        parts = [view[start:end] for start, end in pairwise(ends)]
        like = _known_words(known, entry.name, dtype, entry.shape) if entry.needs_known else None
        words = FORMS[entry.form].read(parts, entry.nbytes // word.itemsize, word, dtype.kind in "fc", like)
        array = words.view(dtype).reshape(entry.shape)
    except ValueError as error:
        raise ValueError(f"{entry.name}: {error}") from None
    except MemoryError:
        raise ValueError(f"{entry.name}: {dtype} {tuple(entry.shape)} does not fit in memory") from None
    array.flags.writeable = False
    return array


def _known_words(known: Known | None, name: str, dtype: np.dtype[Any], shape: Sequence[int]) -> Words | None:
    """The words of the known array of that name, where it is of that type and shape."""
    array = None if known is None else known.get(name)
    return None if array is None or (array.dtype, array.shape) != (dtype, tuple(shape)) else words_of(array)


def _fingerprint(entries: Sequence[Entry], known: Known | None) -> str | None:
    """Of the known arrays that are needed: equal ends agree, others hardly ever. None where none is needed.

    Raises ValueError for one that is not known.
    """
    digest = xxhash.xxh3_64()
    needed = [entry for entry in entries if entry.needs_known]
    for entry in needed:
        words = _known_words(known, entry.name, np.dtype(entry.dtype), entry.shape)
        if words is None:
            raise ValueError(f"{entry.name} is packed against a known array, which the receiver lacks")
        digest.update(words.data)
    return digest.hexdigest() if needed else None
