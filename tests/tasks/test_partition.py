"""Splits: disjoint and complete where they must be, the same for the same seed, clear errors otherwise."""

import time
import warnings

import datasets
import numpy as np
import pytest
from flwr_datasets.partitioner import IidPartitioner
from hypothesis import given, settings
from hypothesis import strategies as st

from clients.tasks.flower_partition import Dirichlet, Natural, Pathological
from clients.tasks.partition import Draw, Iid, Stream, Table, generator, split_statistics


def table(rows, classes=10, **columns):
    return Table(np.arange(rows) * 7 % classes, columns)


def assert_disjoint_cover(split, rows):
    assert np.array_equal(np.sort(np.concatenate(split)), np.arange(rows))


def assert_same(first, second):
    assert all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))


ALL = [Iid(), Dirichlet(alpha=1.0), Pathological(classes=2), Natural(column="writer")]


@pytest.mark.parametrize("partition", ALL, ids=lambda p: type(p).__name__)
def test_parts_are_disjoint_cover_the_data_and_follow_the_seed(partition):
    data = table(400, writer=np.arange(400) % 10)
    split = partition.split(data, 10, None, seed=5)
    assert len(split) == 10
    assert_disjoint_cover(split, 400)
    assert_same(split, partition.split(data, 10, None, seed=5))
    other = partition.split(data, 10, None, seed=6)
    assert any(not np.array_equal(a, b) for a, b in zip(split, other, strict=True))


@pytest.mark.parametrize("partition", ALL, ids=lambda p: type(p).__name__)
def test_examples_caps_each_part_to_rows_of_that_part(partition):
    data = table(400, writer=np.arange(400) % 10)
    whole, cut = (partition.split(data, 10, examples, seed=5) for examples in (None, 12))
    for part, capped in zip(whole, cut, strict=True):
        assert len(capped) == min(12, len(part))
        assert set(capped) <= set(part)


@settings(max_examples=60, deadline=None)
@given(rows=st.integers(1, 300), clients=st.integers(1, 40), seed=st.integers(0, 2**40))
def test_iid_is_even_disjoint_and_complete(rows, clients, seed):
    if clients > rows:
        with pytest.raises(ValueError, match=f"task.clients={clients}: must be at most {rows}"):
            Iid().split(table(rows), clients, None, seed)
        return
    split = Iid().split(table(rows), clients, None, seed)
    assert_disjoint_cover(split, rows)
    sizes = [len(part) for part in split]
    assert max(sizes) - min(sizes) <= 1


def test_iid_has_the_parts_of_flowers_partitioner():
    shuffled = generator(3, Stream.SHUFFLE).permutation(103)
    flower = IidPartitioner(num_partitions=10)
    flower.dataset = datasets.Dataset.from_dict({"row": shuffled})
    for client, part in enumerate(Iid().split(table(103), 10, None, seed=3)):
        assert sorted(part) == sorted(flower.load_partition(client)[:]["row"])


def test_iid_parts_hold_all_classes_even_where_the_table_is_sorted():
    data = Table(np.repeat(np.arange(10), 100))
    counts = split_statistics(data.labels, Iid().split(data, 5, None, 0), 10)["classes"]
    assert min(min(row) for row in counts) > 5


def test_draw_is_exact_without_repeats_and_independent_of_the_number_of_clients():
    data = table(200)
    few, many = (Draw().split(data, clients, 50, seed=1) for clients in (3, 20))
    assert_same(few, many[:3])
    assert all(len(part) == len(set(part)) == 50 for part in many)
    assert not np.array_equal(many[0], many[1])
    assert split_statistics(data.labels, many, 10)["overlap"] > 0


@pytest.mark.parametrize("examples", [None, 201])
def test_draw_needs_a_number_of_examples_that_is_there(examples):
    with pytest.raises(ValueError, match=f"task.examples={examples}: partition=draw needs a number from 1 to 200"):
        Draw().split(table(200), 2, examples, seed=0)


def test_small_alpha_ends_in_seconds_with_an_error_that_names_everything():
    started = time.monotonic()
    with pytest.raises(ValueError, match=r"alpha=0.01: .*1000 examples among 100 clients.*at least 10") as caught:
        Dirichlet(alpha=0.01, min_size=10).split(table(1000), 100, None, seed=0)
    assert time.monotonic() - started < 10
    assert "\n" not in str(caught.value)


def test_small_alpha_without_a_minimum_covers_the_data_silently(capfd):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        split = Dirichlet(alpha=0.01, min_size=0).split(table(1000), 100, None, seed=0)
    assert_disjoint_cover(split, 1000)
    assert capfd.readouterr().err == ""


def test_minimum_is_honoured_over_many_draws():
    split = Dirichlet(alpha=0.1, min_size=5).split(table(1437), 20, None, seed=0)
    assert_disjoint_cover(split, 1437)
    assert min(map(len, split)) >= 5


@pytest.mark.parametrize("alpha", [1e-12, 1e-300, 5e-324, 1, 1e6])
def test_extreme_alpha_gives_a_true_split_or_an_error(alpha):
    try:
        split = Dirichlet(alpha=alpha, min_size=0).split(table(200), 7, None, seed=0)
    except ValueError as error:
        assert "partition.alpha" in str(error)
    else:
        assert_disjoint_cover(split, 200)


def test_smaller_alpha_means_more_skew():
    data = table(2000)

    def largest_share(alpha):
        counts = split_statistics(data.labels, Dirichlet(alpha, 1).split(data, 10, None, 0), 10)["classes"]
        return np.mean([max(row) / sum(row) for row in counts])

    assert largest_share(0.1) > largest_share(1.0) + 0.1 > largest_share(1000.0) + 0.2


def test_pathological_gives_each_client_its_number_of_classes():
    data = table(1000)
    counts = np.array(split_statistics(data.labels, Pathological(2).split(data, 12, None, 0), 10)["classes"])
    assert ((counts > 0).sum(axis=1) == 2).all()
    assert all(counts[client, client % 10] > 0 for client in range(12))


def test_natural_takes_the_first_ids_in_order():
    writers = np.array(["c", "a", "b", "a", "c", "d"])
    split = Natural("writer").split(table(6, writer=writers), 3, None, seed=0)
    assert [sorted(part) for part in split] == [[1, 3], [2], [0, 4]]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Dirichlet(alpha=0), r"partition.alpha=0: must be a number above 0"),
        (lambda: Dirichlet(alpha=float("nan")), r"partition.alpha=nan: must be a number above 0"),
        (lambda: Dirichlet(min_size=-1), r"partition.min_size=-1: must be 0 or more"),
        (lambda: Pathological(0), r"partition.classes=0: must be 1 or more"),
        (lambda: Pathological(11).split(table(50), 5, None, 0), r"partition.classes=11: must be at most 10"),
        (
            lambda: Pathological(9).split(table(50), 20, None, 0),
            r"partition.classes=9: too many clients \(20\)",
        ),
        (
            lambda: Dirichlet().split(table(50), 6, None, 0),
            r"50 examples among 6 .*at least 10 \(0 draws tried",
        ),
        (lambda: Dirichlet().split(table(5), 6, None, 0), r"task.clients=6: must be at most 5"),
        (lambda: Iid().split(table(5), 0, None, 0), r"task.clients=0: must be 1 or more"),
        (lambda: Iid().split(table(5), 2, 0, 0), r"task.examples=0: must be 1 or more"),
        (lambda: Iid().split(table(5), 2, None, -1), r"seed=-1: must be 0 or more"),
        (lambda: Natural("who").split(table(5), 2, None, 0), r"column=who: .*there are: none"),
        (
            lambda: Natural("who").split(table(2, b=np.zeros(2), a=np.zeros(2)), 2, None, 0),
            r"partition.column=who: no such id column; there are: a, b",
        ),
        (
            lambda: Natural("id").split(table(4, id=np.array([1, 1, 2, 2])), 3, None, 0),
            r"task.clients=3: must be at most 2, the ids in column id",
        ),
    ],
)
def test_what_cannot_be_done_is_one_clear_line(make, message):
    with pytest.raises(ValueError, match=message) as caught:
        make()
    assert "\n" not in str(caught.value)


def test_statistics_by_hand():
    labels = np.array([0, 0, 1, 1, 2])
    split = (np.array([0, 2]), np.array([2, 3, 4]))
    assert split_statistics(labels, split, 3) == {
        "clients": 2,
        "examples": [2, 3],
        "classes": [[1, 1, 0], [0, 2, 1]],
        "overlap": 1,
    }
