"""The classes that conf/ names as `_target_`; what is wrong with a name, or with the file behind it, is one line."""

import re
from importlib import import_module
from importlib.util import find_spec
from inspect import Parameter, signature
from pathlib import Path
from traceback import extract_tb
from types import ModuleType
from typing import Any

from app.choices import CONF
from app.schema import ConfigError, check_values

_LONGEST = 300  # characters of an error's own text


def check_targets(path: str, node: Any) -> None:
    """Check every node that names a constructor, and the values that it is called with."""
    if not isinstance(node, dict):
        return
    for name, value in node.items():
        check_targets(f"{path}.{name}".lstrip("."), value)
    if "_target_" in node:
        given = {name: value for name, value in node.items() if not name.startswith("_")}  # _convert_ is Hydra's
        check_values(path, given, target_class(node["_target_"]))


def target_class(target: Any) -> type:
    """The class of this dotted name."""
    module_name, _, name = str(target).rpartition(".")
    if not module_name:
        raise ConfigError(f"{_named(target)}; must be package.module.Class")
    module = _imported(module_name, target)
    found = getattr(module, name, None)
    if isinstance(found, type):
        return found
    if hasattr(module, "__path__") and find_spec(str(target)):
        raise ConfigError(f"{_named(target)}, which is a module{_classes(_imported(str(target), target))}")
    raise ConfigError(f"{_named(target)}; {module_name} has no {name}{_classes(module)}")


def check_named(section: str, node: dict[str, Any]) -> None:
    """Check that a section says what it constructs."""
    if "_target_" in node:
        return
    texts = {file: file.read_text() for file in sorted((CONF / section).glob("*.yaml"))}
    at_fault = [file for file, text in texts.items() if not re.search("^(_target_|defaults):", text, re.MULTILINE)]
    where = ", ".join(map(in_project, at_fault)) or section
    raise ConfigError(f"{where}: needs _target_, the class that it describes (_target_: package.module.Class)")


def check_kind(target: Any, base: type) -> None:
    """Check that this dotted name is a class of that kind, which can be made with all that the kind is made with."""
    found = target_class(target)
    if not issubclass(found, base):
        raise ConfigError(f"{_named(target)}, which is no {base.__name__}")
    takes = signature(found).parameters
    everything = any(taken.kind is Parameter.VAR_KEYWORD for taken in takes.values())
    if not everything and not takes.keys() >= signature(base).parameters.keys():
        raise ConfigError(f"{_named(target)}, whose __init__ must take **kwargs too, for super().__init__")


def in_project(file: Any) -> str:
    """A file's path, within the project where it lies there."""
    path = Path(str(file))
    return str(path.relative_to(CONF.parent)) if path.is_relative_to(CONF.parent) else str(path)


def _named(target: Any) -> str:
    """Who names this class."""
    named = re.compile(rf"^\s*_target_:\s*[\"']?{re.escape(str(target))}[\"']?\s*(#|$)", re.MULTILINE)
    files = [file for file in sorted(CONF.rglob("*.yaml")) if named.search(file.read_text())]
    return f"{', '.join(map(in_project, files)) or 'the configuration'} names {target}"


def _classes(module: ModuleType) -> str:
    """The classes that are a module's own."""
    own = [name for name, found in vars(module).items() if isinstance(found, type)]
    own = [name for name in own if vars(module)[name].__module__ == module.__name__ and not name.startswith("_")]
    return f" (it has {', '.join(own)})" if own else ""


def _imported(name: str, target: Any) -> ModuleType:
    try:
        return import_module(name)
    except SyntaxError as error:
        raise ConfigError(f"{in_project(error.filename)}, line {error.lineno}: {error.msg}") from None
    except Exception as error:
        if isinstance(error, ModuleNotFoundError) and f"{name}.".startswith(f"{error.name}."):
            raise ConfigError(f"{_named(target)}; there is no module {error.name}") from None
        frames = extract_tb(error.__traceback__)
        own = [frame for frame in frames if Path(frame.filename).match(f"{name.replace('.', '/')}.py")] or frames
        text = " ".join(str(error).split())[:_LONGEST]
        place = f"{in_project(own[-1].filename)}, line {own[-1].lineno}"
        raise ConfigError(f"{place}: {type(error).__name__} at import: {text}") from None
