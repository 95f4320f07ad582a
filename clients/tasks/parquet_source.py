"""A data set in parquet, from a local folder or the Hugging Face hub: what sources of images and texts share."""

from abc import ABC, abstractmethod
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import Any

from clients.tasks.parquet import Columns, check_columns, open_folder, open_hub, read_table, with_value
from clients.tasks.partition import Table


@dataclass(frozen=True)
class ParquetSource(ABC):
    """A data set in the hub's parquet layout, from the folder `path` or, without one, from the hub.

    With a path the hub is never asked. Only the rows that are asked for are read: where each message is a new
    process, reading a whole data set would cost more than training on a part of it.

    Attributes:
        hub: name on the Hugging Face hub, such as uoft-cs/cifar10.
        path: local folder, or None.
        train_split: name of the training split, with which local files begin or which they have as a word.
        test_split: the same for the test split.
        hub_folder: folder of the hub's repository that holds the files, where it has several data sets.
        hub_revision: branch of the hub's repository.
        complete: a column without a value in which a row is left out.
    """

    hub: str
    _: KW_ONLY
    path: str | None = None
    train_split: str = "train"
    test_split: str = "test"
    hub_folder: str | None = None
    hub_revision: str | None = None
    complete: str | None = None

    @property
    @abstractmethod
    def columns(self) -> Columns:
        """Where the inputs and labels are."""

    @property
    def origin(self) -> str:
        """What errors begin with."""
        return self.hub if self.path is None else f"task.data={self.path}"

    def open(self, split: str) -> Any:
        """A split as a `pyarrow.dataset.Dataset`."""
        if self.path is None:
            dataset = open_hub(self.hub, split, self.hub_folder, self.hub_revision)
        else:
            dataset = open_folder(self.path, split, self.hub)
        if self.complete is None:
            return dataset
        check_columns(dataset, [self.complete], self.origin)
        return with_value(dataset, self.complete)

    @cached_property
    def train(self) -> Any:
        """The training split, opened once."""
        return self.open(self.train_split)

    @cached_property
    def table(self) -> Table:
        """Labels and id columns of the training set."""
        return read_table(self.train, self.columns, self.origin)
