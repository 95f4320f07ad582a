"""Which replies are accepted: anything that could harm the model is refused, named and counted."""

import math
from collections.abc import Collection

from clients.messages import Reply
from clients.weights import Weights, not_finite

MOST_EXAMPLES = 10**9
"""More than this is taken for an attack or a mistake, not for a data set."""


def most_bytes(model: Weights) -> int:
    """Bytes that a reply's arrays may take when unpacked: more would be meant to exhaust the memory.

    Ample, so that an honest mistake, such as float64 for float32, is still refused by name.
    """
    return 4 * sum(array.nbytes for array in model.values()) + 2**20


def refusal(reply: Reply, model: Weights, expected: Collection[str]) -> str | None:
    """Why a reply is refused, in a few words; None where it is accepted.

    model: the global model, which sets shapes and dtypes. expected: names of the arrays that were asked for.
    """
    if not 1 <= reply.examples <= MOST_EXAMPLES:
        return f"{reply.examples} examples, must be from 1 to {MOST_EXAMPLES}"
    unknown = [name for name in reply.weights if name not in expected]
    if unknown:
        return f"arrays {unknown} were not asked for"
    missing = [name for name in expected if name not in reply.weights]
    if missing:
        return f"arrays {missing} are missing"
    for name, array in reply.weights.items():
        ours = model[name]
        if (array.shape, array.dtype) != (ours.shape, ours.dtype):
            return f"{name} is {array.dtype} {array.shape}, must be {ours.dtype} {ours.shape}"
    strange = not_finite(reply.weights)
    if strange:
        return f"NaN or infinity in {strange[:3]}" + f" and {len(strange) - 3} more" * (len(strange) > 3)
    return _strange_account(reply)


def _strange_account(reply: Reply) -> str | None:
    """What would spoil the round's account, which adds these numbers up."""
    if not math.isfinite(reply.loss):
        return f"loss={reply.loss}, must be finite"
    for name in ("macs", "macs_dense", "seconds"):
        if not 0 <= getattr(reply, name) < float("inf"):
            return f"{name}={getattr(reply, name)}, must be finite and at least 0"
    return None
