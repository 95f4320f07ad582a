"""Every test that docs/faults.md names is there."""

import ast
import re

import pytest

from tests.runs import ROOT

NAMED = sorted(set(re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", (ROOT / "docs" / "faults.md").read_text())))


def test_there_are_many():
    assert len(NAMED) > 35


@pytest.mark.parametrize(("file", "name"), NAMED, ids=["::".join(pair) for pair in NAMED])
def test_it_is_there(file, name):
    tree = ast.parse((ROOT / file).read_text())
    assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
