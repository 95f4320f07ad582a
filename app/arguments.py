"""The words of the command line: overrides, and Hydra's own options."""

from argparse import Namespace
from typing import NoReturn

from hydra._internal.utils import get_args_parser
from hydra.core.override_parser.overrides_parser import OverridesParser

from app.complaints import malformed
from app.schema import ConfigError


def parsed(arguments: list[str]) -> Namespace:
    """Overrides and Hydra's own options, told apart by its own parser: some options are followed by a value."""
    parser = get_args_parser()
    parser.error = _refuse  # type: ignore[method-assign]  # it would print a page and exit
    known, unknown = parser.parse_known_intermixed_args(arguments)
    if unknown:
        raise ConfigError(malformed(unknown[0], arguments))
    return known


def _refuse(message: str) -> NoReturn:
    raise ConfigError(f"{message}; --help lists the keys, --hydra-help Hydra's options")


def one_by_one(arguments: list[str]) -> list[str]:
    """The arguments of a sweep, where keys of a group that is swept over are swept over too.

    Hydra sets other keys before it chooses the group, so that strategy=topk,zerofl strategy.sparsity=0.9 would ask
    the default strategy for its sparsity.
    """
    known = parsed(arguments)
    if not known.multirun:
        return arguments
    texts = known.overrides
    overrides = dict(zip(texts, OverridesParser.create().parse_overrides(texts), strict=True))
    swept = {own.key_or_group for own in overrides.values() if own.is_sweep_override()}

    def spelt(text: str) -> str:
        own = overrides.get(text)
        if own is None or own.is_sweep_override() or own.key_or_group.partition(".")[0] not in swept:
            return text
        key, _, value = text.partition("=")
        return f"{key}=choice({value})"

    return [spelt(text) for text in arguments]
