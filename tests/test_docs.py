"""Every command in the README and docs/ composes, parses, or is known to be tested elsewhere."""

import re
import shlex

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser

from app.config import compose
from app.gradient_noise import main as gradient_noise
from app.inspect.__main__ import main as inspect
from app.privacy.__main__ import main as privacy
from app.report.__main__ import main as report
from tests.pages import PAGES, commands
from tests.runs import ROOT

ELSEWHERE = {
    "make": "makes an environment anew, which CI does",
    "export": "sets up a shell; tests/test_runtimes.py runs with the same settings",
    "flower-superlink": "tests/test_runtimes.py starts one",
    "flower-supernode": "tests/test_runtimes.py starts some",
    "flwr supernode": "needs a server with keys: tests/test_deployment.py",
    "/opt/fedslice/docs/deploy/certificates.sh": "tests/test_devices_doc.py runs it",
    "ssh-keygen": "tests/test_devices_doc.py runs it",
    "chown": "needs root on a server or a device",
    "mkdir": "tests/test_devices_doc.py runs it",
    "cp": "tests/test_devices_doc.py runs it",
    "scp": "needs a server: tests/test_devices_doc.py copies that file",
    "cd": "needs a server",
    "systemctl": "needs systemd: tests/test_deployment.py runs what the units start",
}
"""First words of commands that need another machine or another network, and the reason or the test that runs them."""
PLACEHOLDER = re.compile(r"=[A-Z_/]+$")
"""A value that a reader fills in; dots stand for more than a value."""

COMMANDS = commands()
OWN_DATA = set(PAGES["docs/own_data.md"].splitlines())  # played in tests/test_own_data.py, where their data are


def _arguments(program):
    """The arguments of all commands `python -m PROGRAM`."""
    found = [line.removeprefix(f"python -m {program}") for line in COMMANDS if line not in OWN_DATA]
    return [words for words in found if words[:1] in ("", " ")]


def _composed(words):
    """Compose the overrides among these words; a sweep with its first values, then its second, and so on."""
    given = [word for word in words if "=" in word and not word.startswith("-") and "..." not in word]
    overrides = [PLACEHOLDER.sub("=something", word) for word in given]
    parsed = OverridesParser.create().parse_overrides(overrides)
    choices = [list(o.sweep_string_iterator()) if o.is_sweep_override() else [None] for o in parsed]
    for turn in range(max(map(len, choices), default=1)):
        chosen = [values[min(turn, len(values) - 1)] for values in choices]
        pairs = zip(parsed, overrides, chosen, strict=True)
        compose([text if value is None else f"{o.input_line.split('=')[0]}={value}" for o, text, value in pairs])


@pytest.mark.parametrize("line", COMMANDS)
def test_every_command_is_tested_somewhere(line):
    ours = re.match(r"python (-m app(\.\w+)?|(benchmarks|docs/figures)/\w+\.py)( |$)|flwr run ", line)
    assert ours or any(line.startswith(f"{words} ") for words in ELSEWHERE), f"{line}: who tests this?"


@pytest.mark.parametrize("words", sorted({*_arguments("app"), *_arguments("app.costs"), *_arguments("app.vocabulary")}))
def test_overrides_compose(words):
    if re.search(r"strategy=(halves|dsd)\b", words):
        pytest.skip("tests/test_docs_texts.py plays the example strategies")
    _composed(shlex.split(words))


@pytest.mark.parametrize("words", sorted(set(re.findall(r'overrides="([^"]*)"', "\n".join(COMMANDS)))))
def test_overrides_for_flower_compose(words):
    _composed([word for word in shlex.split(words) if not word.startswith("resume=")])


@pytest.mark.parametrize(
    ("main", "words"),
    [
        (main, words)
        for main in (report, inspect, gradient_noise)
        for words in _arguments(f"app.{main.__module__.split('.')[1]}")
    ],
)
def test_arguments_parse(main, words, tmp_path, monkeypatch, capsys):
    """The runs that they name are not there, which is status 2; unknown arguments would be a SystemExit."""
    monkeypatch.chdir(tmp_path)
    assert main(shlex.split(words)) == 2
    assert capsys.readouterr().err.startswith("fedslice: ")


@pytest.mark.parametrize("words", _arguments("app.privacy"))
def test_arguments_of_an_attack_parse(words, tmp_path, capsys):
    """What comes last wins: no image to attack, so that only the arguments are looked at."""
    given = [word for word in shlex.split(words) if not PLACEHOLDER.search(word) and "..." not in word]
    assert privacy([*given, "--images", "0", "--out", str(tmp_path / "x.html")]) == 2
    assert "--images=0" in capsys.readouterr().err
    _composed(given)


@pytest.mark.parametrize("line", [line for line in COMMANDS if line.startswith("python benchmarks/")])
def test_benchmarks_are_there(line):
    assert (ROOT / shlex.split(line)[1]).is_file()
