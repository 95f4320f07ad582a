"""Waiting for the clients of a round, and saying who did not come."""

import logging
import time
from collections.abc import Mapping
from itertools import islice

from flwr.serverapp import Grid

from strategies.cohort import RunFailed
from strategies.roster import Roster

LOG = logging.getLogger("fedslice")
_POLL = 0.2  # seconds
_NAMED = 20  # missing clients, at most


def wait_for_nodes(roster: Roster, grid: Grid, at_least: int, timeout: float, everyone: bool) -> dict[int, int]:
    """The roster's nodes, once `at_least` so many are there, or all of them where `everyone` is asked for.

    Raises RunFailed, saying who is missing, when they do not come within `timeout` seconds.
    """
    deadline = time.monotonic() + timeout
    seen = -1
    while True:
        nodes = roster.nodes(grid, max(0.0, deadline - time.monotonic()), strict=everyone)
        needed = max(1, at_least, roster.clients if everyone else 0)
        if len(nodes) >= needed:
            return nodes
        if len(nodes) != seen:
            seen = len(nodes)
            LOG.info("waiting for clients: %s of %s are there", seen, needed)
        if time.monotonic() > deadline:
            raise RunFailed(
                f"only {len(nodes)} of {needed} clients within cohort.start_timeout={timeout:g} s: "
                f"partitions {_missing(needed, nodes)} are missing{_silent(grid, nodes)}"
            )
        time.sleep(_POLL)


def _missing(needed: int, nodes: Mapping[int, int]) -> str:
    """Which numbers nobody has; a device may have announced any number of them."""
    first = list(islice((number for number in range(needed) if number not in nodes), _NAMED))
    more = needed - len(nodes) - len(first)
    return f"{first}" + f" and {more} more" * (more > 0)


def _silent(grid: Grid, nodes: Mapping[int, int]) -> str:
    """What is known of nodes that are connected and did not come forward as clients."""
    silent = len(set(grid.get_node_ids()) - set(nodes.values()))
    if not silent:
        return ""
    who = "1 node is connected and has" if silent == 1 else f"{silent} nodes are connected and have"
    return f"; {who} not said in time which client it is: a slow device needs a longer start_timeout"
