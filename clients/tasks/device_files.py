"""A device's own examples: parquet files or an npz file that never leave it."""

import zipfile
from pathlib import Path

import numpy as np

from clients.tasks.image_format import ImageFormat
from clients.tasks.parquet import open_files, read_examples
from clients.tasks.task import Examples


def read_device(path: str, image_format: ImageFormat) -> Examples:
    """All examples at `path`: an npz file, a parquet file, or a folder of parquet files.

    In a folder that has train*.parquet only those are used. Anything that does not fit the task's images is a
    ValueError that begins with the path.
    """
    place = Path(path).expanduser()
    if not place.exists():
        raise ValueError(f"{path}: no such file or folder; give a device's parquet file, folder of them, or npz")
    if place.is_dir():
        files = sorted(place.glob("train*.parquet")) or sorted(place.glob("*.parquet"))
        if not files:
            raise ValueError(f"{path}: no parquet file in this folder")
    elif place.suffix == ".npz":
        return _read_npz(place, image_format, path)
    elif place.suffix == ".parquet":
        files = [place]
    else:
        raise ValueError(f"{path}: is a {place.suffix or 'nameless'} file, must be .parquet or .npz")
    return read_examples(open_files(files, path), image_format, path, rows=None)


def _read_npz(place: Path, image_format: ImageFormat, origin: str) -> Examples:
    try:
        with np.load(place, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files if name in ("x", "y")}
            there = ", ".join(archive.files)
    except (OSError, EOFError, TypeError, ValueError, zipfile.BadZipFile) as error:
        raise ValueError(f"{origin}: not readable as npz ({str(error).splitlines()[0]})") from error
    if len(arrays) < 2:
        raise ValueError(f"{origin}: must have the arrays x (images) and y (labels); it has: {there}")
    pixels = image_format.channels_first(arrays["x"], origin)
    return image_format.examples(pixels, arrays["y"], origin)
