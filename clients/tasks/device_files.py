"""A device's own examples: files that never leave it."""

from pathlib import Path

from clients.tasks.image_files import ClassFolders, ImageArrays, ImageFiles, ImageTable, image_files
from clients.tasks.image_format import ImageFormat
from clients.tasks.split_files import TABLES, files_of_split
from clients.tasks.tables import open_files
from clients.tasks.task import Examples


def device_files(path: str, *kinds: str) -> list[Path]:
    """The file at `path`, of one of these kinds, or the files of tables among them in the folder there.

    In a folder that has train*.parquet (or train*.csv) only those are used. Errors begin with the path.
    """
    place = Path(path).expanduser()
    named = " or ".join(kinds)
    if place.is_dir():
        tables = [kind for kind in TABLES if kind in kinds]
        files = files_of_split(place, "train", kinds=tables)
        for kind in tables:
            files = files or sorted(place.glob(f"*{kind}"))
        if not files:
            tables_named = " or ".join(kind[1:] for kind in tables)
            alone = "".join(f"; a {kind} file is given by its own path" for kind in kinds if kind not in TABLES)
            raise ValueError(f"{path}: no {tables_named} file in this folder{alone}")
        return files
    if not place.exists():
        raise ValueError(f"{path}: no such file or folder; give a device's {named} file, or a folder of its files")
    if place.suffix not in kinds:
        raise ValueError(f"{path}: is a {place.suffix or 'nameless'} file, must be {named}")
    return [place]


def read_device(path: str, image_format: ImageFormat) -> Examples:
    """All images at `path`: class folders, an npz file, a parquet file, or a folder of parquet files.

    Anything that does not fit the task's images is a ValueError that begins with the path.
    """
    return _device_images(path, image_format).read(None)


def _device_images(path: str, image_format: ImageFormat) -> ImageFiles:
    place = Path(path).expanduser()
    if image_files(place):
        return ClassFolders(place, image_format, path)
    files = device_files(path, ".parquet", ".npz")
    if files[0].suffix == ".npz":
        return ImageArrays(files[0], image_format, path)
    return ImageTable(open_files(files, path), image_format, path)
