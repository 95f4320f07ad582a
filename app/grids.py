"""Two grids: one that hands replies on as they come, and one that runs all clients without Flower's runtimes."""

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any
from uuid import uuid4

from flwr.app import Context, Message, RecordDict
from flwr.proto.node_pb2 import NodeInfo
from flwr.serverapp import Grid
from flwr.supercore.run import Run
from flwr.supercore.task_identity import TaskIdentity

from app.players import Player

_POLL = 0.05  # seconds; Flower's own grids ask every 0.1 (simulation) and 3 (SuperLink) seconds


class StreamingGrid(Grid):
    """Wraps a grid: `send_and_receive` gives each reply as soon as it is there, instead of all at the end.

    The server then averages while clients still train, and holds one reply at a time.
    """

    def __init__(self, grid: Grid, on_reply: Callable[[], None] = lambda: None) -> None:
        self._grid = grid
        self._on_reply = on_reply

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> Iterator[Message]:
        """Send now; then replies as they come, until all are there or `timeout` seconds are over.

        Replies that are there when they are first asked for count, however late that is.
        """
        sent = {str(message_id) for message_id in self._grid.push_messages(messages) if message_id}
        return self._replies(sent, time.monotonic() + (float("inf") if timeout is None else timeout))

    def _replies(self, waiting: set[str], deadline: float) -> Iterator[Message]:
        while waiting:
            replies = list(self._grid.pull_messages(waiting))
            for reply in replies:
                waiting.discard(reply.metadata.reply_to_message_id)
                self._on_reply()
                yield reply
            if time.monotonic() >= deadline:
                break
            if not replies:
                time.sleep(_POLL)
        if waiting and isinstance(self._grid, InlineGrid):
            self._grid.drop()

    def set_run(self, run: Run) -> None:
        """See `Grid.set_run`."""
        self._grid.set_run(run)

    @property
    def run(self) -> Run:
        """See `Grid.run`."""
        return self._grid.run

    def create_message(self, *args: Any, **kwargs: Any) -> Message:
        """See `Grid.create_message`."""
        return self._grid.create_message(*args, **kwargs)

    def get_node_ids(self) -> Iterable[int]:
        """See `Grid.get_node_ids`."""
        return self._grid.get_node_ids()

    def get_nodes(self) -> Iterable[NodeInfo]:
        """See `Grid.get_nodes`."""
        return self._grid.get_nodes()

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """See `Grid.push_messages`."""
        return self._grid.push_messages(messages)

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """See `Grid.pull_messages`."""
        return self._grid.pull_messages(message_ids)


class InlineGrid(Grid):
    """Runs the ClientApp without Flower's runtimes: the same app and the same messages, no Ray.

    A message is worked on when its reply is asked for and there is room, so that few replies are alive at a time.
    """

    def __init__(self, player: Player, run_config: dict[str, Any]) -> None:
        self._player = player
        self.context = Context(0, 1, {}, RecordDict(), run_config)
        self._pending: dict[str, Message] = {}
        self._run = Run.create_empty(run_id=0)
        TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 0, 1, 0

    def set_run(self, run: Run) -> None:
        """Remember the run."""
        self._run = run

    @property
    def run(self) -> Run:
        """The run, which is nobody else's."""
        return self._run

    def create_message(
        self, content: RecordDict, message_type: str, dst_node_id: int, group_id: str, ttl: float | None = None
    ) -> Message:
        """See `Grid.create_message`."""
        return Message(content, dst_node_id, message_type, ttl=ttl, group_id=group_id)

    def get_node_ids(self) -> Iterable[int]:
        """The one node, which plays every client."""
        return [1]

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Take messages; nothing is worked on yet."""
        ids = []
        for message in messages:
            ids.append(str(uuid4()))
            message.metadata.__dict__["_message_id"] = ids[-1]
            self._pending[ids[-1]] = message
        return ids

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """Have as many of these messages worked on as there is room for, in the order in which they were pushed."""
        wanted = set(message_ids)
        while self._player.room():
            first = next((message_id for message_id in self._pending if message_id in wanted), None)
            if first is None:
                break
            self._player.take(self._pending.pop(first), self.context)
        return self._player.replies(self.context, wanted)

    def drop(self) -> None:
        """Forget what nobody has begun with: it holds a model, and its round is over."""
        self._pending.clear()

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> Iterable[Message]:
        """Replies one by one, each worked on when it is asked for."""
        return StreamingGrid(self).send_and_receive(messages, timeout=timeout)
