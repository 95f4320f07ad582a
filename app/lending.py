"""Values for other processes of this run, in which large byte strings (the model) are shared and not sent.

They are written once to a file that is in the system's memory, and read there. A file, because shared memory by
name is small in many containers, where to pass its bound is a crash and no error.
"""

import io
import pickle
from collections.abc import Iterable
from pathlib import Path
from typing import Any

_LENT = 1 << 16  # bytes; what is smaller goes with the value


class Lender:
    """Pickles values. Large byte strings go to files in `folder`, where they stay until `keep` leaves them out."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lent: dict[int, tuple[bytes, Path]] = {}
        self._count = 0

    def pack(self, value: Any) -> tuple[bytes, set[Path]]:
        """The pickled value, and the files that whoever unpickles it will read."""
        buffer = io.BytesIO()
        pickler = _Pickler(buffer, self)
        pickler.dump(value)
        return buffer.getvalue(), pickler.used

    def keep(self, paths: Iterable[Path]) -> None:
        """Remove all other files."""
        kept = set(paths)
        for key, (_, path) in list(self._lent.items()):
            if path not in kept:
                path.unlink()
                del self._lent[key]

    def lend(self, data: bytes) -> Path:
        """The file that holds these bytes."""
        if id(data) not in self._lent:  # where the bytes are kept, so that nobody else gets their id
            self._count += 1
            path = self._folder / str(self._count)
            path.write_bytes(data)
            self._lent[id(data)] = data, path
        return self._lent[id(data)][1]


class Borrower:
    """Unpickles what a `Lender` packed; a file is read once, as long as each value names it."""

    def __init__(self) -> None:
        self._read: dict[Path, bytes] = {}

    def unpack(self, data: bytes) -> Any:
        """The value; the same file gives the same object."""
        unpickler = _Unpickler(io.BytesIO(data), self._read)
        value = unpickler.load()
        self._read = unpickler.used
        return value


class _Pickler(pickle.Pickler):
    def __init__(self, buffer: io.BytesIO, lender: Lender) -> None:
        super().__init__(buffer, pickle.HIGHEST_PROTOCOL)
        self.used: set[Path] = set()
        self._lender = lender

    def persistent_id(self, obj: Any) -> Path | None:
        if not isinstance(obj, bytes) or len(obj) < _LENT:
            return None
        path = self._lender.lend(obj)
        self.used.add(path)
        return path


class _Unpickler(pickle.Unpickler):
    def __init__(self, buffer: io.BytesIO, read: dict[Path, bytes]) -> None:
        super().__init__(buffer)
        self.used: dict[Path, bytes] = {}
        self._before = read

    def persistent_load(self, path: Path) -> bytes:
        self.used[path] = self._before.get(path) or path.read_bytes()
        return self.used[path]
