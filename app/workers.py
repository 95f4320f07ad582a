"""Processes that play the clients of the inline runtime side by side, to the same bits as one process does.

They are started once. Each is a copy of a process that has imported everything (torch, its optimizers) and has no
threads (forkserver), and lives as long as the run. What a client remembers is kept by the grid and sent along, so
that no result depends on which process plays whom. The model that they are sent is in memory once (`app.lending`).
"""

import logging
import multiprocessing
import os
import pickle
import shutil
import signal
import tempfile
import threading
from collections.abc import Collection
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from flwr.app import Context, Error, Message, RecordDict
from flwr.common.constant import ErrorCode
from flwr.supercore.task_identity import TaskIdentity

from app import client_app
from app.lending import Borrower, Lender
from app.players import answer
from clients.memory import state_of
from clients.messages import partition_of

_PATIENCE = 0.5  # seconds to wait for a reply before the grid looks at the clock again
_PRELOAD = ["app.workers", "torch._dynamo"]  # the latter is what the first optimizer of a process imports


class Workers:
    """Plays clients in `count` processes (a `Player` of `InlineGrid`). One that dies fails its message alone."""

    def __init__(self, count: int, run_config: dict[str, Any]) -> None:
        self._run_config = run_config
        self._folder = Path(tempfile.mkdtemp(prefix="fedslice-"))
        self._lender = Lender(self._folder)
        self._workers = [self._start() for _ in range(count)]

    def room(self) -> bool:
        """Whether a worker is idle."""
        return any(worker.message is None for worker in self._workers)

    def take(self, message: Message, context: Context) -> None:
        """Let an idle worker begin with a message."""
        worker = next(worker for worker in self._workers if worker.message is None)
        worker.message = message
        state = state_of(context.state, partition_of(message.content))
        data, worker.borrowed = self._lender.pack((message, dict(state)))
        self._lender.keep(path for worker in self._workers for path in worker.borrowed)
        with suppress(OSError):  # of one that is dead, which its connection says again when asked for the reply
            worker.connection.send_bytes(data)

    def replies(self, context: Context, wanted: Collection[str]) -> list[Message]:
        """See `Player.replies`; after a moment's waiting where there are none."""
        busy = {worker.connection: (at, worker.message) for at, worker in enumerate(self._workers) if worker.message}
        found = []
        for connection in wait(list(busy), _PATIENCE) if busy else ():
            at, message = busy[connection]  # type: ignore[index]
            worker = self._workers[at]
            try:
                reply, changes = pickle.loads(worker.connection.recv_bytes())
            except (EOFError, OSError):
                reason = "the process that played this client died"
                reply, changes = Message(Error(ErrorCode.CLIENT_APP_CRASHED, reason), reply_to=message), {}
                self._workers[at] = self._start()
            worker.message = None
            if reply.metadata.reply_to_message_id in wanted:
                found.append(reply)
                for key, record in changes.items():
                    context.state[key] = record
        return found

    def close(self) -> None:
        """End all workers, whatever they are doing."""
        for worker in self._workers:
            worker.process.terminate()
        for worker in self._workers:
            worker.process.join()
            worker.connection.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _start(self) -> "_Worker":
        methods = multiprocessing.get_all_start_methods()
        start: Any = multiprocessing.get_context("forkserver" if "forkserver" in methods else "spawn")
        start.set_forkserver_preload(_PRELOAD)
        ours, theirs = start.Pipe()
        process = start.Process(target=work, args=(theirs, self._run_config, self._folder), daemon=True)
        process.start()
        theirs.close()  # else the death of the worker would not close the connection
        return _Worker(process, ours)


class _Worker:
    """A process, the message that it works on, and the files that it may be reading."""

    def __init__(self, process: Any, connection: Connection) -> None:
        self.process = process
        self.connection = connection
        self.message: Message | None = None
        self.borrowed: set[Path] = set()


def work(connection: Connection, run_config: dict[str, Any], folder: Path) -> None:
    """What a worker does until its connection is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that started it ends it
    threading.Thread(target=_end_with_parent, args=(folder,), daemon=True).start()
    logging.getLogger("fedslice").disabled = True  # the server says whose reply it left out, and why
    TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 0, 1, 0
    borrower = Borrower()
    while True:
        try:
            message, state = borrower.unpack(connection.recv_bytes())
        except EOFError:
            return
        context = Context(0, 1, {}, RecordDict(state), run_config)
        reply = answer(client_app.app, message, context)
        changes = {key: record for key, record in context.state.items() if record is not state.get(key)}
        connection.send_bytes(pickle.dumps((reply, changes)))


def _end_with_parent(folder: Path) -> None:
    """End at once when the process that started this one is gone, however it went."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        shutil.rmtree(folder, ignore_errors=True)
        os._exit(1)
