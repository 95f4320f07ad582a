"""The schedule round by round."""

import pytest

from strategies.layers import LayerSchedule


def rounds(schedule, first, last):
    return [schedule(number) for number in range(first, last + 1)]


def test_resnet8_of_the_paper():
    schedule = LayerSchedule(10)
    cycle = [(group,) for group in range(10) for _ in range(2)]
    # 5 full rounds, 20 partial ones, and so on: five cycles are 125 rounds.
    assert rounds(schedule, 1, 125) == ([None] * 5 + cycle) * 5
    assert rounds(schedule, 5, 8) == [None, (0,), (0,), (1,)]


@pytest.mark.parametrize(("groups", "rounds_in_all", "share"), [(10, 125, 0.28), (21, 141, 0.1489), (8, 105, 0.3333)])
def test_uplink_share_of_the_paper(groups, rounds_in_all, share):
    """A partial round sends one of G groups: (25 + 100/10)/125, (15 + 126/21)/141 and (25 + 80/8)/105."""
    plans = rounds(LayerSchedule(groups), 1, rounds_in_all)
    sent = sum(1 if plan is None else len(plan) / groups for plan in plans) / rounds_in_all
    assert sent == pytest.approx(share, abs=1e-4)
    assert plans[-1] == (groups - 1,)  # the last cycle is complete


def test_round_10_000_has_a_plan():
    # (10,000 - 1) % 25 = 24: the last round of a cycle
    assert LayerSchedule(10)(10_000) == (9,)
    assert LayerSchedule(10)(10_001) is None


def test_without_warm_up_and_without_full_rounds_between():
    schedule = LayerSchedule(3, warmup=0, rounds_per_layer=1, full_between=0)
    assert rounds(schedule, 1, 7) == [(0,), (1,), (2,), (0,), (1,), (2,), (0,)]


def test_warm_up_and_full_rounds_between_are_two_things():
    schedule = LayerSchedule(2, warmup=1, rounds_per_layer=1, full_between=2)
    assert rounds(schedule, 1, 8) == [None, (0,), (1,), None, None, (0,), (1,), None]


def test_reverse_goes_from_deep_to_shallow():
    schedule = LayerSchedule(3, warmup=1, rounds_per_layer=2, full_between=1, order="reverse")
    assert rounds(schedule, 1, 8) == [None, (2,), (2,), (1,), (1,), (0,), (0,), None]


def test_random_is_a_permutation_drawn_anew_for_each_cycle_by_the_seed():
    def cycles(seed):
        schedule = LayerSchedule(10, warmup=0, rounds_per_layer=1, full_between=0, order="random", seed=seed)
        return [rounds(schedule, 10 * cycle + 1, 10 * cycle + 10) for cycle in range(4)]

    drawn = cycles(0)
    assert all(sorted(cycle) == [(group,) for group in range(10)] for cycle in drawn)
    assert len({tuple(cycle) for cycle in drawn}) == 4
    assert cycles(0) == drawn != cycles(1)


def test_random_order_keeps_rounds_per_layer_together():
    schedule = LayerSchedule(4, warmup=0, rounds_per_layer=3, full_between=0, order="random")
    plans = rounds(schedule, 1, 12)
    assert [plans[at] for at in (0, 3, 6, 9) for _ in range(3)] == plans


def test_a_list_may_repeat_and_leave_out():
    schedule = LayerSchedule(5, warmup=0, rounds_per_layer=1, full_between=1, order=[4, 0, 4])
    assert rounds(schedule, 1, 5) == [(4,), (0,), (4,), None, (4,)]


def test_three_of_ten_groups_leave_a_last_stretch_of_one():
    schedule = LayerSchedule(10, warmup=0, rounds_per_layer=1, full_between=1, groups_per_round=3)
    assert rounds(schedule, 1, 6) == [(0, 1, 2), (3, 4, 5), (6, 7, 8), (9,), None, (0, 1, 2)]


def test_stretches_of_a_list_are_sorted_and_name_each_group_once():
    schedule = LayerSchedule(5, warmup=0, rounds_per_layer=1, groups_per_round=3, order=[4, 0, 4, 2])
    assert rounds(schedule, 1, 2) == [(0, 4), (2,)]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"num_groups": 0}, "num_groups=0: must be at least 1"),
        ({"warmup": -1}, "warmup=-1: must be at least 0"),
        ({"rounds_per_layer": 0}, "rounds_per_layer=0: must be at least 1"),
        ({"full_between": -2}, "full_between=-2: must be at least 0"),
        ({"groups_per_round": 0}, "groups_per_round=0: must be at least 1"),
        ({"groups_per_round": 4}, "groups_per_round=4: must be at most 3"),
        ({"order": "deep"}, "order=deep: must be sequential, reverse, random or a list"),
        ({"order": []}, r"order=\[\]: must list layer groups from 0 to 2"),
        ({"order": [0, 3]}, r"order=\[0, 3\]: must list layer groups from 0 to 2"),
        ({"order": [-1]}, r"order=\[-1\]: must list layer groups from 0 to 2"),
    ],
)
def test_a_bad_value_is_an_error_that_gives_it(values, message):
    with pytest.raises(ValueError, match=message):
        LayerSchedule(**{"num_groups": 3, **values})


@pytest.mark.parametrize("number", [0, -1])
def test_rounds_count_from_1(number):
    with pytest.raises(ValueError, match=f"round {number}: rounds count from 1"):
        LayerSchedule(3)(number)
