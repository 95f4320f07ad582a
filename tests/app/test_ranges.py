"""Every key of the configuration refuses what is out of its range, in one line that names it.

Generated from conf/: each key of each choice of each group is given values that no setting could mean. The same
check stands behind the command line, `flwr run` and a composition in a program (tests/app/test_config.py).
"""

import math

from omegaconf import OmegaConf

from app.building import build_strategy
from app.choices import groups
from app.config import ConfigError, check, compose, make
from strategies.roster import SimulatedRoster

WRONG = (-1, math.nan, "no such thing", [[]], {"a": 1})
NEEDED = {
    "natural": ["partition.column=x"],
    "images": ["task.shape=[3,8,8]", "task.classes=3", "task.data=x"],
    "texts": ["task.classes=3", "task.data=x"],
}
"""What must be given with a choice."""
ENUMERATED = {
    "batch_norm", "wire", "downlink", "client.optimizer", "client.precision", "client.frozen_norm", "strategy.order",
    "strategy.prune", "task.model", "task.stem", "task.tokens", "strategy.beta",
}  # fmt: skip
"""Texts of which only some are right; of others any may be, and what is not there is found when it is read."""
FREE = {"resume", "task.data", "task.vocabulary", "task.source.hub", "task.source.subset"}
"""Texts that may be null."""
MAPPINGS = {"task.where"}


def settable(node, prefix=""):
    """Keys that a user sets, with their values and constructors: neither _target_ nor references to other keys."""
    for name in node:
        key = f"{prefix}.{name}".lstrip(".")
        if name.startswith("_") or OmegaConf.is_interpolation(node, name):
            continue
        if OmegaConf.is_dict(node[name]):
            yield from settable(node[name], key)
        else:
            yield key, node[name], node.get("_target_")


def allowed(key, value, wrong):
    """Whether this is a wrong value at all."""
    text = isinstance(wrong, str) and (isinstance(value, str) or key in FREE) and key not in ENUMERATED
    return text or (isinstance(wrong, dict) and key in MAPPINGS)


def complaint(cfg, key, value):
    """What is said when `key` has this value; None where it would run."""
    before = OmegaConf.select(cfg, key)
    OmegaConf.update(cfg, key, value, merge=False)
    try:
        check(cfg)
        if key.partition(".")[0] in ("strategy", "groups"):
            task = make(cfg, "task")
            build_strategy(cfg, task, SimulatedRoster(task.clients))
    except ConfigError as error:
        return str(error)
    finally:
        OmegaConf.update(cfg, key, before, merge=False)
    return None


def accepted(cfg, keys):
    """Wrong values that are taken, or refused in another way than by one line that begins with their key."""
    tried = [(key, wrong) for key, value in keys for wrong in WRONG if not allowed(key, value, wrong)]
    said = {f"{key}={wrong}": complaint(cfg, key, wrong) for key, wrong in tried}
    return {
        setting: line
        for setting, line in said.items()
        if line is None or "\n" in line or not line.startswith(setting.partition("=")[0])
    }


def test_every_key_outside_the_groups():
    cfg = compose()
    keys = [(key, value) for key, value, _ in settable(cfg) if key.partition(".")[0] not in groups()]
    assert len(keys) > 25
    assert accepted(cfg, keys) == {}


def test_every_key_of_every_choice():
    """Each once where several choices are made by the same constructor."""
    seen = set()
    for group in sorted(groups().keys() - {"experiment", "scale"}):
        for choice in groups()[group]:
            cfg = compose([f"{group}={choice}", *NEEDED.get(choice, [])])
            own = [(key, value, made) for key, value, made in settable(cfg) if key.startswith(f"{group}.")]
            keys = [(key, value) for key, value, made in own if (key, made) not in seen]
            seen |= {(key, made) for key, _, made in own}
            assert accepted(cfg, keys) == {}, choice
    assert len(seen) > 60
