"""The lossless forms that an array can take on the wire, and the choice between them.

An array is seen as machine words: unsigned integers of its items' size, in C order. A word of zero bits is a zero;
-0.0 is not one. A form says which words are written, and how, as parts whose lengths stand in the payload's header.

Which words (`mask`): all; or those that are not zero, which are told by the gaps between their positions
(`clients.coding`); or those that are not zero, told by the positions that moved since an array that the receiver
knows: became zero, or no longer are. How (`values`):

- `raw`: as they are;
- `shuffled`: bytes shuffled (all lowest bytes, then all second bytes, ...), in one zstd frame;
- `planes`: see `clients.planes`;
- `delta`: their differences from the words that the receiver knows, as planes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from clients.coding import compressed, decompress, read_positions, write_positions
from clients.planes import Words, differences, read_planes, rotated, sums, write_planes

Parts = Sequence[bytes | memoryview]


@dataclass(frozen=True)
class Form:
    """Which words are written and how; see the module's text. `known`: the receiver's words, None for zeros."""

    mask: Literal["all", "kept", "moved"]
    values: Literal["raw", "shuffled", "planes", "delta"]

    @property
    def needs_known(self) -> bool:
        """Whether the receiver must know an array of the same type and shape."""
        return self.mask == "moved" or self.values == "delta"

    def parts(self, dtype: np.dtype[Any]) -> int:
        """How many parts there are."""
        return (self.mask != "all") + (1 + dtype.itemsize if self.values in ("planes", "delta") else 1)

    def write(self, words: Words, floats: bool, known: Words | None = None) -> list[bytes]:
        """The words as parts. floats: whether they are the bits of floating point numbers."""
        known = _zeros_unless(known, words.size, words.dtype)
        if self.mask == "all":
            return self._write_values(words, floats, known)
        kept = words != 0
        chosen = np.flatnonzero(kept)
        told = chosen if self.mask == "kept" else np.flatnonzero(kept ^ (known != 0))
        return [write_positions(told), *self._write_values(words[chosen], floats, self._of(known, chosen))]

    def read(self, parts: Parts, count: int, dtype: np.dtype[Any], floats: bool, known: Words | None = None) -> Words:
        """The inverse of `write` for `count` words. Raises ValueError for parts that `write` does not make."""
        known = _zeros_unless(known, count, dtype)
        if self.mask == "all":
            return self._read_values(parts, count, dtype, floats, known)
        chosen = read_positions(parts[0], count)
        if self.mask == "moved":
            kept = known != 0
            kept[chosen] ^= True
            chosen = np.flatnonzero(kept)
        words = np.zeros(count, dtype)
        words[chosen] = self._read_values(parts[1:], chosen.size, dtype, floats, self._of(known, chosen))
        return words

    def _of(self, known: Words, chosen: NDArray[np.intp]) -> Words:
        """The known words at these places, where they are of use."""
        return known[chosen] if self.values == "delta" else known

    def _write_values(self, words: Words, floats: bool, known: Words) -> list[bytes]:
        if self.values == "raw":
            return [words.tobytes()]
        if self.values == "shuffled":
            return [compressed(words.view(np.uint8).reshape(-1, words.itemsize).T.tobytes())]
        if self.values == "delta":
            return write_planes(differences(words, known))
        return write_planes(rotated(words, 1) if floats else words)

    def _read_values(self, parts: Parts, count: int, dtype: np.dtype[Any], floats: bool, known: Words) -> Words:
        size = count * dtype.itemsize
        if self.values == "raw":
            if len(parts[0]) != size:
                raise ValueError(f"{len(parts[0])} bytes given, {size} needed")
            return np.frombuffer(parts[0], dtype)
        if self.values == "shuffled":
            shuffled = np.frombuffer(decompress(parts[0], most=size, exactly=size), np.uint8)
            return np.ascontiguousarray(shuffled.reshape(dtype.itemsize, count).T).reshape(-1).view(dtype)
        words = read_planes(parts, count, dtype)
        if self.values == "delta":
            return sums(words, known)
        return rotated(words, 8 * dtype.itemsize - 1) if floats else words


FORMS = {
    "raw": Form("all", "raw"),
    "zstd": Form("all", "shuffled"),
    "planes": Form("all", "planes"),
    "sparse": Form("kept", "planes"),
    "delta": Form("all", "delta"),
    "sparse-delta": Form("kept", "delta"),
    "moved": Form("moved", "planes"),
    "moved-delta": Form("moved", "delta"),
}
_SMALLEST = 64  # bytes; below this a frame's own overhead eats what compression saves
_ALL = 1 << 10  # words; up to as many every form is tried, beyond, a sample says which
_SAMPLE, _SHARE, _BLOCKS = (1 << 9, 1 << 11), 16, 16  # from so many words to so many, a 16th of all, in 16 blocks
_NEAR = 1.05  # a form whose sample weighs more than this beside the smallest is not tried


def smallest(words: Words, floats: bool, known: Words | None = None) -> tuple[str, list[bytes]]:
    """The name of the smallest form and the words in that form, chosen by exact size.

    known: what the receiver knows, if anything. Of an array that is not small only those forms are tried that come
    near the smallest on a sample.
    """
    if words.nbytes < _SMALLEST:
        return "raw", FORMS["raw"].write(words, floats)
    if words.size <= _ALL:
        names = _possible(words, known)
    else:
        some, of_known = _sample(words), None if known is None else _sample(known)
        sizes = {name: _size(FORMS[name].write(some, floats, of_known)) for name in _possible(some, known)}
        names = [name for name, size in sizes.items() if size <= _NEAR * min(sizes.values())]
    written = {name: FORMS[name].write(words, floats, known) for name in names}
    return min(written.items(), key=lambda item: _size(item[1]))


def word_of(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The type of an array's words: of its items' size; a complex number is two words."""
    return np.dtype(f"u{dtype.itemsize // (2 if dtype.kind == 'c' else 1)}")


def words_of(array: NDArray[Any]) -> Words:
    """An array's bits as words in C order."""
    words: Words = np.ascontiguousarray(array).reshape(-1).view(word_of(array.dtype))
    return words


def _zeros_unless(known: Words | None, count: int, dtype: np.dtype[Any]) -> Words:
    """Who knows nothing takes all for zero."""
    return np.zeros(count, dtype) if known is None else known


def _possible(words: Words, known: Words | None) -> list[str]:
    """The forms that can be written and may save: a mask of an array without zeros saves nothing."""
    masks = ["all"] if np.count_nonzero(words) == words.size else ["all", "kept", "moved"]
    return [name for name, form in FORMS.items() if form.mask in masks and not (form.needs_known and known is None)]


def _sample(words: Words) -> Words:
    """Blocks of neighbours from all over the array."""
    least, most = _SAMPLE
    size = min(max(words.size // _SHARE, least), most)
    blocks = words[: words.size // _BLOCKS * _BLOCKS].reshape(_BLOCKS, -1)
    return blocks[:, : size // _BLOCKS].reshape(-1)


def _size(parts: Sequence[bytes]) -> int:
    return sum(map(len, parts))
