"""Re-parameterisation and pruning, by hand."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from clients.sparse import (
    inverse_powerprop,
    keep_largest,
    largest,
    powerprop,
    reparameterise,
    sparsity_of,
    spectral_exponent,
)

BETAS = (1, 1.05, 1.25, 1.5, 2)


def test_powerprop_by_hand():
    w = torch.tensor([-16.0, -1.0, 0.0, 0.0625, 16.0])
    assert powerprop(w, 1.25).tolist() == [-32, -1, 0, 0.03125, 32]  # 16^1.25 = 2^5, 0.0625^1.25 = 2^-5
    assert powerprop(w, 2).tolist() == [-256, -1, 0, 0.0625**2, 256]


def test_powerprop_of_an_array_is_an_array():
    theta = powerprop(np.array([4.0, -9.0, 0.0]), 1.5)
    np.testing.assert_allclose(theta, [8, -27, 0])  # 4^1.5, 9^1.5


def test_its_gradient_by_hand():
    w = torch.tensor([-16.0, 0.0, 16.0], requires_grad=True)
    powerprop(w, 1.25).sum().backward()
    assert w.grad.tolist() == [2.5, 0, 2.5]  # 1.25 * 16^0.25


@pytest.mark.parametrize("beta", BETAS)
def test_gradients_are_right_and_finite_at_zero(beta):
    w = torch.tensor([-1.5, -0.3, 0.2, 1.0], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda w: powerprop(w, beta), w)
    zeros = torch.zeros(3, requires_grad=True)
    powerprop(zeros, beta).sum().backward()
    assert torch.isfinite(zeros.grad).all()
    assert zeros.grad.tolist() == [float(beta == 1)] * 3


def test_beta_one_is_the_weights_themselves():
    w = torch.randn(5)
    assert powerprop(w, 1) is w


@pytest.mark.parametrize("beta", [0, 0.99, -1, float("nan"), float("inf")])
def test_beta_below_one_is_refused(beta):
    with pytest.raises(ValueError, match=f"beta={beta}: must be at least 1"):
        powerprop(torch.ones(1), beta)


@pytest.mark.parametrize("beta", BETAS)
def test_the_inverse_gives_what_powerprop_came_from(beta):
    theta = torch.tensor([-2.0, -0.01, 0.0, 0.3, 5.0])
    assert torch.allclose(powerprop(inverse_powerprop(theta, beta), beta), theta, rtol=1e-5)


def test_the_spectral_exponent_by_hand():
    # |w| = [[3, 0], [0, 4]]: spectral norm 4, mean 1.75
    assert spectral_exponent(torch.tensor([[3.0, 0.0], [0.0, -4.0]])) == pytest.approx(1 + 1.75 / 4)
    assert spectral_exponent(torch.ones(2, 3, 1, 1)) == pytest.approx(1 + 1 / np.sqrt(6))  # as 2 x 3, all ones
    assert spectral_exponent(torch.zeros(2, 2)) == 1


def test_reparameterise_changes_the_named_arrays_alone():
    weights = {"a": np.float32([[16, -16]]), "b": np.float32([16])}
    theta = reparameterise(weights, ["a"], 1.25)
    assert theta["a"].tolist() == [[32, -32]]
    assert theta["b"] is weights["b"]
    assert np.allclose(reparameterise(theta, ["a"], 1.25, inverse=True)["a"], weights["a"])


@pytest.mark.parametrize(
    ("values", "count", "kept"),
    [
        ([0] * 97 + [1] * 3, 5, [0, 1, 97, 98, 99]),  # two zeros stay, those of the lowest index
        ([2, 2, 2, 2], 2, [0, 1]),
        ([1, 3, 2], 0, []),
        ([1, 3, 2], 3, [0, 1, 2]),
    ],
)
def test_exactly_so_many_are_kept_ties_to_the_lower_index(values, count, kept):
    assert np.flatnonzero(largest(np.float32(values), count)).tolist() == kept


@pytest.mark.parametrize("count", [1, 2])
def test_nan_is_never_pruned_away(count):
    values = np.float32([1, float("nan"), 2])
    assert 1 in np.flatnonzero(largest(values, count))
    assert np.isnan(keep_largest({"a": values}, 1 - count / 3, ["a"])["a"]).any()


@settings(max_examples=60, deadline=None)
@given(
    arrays(np.float32, st.integers(1, 300), elements=st.integers(-3, 3).map(float)),
    st.sampled_from([0.0, 0.1, 0.5, 0.9, 0.95, 0.99]),
    st.data(),
)
def test_one_top_k_over_all_named_arrays(values, sparsity, data):
    cut = data.draw(st.integers(0, len(values)))
    weights = {"a": values[:cut], "other": np.float32([7]), "b": values[cut:].reshape(-1, 1)}
    pruned = keep_largest(weights, sparsity, ["b", "a"])
    together = np.concatenate([pruned["a"], pruned["b"].ravel()])
    order = sorted(range(len(values)), key=lambda i: (-abs(values[i]), i))[: round((1 - sparsity) * len(values))]
    expected = np.zeros_like(values)
    expected[order] = values[order]
    assert together.tolist() == expected.tolist()
    assert list(pruned) == list(weights)
    assert pruned["other"] is weights["other"]


@pytest.mark.parametrize(
    "values",
    [
        np.array([1.0, 1 + 1e-12]), np.array([1e-60, 2e-60]), np.array([1e60, 2e60]), np.array([2**24, 2**24 + 1]),
        np.array([1, -2], np.int8), np.array([-127, -128], np.int8), np.array([0.5, 0.75], np.float16),
    ],
)  # fmt: skip
def test_every_type_is_compared_as_it_is(values):
    kept = keep_largest({"a": values}, 0.5, iter(["a"]))["a"]
    assert kept.dtype == values.dtype
    assert kept.tolist() == [0, values[1]]


def test_names_that_no_array_has_are_refused():
    with pytest.raises(ValueError, match=r"names=\['b', 'c'\]: must be among a"):
        keep_largest({"a": np.ones(2)}, 0.5, ["c", "a", "b"])


def test_half_of_a_hundred_different_values():
    weights = {"a": np.arange(1, 101, dtype=np.float32)}
    assert np.flatnonzero(keep_largest(weights, 0.95, ["a"])["a"]).tolist() == [95, 96, 97, 98, 99]
    assert sparsity_of([keep_largest(weights, 0.95, ["a"])["a"]]) == pytest.approx(0.95)
    assert sparsity_of([]) is None


def test_a_floor_keeps_a_layer_that_would_be_emptied():
    weights = {"large": np.arange(10, 100, dtype=np.float32), "small": np.arange(1, 11, dtype=np.float32)}
    assert not keep_largest(weights, 0.8, weights)["small"].any()
    pruned = keep_largest(weights, 0.8, weights, floor=0.5)  # at least a tenth of each: 1 of small, 9 of large
    assert np.flatnonzero(pruned["small"]).tolist() == [9]
    assert np.flatnonzero(pruned["large"]).tolist() == list(range(71, 90))  # the 19 that are left of 20
    pruned = keep_largest(weights, 0.8, weights, floor=1.0)
    assert [np.count_nonzero(pruned[name]) for name in ("large", "small")] == [18, 2]


@pytest.mark.parametrize(
    ("sparsity", "message"), [(95, r"sparsity=95: .*below 1; 0.95 for 95 %"), (1, "below 1"), (-0.1, "at least 0")]
)
def test_sparsity_is_a_share(sparsity, message):
    with pytest.raises(ValueError, match=message):
        keep_largest({"a": np.ones(3, np.float32)}, sparsity, ["a"])
