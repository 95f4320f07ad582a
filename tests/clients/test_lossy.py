"""Rounding within its bounds, unbiased where it is random; what it takes comes back; exact arrays stay exact."""

import numpy as np
import pytest

from clients.lossy import rounded, rounded_update
from clients.wire import pack, unpack

VALUES = np.random.default_rng(0).normal(0, 0.05, 20_000).astype(np.float32)
SHARE = {"fp16": 0.48, "bf16": 0.39, "int8": 0.32}


def generator(seed=0):
    return np.random.default_rng(seed)


@pytest.mark.parametrize(("wire", "relative"), [("fp16", 2**-11), ("bf16", 2**-8)])
def test_the_error_is_at_most_half_of_the_last_place(wire, relative):
    normal = np.abs(VALUES) > 2**-14  # below that fp16 has fewer digits
    error = np.abs(rounded("w", VALUES, wire, generator()) - VALUES)
    assert (error <= relative * np.abs(VALUES))[normal].all()


def test_int8_by_hand():
    """The largest, 1.0, fits 127 steps of 1/64 but not of 1/128; 3/64 is a multiple, 0 stays, -0.005 is 0 or -1/64."""
    array = np.array([1, 3 / 64, 0, -0.005], np.float32)
    outcomes = {tuple(rounded("w", array, "int8", generator(seed)) * 64) for seed in range(50)}
    assert outcomes == {(64, 3, 0, 0), (64, 3, 0, -1)}


def test_int8_is_unbiased_and_off_by_less_than_a_step():
    """Mean of 400: each is off by less than a step, with a variance of at most 1/4; five standard errors are 1/8."""
    array = VALUES[:500]
    step = 2.0 ** np.ceil(np.log2(np.abs(array).max() / 127))
    errors = np.array([rounded("w", array, "int8", generator(seed)) - array for seed in range(400)]) / step
    assert np.abs(errors).max() < 1
    assert np.abs(errors.mean(axis=0)).max() < 1 / 8
    assert abs(errors.mean()) < 5 * 0.5 / np.sqrt(errors.size)


@pytest.mark.parametrize("wire", SHARE)
def test_rounded_arrays_weigh_what_their_bits_do(wire):
    sent = {"w": rounded("w", VALUES, wire, generator())}
    payload = pack(sent)
    assert payload.nbytes < SHARE[wire] * VALUES.nbytes
    assert unpack(payload.arrays, payload.header)["w"].tobytes() == sent["w"].tobytes()


@pytest.mark.parametrize("wire", SHARE)
@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
@pytest.mark.parametrize("shape", [(), (0,), (2, 3)])
def test_type_shape_zeros_and_repetition(wire, dtype, shape):
    array = np.full(shape, 0.3, dtype)
    result = rounded("w", array, wire, generator())
    assert (result.dtype, result.shape) == (array.dtype, array.shape)
    assert result.tobytes() == rounded("w", array, wire, generator()).tobytes()
    assert not rounded("w", np.zeros(shape, dtype), wire, generator()).any()


@pytest.mark.parametrize("wire", SHARE)
def test_what_is_no_float_parameter_stays_exact(wire):
    for name, array in (("bn.running_var", VALUES), ("n", np.arange(3)), ("mask", np.ones(3, bool))):
        assert rounded(name, array, wire, generator()) is array


def test_beyond_the_range_of_fp16_is_its_largest_value():
    array = np.array([1e5, -1e30, 65519], np.float32)
    assert rounded("w", array, "fp16", generator()).tolist() == [65504, -65504, 65504]


@pytest.mark.parametrize("wire", SHARE)
@pytest.mark.parametrize("strange", [np.nan, np.inf, -np.inf])
def test_what_is_no_number_is_still_seen_and_is_not_fed_back(wire, strange):
    sent, residual = rounded_update({"w": np.array([0.3, strange], np.float32)}, {}, wire, generator())
    assert np.array_equal(sent["w"][1], strange, equal_nan=True)
    sent, _ = rounded_update({"w": np.array([0.3, 0.3], np.float32)}, residual, wire, generator())
    assert np.isfinite(sent["w"]).all()


def test_an_unknown_wire_is_refused():
    with pytest.raises(ValueError, match="wire=fp17: must be one of lossless, fp16, bf16, int8"):
        rounded("w", VALUES, "fp17", generator())


@pytest.mark.parametrize("wire", SHARE)
def test_error_feedback_makes_the_sum_of_what_is_sent_exact_up_to_the_last_residual(wire):
    residual, total = {}, np.zeros_like(VALUES, np.float64)
    for turn in range(20):
        sent, residual = rounded_update({"w": VALUES}, residual, wire, generator(turn))
        total += sent["w"]
    np.testing.assert_allclose(total + residual["w"], 20 * VALUES.astype(np.float64), rtol=1e-5, atol=1e-6)


def test_feedback_does_not_bring_back_what_was_pruned_and_keeps_what_was_not_sent():
    residual = {"w": np.array([0.5, 0.5], np.float32), "other": np.ones(1, np.float32)}
    sent, left = rounded_update({"w": np.array([0, 1], np.float32)}, residual, "fp16", generator())
    assert sent["w"].tolist() == [0, 1.5]
    assert left["w"].tolist() == [0, 0]
    assert left["other"].tolist() == [1]
