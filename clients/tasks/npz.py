"""NumPy archives with the arrays x (inputs) and y (labels)."""

from pathlib import Path
from zipfile import BadZipFile

import numpy as np
from numpy.lib.npyio import NpzFile

from clients.tasks.damage import damaged


def read_npz(place: Path, origin: str) -> dict[str, np.ndarray]:
    """The arrays of an archive that must have x and y, with examples in them; `origin` opens what errors say."""
    try:
        # np.load would take files of other kinds too, and advise to trust pickles.
        with place.open("rb") as file, NpzFile(file) as archive:
            arrays = {name: _array(archive, name) for name in archive.files}
    except BadZipFile as error:
        reason = f"no archive as numpy.savez writes it, or a damaged one: {error}"
        raise damaged(origin, "npz", BadZipFile(reason)) from error
    except Exception as error:  # of zlib and NumPy
        raise damaged(origin, "npz", error) from error
    if not {"x", "y"} <= set(arrays):
        raise ValueError(f"{origin}: must have the arrays x (images) and y (labels); it has: {', '.join(arrays)}")
    if arrays["x"].shape[:1] == (0,):
        raise ValueError(f"{origin}: holds no examples; x has shape {arrays['x'].shape}")
    return arrays


def _array(archive: NpzFile, name: str) -> np.ndarray:
    """An array of an archive. What it holds instead is a ValueError of one line."""
    try:
        array = archive[name]
    except ValueError as error:
        if "Object arrays" in str(error):
            raise ValueError(f"{name} holds Python objects, which are not read; save numbers, or text as str") from None
        raise ValueError(str(error).partition("\n")[0]) from None  # further lines say how to trust a file
    if not isinstance(array, np.ndarray):  # NumPy gives bytes of what has not the head of an array
        raise ValueError(f"{name} is no array")
    return array
