"""What can be wrong with a choice of one's own, its yaml and the file behind it: one line that says where."""

import shutil
import sys

import pytest

from app import choices
from tests.runs import QUICK

GOOD = "class OopsStrategy:\n    pass\n"
HEAD = "from strategies.fedavg import FedAvgStrategy\n\n\nclass OopsStrategy(FedAvgStrategy):\n"
NAMED = "_target_: oops.OopsStrategy\n"

WRONG = {
    # yaml, Python: the whole line
    "a class that is not there": (
        "_target_: oops.Oops\n", GOOD, "conf/strategy/oops.yaml names oops.Oops; oops has no Oops (it has OopsStrategy)"
    ),
    "a module that is not there": (
        "_target_: ops.OopsStrategy\n", GOOD, "conf/strategy/oops.yaml names ops.OopsStrategy; there is no module ops"
    ),
    "a module that is not there in a package": (
        "_target_: 'strategies.ops.O' # mine\n", GOOD,
        "conf/strategy/oops.yaml names strategies.ops.O; there is no module strategies.ops",
    ),
    "a module for a class": (
        "_target_: strategies.fedpart\n", GOOD,
        "conf/strategy/oops.yaml names strategies.fedpart, which is a module (it has FedPartStrategy)",
    ),
    "a class without its module": (
        "_target_: OopsStrategy\n", GOOD,
        "conf/strategy/oops.yaml names OopsStrategy; must be package.module.Class",
    ),
    "a class that is no strategy": (
        NAMED, GOOD, "conf/strategy/oops.yaml names oops.OopsStrategy, which is no FedAvgStrategy"
    ),
    "a constructor that is not given on": (
        NAMED, f"{HEAD}    def __init__(self, width=1):\n        super().__init__()\n",
        "conf/strategy/oops.yaml names oops.OopsStrategy, whose __init__ must take **kwargs too, for super().__init__",
    ),
    "no _target_": (
        "class: oops.OopsStrategy\n", GOOD,
        "conf/strategy/oops.yaml: needs _target_, the class that it describes (_target_: package.module.Class)",
    ),
    "a comment alone": (
        "# Mine.\n", GOOD,
        "conf/strategy/oops.yaml: needs _target_, the class that it describes (_target_: package.module.Class)",
    ),
    "a key that the class has not": (
        f"{NAMED}foo: 1\n", f"{HEAD}    pass\n", "strategy.foo=1: no such key; oops.OopsStrategy takes no keys"
    ),
    "yaml that does not parse": (
        f"{NAMED}foo: [1\n", GOOD,
        "conf/strategy/oops.yaml, line 3, column 1: expected ',' or ']', but got '<stream end>'",
    ),
    "a tab in yaml": (
        f"{NAMED}\tfoo: 1\n", GOOD,
        "conf/strategy/oops.yaml, line 2, column 1: found character '\\t' that cannot start any token",
    ),
    "Python that does not parse": (NAMED, f"{HEAD}    def plan(self)\n", "oops.py, line 5: expected ':'"),
    "an exception at import": (
        NAMED, f"import os\n{GOOD}WIDTH = os.wdth\n",
        "oops.py, line 4: AttributeError at import: module 'os' has no attribute 'wdth'",
    ),
    "a name that cannot be imported": (
        NAMED, "import oopses\n", "oops.py, line 1: ModuleNotFoundError at import: No module named 'oopses'"
    ),
}  # fmt: skip


@pytest.fixture
def oops(tmp_path, monkeypatch):
    """Writes the strategy `oops` into a copy of conf/, and its module."""
    conf = tmp_path / "project" / "conf"
    shutil.copytree(choices.CONF, conf)
    for module in ("app.choices", "app.targets", "app.help", "app.__main__"):
        monkeypatch.setattr(f"{module}.CONF", conf)
    monkeypatch.syspath_prepend(conf.parent)

    def write(text, code, group="strategy"):
        choices.groups.cache_clear()
        sys.modules.pop("oops", None)
        (conf / group / "oops.yaml").write_text(text)
        (conf.parent / "oops.py").write_text(code)

    yield write
    choices.groups.cache_clear()
    sys.modules.pop("oops", None)


@pytest.mark.parametrize(("text", "code", "line"), WRONG.values(), ids=WRONG)
def test_a_strategy(text, code, line, oops, cli):
    oops(text, code)
    assert cli("strategy=oops") == (2, "", f"fedslice: {line}\n")


@pytest.mark.parametrize("group", ["task", "partition", "objective", "server_optimizer", "runtime"])
@pytest.mark.parametrize("name", ["a class that is not there", "no _target_", "yaml that does not parse"])
def test_every_other_group(group, name, oops, cli):
    text, code, line = WRONG[name]
    oops(text, code, group)
    given = ["strategy=fedavg"] if group == "task" else []
    said = f"fedslice: {line.replace('/strategy/', f'/{group}/')}\n"
    assert cli(f"{group}=oops", *given) == (2, "", said)


def test_a_sweep_and_help_say_it_too(oops, cli):
    for name in ("yaml that does not parse", "a key that the class has not"):
        text, code, line = WRONG[name]
        oops(text, code)
        assert cli("-m", "strategy=oops,fedavg", *QUICK, "rounds=1")[::2] == (2, f"fedslice: {line}\n")
    oops(*WRONG["yaml that does not parse"][:2])
    assert cli("strategy=oops", "--help")[0] == 2


def test_help_shows_a_choice_without_a_comment_by_its_name_alone(oops, cli):
    oops(NAMED, GOOD)
    assert "\n    oops\n" in cli("--help")[1]


def test_a_plan_that_is_none(oops, cli):
    """Found in the round that asks for it: the rounds before it are done, so that it is a run that failed."""
    plan = (
        "    def plan(self, server_round):\n        return super().plan(server_round) if server_round < 3 else None\n"
    )
    oops(NAMED, HEAD + plan)
    status, _, complaint = cli("strategy=oops", *QUICK)
    assert (status, complaint) == (1, "fedslice: OopsStrategy.plan(3) gave None; must be a RoundPlan\n")
