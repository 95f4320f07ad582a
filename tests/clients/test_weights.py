"""Weighted means by hand, loading that is all or nothing, and fingerprints."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from clients.weights import (
    RunningMean,
    fingerprint,
    is_statistic,
    load_weights,
    not_finite,
    weighted_mean,
    weights_of,
)
from tests.tiny import ConvNet, bits, linear_net

FLOATS = st.floats(width=32, allow_nan=False, allow_infinity=False)
ARRAYS = hnp.arrays(np.float32, hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4), elements=FLOATS)


def f32(*values):
    return np.array(values, np.float32)


def test_mean_of_two_clients_is_weighted_by_examples():
    mean = weighted_mean([({"w": f32(1, 10)}, 1), ({"w": f32(5, 20)}, 3)])
    # (1*1 + 3*5) / 4 = 4; (1*10 + 3*20) / 4 = 17.5
    assert mean["w"].tolist() == [4.0, 17.5]
    assert mean["w"].dtype == np.float32


def test_each_array_is_averaged_over_those_who_sent_it():
    mean = weighted_mean([({"a": f32(2), "b": f32(7)}, 1), ({"a": f32(8)}, 2)])
    assert mean["a"].tolist() == [6.0]  # (1*2 + 2*8) / 3
    assert mean["b"].tolist() == [7.0]  # one sender: its own value, not 7/3


@pytest.mark.parametrize(
    ("values", "weights", "mean"),
    [((2, 0, 0), (2, 1, 1), 1), ((0, 4, 0, 0), (1, 1, 1, 1), 1), ((7, 1, 1, 4, 2), (1, 2, 3, 3, 1), 2.6)],
)
def test_means_of_several_clients_by_hand(values, weights, mean):
    given = [({"w": f32(value)}, weight) for value, weight in zip(values, weights, strict=True)]
    assert weighted_mean(given)["w"].tolist() == f32(mean).tolist()  # the last: (7 + 2 + 3 + 12 + 2) / 10


def test_shapes_that_do_not_fit_are_refused_before_anything_is_added():
    mean = RunningMean()
    mean.add({"a": f32(1), "b": f32(1)}, 1)
    with pytest.raises(ValueError, match=r"b: shape \(2,\) given, \(1,\) before"):
        mean.add({"a": f32(5), "b": f32(1, 2)}, 1)
    assert mean.result() == {"a": f32(1), "b": f32(1)}


def test_nobody_sent_anything():
    assert weighted_mean([]) == {}


def test_running_means_0_and_2_of_equal_weight_give_1():
    mean = weighted_mean([({"bn.running_mean": f32(0)}, 5), ({"bn.running_mean": f32(2)}, 5)])
    assert mean["bn.running_mean"].tolist() == [1.0]


def test_batch_counters_stay_integers_and_0_dimensional():
    mean = weighted_mean([({"n": np.array(4)}, 1), ({"n": np.array(9)}, 1), ({"n": np.array(10)}, 1)])
    assert mean["n"].dtype == np.int64
    assert mean["n"].shape == ()
    assert mean["n"] == 8  # 23 / 3 = 7.67


@settings(max_examples=60, deadline=None)
@given(ARRAYS, st.integers(1, 10**9))
def test_the_mean_of_one_client_is_its_arrays_bit_for_bit(array, examples):
    sent = {"w": array, "n": np.array(array.size), "half": array.clip(-6e4, 6e4).astype(np.float16)}
    assert bits(weighted_mean([(sent, examples)])) == bits(sent)


@settings(max_examples=40, deadline=None)
@given(ARRAYS, st.lists(st.integers(1, 10**6), min_size=1, max_size=5))
def test_the_mean_of_equal_clients_is_what_each_sent(array, examples):
    mean = weighted_mean([({"w": array}, count) for count in examples])["w"]
    np.testing.assert_array_equal(mean, array)


@pytest.mark.parametrize(("size", "most"), [(1 << 16, 4.8e-7), ((1 << 16) + 1, 10 * 2 * 4.8e-7)])
def test_the_mean_is_close_to_that_of_float64(size, most):
    """Ten clients of 10 +- 1: half a last place is 4.8e-7; small arrays round once, large ones twice at each step."""
    rng = np.random.default_rng(0)
    arrays, examples = rng.normal(10, 1, (10, size)).astype(np.float32), rng.integers(1, 1000, 10)
    mean = weighted_mean([({"w": array}, int(count)) for array, count in zip(arrays, examples, strict=True)])["w"]
    exact = np.average(arrays.astype(np.float64), axis=0, weights=examples)
    assert np.sqrt(np.mean((mean - exact) ** 2)) < 1e-6
    assert np.abs(mean - exact).max() < most


@pytest.mark.parametrize("dtype", ["<f2", "<f4", ">f4", "<f8", "<i4", "|u1", "|b1"])
def test_every_type_and_memory_layout_averages_alike(dtype):
    values = np.array([[0, 1, 1], [0, 1, 0]], dtype)
    unaligned = np.frombuffer(b"x" + values.tobytes(), np.uint8)[1:].view(dtype).reshape(2, 3)
    for array in (values, unaligned, values.T.copy().T, values[::-1].copy()[::-1]):
        mean = weighted_mean([({"w": np.zeros((2, 3), dtype)}, 1), ({"w": array}, 3)])["w"]
        assert mean.dtype == np.dtype(dtype)
        expected = values * (0.75 if mean.dtype.kind == "f" else 1)  # integers and booleans: rounded
        np.testing.assert_array_equal(mean, expected.astype(dtype))


def test_float64_keeps_its_precision():
    mean = weighted_mean([({"w": np.array([1.0])}, 1), ({"w": np.array([1 + 1e-12])}, 1)])["w"]
    assert mean.tolist() == [1 + 5e-13]


def test_the_mean_keeps_nothing_of_the_arrays_it_was_given():
    mean, array = RunningMean(), f32(1)
    mean.add({"w": array}, 1)
    array[0] = 100
    assert mean.result()["w"].tolist() == [1.0]


@pytest.mark.parametrize("weight", [0, -1, float("inf"), float("nan")])
def test_a_weight_that_makes_no_mean_is_refused(weight):
    with pytest.raises(ValueError, match=f"weight {weight}: must be positive and finite"):
        RunningMean().add({"w": f32(1)}, weight)


def test_weights_are_copies_in_state_dict_order():
    model = ConvNet()
    weights = weights_of(model)
    assert list(weights) == list(model.state_dict())
    before = bits(model)
    for array in weights.values():
        array[...] = 99
    assert bits(model) == before


def test_a_choice_of_weights_keeps_the_models_order():
    assert list(weights_of(linear_net(), {"1.bias", "0.weight"})) == ["0.weight", "1.bias"]


def test_loading_is_the_inverse_and_leaves_the_rest():
    source, target = ConvNet(), ConvNet()
    source.fc.weight.data += 1
    before = bits(target)
    load_weights(target, weights_of(source, {"fc.weight"}))
    assert bits(target) == {**before, "fc.weight": bits(source)["fc.weight"]}


@pytest.mark.parametrize(
    ("name", "array", "message"),
    [
        ("fc.wait", np.ones((2, 3), np.float32), "unknown array 'fc.wait'.*fc.weight"),
        ("fc.weight", np.ones((3, 2), np.float32), r"fc.weight: shape \(3, 2\) given, \(2, 3\) allowed"),
        ("bn1.num_batches_tracked", np.ones(1, np.int64), r"shape \(1,\) given, \(\) allowed"),
    ],
)
def test_what_does_not_fit_is_an_error_and_changes_nothing(name, array, message):
    model = ConvNet()
    before = bits(model)
    with pytest.raises(ValueError, match=message):
        load_weights(model, {"conv1.weight": np.ones((2, 1, 3, 3), np.float32), name: array})
    assert bits(model) == before


def test_statistics_are_told_by_the_last_part_of_a_name():
    names = ["bn.running_mean", "running_var", "a.b.num_batches_tracked"]
    assert all(map(is_statistic, names))
    assert not any(map(is_statistic, ["bn.weight", "running_mean.weight", "bn.running_means"]))


def test_arrays_with_nan_or_infinity_are_named():
    weights = {"nan": f32(1, np.nan), "fine": f32(1), "inf": f32(-np.inf), "int": np.array([1])}
    assert not_finite(weights) == ["nan", "inf"]


def test_a_fingerprint_differs_by_value_name_dtype_shape_and_order():
    model = {"a": f32(0, 1), "b": f32(2)}
    others = [
        {"a": f32(-0.0, 1), "b": f32(2)},
        {"a": f32(0, 1), "c": f32(2)},
        {"a": f32(0, 1).view(np.int32), "b": f32(2)},
        {"a": f32(0, 1).reshape(2, 1), "b": f32(2)},
        {"b": f32(2), "a": f32(0, 1)},
    ]
    assert fingerprint({"a": f32(0, 5, 1)[::2], "b": f32(2)}) == fingerprint(model)
    assert len({fingerprint(weights) for weights in [model, *others]}) == 6
