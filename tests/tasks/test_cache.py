"""The cache shares, forgets the longest unused, and travels empty."""

import pickle

import torch

from clients.tasks.cache import ExampleCache
from clients.tasks.task import Examples


def examples(size):
    """Examples of `size` bytes of inputs and as many eight-byte targets as images of ten bytes."""
    return Examples(torch.zeros(size // 10, 10, dtype=torch.uint8), torch.zeros(size // 10, dtype=torch.int64))


def test_the_same_object_is_returned_and_loaded_once():
    cache, loads = ExampleCache(), []
    first = cache.get("a", lambda: loads.append(1) or examples(100))
    assert cache.get("a", lambda: loads.append(1) or examples(100)) is first
    assert loads == [1]
    assert cache.nbytes == 100 + 80


def test_the_longest_unused_is_dropped_first():
    cache = ExampleCache(max_bytes=400)  # room for two of 180 bytes
    a = cache.get("a", lambda: examples(100))
    b = cache.get("b", lambda: examples(100))
    assert cache.get("a", lambda: examples(100)) is a
    cache.get("c", lambda: examples(100))
    assert cache.get("a", lambda: examples(100)) is a
    assert cache.get("b", lambda: examples(100)) is not b
    assert cache.nbytes == 360


def test_what_is_larger_than_the_bound_is_returned_but_not_kept():
    cache = ExampleCache(max_bytes=100)
    assert len(cache.get("a", lambda: examples(1000))) == 100
    assert cache.nbytes == 0


def test_a_copy_starts_empty():
    cache = ExampleCache(max_bytes=500)
    cache.get("a", lambda: examples(100))
    copy = pickle.loads(pickle.dumps(cache))
    assert (copy.max_bytes, copy.nbytes) == (500, 0)
