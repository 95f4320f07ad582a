"""Server optimizers by hand, and what none of them may touch."""

import numpy as np
import pytest

from clients.weights import weights_of
from strategies.cohort import Cohort
from strategies.fedavg import FedAvgStrategy
from strategies.roster import SimulatedRoster
from strategies.server_optimizer import Adaptive, Momentum, ServerOptimizer
from tests.tiny import ConvNet, ScriptedGrid, answer, bits

MOVING = {
    "momentum": lambda: Momentum(0.5, 0.5),
    "adam": lambda: Adaptive("adam", lr=0.5, tau=1.0, beta1=0.5, beta2=0.5),
    "yogi": lambda: Adaptive("yogi", lr=0.5, tau=1.0, beta1=0.5, beta2=0.5),
    "adagrad": lambda: Adaptive("adagrad", lr=0.5, tau=1.0, beta1=0.5),
}


def w(*values):
    return {"w.weight": np.array(values, np.float32)}


def path(optimizer, *means, start=1.0):
    """Values of one weight from `start` on, as the clients' means come."""
    model = w(start)
    values = []
    for mean in means:
        model = optimizer.step(model, w(mean))
        values.append(float(model["w.weight"][0]))
    return values


def test_momentum_by_hand():
    # m = 4; 1 + 0.5 * 4 = 3. Then m = 0.5 * 4 + (4 - 3) = 3; 3 + 0.5 * 3 = 4.5
    assert path(Momentum(0.5, 0.5), 5, 4) == [3.0, 4.5]


def test_adagrad_by_hand():
    # v = 1 + 24 = 25, m = 0.5 * 24 ** 0.5; the step is 0.5 * m / (5 + 1)
    change = np.sqrt(np.float32(24))
    assert path(MOVING["adagrad"](), 1 + change) == [pytest.approx(1 + 0.5 * 0.5 * 24**0.5 / 6, rel=1e-6)]


def test_adam_by_hand():
    # change 5: m = 2.5, v = 0.5 * 1 + 0.5 * 25 = 13; the step is 0.5 * 2.5 / (13 ** 0.5 + 1)
    first = 1 + 1.25 / (13**0.5 + 1)
    # change -1: m = 0.5 * 2.5 - 0.5 = 0.75, v = 0.5 * 13 + 0.5 = 7
    second = first + 0.375 / (7**0.5 + 1)
    assert path(MOVING["adam"](), 6, first - 1) == pytest.approx([first, second], rel=1e-6)


def test_yogi_by_hand():
    # change 5: m = 2.5, v = 1 + 0.5 * 25 = 13.5, for 25 is above 1
    first = 1 + 1.25 / (13.5**0.5 + 1)
    # change -1: m = 0.75, v = 13.5 - 0.5 * 1 = 13, for 1 is below 13.5
    second = first + 0.375 / (13**0.5 + 1)
    assert path(MOVING["yogi"](), 6, first - 1) == pytest.approx([first, second], rel=1e-6)


def test_no_bias_correction_and_a_second_moment_from_tau_squared():
    """Algorithm 2: after a change of 3 with betas 0, m = 3 and v = 9; adagrad adds tau squared, 16, and 9."""
    assert path(Adaptive("adam", lr=1.0, tau=4.0, beta1=0.0, beta2=0.0), 4) == [pytest.approx(1 + 3 / 7)]
    assert path(Adaptive("adagrad", lr=1.0, tau=4.0, beta1=0.0), 4) == [pytest.approx(1 + 3 / 9)]


def clients_models(rounds=3):
    rng = np.random.default_rng(0)
    model = weights_of(ConvNet())
    draw = rng.exponential  # a variance below 0 is refused
    updates = [{n: (a + draw(size=a.shape)).astype(a.dtype) for n, a in model.items()} for _ in range(rounds)]
    return model, updates


def play(optimizer, strategy_class=FedAvgStrategy):
    model, updates = clients_models()
    strategy = strategy_class(model, SimulatedRoster(1), Cohort(), 0.1, server_optimizer=optimizer)
    left = iter(updates)
    seen = []
    strategy.start(
        ScriptedGrid(lambda message: answer(message, next(left))),
        {},
        num_rounds=3,
        evaluate_fn=lambda *_: seen.append(bits(strategy.weights)),
    )
    return seen


def test_none_and_momentum_at_its_neutral_values_are_fedavg_bit_for_bit():
    average = play(None)
    assert play(ServerOptimizer()) == average
    assert play(Momentum(lr=1.0, momentum=0.0)) == average
    assert play(Momentum(lr=1.0, momentum=0.1)) != average


@pytest.mark.parametrize("name", MOVING)
def test_statistics_and_counts_become_the_mean_and_what_did_not_come_stays(name):
    old = {
        "a.weight": np.ones(2, np.float32),
        "bn.running_mean": np.ones(2, np.float32),
        "bn.num_batches_tracked": np.array(1),
        "count": np.array([4, 4]),
        "b.weight": np.ones(2, np.float32),
    }
    new = {key: array if key == "b.weight" else array + array.dtype.type(3) for key, array in old.items()}
    optimizer = MOVING[name]()
    stepped = optimizer.step(old, new)
    assert [key for key in new if stepped[key] is new[key]] == [
        "bn.running_mean", "bn.num_batches_tracked", "count", "b.weight",
    ]  # fmt: skip
    assert stepped["b.weight"] is old["b.weight"]
    assert all(list(moments) == ["a.weight"] for moments in optimizer.state().values())
    assert stepped["a.weight"].dtype == np.float32
    assert not np.array_equal(stepped["a.weight"], new["a.weight"])


@pytest.mark.parametrize("name", MOVING)
def test_nothing_is_written_in_place(name):
    old, new = w(1, 2), w(3, 4)
    optimizer = MOVING[name]()
    before = [optimizer.step(old, new), optimizer.state()]
    kept = {kind: bits(moments) for kind, moments in before[1].items()}
    arrays = {kind: dict(moments) for kind, moments in before[1].items()}
    optimizer.step(before[0], w(5, 6))
    assert {kind: bits(moments) for kind, moments in arrays.items()} == kept
    assert (bits(old), bits(new)) == (bits(w(1, 2)), bits(w(3, 4)))


@pytest.mark.parametrize("name", MOVING)
def test_zeros_stay_zero_and_what_all_clients_pruned_becomes_zero_for_good(name):
    optimizer = MOVING[name]()
    model = optimizer.step(w(0, 1, 1), w(0, 2, 2))
    model = optimizer.step(model, w(0, 0, 3))  # the second is pruned, after it had moved
    assert model["w.weight"][:2].tolist() == [0, 0]
    for _ in range(2):
        model = optimizer.step(model, w(0, 0, 3))
        assert model["w.weight"][:2].tolist() == [0, 0]
        assert model["w.weight"][2] != 0
    # and one that comes back moves as one that has never moved
    fresh = MOVING[name]().step(w(0), w(1))["w.weight"][0]
    assert optimizer.step(model, w(0, 1, 3))["w.weight"][1] == fresh


@pytest.mark.parametrize("name", MOVING)
def test_its_state_goes_on_to_the_same_bits(name):
    one, other = MOVING[name](), MOVING[name]()
    model = one.step(w(1, 2), w(3, 5))
    other.restore(one.state())
    assert bits(other.step(model, w(4, 4))) == bits(one.step(model, w(4, 4)))


@pytest.mark.parametrize(
    ("build", "says"),
    [
        (lambda: Momentum(lr=0), r"^lr=0: must be above 0$"),
        (lambda: Momentum(momentum=1), r"^momentum=1: must be at least 0 and below 1$"),
        (lambda: Adaptive("adam", beta2=-0.1), r"^beta2=-0.1: must be at least 0"),
        (lambda: Adaptive("adam"), r"^beta2=None: adam and yogi need one"),
        (lambda: Adaptive("adagrad", beta2=0.9), r"^beta2=0.9: .*adagrad has none"),
        (lambda: Adaptive("yogi", beta1=1.0, beta2=0.9), r"^beta1=1.0: "),
        (lambda: Adaptive("yogi", tau=0.0, beta2=0.9), r"^tau=0.0: must be above 0"),
    ],
)
def test_impossible_values_are_refused(build, says):
    with pytest.raises(ValueError, match=says):
        build()
