"""Each kind of mistake is one line that names key, value and choices, with status 2, before anything starts."""

import pytest

from app.config import ConfigError, compose, from_run_config
from tests.runs import command, shell

MISTAKES = {
    # overrides: what the line must say
    "misspelt key": (["strategi=fedavg"], ["strategi", "strategy", "task", "rounds"]),
    "misspelt key in a section": (["strategy.warmap=2"], ["strategy.warmap", "warmup", "rounds_per_layer"]),
    "misspelt section": (["clients.lr=1"], ["clients.lr", "client"]),
    "key of another strategy": (["strategy=fedavg", "strategy.warmup=2"], ["strategy.warmup"]),
    "unknown strategy": (["strategy=fedagv"], ["strategy", "fedagv", "fedavg", "fedpart"]),
    "unknown task": (["task=mnist"], ["task", "mnist", "digits", "cifar10"]),
    "unknown partition": (["partition=iidd"], ["partition", "iidd", "iid", "dirichlet"]),
    "unknown runtime": (["runtime=ray"], ["runtime", "ray", "inline", "simulation"]),
    "unknown experiment": (
        ["experiment=fedpart_resnet9"],
        ["experiment", "fedpart_resnet9", "fedpart_resnet8_cifar10"],
    ),
    "unknown scale": (["scale=huge"], ["scale", "huge", "paper", "two_cores"]),
    "unknown objective": (["objective=fedprx"], ["objective", "fedprx", "fedprox", "moon", "plain"]),
    "no strategy": (["strategy=null"], ["strategy=null", "fedavg", "fedpart"]),
    "text for a number": (["rounds=abc"], ["rounds=abc", "integer"]),
    "nothing for a number": (["rounds="], ["rounds=", "integer"]),
    "null for a number": (["rounds=null"], ["rounds=", "integer"]),
    "yes for a number": (["rounds=true"], ["rounds=True", "integer"]),
    "text for a float": (["client.lr=fast"], ["client.lr=fast", "number"]),
    "float for an integer": (["strategy.warmup=1.5"], ["strategy.warmup=1.5", "integer"]),
    "share for a number of clients": (["task.clients=0.5"], ["task.clients=0.5", "integer"]),
    "percent for a share": (["cohort.fraction=50"], ["cohort.fraction=50", "at most 1"]),
    "list for a number": (["client.epochs=[1,2]"], ["client.epochs=[1, 2]", "integer"]),
    "no rounds": (["rounds=0"], ["rounds=0", "1"]),
    "negative seed": (["seed=-1"], ["seed=-1", "0"]),
    "no clients": (["task.clients=0"], ["task.clients=0", "1"]),
    "no epochs": (["client.epochs=0"], ["client.epochs=0", "1"]),
    "negative rate": (["client.lr=-1"], ["client.lr=-1", "above 0"]),
    "rate that is no number": (["client.lr=.nan"], ["client.lr=", "number"]),
    "nobody sampled": (["cohort.fraction=0"], ["cohort.fraction=0", "above 0"]),
    "negative interval": (["checkpoint.every=-1"], ["checkpoint.every=-1", "0"]),
    "alpha out of range": (["partition=dirichlet", "partition.alpha=0"], ["partition.alpha=0", "above 0"]),
    "unknown optimizer": (["client.optimizer=adamw"], ["client.optimizer=adamw", "adam", "sgd"]),
    "unknown model": (["task.model=resnet9"], ["task.model=resnet9", "cnn", "resnet8", "resnet18"]),
    "unknown batch-norm policy": (["batch_norm=Local"], ["batch_norm=Local", "global", "local"]),
    "unknown wire": (["wire=fp17"], ["wire=fp17", "lossless"]),
    "unknown order": (["strategy.order=sideways"], ["strategy.order=sideways", "sequential", "reverse", "random"]),
    "no such layer group": (["strategy.order=[9]"], ["strategy.order=[9]", "0 to 4"]),
    "more groups than the model has": (["strategy.groups_per_round=6"], ["strategy.groups_per_round=6", "5"]),
    "unknown server optimizer": (["server_optimizer=sgd"], ["server_optimizer", "sgd", "none", "momentum", "yogi"]),
    "server momentum out of range": (
        ["server_optimizer=momentum", "server_optimizer.momentum=1"],
        ["server_optimizer.momentum=1", "below 1"],
    ),
    "server rate of none": (["server_optimizer.lr=1"], ["server_optimizer.lr", "no such key"]),
    "new server rate of none": (["+server_optimizer.lr=1"], ["server_optimizer.lr", "no such key"]),
    "final rate of zero": (["client.final_lr=0"], ["client.final_lr=0", "above 0"]),
    "momentum of Adam": (["client.momentum=0.9"], ["client.momentum=0.9", "sgd"]),
    "data of the digits": (["task.data=/data"], ["task.data=/data"]),
    "mandatory value": (["partition=natural"], ["partition.column", "value"]),
    "new key": (["+nonsense=1"], ["nonsense=1", "rounds", "seed"]),
    "new section": (["+strategi.warmup=1"], ["strategi", "rounds", "strategy"]),
    "what the program passes": (["+strategy.learning_rate=1"], ["strategy.learning_rate=1", "no such key"]),
    "new key in a section": (["+strategy.nonsense=1"], ["strategy.nonsense=1", "warmup"]),
    "key taken away": (["~rounds"], ["rounds"]),
    "key of a section taken away": (["~client.lr"], ["client.lr"]),
    "section taken away": (["~strategy"], ["strategy"]),
    "value for a section": (["client=7"], ["client"]),
    "value for a part of the task": (["task.partition=7"], ["task.partition=7"]),
    "key without its section": (["strategy=sparsyfed", "sparsity=0.9"], ["sparsity=0.9", "strategy.sparsity"]),
    "key of another section of the same choices": (["data=/x"], ["data=/x", "task.data"]),
    "key of another task": (["task.tokens=words"], ["task.tokens=words", "task=digits has", "task=agnews|sogou|texts"]),
    "key of one of a sweep": (
        ["-m", "strategy=fedavg,fedpart", "strategy.warmup=3"],
        ["strategy.warmup=3", "strategy=fedavg has no keys"],
    ),
    "new key of another strategy": (
        ["+strategy.sparsity=0.9"],
        ["strategy.sparsity=0.9", "strategies.fedpart.FedPartStrategy takes", "warmup"],
    ),
    "key that is not there taken away": (["~nonsense"], ["~nonsense", "no such key"]),
    "option for a choice": (["--strategy=fedavg"], ["--strategy=fedavg", " strategy=fedavg,", "dashes"]),
    "option for a key": (["--rounds", "3"], ["--rounds", " rounds=3", "--help"]),
    "misspelt option": (["--config-nme=x"], ["--config-nme=x", "--help", "--hydra-help"]),
    "option without its value": (["--cfg"], ["--cfg", "--help"]),
    "two words": (["strategy", "fedavg"], ["strategy: ", " strategy=fedavg", "--help"]),
    "a word": (["help"], ["help: ", "KEY=VALUE", "--help"]),
    "spaces around the sign": (["strategy = fedavg"], ["strategy = fedavg", " strategy=fedavg,", "spaces"]),
    "a space in the key": (["task data=/x"], ["task data=/x", "KEY=VALUE"]),
    "no key": (["=3"], ["=3: ", "KEY=VALUE"]),
    "a list that the shell split": (
        ["task.shape=[3,", "16,", "16]"],
        ["task.shape=[3,: ", "quote", "'task.shape=[1, 2]'"],
    ),
    "a quote in a value": (["task.data=/it's"], ["task.data=/it's: ", """'task.data="VALUE"'"""]),
    "parentheses in a value": (["task.data=(x)"], ["task.data=(x): ", """'task.data="VALUE"'"""]),
    "choice added": (["+strategy=fedavg"], ["+strategy=fedavg: ", "there already: strategy=fedavg"]),
    "choice added by force": (["++strategy=fedavg"], ["++strategy=fedavg: ", "there already: strategy=fedavg"]),
    "key added": (["+rounds=3"], ["+rounds=3: ", "there already: rounds=3"]),
    "several choices without -m": (["strategy=fedavg,sparsyfed"], ["strategy=fedavg,sparsyfed: ", "add -m"]),
    "several values without -m": (["seed=0,1"], ["seed=0,1: ", "add -m", "seed=[0,1]"]),
    "number for a choice": (["strategy=3"], ["strategy=3: must be one of fedavg"]),
    "text in a list": (["strategy.order=[a]"], ["strategy.order=['a']: must be sequential", "a list of integers"]),
    "logger that is no list": (["loggers=csv"], ["loggers=csv: must be a list of csv, tensorboard"]),
    "names for lists of names": (["groups=[a]"], ["groups=['a']: must be a list of lists of texts or null"]),
    "seed out of range": (["seed=4294967296"], ["seed=4294967296: must be an integer", "below 4294967296"]),
    "half a list": (["strategy.order=[1"], ["strategy.order=[1"]),
    "no equals sign": (["rounds"], ["rounds"]),
    "nothing to resume": (["resume=/no/such/run"], ["resume=/no/such/run", "no such file or folder"]),
    "no virtual nodes": (["runtime=simulation", "runtime.nodes=0"], ["runtime.nodes=0", "1"]),
}
FOREIGN = ("LexerNoViable", "EOF", "viable", "hydra.cc", "Error", "usage:", "nput should")
"""Words of the libraries beneath."""


@pytest.mark.parametrize(("overrides", "says"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_one_line(overrides, says, cli, files_left):
    status, out, complaint = cli(*overrides)
    assert complaint.count("\n") == 1, complaint
    assert complaint.startswith("fedslice: ")
    assert [word for word in FOREIGN if word in complaint] == [], complaint
    assert [word for word in says if word not in complaint] == [], complaint
    assert (status, out, files_left()) == (2, "", [])


def test_a_partitions_key_is_named_as_it_is_set(cli):
    """`task.partition` only points at `partition`, and cannot be set."""
    for value in ("0", "abc"):
        _, _, complaint = cli("partition=dirichlet", f"partition.alpha={value}")
        assert complaint.startswith(f"fedslice: partition.alpha={value}: ")


def test_the_keys_are_those_of_the_strategy_that_was_asked_for(cli):
    """FedAvg has none; the default strategy, FedPart, has this one."""
    _, _, complaint = cli("strategy=fedavg", "strategy.warmup=3")
    assert complaint == (
        "fedslice: strategy.warmup=3: no such key; strategy=fedavg has no keys; "
        "strategy=fedpart|fedpart_sparsyfed has it\n"
    )


def test_the_nearest_key_is_named(cli):
    _, _, complaint = cli("strategy.warmap=3")
    assert complaint.endswith(", of which warmup is nearest\n")


@pytest.mark.parametrize("override", ["strategy=fedprt", "task=digit", "runtime=inlin"])
def test_a_choice_that_is_not_there_begins_with_its_group(cli, override):
    _, _, complaint = cli(override)
    assert complaint.startswith(f"fedslice: {override}: must be one of ")


def test_choices_are_those_that_can_be_set(cli):
    """Not what the program itself passes to a strategy."""
    _, _, complaint = cli("+strategy.nonsense=1")
    assert "weights" not in complaint
    assert "roster" not in complaint


@pytest.mark.parametrize(
    ("overrides", "key"),
    [
        (["task.clients=5000"], "task.clients=5000"),
        (["partition=draw"], "task.examples=None"),
        (["partition=pathological", "partition.classes=11"], "partition.classes=11"),
        (["partition=dirichlet", "partition.min_size=1000"], "partition.min_size"),
    ],
)
def test_what_the_data_forbid_leaves_no_files(overrides, key, cli, files_left):
    """Found when the data are split: before any round, and without a record of a run that never was."""
    status, out, complaint = cli(*overrides)
    assert complaint.count("\n") == 1
    assert key in complaint
    assert (status, out, files_left()) == (2, "", [])


@pytest.mark.parametrize("override", ["strategi=fedavg", "rounds=abc", "strategy=fedagv", "~rounds", "strategy=null"])
def test_the_same_line_for_a_flower_run(override):
    with pytest.raises(ConfigError) as caught:
        from_run_config({"overrides": override})
    assert "\n" not in str(caught.value)


def test_the_line_does_not_depend_on_what_came_before():
    for _ in range(2):
        with pytest.raises(ConfigError, match=r"^strategy\.warmap=2: no such key; strategy=fedpart has "):
            compose(["strategy.warmap=2"])


def test_another_process_says_the_same(tmp_path):
    done = shell(command(tmp_path / "run", "strategy.order=[9]"), tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "fedslice: strategy.order=[9]: must list layer groups from 0 to 4\n"
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


@pytest.mark.parametrize("mistake", ["task.data=/nowhere", "strategy.warmap=3"])
def test_a_sweep_that_played_nothing_leaves_no_files(mistake, cli, files_left):
    """Found by the run, and by Hydra before it."""
    status, _, complaint = cli("-m", mistake, "seed=0,1")
    assert (status, files_left()) == (2, [])
    assert {line.split(": ")[1] for line in complaint.splitlines()} == {mistake}
