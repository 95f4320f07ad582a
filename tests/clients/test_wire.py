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
from clients.header import DTYPES, Header
from clients.wire import Payload, dense_nbytes, pack, unpack
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
    header = zstandard.compress(b'[null,["w","<f4",[100,10],"raw",[4000]],["n","<i8",[],"raw",[8]]]', 3)
    assert dense_nbytes(weights) == 4 + 4 + 4 + len(header) + 4000 + 8


def test_unpacked_arrays_are_read_only():
    with pytest.raises(ValueError, match="read-only"):
        round_trip({"w": np.ones(3)})["w"][0] = 2


@pytest.mark.parametrize("array", [np.array(["a"]), np.array([None]), np.array(["2020"], "M8[D]"), np.zeros(1, "V4")])
def test_what_is_not_a_number_is_refused(array):
    with pytest.raises(ValueError, match=r"w: dtype .* given; allowed are"):
        pack({"w": array})


def header(entries):
    return zstandard.compress(entries if isinstance(entries, bytes) else json.dumps([None, *entries]).encode())


CLAIMS_2_TB = b"\x28\xb5\x2f\xfd\xe0" + struct.pack("<Q", 2**41) + b"\x01\x00\x00"  # RFC 8878: 8 bytes of content size


@pytest.mark.parametrize(
    ("sent", "entries"),
    [
        ([], b"{}"),
        ([], b"[]"),
        ([], b"[3]"),
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


def test_the_dimensions_of_an_array_are_counted_before_they_are_multiplied():
    """A hundred bytes could announce so many that their product takes an hour."""
    with pytest.raises(ValueError, match="entries are not"):
        Header.from_bytes(header([["w", "<f4", [2**39] * 65, "raw", [4]]]))
    assert Header.from_bytes(header([["w", "<f4", [1] * 64, "raw", [4]]])).entries[0].nbytes == 4


def test_a_header_without_end_is_refused_unread():
    with pytest.raises(ValueError, match="claim 33554432 bytes, allowed are 16777216"):
        unpack([], zstandard.compress(bytes(1 << 25)))


RNG = np.random.default_rng(0)
DENSE = RNG.normal(size=100).astype(np.float32)
SPARSE = np.where(RNG.random(300) < 0.2, RNG.normal(size=300), 0).astype(np.float32)
MOVED = np.where(np.arange(300) % 100 == 7, 0, SPARSE)  # some of the kept are dropped
EVERY_FORM = {
    "planes": DENSE,
    "sparse": SPARSE,
    "zstd": np.full(100, 7),
    "raw": np.ones(2),
    "delta": DENSE,
    "sparse-delta": SPARSE,
    "moved": MOVED,
    "moved-delta": MOVED,
}
KNOWN = {
    "delta": DENSE * np.float32(1.0001),
    "sparse-delta": np.where(SPARSE == 0, 1, SPARSE),
    "moved": np.where(SPARSE == 0, 0, RNG.normal(size=300)).astype(np.float32),
    "moved-delta": SPARSE,
}
WHOLE = pack(EVERY_FORM, known=KNOWN).to_bytes()


def test_the_damaged_payload_holds_every_form():
    header = Header.from_bytes(pack(EVERY_FORM, known=KNOWN).header)
    assert {entry.name: entry.form for entry in header.entries} == {name: name for name in FORMS}


def test_what_is_packed_against_known_arrays_needs_them():
    payload = Payload.from_bytes(WHOLE)
    assert bits(unpack(payload.arrays, payload.header, known=KNOWN)) == bits(EVERY_FORM)
    others = {**KNOWN, "extra": DENSE, "raw": np.zeros(2)}  # what is not needed is not looked at
    assert bits(unpack(payload.arrays, payload.header, known=others)) == bits(EVERY_FORM)
    with pytest.raises(ValueError, match="delta is packed against a known array, which the receiver lacks"):
        unpack(payload.arrays, payload.header)


@pytest.mark.parametrize("name", KNOWN)
def test_other_known_arrays_are_refused_not_believed(name):
    payload = Payload.from_bytes(WHOLE)
    moved = KNOWN[name].copy()
    moved[-1] = -moved[-1]  # one bit, be it of a zero
    with pytest.raises(ValueError, match=r"packed against known arrays .*, the receiver's are"):
        unpack(payload.arrays, payload.header, known={**KNOWN, name: moved})
    for other in (KNOWN[name].astype(np.float64), KNOWN[name][:-1]):
        with pytest.raises(ValueError, match=f"{name} is packed against a known array, which the receiver lacks"):
            unpack(payload.arrays, payload.header, known={**KNOWN, name: other})


@settings(max_examples=60, deadline=None)
@given(st.integers(0, len(WHOLE) - 1))
def test_truncated_bytes_are_a_value_error(length):
    with pytest.raises(ValueError):
        Payload.from_bytes(WHOLE[:length])


def flips(data):
    """Every byte of `data`, damaged in three ways."""
    for place in range(len(data)):
        for flip in (1, 0x80, 0xFF):
            yield data[:place] + bytes([data[place] ^ flip]) + data[place + 1 :]


def test_a_damaged_payload_is_refused():
    for damaged in flips(WHOLE):
        with pytest.raises(ValueError):
            Payload.from_bytes(damaged)


def unpacked_or_refused(arrays, header):
    """What comes of damage that the checksum does not see, because somebody wrote it."""
    try:
        return unpack(arrays, header, most=1 << 16, known=KNOWN)
    except ValueError:
        return None


@pytest.mark.parametrize("name", EVERY_FORM)
def test_parts_that_somebody_wrote_are_refused_or_give_an_array_of_the_announced_shape(name):
    payload = pack({name: EVERY_FORM[name]}, known=KNOWN)
    for damaged in flips(payload.arrays[0]):
        weights = unpacked_or_refused([damaged], payload.header)
        assert weights is None or weights[name].shape == EVERY_FORM[name].shape


def test_a_header_that_somebody_wrote_is_refused_or_gives_arrays_within_the_limit():
    payload = Payload.from_bytes(WHOLE)
    for damaged in flips(zstandard.decompress(payload.header)):
        weights = unpacked_or_refused(payload.arrays, header(damaged))
        assert weights is None or sum(array.nbytes for array in weights.values()) <= 1 << 16


@pytest.mark.parametrize("data", [b"", b"FSW1", b"PK\x03\x04" * 10, WHOLE + b"x"])
def test_bytes_that_are_no_payload_are_a_value_error(data):
    with pytest.raises(ValueError, match=r"not a packed payload|payload of|does not decode"):
        Payload.from_bytes(data)
