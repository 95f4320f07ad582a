"""Bytes and CPU time of 11 M float32 weights on the wire, pruned by magnitude, against floors that this file runs.

Normally distributed weights. Sizes as shares of the dense array; the bound is the entropy of a random mask and raw
values, beside which forms that also code the values may go. `known`: the receiver knows the array from which this
one came; 1 % of the kept weights are others and all have changed, by a tenth of themselves or to new values.
    python benchmarks/bench_wire.py [millions of weights]
"""

import io
import math
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import zstandard
from numpy.typing import NDArray

from clients.sparse import keep_largest
from clients.weights import Weights
from clients.wire import pack, unpack

Array = NDArray[Any]
ROUNDS = 3


def seconds(work: Callable[[], Any]) -> tuple[Any, float]:
    """What a call gives, and the least CPU time of several."""
    times = []
    for _ in range(ROUNDS):
        started = time.process_time()
        result = work()
        times.append(time.process_time() - started)
    return result, min(times)


def shuffled(array: Array) -> int:
    """zstd-3 of byte-shuffled values."""
    return len(zstandard.compress(array.view(np.uint8).reshape(-1, 4).T.tobytes(), 3))


def npz(array: Array) -> int:
    """A compressed npz file of positions and values."""
    file, kept = io.BytesIO(), np.flatnonzero(array)
    np.savez_compressed(file, positions=kept.astype(np.int32), values=array[kept])
    return len(file.getvalue())


def floors(array: Array, sparsity: float) -> dict[str, int]:
    """Bytes by way of packing."""
    kept = round((1 - sparsity) * array.size)
    entropy = sum(-share * math.log2(share) for share in (sparsity, 1 - sparsity) if share)
    return {
        "COO, int32 and float32": 8 * kept,
        "bitmap and float32": array.size // 8 + 4 * kept,
        "npz": npz(array),
        "dense, shuffled, zstd-3": shuffled(array),
        "bound: entropy and float32": round(array.size * entropy / 8) + 4 * kept,
    }


def report(name: str, weights: Weights, known: Weights | None = None) -> None:
    """Size and times of one payload, which must come back bit for bit."""
    payload, encode = seconds(lambda: pack(weights, known=known))
    back, decode = seconds(lambda: unpack(payload.arrays, payload.header, known=known))
    if back["w"].tobytes() != weights["w"].tobytes():
        raise SystemExit(f"{name}: what was packed did not come back")
    share = payload.nbytes / weights["w"].nbytes
    print(f"  {name:30} {share:8.3%}   encode {1e3 * encode:4.0f} ms, decode {1e3 * decode:4.0f} ms")


def moved(weights: Weights, change: Callable[[Array], Array]) -> Weights:
    """1 % of the kept weights become zero, as many others are kept, and `change` is made to all."""
    array, rng = weights["w"].copy(), np.random.default_rng(1)
    kept, zeros = np.flatnonzero(array), np.flatnonzero(array == 0)
    dropped = rng.choice(kept, min(kept.size // 100, zeros.size), replace=False)
    added = rng.choice(zeros, dropped.size, replace=False)
    array[added], array[dropped] = array[dropped], 0
    places = np.flatnonzero(array)
    array[places] = change(array[places])
    return {"w": array}


def main(size: int) -> None:
    """Print a table for each sparsity."""
    rng = np.random.default_rng(0)
    dense = {"w": rng.normal(0, 0.05, size).astype(np.float32)}
    changes: Mapping[str, Callable[[Array], Array]] = {
        "known, changed by a tenth": lambda x: x * rng.normal(1, 0.1, x.size).astype(np.float32),
        "known, new values": rng.permutation,
    }
    for sparsity in (0, 0.9, 0.95, 0.99):
        weights = keep_largest(dense, sparsity, ["w"])
        print(f"{sparsity:.0%} zeros")
        for name, nbytes in floors(weights["w"], sparsity).items():
            print(f"  {name:30} {nbytes / weights['w'].nbytes:8.3%}")
        report("fedslice", weights)
        for name, change in changes.items():
            report(name, moved(weights, change), known=weights)


if __name__ == "__main__":
    main(int(float(sys.argv[1] if len(sys.argv) > 1 else 11) * 1e6))
