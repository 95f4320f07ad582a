"""What libraries raise on damaged files, as one line that names the file.

Their errors are of many unrelated kinds, so that readers catch `Exception` around what decodes, and nothing else.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any


def damaged(origin: str, kind: str, error: Exception) -> ValueError:
    """A line that begins with `origin`, for what a library raised on bytes that were to be of this kind."""
    reason = " ".join(str(error).split()) or type(error).__name__
    return ValueError(f"{origin}: not readable as {kind} ({reason})")


def damaged_file(file: Path, origin: str, error: Exception) -> ValueError:
    """The same for one of the files at `origin`."""
    named = origin if origin.endswith(file.name) else f"{origin}: {file.name}"
    return damaged(named, file.suffix.removeprefix("."), error)


def damaged_table(dataset: Any, columns: Iterable[str], origin: str, error: Exception) -> ValueError:
    """The same for a `pyarrow.dataset.Dataset`, whose errors do not say which of its files it was: read one by one."""
    import pyarrow.parquet

    for file in map(Path, getattr(dataset, "files", ())):
        try:
            pyarrow.parquet.read_table(file, columns=list(columns)).validate(full=True)
        except Exception as its_own:
            return damaged_file(file, origin, its_own)
    return damaged(origin, "a table", error)
