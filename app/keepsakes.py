"""What a node's clients keep of their own, in files, so that it outlives the node's process and Flower's run.

Local models (`objective=moon`) and rounding errors (a rounding `wire`) are the client's; in Flower they are gone with
the run that was stopped. Here a resumed run finds them as they were after the round from which it goes on.
"""

import logging
import re
import shutil
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from flwr.app import RecordDict

from app.checkpoint import run_of
from app.files import whole
from app.sealed import read_sealed, save_sealed
from clients.memory import give_back, own_of_clients, state_of
from clients.plan import RoundPlan

LOG = logging.getLogger("fedslice")
FOLDER = "FEDSLICE_MEMORY_DIR"
"""The environment variable that names the folder on a node; without it nothing is written."""
IN_RUN = "clients"
"""The same of `runtime=simulation`, in the run directory."""
_TRAININGS = 4
"""How many trainings have their files on a node: those of the oldest go when another begins."""
_FORMAT = 1
_FILE = re.compile(r"round-(\d+)-of-run-(\d+)\.safetensors")


class Keepsakes:
    """One client's files, `folder`/training-LINEAGE/client-PARTITION/round-ROUND-of-run-RUN.safetensors.

    plan: of the round that is to be trained. run_id: Flower's. every: rounds from checkpoint to checkpoint.
    Raises ValueError for a lineage that is no name, for it comes from outside.
    """

    def __init__(self, folder: Path, plan: RoundPlan, partition: int, run_id: int, every: int) -> None:
        if not re.fullmatch("[0-9a-f]{16}", plan.lineage):
            raise ValueError(f"lineage={plan.lineage!r}: must be 16 hexadecimal digits")
        self._training = folder / f"training-{plan.lineage}"
        self._folder = self._training / f"client-{partition}"
        self._plan, self._partition, self._run_id, self._every = plan, partition, run_id, every

    @contextmanager
    def around(self, state: RecordDict) -> Iterator[None]:
        """Fetch into `state`, the node's memory, what is the client's own; store what is there in the end.

        Fetched even where `state` has it: in Flower's simulation, where one node plays clients side by side, the
        state that one of them leaves overwrites that of the others.
        """
        self._remove_all_but(self._course().values())  # a later stop would not tell undone rounds from others
        if file := self.newest(self._plan.round - 1):
            give_back(state, _read(file))
        yield
        self._store(state)

    def newest(self, last: int) -> Path | None:
        """The file of the last round up to `last` that this client trained in this training's course."""
        course = self._course()
        return course.get(max((server_round for server_round in course if server_round <= last), default=0))

    def _course(self) -> dict[int, Path]:
        """Files by round, but for rounds that were undone because a run went on from before them."""
        rounds = {}
        for file in self._folder.glob("round-*"):
            if match := _FILE.fullmatch(file.name):
                server_round, run_id = map(int, match.groups())
                if run_id == self._run_id or server_round <= self._plan.resumed_after:
                    rounds[server_round] = file
        return rounds

    def _remove_all_but(self, needed: Collection[Path | None]) -> None:
        for file in self._folder.glob("*"):
            if file not in needed:
                file.unlink(missing_ok=True)

    def _own(self, state: RecordDict) -> dict[str, list[np.ndarray]]:
        return own_of_clients(state_of(state, self._partition))

    def _store(self, state: RecordDict) -> None:
        """Write this round's file, and remove those that no checkpoint which may still be there needs."""
        if not (own := self._own(state)):
            return
        if not self._training.exists():
            _forget_oldest(self._training.parent)
        self._folder.mkdir(parents=True, exist_ok=True)
        now, resumed = self._plan.round, self._plan.resumed_after
        with whole(self._folder / f"round-{now:06d}-of-run-{self._run_id}.safetensors") as beside:
            named = {f"{key}/{at}": array for key, arrays in own.items() for at, array in enumerate(arrays)}
            save_sealed(beside, _FORMAT, named, {})
        saved = (now - 1) // self._every * self._every if self._every else resumed
        self._remove_all_but({self.newest(last) for last in (saved - self._every, saved, resumed, now)})


def carry_keepsakes(resumed: Path, run_dir: Path) -> None:
    """Take over what a simulation's clients keep from the run (or a checkpoint in it) that is resumed."""
    source, target = run_of(resumed) / IN_RUN, run_dir / IN_RUN
    if source.is_dir() and source.resolve() != target.resolve():
        shutil.copytree(source, target, dirs_exist_ok=True)


def _read(file: Path) -> dict[str, list[np.ndarray]]:
    """What was stored, by kind, newest first."""
    own: dict[str, list[np.ndarray]] = {}
    try:
        arrays, _ = read_sealed(file, _FORMAT)
    except ValueError as error:  # as good as lost, which the reply says
        LOG.warning("%s: cannot be read (%s)", file, error)
        return own
    for name in sorted(arrays, key=lambda name: (name.rpartition("/")[0], int(name.rpartition("/")[2]))):
        own.setdefault(name.rpartition("/")[0], []).append(arrays[name])
    return own


def _forget_oldest(folder: Path) -> None:
    trainings = sorted(folder.glob("training-*"), key=lambda path: path.stat().st_mtime)
    for old in trainings[: max(0, len(trainings) - _TRAININGS + 1)]:
        shutil.rmtree(old, ignore_errors=True)
