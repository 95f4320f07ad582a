"""Mutated replies: none is accepted wrongly, none ends the run, none spoils the account.

A few hundred cases; FEDSLICE_FUZZ=10000 sets another number. A case is a real reply with changes at one or more
depths: the arrays before packing, the header, the packed bytes, the metrics, the message's records.
"""

import json
import os
from dataclasses import asdict

import numpy as np
import pytest
import zstandard
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from clients.forms import FORMS
from clients.header import DTYPES
from clients.messages import ERROR, FORGOTTEN, METRICS, MODEL, PLAN, read_reply
from clients.weights import not_finite, weighted_mean
from clients.wire import Payload, pack
from strategies.cohort import Cohort
from strategies.fedavg import FedAvgStrategy
from strategies.replies import MOST_EXAMPLES
from strategies.roster import SimulatedRoster
from tests.tiny import COSTS, ScriptedGrid, answer, asked, bits

CASES = int(os.environ.get("FEDSLICE_FUZZ", "300"))
ZEROS = {
    "a.weight": np.zeros((3, 2), np.float32),
    "a.bias": np.zeros(3, np.float32),
    "b.weight": np.zeros((16, 8), np.float32),  # compressible: form zstd
    "b.num_batches_tracked": np.array(0),
}
HONEST = {name: (array + 1).astype(array.dtype) for name, array in ZEROS.items()}
NUMBERS = st.one_of(
    st.integers(-(2**63), 2**63 - 1),
    st.integers(-2, 2),
    st.floats(),
    st.lists(st.floats(), max_size=3),
    st.sampled_from([2**63 - 1, MOST_EXAMPLES, MOST_EXAMPLES + 1, 1e308, -0.0]),
)


def change_arrays(draw, weights):
    """Another value, shape, dtype or name, or an array less or more."""
    name = draw(st.sampled_from(sorted(ZEROS)))
    array = weights.pop(name, ZEROS[name])
    kind = draw(st.sampled_from(["value", "shape", "dtype", "name", "drop", "add"]))
    if kind == "value" and array.size:
        array = array.copy()
        values = [np.nan, np.inf, -np.inf, 3e38, -1.0] if array.dtype.kind == "f" else [0, 1]
        with np.errstate(over="ignore"):  # 3e38 is infinity as float16
            array.flat[draw(st.integers(0, array.size - 1))] = draw(st.sampled_from(values))
    if kind == "shape":
        array = np.resize(array, draw(st.lists(st.integers(0, 4), max_size=3)))
    if kind == "dtype" and array.dtype.kind != "c":
        with np.errstate(invalid="ignore"):  # NaN as an integer is any
            array = array.astype(draw(st.sampled_from(sorted(DTYPES))))
    if kind != "drop":
        weights[name + "x" if kind == "name" else name] = array
    if kind == "add":
        weights[draw(st.text(max_size=4))] = array


def change_header(draw, entries):
    """One field of one entry becomes another entry's, or anything."""
    entry, field = draw(st.sampled_from(entries)), draw(st.integers(0, 4))
    other = draw(st.sampled_from(entries))[field]
    anything = (NUMBERS, st.text(max_size=3), st.lists(st.integers(-1, 2**40)), st.sampled_from(sorted(FORMS)))
    entry[field] = draw(st.one_of(st.just(other), *anything))


def change_bytes(draw, data):
    """Bits turned, a stretch cut out, doubled, put elsewhere, or overwritten."""
    kind = draw(st.sampled_from(["bit", "cut", "double", "zero", "insert"]))
    start = draw(st.integers(0, max(len(data) - 1, 0)))
    end = start + draw(st.integers(1, 40))
    if kind == "bit" and data:
        data[start] ^= 1 << draw(st.integers(0, 7))
    if kind == "cut":
        del data[start:end]
    if kind == "double":
        data[end:end] = data[start:end]
    if kind == "zero":
        data[start:end] = bytes(len(data[start:end]))
    if kind == "insert":
        data[start:start] = draw(st.binary(min_size=1, max_size=20))


def change_metrics(draw, metrics):
    """A number less, more, or another."""
    name = draw(st.sampled_from([*metrics, "steps", "more"]))
    metrics[name] = draw(NUMBERS)
    if draw(st.booleans()):
        metrics.pop(draw(st.sampled_from(sorted(metrics))))


def change_records(draw, content):
    """A record less, more, under another name, or of another kind."""
    kind = draw(st.sampled_from(["drop", "rename", "error", "forgotten", "plan", "stype", "second", "plain"]))
    data = next(iter(next(iter(content.array_records.values())).values())).data if content.array_records else b""
    if kind in ("drop", "rename") and len(content):
        record = content.pop(draw(st.sampled_from(sorted(content))))
        if kind == "rename":
            content[draw(st.text(max_size=5))] = record
    if kind in ("error", "forgotten", "plan"):
        name = {"error": ERROR, "forgotten": FORGOTTEN, "plan": PLAN}[kind]
        content[name] = ConfigRecord({draw(st.sampled_from(["reason", "x"])): draw(st.text(max_size=400))})
    if kind in ("stype", "second", "plain"):
        array = Array("uint8", (len(data),), draw(st.sampled_from(["numpy.ndarray", "", "fedslice.packed"])), data)
        array = Array(np.ones(3)) if kind == "plain" else array
        content[MODEL] = ArrayRecord({MODEL: array, **({"second": array} if kind == "second" else {})})


def several(draw, change, what):
    """None to two changes of a kind."""
    for _ in range(draw(st.sampled_from([0, 0, 0, 1, 2]))):
        change(draw, what)


@st.composite
def mutated(draw):
    """A reply's content, and whether its bytes are still those that were packed."""
    weights = dict(HONEST)
    several(draw, change_arrays, weights)
    payload = pack(weights, known=draw(st.sampled_from([None, ZEROS])))
    known, *entries = json.loads(zstandard.decompress(payload.header))
    if entries:
        several(draw, change_header, entries)
    data = Payload(payload.arrays, zstandard.compress(json.dumps([known, *entries]).encode())).to_bytes()
    damaged = bytearray(data)
    several(draw, change_bytes, damaged)
    metrics = {"examples": 3, **COSTS}
    several(draw, change_metrics, metrics)
    array = Array("uint8", (len(damaged),), "fedslice.packed", bytes(damaged))
    content = RecordDict({MODEL: ArrayRecord({MODEL: array}), METRICS: MetricRecord(metrics)})
    several(draw, change_records, content)
    return content, bytes(damaged) == data


@pytest.mark.timeout(600 + CASES)
@settings(max_examples=CASES, deadline=None, suppress_health_check=list(HealthCheck), derandomize=CASES <= 300)
@given(mutated())
def test_a_mutated_reply_is_refused_or_is_a_sound_one(case):
    """Clients 0 and 2 are honest; whatever client 1 sends, the model is the mean of what was accepted."""
    content, whole = case

    def reply(message):
        return Message(content, reply_to=message) if asked(message).partition == 1 else answer(message, HONEST, 2)

    strategy = FedAvgStrategy(ZEROS, SimulatedRoster(3), Cohort(), 0.1)
    strategy.start(ScriptedGrid(reply), ArrayRecord(), num_rounds=1)
    report, counted = strategy.report, [(HONEST, 2), (HONEST, 2)]
    assert sorted([*report.completed, *report.failed, *report.rejected]) == [0, 1, 2]
    event("accepted" if 1 in report.completed else "left out")  # --hypothesis-show-statistics counts them
    if 1 in report.completed:
        accepted = read_reply(content, known=ZEROS)
        assert whole
        assert accepted.weights.keys() == ZEROS.keys()
        assert all((a.shape, a.dtype) == (ZEROS[n].shape, ZEROS[n].dtype) for n, a in accepted.weights.items())
        assert not_finite(accepted.weights) == []
        assert 1 <= accepted.examples <= MOST_EXAMPLES
        counted.insert(1, (accepted.weights, accepted.examples))
    mean = weighted_mean(counted)
    assert bits(strategy.weights) == bits({name: mean[name] for name in ZEROS})
    assert not_finite(strategy.weights) == []
    reasons = [*report.failed.values(), *report.rejected.values()]
    assert all(reason.isprintable() and len(reason) <= 300 for reason in reasons)
    json.dumps([asdict(report), report.train_loss], allow_nan=False)  # rounds.jsonl can be written
