"""The README and docs/ keep their word: commands compose or parse, examples give what they say, links lead somewhere.

Every line of every code block is looked at, by the language of its block: `text` is for people, `toml` parses, `pycon`
is a session that is played, `python` and `yaml` are strategies that are built and run (and in docs/own_data.md a model
that its own test uses), and a block without a language holds commands.
"""

import doctest
import re
import shlex
import shutil
import sys
import tomllib
from pathlib import Path

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser

from app.config import compose
from app.inspect.__main__ import main as inspect
from app.privacy.__main__ import main as privacy
from app.report.__main__ import main as report
from tests.runs import ROOT, Run, command, shell

PAGES = {str(path.relative_to(ROOT)): path.read_text() for path in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]}
BLOCKS = [
    (page, language or ("toml" if body.startswith("[") else "commands"), body)
    for page, text in sorted(PAGES.items())
    for language, body in re.findall(r"^```(\w*)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
]
ELSEWHERE = {
    "make": "makes an environment anew, which CI does",
    "export": "sets up a shell; tests/test_runtimes.py runs with the same settings",
    "flower-superlink": "tests/test_runtimes.py starts one",
    "flower-supernode": "tests/test_runtimes.py starts some",
    "flwr supernode": "needs a server with keys: tests/test_deployment.py",
    "/opt/fedslice/docs/deploy/certificates.sh": "needs a server: tests/test_deployment.py runs the script",
    "ssh-keygen": "needs a device: tests/test_deployment.py makes such keys",
    "chown": "needs root on a server or a device",
    "cp": "needs root on a server or a device",
    "cd": "needs a server",
    "systemctl": "needs systemd: tests/test_deployment.py runs what the units start",
}
"""First words of commands that need another machine or another network, and the reason or the test that runs them."""
PLACEHOLDER = re.compile(r"=[A-Z_/]+$")
"""A value that a reader fills in; dots stand for more than a value."""


def _commands():
    """All commands: lines of blocks without a language, and code within a line that is one of ours."""
    lines = [line for _, kind, body in BLOCKS if kind == "commands" for line in body.splitlines()]
    for text in PAGES.values():
        lines += re.findall(r"`(python -m app[^`]*)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL))
    return sorted({line.split(" #")[0].strip() for line in lines} - {""})


COMMANDS = _commands()
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
        compose([given if value is None else f"{o.input_line.split('=')[0]}={value}" for o, given, value in pairs])


def test_every_block_is_of_a_kind_that_is_tested():
    assert {kind for _, kind, _ in BLOCKS} <= {"commands", "pycon", "python", "yaml", "toml", "text"}


@pytest.mark.parametrize("line", COMMANDS)
def test_every_command_is_tested_somewhere(line):
    ours = re.match(r"python (-m app(\.\w+)?|(benchmarks|docs/figures)/\w+\.py)( |$)|flwr run ", line)
    assert ours or any(line.startswith(f"{words} ") for words in ELSEWHERE), f"{line}: who tests this?"


@pytest.mark.parametrize("words", sorted({*_arguments("app"), *_arguments("app.costs"), *_arguments("app.vocabulary")}))
def test_overrides_compose(words):
    if any(f"strategy={name}" in words for _, name, *_ in EXAMPLES):
        pytest.skip("the example strategies have their own test")
    _composed(shlex.split(words))


@pytest.mark.parametrize("words", sorted(set(re.findall(r'overrides="([^"]*)"', "\n".join(COMMANDS)))))
def test_overrides_for_flower_compose(words):
    _composed([word for word in shlex.split(words) if not word.startswith("resume=")])


@pytest.mark.parametrize(
    ("main", "words"),
    [(main, words) for main in (report, inspect) for words in _arguments(f"app.{main.__module__.split('.')[1]}")],
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


def test_figures_are_those_that_the_code_draws(tmp_path):
    done = shell([sys.executable, "docs/figures/draw.py", str(tmp_path)], cwd=ROOT)
    assert done.returncode == 0, done.stderr
    drawn = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert drawn == {path.name: path.read_text() for path in (ROOT / "docs" / "figures").glob("*.svg")}


@pytest.mark.parametrize(("page", "body"), [(page, body) for page, kind, body in BLOCKS if kind == "toml"])
def test_toml_parses(page, body):
    assert tomllib.loads(body), page


@pytest.mark.parametrize("page", sorted({page for page, kind, _ in BLOCKS if kind == "pycon"}))
def test_sessions_give_what_they_show(page):
    """One session a page: later blocks know the names of earlier ones."""
    text = "\n".join(body for where, kind, body in BLOCKS if (where, kind) == (page, "pycon"))
    session = doctest.DocTestParser().get_doctest(text, {}, page, page, 0)
    assert doctest.DocTestRunner().run(session).failed == 0


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", PAGES[page]):
        assert ((ROOT / page).parent / target).exists(), target


def test_the_index_names_every_page():
    linked = set(re.findall(r"\((\w+\.md)\)", PAGES["docs/README.md"]))
    assert linked == {Path(page).name for page in PAGES if page.startswith("docs/")} - {"README.md"}


EXAMPLES = [
    ("README.md", "halves", (), lambda rows: [row["groups"] for row in rows] == [[], [], [2, 3, 4], []]),
    # Pruned at the end of round 1, as sparse after round 2, and all free to learn in round 3.
    ("docs/add_strategy.md", "dsd", ("strategy.dense=1", "strategy.sparse=2"), lambda rows: _tenth_then_all(rows[1:])),
]


def _tenth_then_all(rows):
    first, second, third = (row["sparsity_model"] for row in rows)
    return first == pytest.approx(0.9, abs=1e-4) and second == first and third < 0.5


@pytest.mark.parametrize(("page", "name", "overrides", "is_right"), EXAMPLES, ids=["halves", "dsd"])
def test_an_example_strategy_is_one_file_and_one_yaml(page, name, overrides, is_right, tmp_path):
    """In a copy of the project, with nothing else changed."""
    for folder in ("app", "strategies", "clients", "conf"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for language, path in {"python": f"strategies/{name}.py", "yaml": f"conf/strategy/{name}.yaml"}.items():
        (body,) = [text for where, kind, text in BLOCKS if (where, kind) == (page, language)]
        assert f"`{path}`" in PAGES[page]
        (tmp_path / path).write_text(body)
    folder = tmp_path / "run"
    done = shell(command(folder, f"strategy={name}", *overrides), cwd=tmp_path, PYTHONPATH=str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert is_right(Run(folder).rows)
