"""The README and docs/ keep their word: sessions and examples give what they say, names and links are there.

By the language of a block: `pycon` is a session that is played, `python` and `yaml` are strategies that are built and
run (in docs/own_data.md a model, which its own test uses), `toml` parses, `text` is for people; the rest are commands
(tests/test_docs.py).
"""

import doctest
import re
import shutil
import sys
import tomllib
from pathlib import Path
from pydoc import locate

import pytest
import yaml

from tests.made_runs import write_run
from tests.pages import BLOCKS, PAGES, spans
from tests.runs import ROOT, Run, command, shell

NAMES = sorted(
    {code for text in PAGES.values() for code in spans(text) if re.match(r"(app|clients|strategies)\.", code)}
)
STRATEGIES = sorted((ROOT / "conf" / "strategy").glob("*.yaml"))


def test_every_block_is_of_a_kind_that_is_tested():
    assert {kind for _, kind, _ in BLOCKS} <= {"commands", "pycon", "python", "yaml", "toml", "text"}


def test_figures_are_those_that_the_code_draws(tmp_path):
    done = shell([sys.executable, "docs/figures/draw.py", str(tmp_path)], cwd=ROOT)
    assert done.returncode == 0, done.stderr
    drawn = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert drawn == {path.name: path.read_text() for path in (ROOT / "docs" / "figures").glob("*.svg")}


def test_what_a_run_reached_and_sent_is_told_for_a_figure(tmp_path):
    runs = [str(write_run(tmp_path / "a", (0.1, 0.5, None, 0.75))), str(write_run(tmp_path / "b", (0.2,), seed=7))]
    done = shell([sys.executable, "docs/figures/measured.py", *runs], cwd=ROOT)
    # 10 clients get 4 groups of 1,000 bytes in rounds 1 and 2, then one group, and send as much.
    points = ("0,0,0.1,0", "0,1,0.5,80000", "0,3,0.75,180000", "7,0,0.2,0")
    told = ["strategy,seed,round,accuracy,bytes", *(f"FedPartStrategy,{point}" for point in points)]
    assert done.stdout.splitlines() == told, done.stderr


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


@pytest.mark.parametrize("name", NAMES)
def test_names_in_the_code_are_there(name):
    assert locate(re.match(r"[\w.]+", name)[0]) is not None


@pytest.mark.parametrize("file", STRATEGIES, ids=[file.stem for file in STRATEGIES])
def test_every_strategy_and_each_of_its_keys_is_explained(file):
    text = PAGES["docs/fedpart.md"] + PAGES["docs/sparsyfed.md"]
    assert f"`{file.stem}`" in text or f"strategy={file.stem}" in text
    for key in set(yaml.safe_load(file.read_text())) - {"_target_", "defaults", "name"}:
        assert f"`strategy.{key}`" in text, key


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
