"""NumPy archives with the arrays x (inputs) and y (labels)."""

from collections.abc import Collection
from pathlib import Path

import numpy as np

from clients.tasks.damage import damaged


def read_npz(place: Path, origin: str, names: Collection[str] | None = None) -> dict[str, np.ndarray]:
    """The arrays of an archive that must have x and y, all or those in `names`; `origin` opens what errors say."""
    try:
        with np.load(place, allow_pickle=False) as archive:
            there = archive.files
            arrays = {name: archive[name] for name in there if names is None or name in names}
    except Exception as error:  # of zipfile, zlib and NumPy
        raise damaged(origin, "npz", error) from error
    if not {"x", "y"} <= set(there):
        raise ValueError(f"{origin}: must have the arrays x (images) and y (labels); it has: {', '.join(there)}")
    return arrays
