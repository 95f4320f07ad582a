"""The files in a local folder that hold a split of a data set, found by their names."""

import re
from collections.abc import Sequence
from pathlib import Path

TABLES = (".parquet", ".csv")
"""Kinds of files that hold tables; of a folder with both, the first are read."""


class MissingSplitError(ValueError):
    """Nothing of a split is where it was looked for."""


def find_split(path: str, split: str, hub: str | None, kinds: Sequence[str], others: Sequence[str] = ()) -> list[Path]:
    """A split's tables in a folder, or in a folder below it (as in a copy of a hub repository).

    kinds: of tables; others: what else of a split the source of the data reads, to be named among the choices.
    """
    folder = Path(path).expanduser()
    *most, last = [*others, *(f"{split}*{kind}" for kind in kinds)]
    forms = f"{', '.join(most)} or {last}" if most else last
    if not folder.is_dir():
        instead = f", or leave it out to load {hub} from the hub" if hub else ""
        give = f"give a folder with {forms} in it, and alike for the other split{instead}"
        if folder.exists():
            raise ValueError(f"task.data={path}: a file, not a folder, and one file alone is not read here; {give}")
        raise MissingSplitError(f"task.data={path}: no such folder; {give}")
    files = files_of_split(folder, split, kinds=kinds) or files_of_split(folder, split, "*/", kinds)
    files = files or [file for kind in kinds for file in sorted(folder.glob(f"{split}/*{kind}"))]
    if not files:
        raise MissingSplitError(f"task.data={path}: no {forms} in it; its files must be named by split")
    if len({file.parent for file in files}) > 1:
        kind = files[0].suffix
        raise ValueError(f"task.data={path}: {split}*{kind} in more than one folder below it; give one of those")
    return files


def files_of_split(folder: Path, split: str, below: str = "", kinds: Sequence[str] = TABLES) -> list[Path]:
    """The files whose names begin with the split's, or else have it as a word (news-train.parquet)."""
    for kind in kinds:
        files = sorted(folder.glob(f"{below}*{kind}"))
        named = [file for file in files if file.stem.startswith(split)]
        if found := named or [file for file in files if split in re.split(r"[\W_]+", file.stem)]:
            return found
    return []
