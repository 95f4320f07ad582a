"""A task whose client 1 is late once."""

import time
from dataclasses import dataclass
from pathlib import Path

from tests.large import LargeTask


@dataclass(frozen=True)
class SlowTask(LargeTask):
    """Client 1 works on its second message until the file `folder`/go is there."""

    folder: str = ""

    def client_examples(self, partition, clients=None):
        if partition == 1:
            with (Path(self.folder) / "messages").open("a+") as file:
                file.write("x")
                second = file.tell() == 2
            while second and not (Path(self.folder) / "go").exists():
                time.sleep(0.1)
        return super().client_examples(partition, clients)
