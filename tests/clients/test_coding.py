"""Positions by hand and at random; frames that claim too much are not read."""

import math
import struct
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from clients.coding import coded, compressed, decompress, read_positions, write_positions

CLAIMS_2_TB = b"\x28\xb5\x2f\xfd\xe0" + struct.pack("<Q", 2**41) + b"\x01\x00\x00"  # RFC 8878: 8 bytes of content size


@pytest.mark.parametrize(
    ("positions", "symbols"),
    [
        ([0], [0]),
        ([3, 4, 9], [3, 0, 4]),
        ([254], [254]),
        ([255], [255, 0]),
        ([0, 256, 1000], [0, 255, 0, 255, 255, 233]),  # gaps 0, 255 = 255 + 0 and 743 = 2 * 255 + 233
    ],
)
def test_positions_are_the_gaps_between_them(positions, symbols):
    data = write_positions(np.array(positions))
    assert list(zstandard.decompress(data)) == symbols
    assert read_positions(data, positions[-1] + 1).tolist() == positions
    with pytest.raises(ValueError, match=rf"position {positions[-1]} in an array of {positions[-1]}$|claim"):
        read_positions(data, positions[-1])


@given(st.sets(st.integers(0, 3000)))
def test_positions_come_back(positions):
    assert read_positions(write_positions(np.array(sorted(positions), np.intp)), 3001).tolist() == sorted(positions)


def test_no_positions_weigh_nothing():
    assert write_positions(np.zeros(0, np.intp)) == b""
    assert read_positions(b"", 0).size == 0


@pytest.mark.parametrize("share", [0.1, 0.05, 0.01, 0.001])
def test_the_positions_of_a_random_mask_weigh_little_more_than_its_entropy(share):
    mask = np.random.default_rng(0).random(400_000) < share
    entropy = -mask.size / 8 * (share * math.log2(share) + (1 - share) * math.log2(1 - share))
    assert len(write_positions(np.flatnonzero(mask))) < 1.02 * entropy + 150 + (share < 0.01) * 0.2 * entropy


@pytest.mark.parametrize(
    "data", [CLAIMS_2_TB, coded(bytes(9)), coded(bytes(8))[:-1], b"", b"zstd", coded(b"12345678")[4:]]
)
def test_a_frame_that_is_damaged_or_claims_too_much_is_a_value_error(data):
    with pytest.raises(ValueError, match=r"claim .* bytes, allowed are 8|does not decompress"):
        decompress(data, most=8)


def test_a_frame_of_another_size_than_needed_is_a_value_error():
    with pytest.raises(ValueError, match="claim 7 bytes, allowed are 8"):
        decompress(coded(bytes(7)), most=8, exactly=8)


@pytest.mark.parametrize("code", [coded, compressed])
def test_a_frame_does_not_depend_on_what_was_coded_before(code):
    """A run's bytes must be the same whoever plays its clients: a new thread has a compressor that is new."""
    rng = np.random.default_rng(0)
    kinds = [bytes, rng.bytes, lambda size: rng.binomial(9, 0.3, size).astype(np.uint8).tobytes()]
    datas = [kind(size) for size in (2**21, 0, 1, 90, 3_000, 150_000) for kind in kinds]
    for data in datas:
        with ThreadPoolExecutor(1) as thread:
            assert code(data) == thread.submit(code, data).result()
