"""Words as planes of bytes: all lowest bytes, all second bytes, ..., each coded by itself.

Mantissas are noise and stay raw; exponents are alike, and in a frame of their own get a code of their own. Words of
floats are to be rotated left by a bit before, so that the highest plane is the exponent and nothing else. The
least word is taken off all: after pruning by magnitude most words lie within an octave of it, so that the rest
shares its highest bytes.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clients.coding import coded, decompress

Words = NDArray[np.unsignedinteger[Any]]
"""Machine words: a flat array of unsigned integers."""


def write_planes(words: Words) -> list[bytes]:
    """The least word, and for each plane of the others less it a zstd frame, or its bytes where they are fewer."""
    count = words.size
    least = words.min() if count else words.dtype.type(0)
    data = memoryview((words - least).view(np.uint8).reshape(count, words.itemsize).T.tobytes())
    planes = [data[start * count : (start + 1) * count] for start in range(words.itemsize)]
    frames = [coded(plane) for plane in planes]
    shorter = [frame if len(frame) < count else bytes(plane) for plane, frame in zip(planes, frames, strict=True)]
    return [least.tobytes(), *shorter]


def read_planes(parts: Sequence[bytes | memoryview], count: int, dtype: np.dtype[Any]) -> Words:
    """The inverse of `write_planes`. Raises ValueError for parts that it does not make."""
    least, *planes = parts
    if len(least) != dtype.itemsize:
        raise ValueError(f"{len(least)} bytes given for the least word, {dtype.itemsize} needed")
    data = np.empty((count, dtype.itemsize), np.uint8)
    for place, part in enumerate(planes):  # a coded plane is shorter than the plane
        plane = part if len(part) == count else decompress(part, most=count, exactly=count)
        data[:, place] = np.frombuffer(plane, np.uint8)
    words: Words = data.reshape(-1).view(dtype)
    words += np.frombuffer(least, dtype)[0]
    return words


def rotated(words: Words, left: int) -> Words:
    """The words' bits rotated to the left, by fewer bits than a word has."""
    turned: Words = words << words.dtype.type(left) | words >> words.dtype.type(8 * words.itemsize - left)
    return turned


def differences(words: Words, known: Words) -> Words:
    """What must be added to `known`, small both ways: 0, -1, 1, -2, 2, ... are 0, 1, 2, 3, 4, ..."""
    change = np.subtract(words, known)
    one, sign = change.dtype.type(1), change.dtype.type(8 * change.itemsize - 1)
    folded: Words = change << one ^ -(change >> sign)
    return folded


def sums(changes: Words, known: Words) -> Words:
    """The inverse of `differences`."""
    one = changes.dtype.type(1)
    words: Words = known + (changes >> one ^ -(changes & one))
    return words
