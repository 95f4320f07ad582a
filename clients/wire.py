"""Named arrays to bytes and back, lossless, each array in the smallest form.

A payload is a header (JSON, compressed: for each array its name, dtype, shape, form and length) and one byte
string per array. Forms:

- `raw`: the values in C order;
- `zstd`: the same after a byte shuffle (all first bytes, all second bytes, ...), compressed. Trained float32
  values have similar exponents, so the shuffled bytes that hold them compress.

Nothing is pickled. Every length is checked against the header before it is believed.
"""

import json
import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import zstandard
from numpy.typing import NDArray

from clients.weights import Weights

_CODES = ["f2", "f4", "f8", "c8", "c16", *(kind + size for kind in "iu" for size in "248")]
DTYPES = frozenset(["|b1", "|i1", "|u1", *(order + code for order in "<>" for code in _CODES)])
_LEVEL = 3
_SMALLEST = 64  # bytes; below this a frame's own overhead eats what compression saves
_MAX_HEADER = 1 << 24
_PREFIX = struct.Struct("<4sI")
_MAGIC = b"FSW1"


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
        return b"".join([_PREFIX.pack(_MAGIC, len(self.header)), self.header, *self.arrays])

    @classmethod
    def from_bytes(cls, data: bytes) -> "Payload":
        """The inverse of `to_bytes`. Raises ValueError for bytes that are not a payload."""
        if len(data) < _PREFIX.size or data[:4] != _MAGIC:
            raise ValueError(f"not a packed payload: {len(data)} bytes that begin with {data[:4]!r}")
        end = _PREFIX.size + _PREFIX.unpack_from(data)[1]
        header, view = data[_PREFIX.size : end], memoryview(data)
        arrays = []
        for entry in _entries(header):
            arrays.append(view[end : end + entry[4]])
            end += entry[4]
        if end != len(data):
            raise ValueError(f"payload of {len(data)} bytes, {end} announced by its header")
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
        form, data = _smallest(array) if compress else ("raw", array.tobytes())
        entries.append([name, array.dtype.str, list(array.shape), form, len(data)])
        arrays.append(data)
    header = json.dumps(entries, separators=(",", ":")).encode()
    return Payload(tuple(arrays), zstandard.compress(header, _LEVEL))


def unpack(arrays: Sequence[bytes | memoryview], header: bytes, most: int | None = None) -> Weights:
    """The arrays that `pack` was given, bit for bit; they are read-only.

    most: bytes that they may take in all. Raises ValueError for more, before any is allocated, and for a payload
    that does not decode.
    """
    entries = _entries(header)
    announced = sum(_nbytes(dtype, shape) for _, dtype, shape, _, _ in entries)
    if most is not None and announced > most:
        raise ValueError(f"payload of {announced} bytes when unpacked, at most {most} are allowed")
    if len(entries) != len(arrays):
        raise ValueError(f"{len(arrays)} arrays given, {len(entries)} announced by the header")
    return {
        name: _read(name, dtype, shape, form, data)
        for (name, dtype, shape, form, _), data in zip(entries, arrays, strict=True)
    }


def dense_nbytes(weights: Weights) -> int:
    """What `pack` would weigh with every array raw."""
    entries = [[name, a.dtype.str, list(a.shape), "raw", a.nbytes] for name, a in weights.items()]
    header = zstandard.compress(json.dumps(entries, separators=(",", ":")).encode(), _LEVEL)
    return _PREFIX.size + len(header) + sum(array.nbytes for array in weights.values())


def _smallest(array: NDArray[Any]) -> tuple[str, bytes]:
    """The smallest form of an array and its bytes in that form."""
    raw = array.tobytes()
    if len(raw) < _SMALLEST:
        return "raw", raw
    shuffled = np.frombuffer(raw, np.uint8).reshape(-1, array.itemsize).T.tobytes()
    compressed = zstandard.compress(shuffled, _LEVEL)
    return ("zstd", compressed) if len(compressed) < len(raw) else ("raw", raw)


def _read(name: str, dtype: str, shape: list[int], form: str, data: bytes | memoryview) -> NDArray[Any]:
    """One array from its bytes."""
    kind, size = np.dtype(dtype), _nbytes(dtype, shape)
    if form == "zstd":
        data = _decompress(name, data, size)
        data = np.frombuffer(data, np.uint8).reshape(kind.itemsize, -1).T.tobytes()
    if len(data) != size:
        raise ValueError(f"{name}: {len(data)} bytes given, {size} needed for {dtype} {tuple(shape)}")
    return np.frombuffer(data, kind).reshape(shape)


def _nbytes(dtype: str, shape: list[int]) -> int:
    """Size of an array; Python's integers do not overflow."""
    return math.prod(shape) * np.dtype(dtype).itemsize


def _decompress(name: str, data: bytes | memoryview, size: int) -> bytes:
    """Decompress to exactly `size` bytes; a frame that claims another size is refused unread."""
    try:
        if zstandard.frame_content_size(data) != size:
            raise ValueError(f"{name}: compressed data do not hold the {size} bytes that the header announces")
        return zstandard.decompress(data, max_output_size=size)
    except zstandard.ZstdError as error:
        raise ValueError(f"{name}: does not decompress ({error})") from None
    except MemoryError:
        raise ValueError(f"{name}: the {size} bytes that the header announces do not fit in memory") from None


def _entries(header: bytes) -> list[list[Any]]:
    """The header's entries [name, dtype, shape, form, length], checked."""
    try:
        if not 0 <= zstandard.frame_content_size(header) <= _MAX_HEADER:
            raise ValueError(f"header larger than {_MAX_HEADER} bytes")
        entries = json.loads(zstandard.decompress(header, max_output_size=_MAX_HEADER))
        if not isinstance(entries, list) or not all(map(_is_entry, entries)):
            raise ValueError("entries are not [name, dtype, shape, form, length]")
        if len({entry[0] for entry in entries}) != len(entries):
            raise ValueError("a name stands twice")
    except (zstandard.ZstdError, ValueError, RecursionError) as error:
        raise ValueError(f"payload header does not decode ({error})") from None
    return entries


def _is_entry(entry: Any) -> bool:
    """Whether a decoded header entry has the right types and allowed values."""
    if not isinstance(entry, list) or len(entry) != 5:
        return False
    name, dtype, shape, form, length = entry
    return (
        isinstance(name, str)
        and isinstance(dtype, str)
        and dtype in DTYPES
        and isinstance(shape, list)
        and all(type(size) is int and 0 <= size < 1 << 40 for size in [*shape, length])
        and form in ("raw", "zstd")
    )
