"""Rounded values on the wire (`wire=fp16|bf16|int8`): float parameters become values of few bits, both ways.

Rounded arrays keep their type; the lossless forms of the wire then find that most of their bits are zero or alike.
Running statistics and integers stay exact, and so do zeros. `fp16` and `bf16` round to the nearest; a number beyond
65504 becomes that in fp16. `int8` rounds to one of 255 multiples of a power of two, the least for which the array's
largest magnitude fits, up or down at random so that the mean of many roundings is the value (Alistarh et al., QSGD,
NeurIPS 2017).

A device adds what rounding took from its last update to the next (error feedback: Karimireddy et al., ICML 2019),
but not to weights that are now zero, which would bring back what was pruned. It begins anew where it lost its memory:
beside MOON's local models the only one on which more than bytes depends. NaN and infinity travel as they are, so that
the server sees and refuses them, and leave nothing for the next update.
"""

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from clients.weights import Weights, is_statistic

Wire = Literal["lossless", "fp16", "bf16", "int8"]
_LARGEST_FP16 = 65504.0


def rounded(name: str, array: NDArray[Any], wire: Wire, generator: np.random.Generator) -> NDArray[Any]:
    """The array as it travels; the same object where nothing of it is to be rounded."""
    if wire == "lossless" or array.dtype.kind != "f" or is_statistic(name) or not array.size:
        return array
    if wire == "fp16":
        within = np.where(np.isinf(array), array, np.clip(array, -_LARGEST_FP16, _LARGEST_FP16))
        return np.asarray(within.astype(np.float16), array.dtype)
    if wire == "bf16":
        return np.asarray(torch.from_numpy(np.array(array)).bfloat16().double().numpy(), array.dtype)
    if wire == "int8":
        return _int8(array, generator)
    raise ValueError(f"wire={wire}: must be one of lossless, fp16, bf16, int8")


def rounded_update(
    update: Weights, residual: Mapping[str, NDArray[Any]], wire: Wire, generator: np.random.Generator
) -> tuple[Weights, Weights]:
    """What a device sends for its update, and what that lacks, to be handed in as `residual` next time."""
    sent: Weights = {}
    left: Weights = {}
    for name, array in update.items():
        zero, last = array == 0, residual.get(name)
        wanted = array if last is None or last.shape != array.shape else np.where(zero, array, array + last)
        sent[name] = rounded(name, wanted, wire, generator)
        if sent[name] is not wanted:
            with np.errstate(invalid="ignore"):  # infinity less infinity
                left[name] = np.nan_to_num(wanted - sent[name], nan=0, posinf=0, neginf=0)
    return sent, {**residual, **left}


def _int8(array: NDArray[Any], generator: np.random.Generator) -> NDArray[Any]:
    largest = float(np.abs(array).max())
    if not 0 < largest < float("inf"):
        return array.copy()  # all zero; or NaN and infinity, which the receiver is to see
    step = 2.0 ** np.ceil(np.log2(largest / 127))
    steps = np.floor(array / step + generator.random(array.shape))  # float64, in which 127 + 0.99... stays below 128
    return np.asarray(steps * step, array.dtype)
