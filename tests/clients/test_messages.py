"""Orders and replies survive their message, everything else is a ValueError, and sizes are what is serialised."""

import math
import os
import pickle
from dataclasses import replace

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects

from clients.messages import (
    METRICS,
    MODEL,
    PLAN,
    Order,
    error_content,
    error_of,
    model_record,
    order_content,
    read_order,
    read_reply,
    reply_content,
)
from clients.plan import RoundPlan
from clients.records import nbytes, records_nbytes
from clients.wire import pack
from tests.tiny import COSTS, bits, failure

WEIGHTS = {"w": np.arange(6, dtype=np.float32).reshape(2, 3), "n": np.array(3)}
PLAN_7 = RoundPlan(7, (2, 3), 0.5, "layout")


def model():
    return model_record(pack(WEIGHTS))


def test_an_order_comes_back():
    order = read_order(order_content(model(), PLAN_7, 4, 9))
    assert bits(order.weights) == bits(WEIGHTS)
    assert replace(order, weights=WEIGHTS) == Order(WEIGHTS, PLAN_7, 4, 9, base=None, keep=False)
    order = read_order(order_content(model(), PLAN_7, 4, 9, base=6, keep=True))
    assert replace(order, weights=WEIGHTS) == Order(WEIGHTS, PLAN_7, 4, 9, base=6, keep=True)


def test_a_reply_comes_back():
    reply = read_reply(reply_content(model(), 12, COSTS))
    assert bits(reply.weights) == bits(WEIGHTS)
    assert (reply.examples, reply.loss, reply.macs, reply.macs_dense, reply.seconds) == (12, 0.5, 7, 11, 0.25)


def test_who_is_in_the_same_process_is_given_the_arrays_and_others_the_bytes():
    content = reply_content(model_record(pack(WEIGHTS), WEIGHTS), 12, COSTS)
    reply = read_reply(content)
    assert all(np.shares_memory(reply.weights[name], WEIGHTS[name]) for name in WEIGHTS)
    assert not any(array.flags.writeable for array in reply.weights.values())
    assert WEIGHTS["w"].flags.writeable
    elsewhere = pickle.loads(pickle.dumps(content))
    assert type(elsewhere.array_records[MODEL][MODEL].data) is bytes
    assert nbytes(elsewhere) == nbytes(content) == nbytes(reply_content(model(), 12, COSTS))
    assert bits(read_reply(elsewhere).weights) == bits(WEIGHTS)


def test_one_record_serves_many_messages():
    record = model()
    contents = [order_content(record, PLAN_7, partition, 9) for partition in range(3)]
    assert {id(content.array_records[MODEL]) for content in contents} == {id(record)}
    assert [read_order(content).partition for content in contents] == [0, 1, 2]


@pytest.mark.parametrize("content", [order_content(model(), PLAN_7, 4, 9), reply_content(model(), 12, COSTS)])
def test_sizes_are_those_of_the_serialised_parts(content):
    objects = get_all_nested_objects(content).values()
    records = sum(len(o.deflate()) for o in objects if isinstance(o, ConfigRecord | MetricRecord))
    packed = len(pack(WEIGHTS).to_bytes())
    assert len(content.array_records[MODEL][MODEL].data) == packed
    assert records > 50
    assert nbytes(content) == packed + records
    assert records_nbytes(content) == records
    # What Flower wraps around the parts is a constant that does not grow with the model.
    assert 0 < sum(len(o.deflate()) for o in objects) - nbytes(content) < 1000


def test_nothing_but_group_indexes_tells_what_to_train():
    few, many = (nbytes(order_content(model(), RoundPlan(7, (2,) * n, 0.5, "layout"), 4, 9)) for n in (1, 9))
    assert few < many <= few + 8 * 10  # at most a few bytes an index


@pytest.mark.parametrize(
    ("examples", "metrics"),
    [
        (2**64, {}),
        (5, {"macs": 2**64}),
        (5, {"macs-dense": -(2**64)}),
    ],
)
def test_integers_that_flower_cannot_serialise_are_refused_with_their_value(examples, metrics):
    with pytest.raises(ValueError, match=r"=-?18446744073709551616: must fit in 64 bits"):
        reply_content(model(), examples, {**COSTS, **metrics})


@pytest.mark.parametrize("loss", [math.inf, math.nan, 1e30])
def test_any_float_may_be_sent(loss):
    content = reply_content(model(), 5, {**COSTS, "loss": loss})
    content.metric_records[METRICS].deflate()
    np.testing.assert_equal(content.metric_records[METRICS]["loss"], loss)


def test_a_reason_comes_back():
    order = Message(order_content(model(), PLAN_7, 4, 9), 1, "train")
    assert error_of(Message(error_content("no data"), reply_to=order)) == "no data"
    unreadable = error_content(f"no file {os.fsdecode(bytes([0xFF]))}")
    unreadable.config_records["error"].deflate()
    assert error_of(Message(unreadable, reply_to=order)) == "no file ?"
    assert error_of(failure(order, "out of memory")) == "out of memory"
    assert error_of(failure(order, None)) == "Flower error 6"
    assert error_of(Message(reply_content(model(), 1, COSTS), reply_to=order)) is None


def with_metrics(**metrics):
    return RecordDict({MODEL: model(), METRICS: MetricRecord({"examples": 3, **COSTS, **metrics})})


def packed_as(data, stype="fedslice.packed"):
    return RecordDict(
        {
            MODEL: ArrayRecord({MODEL: Array("uint8", (len(data),), stype, data)}),
            METRICS: MetricRecord({"examples": 3, **COSTS}),
        }
    )


@pytest.mark.parametrize(
    "content",
    [
        RecordDict(),
        RecordDict({METRICS: MetricRecord({"examples": 3, **COSTS})}),
        RecordDict({MODEL: model()}),
        RecordDict({MODEL: model(), METRICS: MetricRecord({"examples": 3})}),
        RecordDict({MODEL: ArrayRecord({"w": Array(np.ones(3))}), METRICS: MetricRecord({"examples": 3, **COSTS})}),
        RecordDict({MODEL: ArrayRecord({MODEL: Array(np.ones(3))}), METRICS: MetricRecord({"examples": 3, **COSTS})}),
        packed_as(b""),
        packed_as(b"\x00" * 100),
        packed_as(pack(WEIGHTS).to_bytes()[:-1]),
        packed_as(pack(WEIGHTS).to_bytes(), "numpy.ndarray"),
        with_metrics(examples=[1, 2]),
        with_metrics(examples=math.inf),
        with_metrics(examples=math.nan),
        with_metrics(examples=1.5),
        with_metrics(macs=math.inf),
        with_metrics(**{"macs-dense": -math.inf}),
    ],
)
def test_what_is_not_a_reply_is_a_value_error(content):
    with pytest.raises(ValueError, match=r"lacks|no packed model|not a packed payload|payload of|must be an integer"):
        read_reply(content)


@pytest.mark.parametrize(
    "content",
    [
        RecordDict(),
        RecordDict({MODEL: model()}),
        RecordDict({MODEL: model(), PLAN: ConfigRecord({"round": 1})}),
        RecordDict({MODEL: model(), PLAN: ConfigRecord(PLAN_7.to_config())}),
        RecordDict({PLAN: ConfigRecord({**PLAN_7.to_config(), "partition": 0, "clients": 1})}),
    ],
)
def test_what_is_not_an_order_is_a_value_error(content):
    with pytest.raises(ValueError, match=r"lacks|no packed model"):
        read_order(content)
