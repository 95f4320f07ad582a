"""What is refused, and in which words."""

from dataclasses import replace

import numpy as np
import pytest

from clients.messages import Reply
from strategies.replies import MOST_EXAMPLES, refusal

MODEL = {"a": np.zeros((2, 3), np.float32), "b": np.zeros(3, np.float32), "n": np.array(0)}
GOOD = Reply({"a": np.ones((2, 3), np.float32), "n": np.array(5)}, 10, 0.5, 7, 11, 0.25)


def with_array(name, array):
    return replace(GOOD, weights={**GOOD.weights, name: array})


@pytest.mark.parametrize("examples", [1, 10, MOST_EXAMPLES])
def test_what_fits_is_accepted(examples):
    assert refusal(replace(GOOD, examples=examples), MODEL, ["a", "n"]) is None


def damaged(value):
    array = np.ones((2, 3), np.float32)
    array[1, 2] = value
    return array


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (replace(GOOD, examples=0), "0 examples, must be from 1 to 1000000000"),
        (replace(GOOD, examples=-1), "-1 examples"),
        (replace(GOOD, examples=10**12), "1000000000000 examples"),
        (with_array("c", np.ones(1, np.float32)), "arrays ['c'] were not asked for"),
        (with_array("b", np.ones(3, np.float32)), "arrays ['b'] were not asked for"),
        (replace(GOOD, weights={"a": GOOD.weights["a"]}), "arrays ['n'] are missing"),
        (replace(GOOD, weights={}), "arrays ['a', 'n'] are missing"),
        (with_array("a", np.ones((3, 2), np.float32)), "a is float32 (3, 2), must be float32 (2, 3)"),
        (with_array("a", np.ones((2, 3))), "a is float64 (2, 3), must be float32 (2, 3)"),
        (with_array("a", np.ones((2, 3), ">f4")), "a is >f4 (2, 3), must be float32 (2, 3)"),
        (with_array("n", np.array([5])), "n is int64 (1,), must be int64 ()"),
        (with_array("a", damaged(np.nan)), "NaN or infinity in ['a']"),
        (with_array("a", damaged(-np.inf)), "NaN or infinity in ['a']"),
        (replace(GOOD, loss=float("nan")), "loss=nan, must be finite"),
        (replace(GOOD, loss=float("inf")), "loss=inf, must be finite"),
        (replace(GOOD, seconds=float("nan")), "seconds=nan, must be finite and at least 0"),
        (replace(GOOD, seconds=-1.0), "seconds=-1.0, must be finite and at least 0"),
        (replace(GOOD, macs=-1), "macs=-1, must be finite and at least 0"),
        (replace(GOOD, macs_dense=-5), "macs_dense=-5, must be finite and at least 0"),
    ],
)
def test_what_could_harm_is_refused(reply, reason):
    assert refusal(reply, MODEL, ["a", "n"]).startswith(reason)
