"""Every part of conf/ fits every other, and each way in gives the same configuration."""

import inspect
import shlex
import socket
from itertools import cycle, product

import pytest
import yaml
from omegaconf import OmegaConf

from app import schema
from app.building import build_strategy
from app.config import ConfigError, check, compose, from_run_config, make, to_yaml
from clients.tasks.vocabulary import build_vocabulary
from strategies.fedavg import FedAvgStrategy
from strategies.roster import SimulatedRoster
from tests.runs import ROOT

CONF = ROOT / "conf"
GROUPS = {
    folder.name: sorted(file.stem for file in folder.glob("*.yaml")) for folder in CONF.iterdir() if folder.is_dir()
}
CROSSED = ("strategy", "task", "partition", "runtime")
"""Crossed with each other; any other group only composes, each of its choices by itself."""
MANDATORY = {
    "natural": ["partition.column=writer"],
    "images": ["task.data=/none", "task.shape=[1,8,8]", "task.classes=10"],
    "texts": ["task.data=/none", "task.classes=[good,bad]"],
}
CLASSES = {"skewed": "dirichlet"}
"""Partitions that are another's class with a setting of their own."""
OWN_CLIENTS = ("synthetic",)
"""Tasks that cannot be split, for they are made of clients."""


@pytest.fixture
def no_network(monkeypatch):
    def refuse(*args, **kwargs):
        raise AssertionError("a connection was opened")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


def test_the_groups_are_there():
    assert {"fedavg", "fedpart"} <= set(GROUPS["strategy"])
    assert {"digits", "cifar10"} <= set(GROUPS["task"])
    assert {"iid", "dirichlet", "pathological", "natural", "draw"} <= set(GROUPS["partition"])
    assert {"inline", "simulation"} <= set(GROUPS["runtime"])


def paired():
    """Every strategy and every task with every partition, the remaining choices taken in turn."""
    turn = {name: cycle(GROUPS[name]) for name in CROSSED}
    for one, other in (("strategy", "partition"), ("task", "partition")):
        for pair in product(GROUPS[one], GROUPS[other]):
            chosen = dict(zip((one, other), pair, strict=True))
            yield tuple(chosen.get(name) or next(turn[name]) for name in CROSSED)


@pytest.fixture(scope="module")
def vocabulary(tmp_path_factory):
    """A file, without which a text task would read its data to build its model."""
    path = str(tmp_path_factory.mktemp("vocabulary") / "vocabulary.txt")
    build_vocabulary(["a few words", "a few more words"], "words", 1).write(path, "of a test")
    return path


def compose_and_construct(chosen, vocabulary):
    choices = dict(zip(CROSSED, chosen, strict=True))
    given = [key for choice in chosen for key in MANDATORY.get(choice, [])]
    overrides = [*(f"{name}={choice}" for name, choice in choices.items()), *given, "task.clients=2", "seed=3"]
    if choices["task"] in OWN_CLIENTS and choices["partition"] != "iid":
        with pytest.raises(ConfigError, match=r"^partition=\w+: .* has clients of its own"):
            compose(overrides)
        return
    cfg = compose(overrides)
    if "vocabulary" in cfg.task:
        cfg.task.vocabulary = vocabulary
    task = make(cfg, "task")
    strategy = build_strategy(cfg, task, SimulatedRoster(task.clients))
    assert isinstance(strategy, FedAvgStrategy)
    assert (task.clients, task.seed, strategy.cohort.seed) == (2, 3, 3)
    assert type(task.partition).__name__.lower() == {"skewed": "dirichlet"}.get(
        choices["partition"], choices["partition"]
    )
    assert callable(make(cfg, "runtime").run)
    assert strategy.plan(1).round == 1


@pytest.mark.parametrize("chosen", sorted(set(paired())), ids="-".join)
def test_every_pair_composes_and_constructs(chosen, no_network, vocabulary):
    """Nothing is read or downloaded for it, whatever the task."""
    compose_and_construct(chosen, vocabulary)


@pytest.mark.slow
def test_combinations_compose_and_construct(no_network, vocabulary):
    """Every eleventh of a thousand, which is no divisor of any group's size; pairs are tried above, all of them."""
    for chosen in sorted(set(product(*(GROUPS[name] for name in CROSSED))) - set(paired()))[::11]:
        compose_and_construct(chosen, vocabulary)


def test_every_other_group_composes():
    for name in set(GROUPS) - set(CROSSED):
        for choice in GROUPS[name]:
            compose([f"{name}={choice}"])


def test_defaults():
    cfg = compose()
    assert (cfg.seed, cfg.task.name, cfg.task.clients, cfg.resume) == (0, "digits", 10, None)
    assert cfg.strategy._target_ == "strategies.fedpart.FedPartStrategy"
    assert cfg.runtime._target_ == "app.inline.InlineRuntime"


@pytest.mark.parametrize("partition", [name for name in GROUPS["partition"] if name != "natural"])
@pytest.mark.parametrize("experiment", ["fedpart_resnet8_cifar10", "sparsyfed_cifar10"])
def test_an_experiment_may_be_split_in_any_way(experiment, partition):
    assert (
        compose([f"experiment={experiment}", f"partition={partition}"]).partition
        == compose([f"partition={partition}", "task=cifar10"]).partition
    )
    assert compose(["experiment=sparsyfed_cifar10"]).partition.alpha == 0.1


def test_composing_again_starts_anew():
    first = to_yaml(compose(["strategy=fedavg", "rounds=2"]))
    assert to_yaml(compose()) == to_yaml(compose(["strategy=fedpart"]))
    assert to_yaml(compose(["strategy=fedavg", "rounds=2"])) == first


def test_composing_after_a_mistake():
    with pytest.raises(ConfigError):
        compose(["strategi=fedavg"])
    assert compose(["rounds=2"]).rounds == 2


WAYS = {
    "list": ["strategy.order=[3, 1]", "strategy.warmup=0"],
    "quotes": ["task=cifar10", "task.data='/data/two words/cifar'"],
    "both quotes": ["task=cifar10", 'task.data="it\'s here, [really]"'],
    "null and floats": ["task.examples=null", "client.lr=5e-4", "cohort.fraction=0.5"],
    "groups": ["partition=dirichlet", "partition.alpha=0.1", "runtime=simulation", "runtime.nodes=2"],
}


@pytest.mark.parametrize("overrides", WAYS.values(), ids=WAYS)
def test_every_way_in_gives_the_same_configuration(overrides, cli):
    composed = to_yaml(compose(overrides))
    assert to_yaml(from_run_config({"overrides": shlex.join(overrides), "cfg-yaml": ""})) == composed
    assert to_yaml(from_run_config({"overrides": "", "cfg-yaml": composed})) == composed
    status, printed, complaint = cli(*overrides, "--cfg", "job", "--resolve")
    assert (status, complaint) == (0, "")
    assert yaml.safe_load(printed) == yaml.safe_load(composed)


def test_the_readmes_form_of_overrides():
    """As a person writes them between the quotes of --run-config."""
    cfg = from_run_config({"overrides": "strategy=fedpart strategy.order=[0,1] task=cifar10 task.data='/a b'"})
    assert (list(cfg.strategy.order), cfg.task.data) == ([0, 1], "/a b")


def test_no_run_config_is_the_default():
    assert to_yaml(from_run_config({})) == to_yaml(compose())


def test_unbalanced_quotes_in_overrides_are_one_line():
    with pytest.raises(ConfigError) as caught:
        from_run_config({"overrides": "task.data='oops"})
    assert "\n" not in str(caught.value)


def test_a_whole_configuration_is_checked_too():
    cfg = compose()
    cfg.client.epochs = 0
    with pytest.raises(ConfigError, match=r"^client\.epochs=0: must be at least 1$"):
        from_run_config({"cfg-yaml": to_yaml(cfg)})


def test_nothing_is_left_to_resolve():
    """What a run writes and sends must mean the same in another process."""
    text = to_yaml(compose(["seed=7"]))
    assert "${" not in text
    assert yaml.safe_load(text)["cohort"]["seed"] == 7
    assert to_yaml(check(OmegaConf.create(text))) == text


def test_what_the_program_passes_to_a_strategy_is_no_key():
    """Every parameter that all strategies share but `name`: a new one belongs there too."""
    parameters = set(inspect.signature(FedAvgStrategy.__init__).parameters) - {"self", "name"}
    assert set(schema._PASSED) == parameters
