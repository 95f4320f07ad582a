"""Every form gives back every word; sizes by hand; the smallest is taken."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clients.coding import read_positions
from clients.forms import FORMS, smallest, word_of, words_of
from clients.planes import rotated, write_planes

WORDS = st.sampled_from(["u1", "u2", "u4", "u8"])


@st.composite
def some_words(draw):
    """Words of which some, all or none are zero, of any bits or near to each other."""
    dtype = np.dtype(draw(WORDS))
    rng, count = np.random.default_rng(draw(st.integers(0, 99))), draw(st.integers(0, 600))
    low = draw(st.sampled_from([0, 7, np.iinfo(dtype).max - 9]))
    words = rng.integers(low, draw(st.sampled_from([low + 9, np.iinfo(dtype).max])), count, dtype, endpoint=True)
    words[rng.random(count) < draw(st.sampled_from([0, 0.05, 0.5, 0.95, 1]))] = 0
    return words


@st.composite
def words_and_known(draw):
    """Words, and what the receiver knows: nothing, others, or the same with some words moved a little or dropped."""
    words = draw(some_words())
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    near = words + rng.integers(0, 3, words.size, words.dtype)
    near[rng.random(words.size) < 0.1] = 0
    others = rng.integers(0, np.iinfo(words.dtype).max, words.size, words.dtype, endpoint=True)
    return words, draw(st.sampled_from([None, near, others]))


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("floats", [False, True])
@settings(max_examples=60, deadline=None)
@given(given=words_and_known())
def test_every_form_gives_back_every_word(name, floats, given):
    words, known = given
    parts = FORMS[name].write(words, floats, known)
    assert len(parts) == FORMS[name].parts(words.dtype)
    back = FORMS[name].read(parts, words.size, words.dtype, floats, known)
    assert (back.dtype, back.tobytes()) == (words.dtype, words.tobytes())


@settings(max_examples=60, deadline=None)
@given(given=words_and_known())
def test_no_form_is_smaller_than_the_chosen_one(given):
    words, known = given
    chosen, parts = smallest(words, True, known)
    assert FORMS[chosen].write(words, True, known) == parts
    if words.nbytes >= 64:
        names = [name for name, form in FORMS.items() if known is not None or not form.needs_known]
        assert sum(map(len, parts)) == min(sum(map(len, FORMS[name].write(words, True, known))) for name in names)


def test_planes_by_hand():
    """1.0 is 0x3f800000, rotated 0x7f000000; -1.0 is 0xbf800000, rotated 0x7f000001, which is 1 more."""
    words = words_of(np.array([1, -1, 1.5], np.float32))  # 1.5 is 0x3fc00000, rotated 0x7f800000
    assert [part.hex() for part in FORMS["planes"].write(words, True)] == [
        "0000007f", "000100", "000000", "000080", "000000",
    ]  # fmt: skip
    sparse = FORMS["sparse"].write(words_of(np.array([0, 1, 0, 0, -1, 1.5, 0], np.float32)), True)
    assert sparse[1:] == FORMS["planes"].write(words, True)


def test_negative_zero_is_kept_by_the_sparse_form():
    words = words_of(np.array([0, -0.0, 0, np.nan], np.float32))
    assert FORMS["sparse"].write(words, True)[1:] == FORMS["planes"].write(words[[1, 3]], True)


def test_a_known_array_by_hand():
    known = np.array([0, 100, 0, 7, 9], np.uint16)
    words = np.array([5, 0, 0, 6, 10], np.uint16)  # 0 and 1 moved; 6 is 1 less than 7, 10 is 1 more than 9
    moved, *values = FORMS["moved"].write(words, False, known)
    assert read_positions(moved, 5).tolist() == [0, 1]
    assert values == FORMS["planes"].write(np.array([5, 6, 10], np.uint16), False)
    assert FORMS["moved-delta"].write(words, False, known)[1:] == FORMS["planes"].write(
        np.array([10, 1, 2], np.uint16), False
    )  # +5 is 10, -1 is 1, +1 is 2


def test_what_the_receiver_knows_of_a_pruned_array_saves_its_mask():
    """1 % of the kept words are others: 1,000 positions of a million moved, each about two bytes for a gap of 1,000."""
    known = pruned(0.95, 1_000_000)
    kept, words = np.flatnonzero(known), known.copy()
    dropped, added = kept[::100], np.flatnonzero(known == 0)[:: 95 * 20][: kept[::100].size]
    words[added], words[dropped] = words[dropped], 0
    assert smallest(words, True, known)[0] == "moved-delta"  # all others are equal
    told = sum(map(len, FORMS["moved"].write(words, True, known))) - sum(
        map(len, write_planes(rotated(words[words != 0], 1)))
    )
    assert told < 2 * dropped.size * 2
    assert sum(map(len, FORMS["moved"].write(words, True, known))) < 0.04 * words.nbytes


@pytest.mark.parametrize(
    ("dtype", "word"), [("f4", "u4"), (">f8", "u8"), ("c8", "u4"), ("c16", "u8"), ("?", "u1"), ("i2", "u2")]
)
def test_a_word_has_the_size_of_an_item_and_a_complex_number_two(dtype, word):
    assert word_of(np.dtype(dtype)) == np.dtype(word)
    assert words_of(np.zeros((3, 2), dtype)).size == 6 * (1 + (np.dtype(dtype).kind == "c"))


def pruned(sparsity, size=200_000):
    """Normally distributed float32 values, the largest of which are kept."""
    values = np.random.default_rng(0).normal(0, 0.05, size).astype(np.float32)
    values[np.argsort(np.abs(values))[: round(sparsity * size)]] = 0
    return words_of(values)


@pytest.mark.parametrize(
    ("sparsity", "form", "most"),
    [(0, "planes", 0.85), (0.9, "sparse", 0.092), (0.95, "sparse", 0.048), (0.99, "sparse", 0.0105)],
)
def test_the_share_of_dense_that_pruned_weights_take(sparsity, form, most):
    words = pruned(sparsity)
    name, parts = smallest(words, True)
    assert name == form
    size = sum(map(len, parts))
    assert size < most * words.nbytes
    # No code of the mask alone goes below its entropy, and the 23 bits of the mantissa are nearly noise.
    p = 1 - sparsity
    entropy = 0 if p == 1 else -(p * math.log2(p) + sparsity * math.log2(sparsity))
    assert size > words.size / 8 * (entropy + p * 22)


@pytest.mark.parametrize(
    ("words", "form"),
    [
        (np.random.default_rng(0).integers(0, 2**32, 100_000, np.uint32), "raw"),
        (np.full(1000, 7, np.uint32), "zstd"),
        (np.zeros(100_000, np.uint32), "sparse"),
        (np.arange(15, dtype=np.uint32), "raw"),
    ],
)
def test_what_suits_each_form(words, form):
    assert smallest(words, False)[0] == form
