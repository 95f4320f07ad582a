"""Flower's mods on packed messages: those that look at sizes work, those that compute are refused, and rightly so."""

import numpy as np
import pytest
from flwr.app import Context, Message, RecordDict
from flwr.client.mod import secagg_mod, secaggplus_mod
from flwr.clientapp import ClientApp
from flwr.clientapp.mod import LocalDpMod, adaptiveclipping_mod, arrays_size_mod, fixedclipping_mod, message_size_mod

from app.packed_app import PackedClientApp
from clients.messages import error_of, model_record, order_content, read_reply
from clients.plan import RoundPlan
from clients.wire import pack
from tests.tiny import answer, bits

CONTEXT = Context(0, 1, {}, RecordDict(), {})
LOCAL_DP = LocalDpMod(clipping_norm=1.0, sensitivity=1.0, epsilon=1.0, delta=1e-5)
WEIGHTS = {"w": np.ones((2, 3), np.float32)}


def reply_of(app):
    """What an app that answers with WEIGHTS sends back for an order."""
    app.train()(lambda message, context: answer(message, WEIGHTS))
    content = order_content(model_record(pack(WEIGHTS)), RoundPlan(1, None, 0.1, "a layout"), 0, 1)
    return app(Message(content, 1, "train"), CONTEXT)


def test_mods_that_look_at_sizes_change_nothing():
    reply = reply_of(PackedClientApp(mods=[message_size_mod, arrays_size_mod]))
    assert bits(read_reply(reply.content).weights) == bits(WEIGHTS)


@pytest.mark.parametrize(
    ("mod", "name"),
    [
        (LOCAL_DP, "LocalDpMod"),
        (fixedclipping_mod, "fixedclipping_mod"),
        (adaptiveclipping_mod, "adaptiveclipping_mod"),
        (secagg_mod, "secagg_mod"),
        (secaggplus_mod, "secaggplus_mod"),
    ],
)
def test_mods_that_compute_are_refused_at_the_start(mod, name):
    with pytest.raises(ValueError, match=f"^mod {name}: computes on the arrays of a message by name, but messages"):
        PackedClientApp(mods=[message_size_mod, mod])


def test_flowers_own_app_would_fail_in_the_round_instead():
    """The reason for refusing: a packed array is none of NumPy's, and the keys that the mods want are not there."""
    with pytest.raises(TypeError, match=r"Unsupported serialization type for numpy conversion: 'fedslice\.packed'"):
        reply_of(ClientApp(mods=[LOCAL_DP]))
    assert "requires the key 'clipping_norm'" in error_of(reply_of(ClientApp(mods=[fixedclipping_mod])))
    with pytest.raises(KeyError):
        reply_of(ClientApp(mods=[secaggplus_mod]))
