"""The client: what it returns, what it refuses, and that nothing of one client reaches another."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from flwr.client import NumPyClient

from app import client_app
from clients.evaluation import evaluate
from clients.layers import layer_groups
from clients.numpy_client import FederatedClient, shared
from clients.objectives import Moon
from clients.plan import RoundPlan, SparseTraining
from clients.sparse_layers import prunable
from clients.tasks.task import Examples
from clients.training import LocalTraining
from clients.weights import is_statistic, load_weights, weights_of
from tests.tiny import ConvNet, TinyTask, bits, changed, layout_of, linear_net, macs_of

TASK = TinyTask()
LOCAL = LocalTraining(epochs=2, batch_size=4)


def client_of(model=None, partition=0, batch_norm="global", training=LOCAL, task=TASK):
    model = task.build_model() if model is None else model
    return FederatedClient(model, task, task.client_examples(partition), training, partition, 0, batch_norm)


def order(client, groups=None, server_round=1, learning_rate=0.1):
    """Parameters and config that ask for a round from the initial weights."""
    weights = weights_of(client.task.build_model(), set(shared(client.model, client.batch_norm)))
    plan = RoundPlan(server_round, groups, learning_rate, layout_of(weights))
    return list(weights.values()), {**plan.to_config(), "names": list(weights)}


def fit(client, *args, **kwargs):
    arrays, examples, metrics = client.fit(*order(client, *args, **kwargs))
    return dict(zip(metrics["names"], arrays, strict=True)), examples, metrics


def test_it_is_flowers_client():
    client = client_of()
    assert isinstance(client, NumPyClient)
    assert bits(dict(enumerate(client.get_parameters({})))) == bits(dict(enumerate(weights_of(client.model).values())))


@pytest.mark.parametrize("groups", [None, (0,), (1,), (2,), (0, 2)])
def test_fit_returns_exactly_the_groups_arrays(groups):
    client = client_of()
    update, examples, metrics = fit(client, groups)
    indexes = range(3) if groups is None else groups
    names = [name for index in indexes for name in layer_groups(client.model)[index]]
    assert list(update) == names
    assert examples == 10
    before = bits(TASK.build_model())
    assert changed(before, bits(client.model)) == set(names)
    assert bits(update) == {name: bits(client.model)[name] for name in names}
    assert 0 < metrics["loss"] < 10
    assert metrics["seconds"] > 0


def test_macs_are_those_of_the_slice_over_all_examples_and_epochs():
    metrics = fit(client_of(), (1,))[2]
    # tests/clients/test_macs.py: group 1 needs 288 + 864 * 2 + 6 * 2, full training 3 * 1158 - 288 an example
    # of which the 288 below the slice are done once, not in both epochs.
    assert metrics["macs"] == 10 * (288 + 2 * (864 * 2 + 6 * 2))
    again = fit(client_of(training=LocalTraining(epochs=2, batch_size=4, cache_mb=0)), (1,))[2]
    assert again["macs"] == 10 * 2 * (288 + 864 * 2 + 6 * 2)
    assert metrics["macs-dense"] == (3 * 1158 - 288) * 10 * 2
    assert fit(client_of())[2]["macs"] == metrics["macs-dense"]


@pytest.mark.parametrize("batch_norm", ["global", "local"])
def test_full_and_dense_training_costs_what_it_is_compared_to(batch_norm):
    """MOON's other models need statistics too, which is as much work in the dense round that stands beside it."""
    client = FederatedClient(TASK.build_model(), TASK, TASK.client_examples(0), LOCAL, 0, 0, batch_norm, Moon())
    metrics = fit(client)[2]
    assert metrics["macs"] == metrics["macs-dense"]


def test_measuring_statistics_is_work_too():
    estimate = fit(client_of(batch_norm="local"), (1,))[2]["macs"] - fit(client_of(), (1,))[2]["macs"]
    assert estimate == 1158 * 10  # one forward pass over ten examples
    paper = LocalTraining(epochs=2, batch_size=4, frozen_norm="batch")
    assert fit(client_of(batch_norm="local", training=paper), (1,))[2]["macs"] == fit(client_of(), (1,))[2]["macs"]


@pytest.mark.parametrize("groups", [(1,), (2,), (1, 2)])
@pytest.mark.parametrize("batch_norm", ["global", "local"])
def test_activations_that_are_kept_are_those_that_would_be_computed(groups, batch_norm):
    every_time = client_of(batch_norm=batch_norm, training=LocalTraining(epochs=2, batch_size=4, cache_mb=0))
    kept = client_of(batch_norm=batch_norm)
    expected, update = fit(every_time, groups)[0], fit(kept, groups)[0]
    assert list(update) == list(expected)
    for name, array in update.items():
        np.testing.assert_allclose(array, expected[name], rtol=1e-3, atol=1e-5)
    outside = {name for name in kept.model.state_dict() if name not in update}
    assert not changed(bits(TASK.build_model()), bits(kept.model)) & outside


def test_arrays_that_are_not_sent_keep_the_devices_value():
    client = client_of()
    with torch.no_grad():
        client.model.fc.weight.fill_(5)
    parameters, config = order(client, (0,))
    kept = [name != "fc.weight" for name in config["names"]]
    config["names"] = [name for name, keep in zip(config["names"], kept, strict=True) if keep]
    client.fit([array for array, keep in zip(parameters, kept, strict=True) if keep], config)
    assert (client.model.fc.weight == 5).all()


def test_names_are_the_models_where_none_are_given():
    client, named = client_of(), client_of()
    parameters, config = order(client)
    del config["names"]
    client.fit(parameters, config)
    fit(named)
    assert bits(client.model) == bits(named.model)


@pytest.mark.parametrize("batch_norm", ["global", "local"])
@pytest.mark.parametrize("groups", [None, (1,)])
@pytest.mark.parametrize("frozen_norm", ["eval", "batch"])
def test_nothing_of_an_earlier_client_on_the_same_model_is_left(batch_norm, groups, frozen_norm):
    training = LocalTraining(epochs=2, batch_size=4, frozen_norm=frozen_norm)
    make = partial(client_of, batch_norm=batch_norm, training=training)
    alone = fit(make(partition=1), groups)[0]
    model = TASK.build_model()
    fit(make(model, partition=0))
    fit(make(model, partition=2), (0,))
    make(model, partition=2).evaluate(*order(make(model)))
    after_others = fit(make(model, partition=1), groups)[0]
    assert bits(after_others) == bits(alone)


def test_nothing_of_an_earlier_round_is_left():
    client = client_of(training=LocalTraining(epochs=1, batch_size=4, optimizer="sgd", momentum=0.9))
    fresh = bits(fit(client, server_round=2)[0])
    fit(client, server_round=1)
    assert bits(fit(client, server_round=2)[0]) == fresh
    assert bits(fit(client, server_round=3)[0]) != fresh


def test_the_rate_is_the_plans():
    slow = fit(client_of(training=LocalTraining(lr=0.5)), learning_rate=0.01)[0]
    same = fit(client_of(training=LocalTraining(lr=0.001)), learning_rate=0.01)[0]
    other = fit(client_of(), learning_rate=0.02)[0]
    assert bits(slow) == bits(same) != bits(other)


def test_local_statistics_never_leave():
    client = client_of(batch_norm="local")
    for groups in (None, (0,)):
        update = fit(client, groups)[0]
        assert update
        assert not any(map(is_statistic, update))
    assert len(client.get_parameters({})) == len(list(client.model.parameters()))


def test_under_local_a_partial_round_normalises_by_this_clients_own_statistics():
    """Frozen norms of the client use what its own data give, not the model's initial mean 0 and variance 1."""
    own, shared_ones = (fit(client_of(partition=2, batch_norm=policy), (2,))[0] for policy in ("local", "global"))
    assert bits(own)["fc.weight"] != bits(shared_ones)["fc.weight"]


@pytest.mark.parametrize(
    ("client", "sender"),
    [
        (client_of(), linear_net()),
        (client_of(batch_norm="local"), ConvNet()),  # the server shares statistics, this client does not
    ],
)
def test_layouts_that_disagree_are_a_loud_error_and_change_nothing(client, sender):
    before = bits(client.model)
    weights = weights_of(sender)
    plan = RoundPlan(1, (1,), 0.1, layout_of(weights))
    with pytest.raises(
        ValueError, match=f"layer groups disagree: .*{layout_of(weights)}.*task, model, groups and batch_norm"
    ):
        client.fit(list(weights.values()), {**plan.to_config(), "names": list(weights)})
    assert bits(client.model) == before


def test_a_group_that_does_not_exist_is_named():
    with pytest.raises(ValueError, match=r"layer groups \[3\]: the model has groups 0 to 2"):
        fit(client_of(), (3,))


def test_a_client_with_one_example_says_so():
    one = Examples(torch.zeros(1, 1, 4, 4), torch.zeros(1, dtype=torch.int64))
    with pytest.raises(ValueError, match="client 7 has 1 examples: at least 2"):
        FederatedClient(ConvNet(), TASK, one, LOCAL, 7)


@pytest.mark.parametrize("batch_norm", ["global", "local"])
def test_evaluate_gives_loss_and_accuracy_of_the_given_weights(batch_norm):
    client = client_of(batch_norm=batch_norm)
    parameters, config = order(client)
    parameters = [array + np.ones_like(array) for array in parameters]
    loss, examples, metrics = client.evaluate(parameters, config)
    model = ConvNet()
    load_weights(model, dict(zip(config["names"], parameters, strict=True)))
    expected = evaluate(model, TASK, TASK.client_examples(0), batch_norm=batch_norm)
    assert (loss, metrics["accuracy"]) == expected
    assert examples == 10
    assert client.evaluate(parameters, config)[0] == loss


def test_macs_do_not_depend_on_earlier_freezing():
    client = client_of()
    fit(client, (0,))
    full = tuple(client.model.state_dict())
    assert macs_of(client.model, (1, 4, 4), full) == 3 * 1158 - 288


def test_a_device_may_have_a_sparsity_of_its_own():
    """Of 78 prunable weights 39 stay instead of 8; from the second round on the received model is pruned too."""
    client = client_of()
    client.sparsity = 0.5
    arrays, config = order(client, server_round=2)
    plan = RoundPlan(2, None, 0.1, config["layout"], sparse=SparseTraining(sparsity=0.9))
    for config, kept in ((plan.to_config(), 39), (replace(plan, sparse=None).to_config(), 78)):
        update, _, metrics = client.fit(arrays, {**config, "names": list(weights_of(client.model))})
        by_name = dict(zip(metrics["names"], update, strict=True))
        assert sum(np.count_nonzero(by_name[name]) for name in prunable(client.model)) == kept


def test_a_devices_sparsity_is_a_share():
    with pytest.raises(ValueError, match=r"sparsity=95.0: .*0.95 for 95 %"):
        FederatedClient(TASK.build_model(), TASK, TASK.client_examples(0), LOCAL, sparsity=95.0)
    with pytest.raises(ValueError, match="sparsity=x in the node-config: must be a number"):
        client_app._own_sparsity("x")
