"""--help says what conf/ says; completion knows the groups; what a run prints fits where it is printed."""

import os
import re

import pytest

from app.choices import CONF, groups
from app.config import compose
from app.console import RunConsole

ROW = {
    "round": 1, "phase": "full", "groups": [0], "accuracy": 0.5, "loss": 1.0, "sampled": [0],
    "bytes_up": 10, "bytes_down": 10, "seconds_round": 1.0, "failed": 0, "rejected": 0, "peak_mb": None,
    "memory_server_mb": None, "memory_client_mb": None,
}  # fmt: skip


@pytest.fixture
def help_of(cli):
    """Lines of the help for some overrides."""

    def lines(*overrides):
        status, out, complaint = cli(*overrides, "--help")
        assert (status, complaint) == (0, "")
        return out.splitlines()

    return lines


def test_keys_have_their_defaults_and_meanings(help_of):
    lines = help_of()
    assert any(re.fullmatch(r"  seed=0 +keys everything random, together with .*", line) for line in lines)
    assert any(re.fullmatch(r"  client\.epochs=2 +passes over .*", line) for line in lines)
    assert any(re.fullmatch(r"  strategy\.rounds_per_layer=2 +rounds in a row .*", line) for line in lines)
    assert max(map(len, lines)) <= 120
    assert not any("_target_" in line for line in lines)


def test_every_choice_of_every_group_is_there_with_a_word(help_of):
    text = "\n".join(help_of())
    for file in CONF.glob("*/*.yaml"):
        assert re.search(rf"^  [ *] {file.stem}( +\S|\n {{42}}\S)", text, re.MULTILINE), file


def test_every_key_of_every_choice_has_a_meaning(help_of):
    """But for references to other keys, which have theirs."""
    for group in groups():
        for choice in groups()[group]:
            lines = help_of(f"{group}={choice}")
            keys = lines[lines.index(next(line for line in lines if line.startswith("Keys "))) + 1 :]
            bare = [row for row, after in zip(keys, [*keys[1:], ""], strict=True) if silent(row, after)]
            assert bare == [], choice


def silent(row, after):
    """Whether a key stands alone: neither beside its meaning nor above it."""
    return row.startswith("  ") and row[2] != " " and "${" not in row and "  " not in row.strip() and after[:3] != "   "


def test_another_choice_has_other_keys_even_where_some_are_needed(help_of):
    lines = help_of("task=texts", "strategy=fedavg", "partition=natural")
    assert "  * fedavg" in "\n".join(lines)
    assert any(line.startswith("  task.classes=(needed)") for line in lines)
    assert any(re.match(r"  task\.max_length=512 +tokens; longer", line) for line in lines), "a base's meaning"
    assert not any(line.startswith("  strategy.warmup") for line in lines)


def test_examples_compose(help_of):
    examples = re.findall(r"^  python -m app (.*?)(?:  |$)", "\n".join(help_of()), re.MULTILINE)
    for example in examples[4:]:  # those before show forms, not values
        words = [word for word in example.split() if "=" in word and "RUN_DIRECTORY" not in word]
        compose([re.sub(r"^(strategy|seed)=(\w+),.*", r"\1=\2", word) for word in words])
    assert len(examples) == 9


def test_a_mistake_beside_it_is_one_line(cli):
    status, out, complaint = cli("strategi=fedavg", "--help")
    assert (status, out, complaint.count("\n")) == (2, "", 1)


def test_completion(cli, monkeypatch):
    for line, expected in (("fedslice strateg", "strategy="), ("fedslice strategy=fed", "strategy=fedpart")):
        monkeypatch.setenv("COMP_LINE", line)
        assert expected in cli("-sc", "query=bash")[1].split()


def shown():
    console = RunConsole(3)
    console.reply()
    console.round(ROW)
    console.close()


def test_no_control_characters_in_a_file_or_in_ci(capsys, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    shown()
    out = capsys.readouterr().out
    assert out.startswith("round 1/3  full")
    assert out.count("\n") == 1
    assert not re.search(r"[\x00-\x09\x0b-\x1f]", out)


@pytest.mark.parametrize(("kind", "bar"), [("xterm", True), ("dumb", False)])
def test_a_bar_in_a_terminal_that_can_show_one(kind, bar, monkeypatch):
    monkeypatch.setenv("TERM", kind)
    for name in ("FORCE_COLOR", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    outside, inside = os.openpty()
    with os.fdopen(inside, "w") as terminal:
        monkeypatch.setattr("sys.stdout", terminal)
        shown()
        monkeypatch.undo()
        out = os.read(outside, 100_000).decode()
    os.close(outside)
    assert "round 1/3  full" in out
    assert ("\x1b[" in out, "replies" in out) == (bar, bar)
