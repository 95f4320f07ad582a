"""Who may import whom, read from the source: app -> strategies -> clients, and nothing points back."""

import ast
import re
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("app", "strategies", "clients", "conf", "tests", "benchmarks")


@cache
def imports():
    """Every module of the project, and the modules that it imports (those of other projects too)."""
    found = {}
    for package in PACKAGES:
        for file in (ROOT / package).rglob("*.py"):
            parts = file.relative_to(ROOT).with_suffix("").parts
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            found[name] = set(imported(ast.parse(file.read_text()), name, parts[-1] == "__init__"))
    return found


def imported(tree, module, is_package):
    """Names of the modules that a tree imports, wherever in it; `from a import b` names a and a.b."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        if isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parts = module.split(".")
                above = parts[: len(parts) - node.level + is_package]
                base = ".".join([*above, *([node.module] if node.module else [])])
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names)


def inside(module, *packages):
    return any(module == package or module.startswith(f"{package}.") for package in packages)


def offences(importer, *forbidden):
    """Imports of `forbidden` by the package `importer`, as readable arrows."""
    return sorted(
        f"{module} -> {name}"
        for module, names in imports().items()
        if inside(module, importer)
        for name in names
        if inside(name, *forbidden)
    )


def test_the_modules_are_there():
    assert {"app.server_app", "strategies.fedavg", "clients.adapter", "clients.tasks.images"} <= set(imports())
    assert "clients.weights" in imports()["strategies.fedavg"]


@pytest.mark.parametrize(
    ("importer", "forbidden"),
    [
        ("strategies", ("app", "conf", "tests", "benchmarks")),
        ("clients", ("app", "strategies", "conf", "tests", "benchmarks")),
        ("app", ("tests", "benchmarks")),
        ("conf", ("app", "strategies", "clients", "tests", "benchmarks")),
    ],
)
def test_arrows_point_down(importer, forbidden):
    assert offences(importer, *forbidden) == []


def test_tasks_import_nothing_of_the_rest():
    others = [name for name in imports() if inside(name, "clients") and not inside(name, "clients.tasks")]
    others.remove("clients")  # the package above, which `clients.tasks` names
    assert offences("clients.tasks", *others) == []


def test_tasks_name_no_strategy():
    """Not even in words: a task is the same whatever strategy learns it."""
    names = [file.stem for file in (ROOT / "conf" / "strategy").glob("*.yaml")]
    texts = {file.name: file.read_text() for file in (ROOT / "clients" / "tasks").glob("*.py")}
    named = [(file, name) for file, text in texts.items() for name in names if f"strategies.{name}" in text]
    assert named == []


def test_there_are_no_cycles():
    """`prepare` raises CycleError, which names the modules."""
    modules = set(imports())
    graph = {
        # A package's own __init__ is imported with whatever is in it, so a module always depends on its parents.
        module: {name for name in names if name in modules and not module.startswith(f"{name}.")} - {module}
        for module, names in imports().items()
    }
    TopologicalSorter(graph).prepare()


@pytest.mark.parametrize("package", ["strategies", "clients"])
def test_hydra_is_known_to_app_only(package):
    assert offences(package, "hydra", "omegaconf") == []


def test_strategies_work_on_arrays():
    assert offences("strategies", "torch", "torchvision") == []


def test_ray_is_imported_by_nobody():
    """A device has none; the simulation runtime only looks whether it is installed."""
    assert [arrow for package in ("app", "strategies", "clients") for arrow in offences(package, "ray")] == []


def test_app_has_an_empty_init():
    """Flower imports it to check the project, in a process that is to stay light."""
    assert (ROOT / "app" / "__init__.py").read_text() == ""


def test_pickles_go_to_a_runs_own_workers_alone():
    """By pipes that nobody else reaches; never over the wire, never into files that a run leaves or reads."""
    product = {name: names for name, names in imports().items() if inside(name, "app", "strategies", "clients")}
    assert {name for name, names in product.items() if "pickle" in names} == {"app.lending", "app.workers"}
    assert not {n for names in product.values() for n in names if inside(n, "joblib", "dill", "cloudpickle", "shelve")}
    for package in ("app", "strategies", "clients"):
        for file in (ROOT / package).rglob("*.py"):
            text = file.read_text()
            assert not re.search(r"torch\.(load|save)\(|allow_pickle=True", text), file
            assert text.count("np.load(") == text.count("allow_pickle=False"), file
