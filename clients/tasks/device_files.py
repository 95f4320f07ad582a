"""A device's own examples: parquet files or an npz file that never leave it."""

from pathlib import Path

from clients.tasks.image_format import ImageFormat
from clients.tasks.npz import read_npz
from clients.tasks.parquet import files_of_split, open_files
from clients.tasks.task import Examples


def device_files(path: str, *suffixes: str) -> list[Path]:
    """The file at `path`, of one of these kinds, or the parquet files of the folder there.

    In a folder that has train*.parquet only those are used. Errors begin with the path.
    """
    place = Path(path).expanduser()
    kinds = " or ".join(suffixes)
    if place.is_dir():
        files = files_of_split(place, "train") or sorted(place.glob("*.parquet"))
        if not files:
            raise ValueError(f"{path}: no parquet file in this folder")
        return files
    if not place.exists():
        raise ValueError(f"{path}: no such file or folder; give a device's {kinds} file, or its folder of parquet")
    if place.suffix not in suffixes:
        raise ValueError(f"{path}: is a {place.suffix or 'nameless'} file, must be {kinds}")
    return [place]


def read_device(path: str, image_format: ImageFormat) -> Examples:
    """All images at `path`: an npz file, a parquet file, or a folder of parquet files.

    Anything that does not fit the task's images is a ValueError that begins with the path.
    """
    files = device_files(path, ".parquet", ".npz")
    if files[0].suffix == ".npz":
        return _read_npz(files[0], image_format, path)
    return image_format.read(open_files(files, path), path, rows=None)


def _read_npz(place: Path, image_format: ImageFormat, origin: str) -> Examples:
    arrays = read_npz(place, origin, ("x", "y"))
    pixels = image_format.channels_first(arrays["x"], origin)
    return image_format.examples(pixels, arrays["y"], origin)
