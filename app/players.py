"""Who plays the clients of the inline runtime: this process, or others (`app.workers`)."""

from collections.abc import Collection
from typing import Protocol

from flwr.app import Context, Error, Message
from flwr.clientapp import ClientApp
from flwr.common.constant import ErrorCode


class Player(Protocol):
    """Plays clients, for the messages that it takes."""

    def room(self) -> bool:
        """Whether it takes another message now."""

    def take(self, message: Message, context: Context) -> None:
        """Begin with a message."""

    def replies(self, context: Context, wanted: Collection[str]) -> list[Message]:
        """Replies to these messages that are there; none is a reason to ask again.

        `context.state` holds what clients remember. Replies to other messages are late: they are dropped, and their
        clients remember nothing of them.
        """

    def close(self) -> None:
        """End, whatever is still to be done."""


class Here:
    """Plays one client after another in this process, each when its reply is asked for (a `Player`)."""

    def __init__(self, client_app: ClientApp) -> None:
        self._app = client_app
        self._message: Message | None = None

    def room(self) -> bool:
        """See `Player.room`."""
        return self._message is None

    def take(self, message: Message, context: Context) -> None:
        """See `Player.take`."""
        self._message = message

    def replies(self, context: Context, wanted: Collection[str]) -> list[Message]:
        """See `Player.replies`."""
        message, self._message = self._message, None
        return [] if message is None else [answer(self._app, message, context)]

    def close(self) -> None:
        """Nothing is left to end."""


def answer(client_app: ClientApp, message: Message, context: Context) -> Message:
    """The app's reply, or one that says what it raised."""
    try:
        return client_app(message, context)
    except Exception as error:  # as Flower's runtimes do: the run goes on without this client
        reason = f"{type(error).__name__}: {error}"
        return Message(Error(ErrorCode.CLIENT_APP_RAISED_EXCEPTION, reason), reply_to=message)
