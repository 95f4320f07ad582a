"""Entropy coding, by zstd's Huffman code: of bytes, and of ascending positions as the gaps between them.

The gaps of a random mask come within 2 % of the mask's entropy. A gap takes one byte; of 255 or more it is written
as as many bytes of 255, which stand for no position, and the rest.
"""

import threading

import numpy as np
import zstandard
from numpy.typing import NDArray

_LONG = 255
# Noise has chance repeats of a few bytes, which cost more than the code of single bytes saves: with longer ones
# and a small table to look them up in, exponents take 12 % less than at level 1, in half the time.
_PARAMETERS = zstandard.ZstdCompressionParameters.from_level(1, min_match=7, hash_log=6)
_STRINGS = 3  # zstd's level for what repeats in strings


class _Compressors(threading.local):
    """Of each thread, because one does one thing at a time, and takes longer to make than small arrays to code."""

    def __init__(self) -> None:
        self.bytes = zstandard.ZstdCompressor(compression_params=_PARAMETERS)
        self.strings = zstandard.ZstdCompressor(_STRINGS)


_compressors = _Compressors()


def coded(data: bytes | memoryview) -> bytes:
    """Bytes as a zstd frame, made for bytes that repeat one by one rather than in strings."""
    return _compressors.bytes.compress(data)


def compressed(data: bytes | memoryview) -> bytes:
    """Bytes as a zstd frame, made for bytes that repeat in strings."""
    return _compressors.strings.compress(data)


def write_positions(positions: NDArray[np.intp]) -> bytes:
    """Ascending positions, from 0 up, as a zstd frame; nothing at all for none."""
    if not positions.size:
        return b""
    gaps = np.diff(positions, prepend=-1) - 1
    if gaps.max() < _LONG:
        return coded(gaps.astype(np.uint8).tobytes())
    long = gaps // _LONG
    ends = np.cumsum(long + 1)
    symbols = np.full(ends[-1], _LONG, np.uint8)
    symbols[ends - 1] = gaps - long * _LONG
    return coded(symbols.tobytes())


def read_positions(data: bytes | memoryview, count: int) -> NDArray[np.intp]:
    """The inverse of `write_positions` for positions below `count`. Raises ValueError for anything else."""
    if not len(data):
        return np.zeros(0, np.intp)
    symbols = np.frombuffer(decompress(data, most=count + count // _LONG), np.uint8)
    ends = symbols != _LONG
    positions: NDArray[np.intp] = np.cumsum(symbols + ends, dtype=np.intp)[ends] - 1
    if positions.size and positions[-1] >= count:
        raise ValueError(f"position {positions[-1]} in an array of {count}")
    return positions


def decompress(data: bytes | memoryview, most: int, exactly: int | None = None) -> bytes:
    """The content of a zstd frame; one that claims more than `most` bytes, or other than `exactly`, is not read.

    Raises ValueError for that, and for what is no frame.
    """
    try:
        size = zstandard.frame_content_size(data)
        if not 0 <= size <= most or (exactly is not None and size != exactly):
            raise ValueError(f"compressed data claim {size} bytes, allowed are {most if exactly is None else exactly}")
        return zstandard.decompress(data, max_output_size=size) if size else b""
    except zstandard.ZstdError as error:
        raise ValueError(f"does not decompress ({error})") from None
    except MemoryError:
        raise ValueError(f"{size} bytes do not fit in memory") from None
