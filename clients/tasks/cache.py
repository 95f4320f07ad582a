"""Decoded examples kept in memory, the longest unused dropped first when they pass a bound."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable

from clients.tasks.task import Examples


class ExampleCache:
    """Least-recently-used cache of `Examples`, bounded by the bytes of their tensors.

    What is returned is shared, not copied. Safe to use from several threads. A copy of it (in a task that is
    sent to another process) starts empty.
    """

    def __init__(self, max_bytes: int = 1024**3) -> None:
        self.max_bytes = max_bytes
        self.nbytes = 0
        """Bytes kept at present."""
        self._kept: OrderedDict[Hashable, Examples] = OrderedDict()
        self._lock = threading.RLock()

    def __reduce__(self) -> tuple[type["ExampleCache"], tuple[int]]:
        return ExampleCache, (self.max_bytes,)

    def get(self, key: Hashable, load: Callable[[], Examples]) -> Examples:
        """What is kept under `key`, or else what `load` returns, which is then kept."""
        with self._lock:
            if key not in self._kept:
                self._kept[key] = load()
                self.nbytes += _nbytes(self._kept[key])
            self._kept.move_to_end(key)
            found = self._kept[key]
            while self._kept and self.nbytes > self.max_bytes:
                self.nbytes -= _nbytes(self._kept.popitem(last=False)[1])
            return found


def _nbytes(examples: Examples) -> int:
    return examples.inputs.nbytes + examples.targets.nbytes
