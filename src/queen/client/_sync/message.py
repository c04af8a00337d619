"""The synchronous twin of `queen.client.message`."""

# Written by scripts/sync_client.py from src/queen/client/message.py; change that instead.

from __future__ import annotations

from typing import TypeVar

from queen.client.message import Delivered

T = TypeVar("T")


class Message(Delivered[T]):
    """A message as it was handed out. `data` is decoded when first looked at.

    `message.data` is `T` when the consumer or pop named a type, else plain JSON values.
    """

    __slots__ = ()

    def trace(self, event: str, data: object = None, *, name: str | None = None) -> None:
        """Write a note into this message's story, such as `trace("charged", {"amount": 12})`.

        `name` files it under a name that notes of several messages can share.
        """
        self._client.record_trace(self, event, data, name=name)
