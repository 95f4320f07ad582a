"""What a node remembers between rounds."""

import numpy as np
from flwr.app import RecordDict

from clients.memory import LocalModels, Memory, give_back, own_of_clients
from clients.weights import weights_of
from tests.tiny import ConvNet, bits


def test_a_new_node_remembers_nothing():
    memory = Memory(RecordDict())
    assert memory.round is None
    assert memory.recall(0) is None


def test_it_recalls_the_model_of_that_round_or_a_later_one_bit_for_bit():
    state, weights = RecordDict(), weights_of(ConvNet())
    Memory(state).remember(5, weights)
    again = Memory(state)  # the state is all that stays
    assert bits(again.recall(5)) == bits(weights)
    assert bits(again.recall(3)) == bits(weights)
    assert again.recall(6) is None


def test_a_later_model_takes_the_place_of_an_earlier_one_and_the_same_round_is_written_once():
    state = RecordDict()
    memory = Memory(state)
    for server_round, value in ((1, 1.0), (2, 2.0), (2, 3.0)):
        memory.remember(server_round, {"w": np.full(2, value, np.float32)})
    assert memory.recall(2)["w"].tolist() == [2.0, 2.0]
    assert len(state) == 2  # the model and its round


def test_clients_of_one_node_keep_their_own_local_models():
    state = RecordDict()
    for partition in (0, 1):
        for value in (1.0, 2.0, 3.0):
            LocalModels(state, partition).push({"w": np.array([value + 10 * partition])}, queue=2)
    kept = [[float(w["w"][0]) for w in LocalModels(state, partition).recall()] for partition in (0, 1, 2)]
    assert kept == [[3.0, 2.0], [13.0, 12.0], []]


def test_what_clients_keep_of_their_own_goes_into_a_checkpoint_and_back():
    """Bit for bit, and without the model that the node holds."""
    state, again, weights = RecordDict(), RecordDict(), weights_of(ConvNet())
    Memory(state).remember(5, weights)
    LocalModels(state, 0).push(weights, queue=2)
    Memory(state).residual(3).push({"w": np.array([np.nan, -0.0], np.float32)}, queue=1)
    own = own_of_clients(state)
    assert {key: len(arrays) for key, arrays in own.items()} == {"local-models-0": 1, "residual-3": 1}
    give_back(again, own)
    assert bits(LocalModels(again, 0).recall()[0]) == bits(weights)
    assert bits(Memory(again).residual(3).recall()[0]) == bits(Memory(state).residual(3).recall()[0])
    assert Memory(again).round is None
