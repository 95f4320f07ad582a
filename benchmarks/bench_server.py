"""One client's 11 M float32 weights into the server's running mean: CPU time and memory against a floor.

The floor is torch's in-place `add_(alpha=)`, run in turn with each row, which adds but divides by nothing. A sparse
reply takes the same arithmetic as a dense one, so that no result depends on the form in which an array travelled.
    python benchmarks/bench_server.py [millions of weights]
"""

import sys
import time
import tracemalloc
from collections.abc import Callable

import numpy as np
import torch

from clients.sparse import keep_largest
from clients.weights import RunningMean, Weights, weighted_mean

ROUNDS = 7


def seconds(work: Callable[[], object], floor: Callable[[], object]) -> tuple[float, float]:
    """CPU seconds of both, the least of several turns."""
    times = []
    for _ in range(ROUNDS):
        for call in (work, floor):
            started = time.process_time()
            call()
            times.append(time.process_time() - started)
    return min(times[::2]), min(times[1::2])


def main(size: int) -> None:
    """Print the table."""
    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    first, second = ({"w": rng.normal(0, 0.05, size).astype(np.float32)} for _ in range(2))
    accumulator, other = torch.from_numpy(first["w"].copy()), torch.from_numpy(second["w"])

    def add_in_place() -> None:
        accumulator.add_(other, alpha=0.3)

    def report(name: str, work: Callable[[], object]) -> None:
        ours, floor = seconds(work, add_in_place)
        print(f"{name:40} {ours / floor:6.2f} x torch add_  ({1e3 * ours:.1f} ms, {1e3 * floor:.1f} ms)")

    mean, sums = RunningMean(), np.multiply(first["w"], 2.0, dtype=np.float64)
    mean.add(first, 1)
    for sparsity in (0, 0.9, 0.95, 0.99):
        sent: Weights = keep_largest(second, sparsity, ["w"])
        report(f"running mean, {sparsity:.0%} zeros", lambda sent=sent: mean.add(sent, 1))  # type: ignore[misc]
    report("float64 sums, dense", lambda: np.add(sums, np.multiply(second["w"], 2.0, dtype=np.float64), out=sums))
    for clients in (2, 20):
        tracemalloc.start()
        weighted_mean((second, 1) for _ in range(clients))
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        print(f"peak memory of the mean of {clients:2} clients      {peak / first['w'].nbytes:6.2f} x the model")


if __name__ == "__main__":
    main(int(float(sys.argv[1] if len(sys.argv) > 1 else 11) * 1e6))
