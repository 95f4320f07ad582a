"""The README keeps its word: its commands compose, and its example strategy runs as it stands there."""

import re
import shlex
import shutil

import pytest

from app.config import compose
from tests.runs import ROOT, Run, command, shell

README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"```(\w*)\n(.*?)```", README, re.DOTALL)
COMMANDS = sorted(set(re.findall(r"python -m app(?:\.costs)? ([^\n`#]+)", README)))


@pytest.mark.parametrize("words", COMMANDS)
def test_the_overrides_in_its_commands_compose(words):
    """Sweeps are composed with their first value; capitals and dots stand for what a reader fills in."""
    overrides = [word.split(",")[0] for word in shlex.split(words) if "=" in word and not word.startswith("-")]
    if "strategy=halves" in overrides:
        pytest.skip("the example strategy has its own test")
    compose([word for word in overrides if not re.search(r"=[A-Z_/]+$|\.\.\.", word)])


def test_its_example_strategy_is_one_file_and_one_yaml(tmp_path):
    """In a copy of the project, with nothing else changed: rounds 1 and 3 full, round 2 the deeper half."""
    for folder in ("app", "strategies", "clients", "conf"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    texts = {"python": "strategies/halves.py", "yaml": "conf/strategy/halves.yaml"}
    for language, path in texts.items():
        (body,) = [text for kind, text in BLOCKS if kind == language]
        assert f"`{path}`" in README
        (tmp_path / path).write_text(body)
    folder = tmp_path / "run"
    done = shell(command(folder, "strategy=halves"), cwd=tmp_path, PYTHONPATH=str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert [row["groups"] for row in Run(folder).rows] == [[], [], [2, 3, 4], []]
