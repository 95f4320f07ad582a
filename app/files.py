"""Files that are there whole or not at all: a kill or a full disk leaves what was there before."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from safetensors import SafetensorError

PART = ".part"
"""Ends the name of a file that is being written."""


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """Where to write what becomes `path` in one step when the block ends. Raises OSError, which names `path`."""
    beside = path.with_name(path.name + PART)
    try:
        beside.touch()
        mode = beside.stat().st_mode
        yield beside
        beside.chmod(mode)  # some libraries write files for their owner alone
        with beside.open("rb") as file:
            os.fsync(file.fileno())
        beside.replace(path)
    except (OSError, SafetensorError) as error:
        raise _cannot_write(path, error) from error
    finally:
        beside.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write a text file, all of it or nothing. Raises OSError, which names `path`."""
    with whole(path) as beside:
        beside.write_text(text, encoding="utf-8")


def append_line(path: Path, line: str) -> None:
    """Append a line and see it onto the disk, all of it or nothing. Raises OSError, which names `path`."""
    rest = memoryview(f"{line}\n".encode())
    try:
        with path.open("ab", buffering=0) as file:  # a buffer would be written once more on closing
            end = file.tell()
            try:
                while rest:
                    rest = rest[file.write(rest) :]
                os.fsync(file.fileno())
            except OSError:
                file.truncate(end)
                raise
    except OSError as error:
        raise _cannot_write(path, error) from error


def _cannot_write(path: Path, error: Exception) -> OSError:
    reason = error.strerror if isinstance(error, OSError) and error.strerror else error
    return OSError(f"{path}: cannot be written ({reason})")
