"""Between Flower's messages and the NumPyClient: unpack, call, pack, and never leave a reply unsendable.

A reply that Flower cannot serialise, or none at all, wedges a SuperNode for good (Flower 1.42), so whatever
goes wrong in the client comes back as a reply that gives the reason.
"""

import logging
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, cast

from flwr.app import Message
from flwr.client import NumPyClient

from clients.lossy import rounded_update
from clients.memory import LocalModels, Memory
from clients.messages import Order, error_content, forgotten_content, model_record, read_order, reply_content
from clients.seeds import numpy_generator
from clients.weights import Weights
from clients.wire import pack

LOG = logging.getLogger("fedslice")


def train_reply(
    message: Message,
    memory: Memory,
    client_for: Callable[[Order], NumPyClient],
    kept: Callable[[Order], AbstractContextManager[None]] = lambda order: nullcontext(),
) -> Message:
    """The reply to a message that asks for training, by the client that `client_for` gives for it.

    What the message leaves out comes from the node's memory; where that is lost, the reply says so. The update is
    packed against the model that the client was sent, which the server knows. kept: is entered around the training;
    fetches what the client keeps of its own, and stores it anew.
    """
    try:
        order = read_order(message.content)
        remembered = {} if order.base is None else memory.recall(order.base)
        if remembered is None:
            return Message(forgotten_content(), reply_to=message)
        weights = {**remembered, **order.weights}
        if order.keep:
            memory.remember(order.plan.round, weights)
        with kept(order):
            lost = memory.own_round(order.partition) < order.plan.trained
            client = client_for(order)
            config: dict[str, Any] = {**order.plan.to_config(), "names": list(weights)}
            arrays, examples, metrics = client.fit(list(weights.values()), config)
            update = dict(zip(cast(list[str], metrics["names"]), arrays, strict=True))
            if order.plan.wire != "lossless":
                update = _rounded(update, order, memory.residual(order.partition))
            if order.plan.lineage:
                memory.note_own_round(order.partition, order.plan.round)
        metrics["lost"] = lost
        content = reply_content(model_record(pack(update, known=weights), update), examples, metrics)
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        LOG.warning("client failed: %s", reason)
        content = error_content(reason)
    return Message(content, reply_to=message)


def _rounded(update: Weights, order: Order, residual: LocalModels) -> Weights:
    """The update as the plan wants it to travel; what it lacks is remembered for the next."""
    plan = order.plan
    generator = numpy_generator("round-up", plan.wire_seed, plan.round, order.partition)
    sent, left = rounded_update(update, dict(*residual.recall()), plan.wire, generator)
    residual.push(left, queue=1)
    return sent
