"""A data set in a local folder or on the Hugging Face hub: what sources of images and texts share."""

from abc import ABC
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path

from clients.tasks.split_files import TABLES, find_split
from clients.tasks.tables import OpenTable, check_columns, open_files, open_hub, with_value


@dataclass(frozen=True)
class StoredSource(ABC):
    """A data set from the folder `path` or, without one, from the hub.

    With a path the hub is never asked. Only the rows that are asked for are read: where each message is a new
    process, reading a whole data set would cost more than training on a part of it.

    Attributes:
        hub: name on the Hugging Face hub, such as uoft-cs/cifar10; None where only a path is given.
        path: local folder, or None.
        train_split: name of the training split, with which local files begin or which they have as a word; of a
            hub's data set also a part of one, such as train[:80%].
        test_split: the same for the test split.
        subset: which of the hub's data sets under this name, where it has several (its "config").
        hub_folder: folder of the hub's repository that holds the files, where it has several data sets.
        hub_revision: branch of the hub's repository.
        complete: a column without a value in which a row is left out.
    """

    hub: str | None
    _: KW_ONLY
    path: str | None = None
    train_split: str = "train"
    test_split: str = "test"
    subset: str | None = None
    hub_folder: str | None = None
    hub_revision: str | None = None
    complete: str | None = None

    def __post_init__(self) -> None:
        if self.hub is None and self.path is None:
            raise ValueError("task.data=null: give a folder, or task.source.hub=OWNER/NAME")
        for key, split in (("train_split", self.train_split), ("test_split", self.test_split)):
            if self.path is not None and set("[+") & set(split):
                raise ValueError(
                    f"task.source.{key}={split}: parts and sums of splits are for the hub's data sets alone; "
                    "with task.data it must be what the files of the split are named by, such as train"
                )

    @property
    def origin(self) -> str:
        """What errors begin with."""
        return str(self.hub) if self.path is None else f"task.data={self.path}"

    def open(self, split: str, kinds: Sequence[str] = TABLES, others: Sequence[str] = ()) -> OpenTable:
        """A split's table; of a folder, from files of these kinds. For `others` see `find_split`."""
        if self.path is None:
            origin = self.origin
            dataset = open_hub(str(self.hub), split, self.hub_folder, self.hub_revision, self.subset)
        else:
            files = find_split(self.path, split, self.hub, kinds, others)
            inner = files[0].relative_to(Path(self.path).expanduser())
            origin = f"{self.origin}/{inner}" if len(files) == 1 else f"{self.origin}: {split} files"
            dataset = open_files(files, origin)
        if self.complete is not None:
            check_columns(dataset, [self.complete], origin)
            dataset = with_value(dataset, self.complete)
        return OpenTable(dataset, origin)
