"""The synchronous twin of `queen.client.stream`."""

# Written by scripts/sync_client.py from src/queen/client/stream.py; change that instead.

from __future__ import annotations

from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from queen.client._sync.message import Message
from queen.client.portal import Portal

T = TypeVar("T")


class Stream(Generic[T]):
    """Messages of a queue, one after the other, under a lease that is renewed meanwhile.

    Asking for the next message acknowledges the one before. Used as a context, an error inside the
    block makes the current message a failed one, and what was not begun is handed back at once.
    """

    def __init__(self, portal: Portal, inner: Any) -> None:
        self._portal = portal
        self._inner = inner

    def stop(self) -> None:
        """End after the current message."""
        self._portal.call(self._inner.stop)

    def __enter__(self) -> Self:
        self._portal.run(self._inner.__aenter__())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._portal.run(self._inner.__aexit__(kind, error, trace))

    def close(self) -> None:
        """Hand back what was not acknowledged."""
        self._portal.run(self._inner.aclose())

    def __iter__(self) -> Self:
        self._portal.call(self._inner.__aiter__)
        return self

    def __next__(self) -> Message[T]:
        return self._portal.step(self._inner.__anext__())
