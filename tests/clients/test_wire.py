"""What is packed comes back bit for bit; what does not decode is a ValueError and nothing else."""

import json
import struct

import numpy as np
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from clients.forms import FORMS
from clients.wire import DTYPES, Payload, dense_nbytes, pack, unpack
from tests.tiny import bits

SHAPES = hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5)


@st.composite
def arrays(draw):
    """Arrays of every allowed dtype, of random bits (NaN payloads and -0.0 among them), some or all zeros."""
    dtype, shape = np.dtype(draw(st.sampled_from(sorted(DTYPES)))), draw(SHAPES)
    size = int(np.prod(shape)) * dtype.itemsize
    kind = draw(st.sampled_from(["bits", "some zeros", "zeros", "constant"]))
    if kind == "constant":
        data = draw(st.binary(min_size=dtype.itemsize, max_size=dtype.itemsize)) * (size // dtype.itemsize)
    else:
        data = bytes(size) if kind == "zeros" else draw(st.binary(min_size=size, max_size=size))
    if kind == "some zeros":
        data = bytes(byte * ((at // dtype.itemsize) % 3 == 1) for at, byte in enumerate(data))
    if dtype.kind == "b":
        data = bytes(byte & 1 for byte in data)
    array = np.frombuffer(data, dtype).reshape(shape)
    return array[draw(st.sampled_from([..., np.s_[::-1], np.s_[::2]]))].T if shape else array


def round_trip(weights):
    payload = pack(weights)
    return unpack(payload.arrays, payload.header)


@settings(max_examples=100, deadline=None)
@given(st.dictionaries(st.text(max_size=8).filter(lambda s: s.isprintable()), arrays(), max_size=4))
def test_what_is_packed_comes_back_bit_for_bit(weights):
    payload = pack(weights)
    data = payload.to_bytes()
    assert len(data) == payload.nbytes
    assert Payload.from_bytes(data) == payload
    back = unpack(payload.arrays, payload.header)
    assert list(back) == list(weights)
    assert bits(back) == bits(weights)
    assert dense_nbytes(weights) >= sum(array.nbytes for array in weights.values())


@pytest.mark.parametrize("dtype", sorted(DTYPES))
@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (1,), (40, 3)])
def test_every_dtype_and_shape(dtype, shape):
    array = np.arange(int(np.prod(shape)), dtype=np.int8).astype(dtype).reshape(shape)
    back = round_trip({"w": array})["w"]
    assert (back.dtype.str, back.shape, back.tobytes()) == (dtype, shape, array.tobytes())


def test_nan_payloads_and_negative_zero_keep_their_bits():
    patterns = np.array([0x7FC00000, 0x7FC00001, 0xFFC12345, 0x7F800001, 0x80000000, 0x00000001] * 20, np.uint32)
    assert round_trip({"w": patterns.view(np.float32)})["w"].tobytes() == patterns.tobytes()


def test_non_contiguous_arrays_arrive_as_their_values():
    array = np.arange(60, dtype=np.float32).reshape(6, 10)[::2, ::-3].T
    np.testing.assert_array_equal(round_trip({"w": array})["w"], array)


def test_the_smallest_form_is_taken():
    zeros = np.zeros(10_000, np.float32)
    noise = np.random.default_rng(0).integers(0, 256, 10_000, np.uint8)
    assert pack({"w": zeros}).nbytes < 200
    # Noise does not compress: it stays raw, and the payload is a prefix of 12 bytes, the header and the values.
    payload = pack({"w": noise})
    assert payload.arrays == (noise.tobytes(),)
    assert payload.nbytes == 12 + len(payload.header) + 10_000 == dense_nbytes({"w": noise})


def test_trained_weights_compress_without_loss():
    """float32 of normal size share their exponents: about 3 of 4 bytes are noise, the fourth is not."""
    weights = {"w": np.random.default_rng(0).normal(0, 0.05, 50_000).astype(np.float32)}
    assert pack(weights).nbytes < 0.93 * dense_nbytes(weights)


def test_dense_size_by_hand():
    weights = {"w": np.zeros((100, 10), np.float32), "n": np.array(3)}
    header = zstandard.compress(b'[["w","<f4",[100,10],"raw",[4000]],["n","<i8",[],"raw",[8]]]', 3)
    assert dense_nbytes(weights) == 4 + 4 + 4 + len(header) + 4000 + 8


def test_unpacked_arrays_are_read_only():
    with pytest.raises(ValueError, match="read-only"):
        round_trip({"w": np.ones(3)})["w"][0] = 2


@pytest.mark.parametrize("array", [np.array(["a"]), np.array([None]), np.array(["2020"], "M8[D]"), np.zeros(1, "V4")])
def test_what_is_not_a_number_is_refused(array):
    with pytest.raises(ValueError, match=r"w: dtype .* given; allowed are"):
        pack({"w": array})


def header(entries):
    return zstandard.compress(entries if isinstance(entries, bytes) else json.dumps(entries).encode())


CLAIMS_2_TB = b"\x28\xb5\x2f\xfd\xe0" + struct.pack("<Q", 2**41) + b"\x01\x00\x00"  # RFC 8878: 8 bytes of content size


@pytest.mark.parametrize(
    ("sent", "entries"),
    [
        ([], {}),
        ([], b"["),
        ([], b"[" * 200_000),
        ([], b"\xff\xfe"),
        ([], [["w", "<f4", [1], "raw", [4]]]),
        ([b"abcd"], [["w", "<f4", [1], "raw"]]),
        ([b"abcd"], [[1, "<f4", [1], "raw", [4]]]),
        ([b"abcd"], [["w", [], [1], "raw", [4]]]),
        ([b"abcd"], [["w", "|O", [1], "raw", [4]]]),
        ([b"abcd"], [["w", "|S4", [1], "raw", [4]]]),
        ([b"abcd"], [["w", "<f4", 1, "raw", [4]]]),
        ([b"abcd"], [["w", "<f4", [-1], "raw", [4]]]),
        ([b"abcd"], [["w", "<f4", [True], "raw", [4]]]),
        ([b"abcd"], [["w", "<f4", [1.0], "raw", [4]]]),
        ([b"abcd"], [["w", "<f4", [1], "pickle", [4]]]),
        ([b"abcd"], [["w", "<f4", [1], [], [4]]]),
        ([b"abcd"], [["w", "<f4", [2], "raw", [4]]]),
        ([b"abcd"], [["w", "<f4", [1] * 70, "raw", [4]]]),
        ([b"abcd"], [["w", "<f4", [2**39] * 60, "raw", [4]]]),
        ([b""], [["w", "<f4", [0, 2**39, 2**39], "raw", [0]]]),
        ([b"abcd"], [["w", "<f4", [1], "zstd", [4]]]),
        ([b""], [["w", "<f4", [1], "zstd", [0]]]),
        ([zstandard.compress(bytes(8))], [["w", "<f4", [1], "zstd", [4]]]),
        ([zstandard.compress(bytes(4))[:-1]], [["w", "<f4", [1], "zstd", [4]]]),
        ([CLAIMS_2_TB], [["w", "<f4", [2**39], "zstd", [len(CLAIMS_2_TB)]]]),
        ([b"abcd", b"abcd"], [["w", "<f4", [1], "raw", [4]], ["w", "<f4", [1], "raw", [4]]]),
    ],
)
def test_a_payload_that_does_not_decode_is_a_value_error(sent, entries):
    with pytest.raises(ValueError):
        unpack(sent, header(entries))


def test_a_header_without_end_is_refused_unread():
    with pytest.raises(ValueError, match="claim 33554432 bytes, allowed are 16777216"):
        unpack([], zstandard.compress(bytes(1 << 25)))


RNG = np.random.default_rng(0)
EVERY_FORM = {
    "planes": RNG.normal(size=100).astype(np.float32),
    "sparse": np.where(RNG.random(300) < 0.1, RNG.normal(size=300), 0).astype(np.float32),
    "zstd": np.full(100, 7),
    "raw": np.ones(2),
}
WHOLE = pack(EVERY_FORM).to_bytes()


def test_the_damaged_payload_holds_every_form():
    entries = json.loads(zstandard.decompress(pack(EVERY_FORM).header))
    assert {entry[0]: entry[3] for entry in entries} == {name: name for name in FORMS}


@settings(max_examples=60, deadline=None)
@given(st.integers(0, len(WHOLE) - 1))
def test_truncated_bytes_are_a_value_error(length):
    with pytest.raises(ValueError):
        Payload.from_bytes(WHOLE[:length])


def test_a_damaged_payload_is_a_value_error_or_gives_arrays():
    """Every byte, three ways: where no check can see the damage, arrays of the announced shapes come out."""
    for place in range(len(WHOLE)):
        for flip in (1, 0x80, 0xFF):
            damaged = bytearray(WHOLE)
            damaged[place] ^= flip
            try:
                payload = Payload.from_bytes(bytes(damaged))
                weights = unpack(payload.arrays, payload.header, most=1 << 16)
            except ValueError:
                continue
            assert sum(array.nbytes for array in weights.values()) <= 1 << 16


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_damaged_parts_are_a_value_error_or_give_arrays_of_the_announced_shape(data):
    """With a whole header, so that the damage reaches the forms: up to eight bytes of each array replaced."""
    payload = pack(EVERY_FORM)
    arrays = []
    for part in payload.arrays:
        start, length = data.draw(st.integers(0, len(part) - 8)), data.draw(st.integers(0, 8))
        middle = data.draw(st.binary(min_size=length, max_size=length))
        arrays.append(part[:start] + middle + part[start + length :])
    try:
        weights = unpack(arrays, payload.header)
    except ValueError:
        return
    assert {name: array.shape for name, array in weights.items()} == {
        name: array.shape for name, array in EVERY_FORM.items()
    }


@pytest.mark.parametrize("data", [b"", b"FSW1", b"PK\x03\x04" * 10, WHOLE + b"x"])
def test_bytes_that_are_no_payload_are_a_value_error(data):
    with pytest.raises(ValueError, match=r"not a packed payload|payload of|does not decode"):
        Payload.from_bytes(data)
