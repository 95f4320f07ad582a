"""The lossless forms that an array can take on the wire, and the choice between them.

An array is seen as machine words: unsigned integers of its items' size, in C order. A word of zero bits is a zero;
-0.0 is not one. A form says which words are written and how, as parts whose lengths stand in the payload's header:

- `raw`: all words as they are;
- `zstd`: all words, bytes shuffled (all lowest bytes, then all second bytes, ...), in one zstd frame;
- `planes`: the least word, then all words less it, each plane of bytes by itself, as a zstd frame or raw. Words
  of floats are first rotated left by a bit, so that the highest plane is the exponent and nothing else. Mantissas
  are noise; exponents are alike, and in a frame of their own get a code of their own. After pruning by magnitude
  most words lie within one octave of the least, so that less it they share their highest bytes;
- `sparse`: the gaps between the words that are not zero (`clients.coding`), then those words as planes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import zstandard
from numpy.typing import NDArray

from clients.coding import coded, decompress, read_positions, write_positions

Words = NDArray[np.unsignedinteger[Any]]
Parts = Sequence[bytes | memoryview]
_SHUFFLED_LEVEL = 3


@dataclass(frozen=True)
class Form:
    """sparse: whether zeros are left out. values: how the words that are written become parts."""

    sparse: bool
    values: Literal["raw", "shuffled", "planes"]

    def write(self, words: Words, floats: bool) -> list[bytes]:
        """The words as parts. floats: whether they are the bits of floating point numbers."""
        if not self.sparse:
            return self._write_values(words, floats)
        kept = np.flatnonzero(words != 0)
        return [write_positions(kept), *self._write_values(words[kept], floats)]

    def read(self, parts: Parts, count: int, dtype: np.dtype[Any], floats: bool) -> Words:
        """The inverse of `write` for `count` words. Raises ValueError for parts that `write` does not make."""
        if not self.sparse:
            return self._read_values(parts, count, dtype, floats)
        kept = read_positions(parts[0], count)
        words = np.zeros(count, dtype)
        words[kept] = self._read_values(parts[1:], kept.size, dtype, floats)
        return words

    def parts(self, dtype: np.dtype[Any]) -> int:
        """How many parts there are."""
        return self.sparse + (1 + dtype.itemsize if self.values == "planes" else 1)

    def _write_values(self, words: Words, floats: bool) -> list[bytes]:
        if self.values == "raw":
            return [words.tobytes()]
        if self.values == "shuffled":
            return [zstandard.compress(words.view(np.uint8).reshape(-1, words.itemsize).T.tobytes(), _SHUFFLED_LEVEL)]
        words = _rotated(words, 1) if floats else words
        least = words.min(initial=np.iinfo(words.dtype).max)
        data = (words - least).view(np.uint8)
        planes = [data[place :: words.itemsize].tobytes() for place in range(words.itemsize)]
        return [least.tobytes(), *(min(plane, coded(plane), key=len) for plane in planes)]

    def _read_values(self, parts: Parts, count: int, dtype: np.dtype[Any], floats: bool) -> Words:
        if self.values == "raw":
            return np.frombuffer(_exactly(parts[0], count * dtype.itemsize), dtype)
        data = np.empty((count, dtype.itemsize), np.uint8)
        if self.values == "shuffled":
            shuffled = decompress(parts[0], most=data.size, exactly=data.size)
            data.T[:] = np.frombuffer(shuffled, np.uint8).reshape(dtype.itemsize, count)
            return data.reshape(-1).view(dtype)
        for plane, part in zip(data.T, parts[1:], strict=True):  # a compressed plane is shorter than the plane
            plane[:] = np.frombuffer(part if len(part) == count else decompress(part, count, count), np.uint8)
        words: Words = data.reshape(-1).view(dtype)
        words += np.frombuffer(_exactly(parts[0], dtype.itemsize), dtype)[0]
        return _rotated(words, 8 * dtype.itemsize - 1) if floats else words


FORMS = {
    "raw": Form(False, "raw"),
    "zstd": Form(False, "shuffled"),
    "planes": Form(False, "planes"),
    "sparse": Form(True, "planes"),
}
_SMALLEST = 64  # bytes; below this a frame's own overhead eats what compression saves
_SAMPLE, _BLOCKS = 1 << 12, 16  # words; up to four times as many every form is tried, beyond, a sample says which
_NEAR = 1.05  # a form whose sample weighs more than this beside the smallest is not tried


def smallest(words: Words, floats: bool) -> tuple[str, list[bytes]]:
    """The name of the smallest form and the words in that form, chosen by exact size.

    Of a large array only those forms are tried that come near the smallest on a sample.
    """
    if words.nbytes < _SMALLEST:
        return "raw", FORMS["raw"].write(words, floats)
    zeros = np.count_nonzero(words) < words.size
    names = [name for name, form in FORMS.items() if zeros or not form.sparse]
    if words.size > 4 * _SAMPLE:
        sample = words[: words.size // _BLOCKS * _BLOCKS].reshape(_BLOCKS, -1)[:, : _SAMPLE // _BLOCKS].reshape(-1)
        sizes = {name: _size(parts) for name, parts in _written(sample, floats, names).items()}
        names = [name for name in names if sizes[name] <= _NEAR * min(sizes.values())]
    written = _written(words, floats, names)
    return min(written.items(), key=lambda item: _size(item[1]))


def word_of(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The type of an array's words: of its items' size; a complex number is two words."""
    return np.dtype(f"u{dtype.itemsize // (2 if dtype.kind == 'c' else 1)}")


def words_of(array: NDArray[Any]) -> Words:
    """An array's bits as words in C order."""
    words: Words = np.ascontiguousarray(array).reshape(-1).view(word_of(array.dtype))
    return words


def _written(words: Words, floats: bool, names: Sequence[str]) -> dict[str, list[bytes]]:
    return {name: FORMS[name].write(words, floats) for name in names}


def _size(parts: Sequence[bytes]) -> int:
    return sum(map(len, parts))


def _rotated(words: Words, left: int) -> Words:
    """The words' bits rotated to the left."""
    bits = 8 * words.itemsize
    return words << words.dtype.type(left) | words >> words.dtype.type(bits - left)


def _exactly(data: bytes | memoryview, size: int) -> bytes | memoryview:
    if len(data) != size:
        raise ValueError(f"{len(data)} bytes given, {size} needed")
    return data
