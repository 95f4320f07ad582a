"""Whatever goes wrong in a client comes back as a reply that gives the reason and can be sent."""

import pickle

import numpy as np
import pytest
import torch
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, RecordDict

from clients.adapter import train_reply
from clients.lossy import rounded_update
from clients.memory import Memory
from clients.messages import MODEL, PLAN, error_of, model_record, order_content, read_reply, reply_content
from clients.numpy_client import FederatedClient
from clients.plan import RoundPlan
from clients.records import nbytes
from clients.seeds import numpy_generator
from clients.training import LocalTraining
from clients.weights import weights_of
from clients.wire import pack
from tests.tiny import COSTS, ConvNet, TinyTask, bits, layout_of

TASK = TinyTask()
LOCAL = LocalTraining(epochs=1, batch_size=4)


def client_for(order):
    return FederatedClient(TASK.build_model(), TASK, TASK.client_examples(order.partition), LOCAL, order.partition)


def order_message(groups=(1,), weights=None):
    weights = weights_of(ConvNet()) if weights is None else weights
    plan = RoundPlan(1, groups, 0.1, layout_of(weights))
    return Message(order_content(model_record(pack(weights)), plan, 2, 3), 1, "train")


def sendable(reply):
    """Flower serialises the content record by record; this raises where it could not."""
    for record in reply.content.values():
        record.deflate()
    return reply


def test_a_reply_holds_what_the_client_returned():
    message = order_message()
    reply = read_reply(sendable(train_reply(message, Memory(RecordDict()), client_for)).content)
    weights = weights_of(ConvNet())
    config = {**RoundPlan(1, (1,), 0.1, layout_of(weights)).to_config(), "names": list(weights)}

    class Asked:
        partition = 2

    arrays, examples, metrics = client_for(Asked).fit(list(weights.values()), config)
    assert bits(reply.weights) == bits(dict(zip(metrics["names"], arrays, strict=True)))
    assert (reply.examples, reply.loss, reply.macs) == (examples, metrics["loss"], metrics["macs"])


def test_a_reply_is_packed_against_the_model_of_the_order():
    """Read in another process, which has the bytes alone: only with that model, and to the same arrays."""
    weights = {"fc.weight": np.random.default_rng(0).normal(size=(10, 100)).astype(np.float32)}
    update = {"fc.weight": weights["fc.weight"] * np.float32(1.0001)}
    result = (list(update.values()), 5, {"names": list(update), **COSTS})
    message = order_message(None, weights)
    reply = train_reply(message, Memory(RecordDict()), lambda order: Scripted(result)).content
    assert nbytes(reply) < nbytes(reply_content(model_record(pack(update)), 5, COSTS)) - 100
    elsewhere = pickle.loads(pickle.dumps(reply))
    assert bits(read_reply(elsewhere, known=weights).weights) == bits(update)
    with pytest.raises(ValueError, match=r"fc\.weight is packed against a known array, which the receiver lacks"):
        read_reply(elsewhere)
    with pytest.raises(ValueError, match="packed against known arrays"):
        read_reply(elsewhere, known={**weights, "fc.weight": weights["fc.weight"] * 2})


def test_a_rounded_reply_leaves_the_rest_for_the_next():
    """Two rounds: what is sent is what was rounded, of the update and what the first round's rounding took."""
    update = {"w": np.random.default_rng(0).normal(size=(10, 10)).astype(np.float32)}
    memory, left = Memory(RecordDict()), {}
    for server_round in (1, 2):
        plan = RoundPlan(server_round, None, 0.1, "layout", wire="int8", wire_seed=3)
        message = Message(order_content(model_record(pack(update)), plan, 2, 3), 1, "train")
        result = (list(update.values()), 5, {"names": list(update), **COSTS})
        reply = train_reply(message, memory, lambda order: Scripted(result)).content  # noqa: B023
        sent, left = rounded_update(update, left, "int8", numpy_generator("round-up", 3, server_round, 2))
        assert bits(read_reply(pickle.loads(pickle.dumps(reply)), known=update).weights) == bits(sent)
    assert (left["w"] != 0).any()


def test_the_order_says_which_client():
    seen = []

    def remember(order):
        seen.append((order.partition, order.clients))
        return client_for(order)

    train_reply(order_message(), Memory(RecordDict()), remember)
    assert seen == [(2, 3)]


class Scripted:
    """A client whose `fit` returns or raises what a test says."""

    def __init__(self, result):
        self.result = result

    def fit(self, parameters, config):
        if isinstance(self.result, Exception):
            raise self.result
        return self.result


W = torch.ones(2).numpy()


@pytest.mark.parametrize(
    ("result", "reason"),
    [
        (RuntimeError("disk full"), "RuntimeError: disk full"),
        (MemoryError(), "MemoryError: "),
        (([W], 5, {"names": ["w"], **COSTS, "macs": 2**64}), "ValueError: macs=18446744073709551616"),
        (([W], 2**64, {"names": ["w"], **COSTS}), "ValueError: examples=18446744073709551616"),
        (([W], 5, {"names": ["w"], **COSTS, "loss": torch.tensor(1.0)}), "TypeError: "),
        (([W], 5, {"names": ["w"], **COSTS, "loss": "low"}), "TypeError: "),
        (([W], 5, {"names": ["w"]}), "KeyError: 'loss'"),
        (([W], 5, {"names": ["w", "b"], **COSTS}), "ValueError: zip"),
        (([W.astype(str)], 5, {"names": ["w"], **COSTS}), "ValueError: w: dtype"),
        (None, "TypeError: "),
    ],
)
def test_a_client_that_fails_gives_its_reason(result, reason):
    reply = sendable(train_reply(order_message(), Memory(RecordDict()), lambda order: Scripted(result)))
    assert error_of(reply).startswith(reason)


def test_a_client_that_cannot_be_made_gives_its_reason():
    def no_data(order):
        raise FileNotFoundError("no digits here")

    assert (
        error_of(sendable(train_reply(order_message(), Memory(RecordDict()), no_data)))
        == "FileNotFoundError: no digits here"
    )


@pytest.mark.parametrize(
    "content",
    [
        RecordDict(),
        RecordDict({PLAN: ConfigRecord({"round": "first"})}),
        RecordDict({MODEL: ArrayRecord({MODEL: Array("uint8", (3,), "fedslice.packed", b"abc")})}),
        RecordDict(
            {
                MODEL: ArrayRecord({MODEL: Array("uint8", (3,), "fedslice.packed", b"abc")}),
                PLAN: ConfigRecord({**RoundPlan(1, None, 0.1, "x").to_config(), "partition": 0, "clients": 1}),
            }
        ),
    ],
)
def test_garbage_gives_a_reply_with_the_reason(content):
    reply = sendable(train_reply(Message(content, 1, "train"), Memory(RecordDict()), client_for))
    assert error_of(reply).startswith("ValueError: ")


def test_another_model_gives_a_reply_with_the_reason():
    weights = {"w.weight": torch.ones(2, 2).numpy()}
    reply = train_reply(order_message((0,), weights), Memory(RecordDict()), client_for)
    assert "layer groups disagree" in error_of(reply)
