"""How much memory this process has ever held."""

import re
import sys
from contextlib import suppress
from pathlib import Path

_STATUS = Path("/proc/self/status")


def peak_memory_mb() -> float | None:
    """Peak resident memory of this process in MB of 2**20 bytes; None where the system does not tell.

    On Linux from /proc, because `getrusage` of a process that was started by another may count the other's memory.
    """
    with suppress(FileNotFoundError):
        found = re.search(rb"^VmHWM:\s*(\d+)", _STATUS.read_bytes(), re.MULTILINE)
        return int(found[1]) / 2**10 if found else None
    try:
        import resource
    except ImportError:  # Windows
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 2**10)
