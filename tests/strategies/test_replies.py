"""What is refused, and in which words."""

import math
from dataclasses import replace

import numpy as np
import pytest

from clients.messages import Reply
from strategies.replies import MOST_EXAMPLES, Asked, legible, refusal, update_norm

MODEL = {"a": np.zeros((2, 3), np.float32), "b": np.zeros(3, np.float32), "n": np.array(0)}
ASKED = Asked(["a", "n"])
GOOD = Reply({"a": np.ones((2, 3), np.float32), "n": np.array(5)}, 10, 0.5, 7, 11, 0.25)


def with_array(name, array):
    return replace(GOOD, weights={**GOOD.weights, name: array})


@pytest.mark.parametrize("examples", [1, 10, MOST_EXAMPLES])
def test_what_fits_is_accepted(examples):
    assert refusal(replace(GOOD, examples=examples), MODEL, ASKED) is None


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
        (with_array("a", damaged(-2e30)), "values beyond 1e+30 in ['a']"),
        (replace(GOOD, loss=float("nan")), "loss=nan, must be from -1e+30 to 1e+30"),
        (replace(GOOD, loss=float("inf")), "loss=inf, must be from -1e+30"),
        (replace(GOOD, loss=-1e31), "loss=-1e+31, must be from -1e+30"),
        (replace(GOOD, seconds=1e300), "seconds=1e+300, must be from 0 to 1e+30"),
        (replace(GOOD, seconds=float("nan")), "seconds=nan, must be from 0 to 1e+30"),
        (replace(GOOD, seconds=-1.0), "seconds=-1.0, must be from 0 to 1e+30"),
        (replace(GOOD, macs=-1), "macs=-1, must be from 0 to 1e+30"),
        (replace(GOOD, macs_dense=-5), "macs_dense=-5, must be from 0 to 1e+30"),
    ],
)
def test_what_could_harm_is_refused(reply, reason):
    assert refusal(reply, MODEL, ASKED).startswith(reason)


@pytest.mark.parametrize("name", ["bn.running_var", "running_var", "bn.num_batches_tracked"])
def test_what_no_training_gives_is_refused(name):
    """A variance below 0 makes every output NaN; a mean may be negative."""
    kind = np.int64 if name.endswith("tracked") else np.float32
    for sent, accepted in ((np.array([0, 2], kind), True), (np.array([2, -1], kind), False)):
        model = {name: np.ones(2, kind), "bn.running_mean": np.ones(2, np.float32)}
        reply = replace(GOOD, weights={name: sent, "bn.running_mean": np.full(2, -3, np.float32)})
        said = refusal(reply, model, Asked(list(model)))
        assert said == (None if accepted else f"negative values in ['{name}'], must be at least 0")


def test_the_norm_of_an_update_by_hand():
    """2 and 3 in `a` and 6 in `b` make 7; a count of batches and what the model already has do not matter."""
    model = {**MODEL, "a": np.full((2, 3), 10, np.float32)}
    moved = model["a"].copy()
    moved[0, 0] += 2
    moved[1, 2] -= 3
    update = {"a": moved, "b": np.array([0, 6, 0], np.float32), "n": np.array(10**6)}
    assert update_norm(update, model) == 7
    assert update_norm({"a": update["a"]}, model) == math.sqrt(13)


@pytest.mark.parametrize(("limit", "refused"), [(None, False), (math.sqrt(6), False), (2.44, True), (1e-9, True)])
def test_an_update_beyond_the_limit_is_refused(limit, refused):
    """Six ones away from zeros: the square root of 6, 2.4494897; on the limit is still within it."""
    reason = refusal(GOOD, MODEL, Asked(["a", "n"], max_norm=limit))
    assert reason == (f"update of norm 2.44949, must be at most {limit:g}" if refused else None)


def test_the_norm_of_a_huge_update_does_not_overflow():
    """float32 holds 9e29, but not its square."""
    reason = refusal(with_array("a", damaged(9e29)), MODEL, Asked(["a", "n"], max_norm=1e6))
    assert reason == "update of norm 9e+29, must be at most 1e+06"


@pytest.mark.parametrize(
    ("steps", "columns", "reason"),
    [
        ((), 0, None),
        ((), 2, None),
        ((0.5, 0.25, 0.0, 1.0), 2, None),
        ((0.5,), 0, "1 step sizes were not asked for"),
        ((0.5, 0.25, 0.5), 2, "3 step sizes, must be a multiple of 2"),
        ((0.5, math.nan), 2, "a step of size nan, must be from 0 to 1e+30"),
        ((0.5, -1.0), 2, "a step of size -1.0, must be from 0 to 1e+30"),
    ],
)
def test_step_sizes_that_would_spoil_their_record_are_refused(steps, columns, reason):
    assert refusal(replace(GOOD, steps=steps), MODEL, Asked(["a", "n"], columns)) == reason


@pytest.mark.parametrize(
    ("reason", "line"),
    [
        ("ValueError: no data", "ValueError: no data"),
        ("two\nlines\r\n\tand a tab", "two lines and a tab"),
        ("\x1b[2Jclears a terminal\x07", "[2Jclears a terminal"),
        ("a" * 300, "a" * 300),
        ("b" * 10**6, "b" * 297 + "..."),
        ("", ""),
    ],
)
def test_a_devices_reason_is_one_short_line(reason, line):
    assert legible(reason) == line
