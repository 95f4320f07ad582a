"""A round's plan survives the message; what is missing is named."""

import pytest
from flwr.app import ConfigRecord

from clients.plan import RoundPlan


@pytest.mark.parametrize("groups", [None, (), (0,), (3, 4)])
def test_a_plan_comes_back_from_a_record(groups):
    plan = RoundPlan(10_000, groups, 1e-3, "abc")
    assert RoundPlan.from_config(ConfigRecord(plan.to_config())) == plan
    assert plan.phase == ("full" if groups is None else "partial")


def test_a_full_plan_sends_no_groups():
    assert "groups" not in RoundPlan(1, None, 0.1, "abc").to_config()


@pytest.mark.parametrize("key", ["round", "learning-rate", "layout"])
def test_a_missing_key_is_named(key):
    config = RoundPlan(1, None, 0.1, "abc").to_config()
    del config[key]
    with pytest.raises(ValueError, match=rf"plan lacks \['{key}'\]"):
        RoundPlan.from_config(config)
