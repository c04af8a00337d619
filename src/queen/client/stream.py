"""Messages as an asynchronous iterator: each is acknowledged when the next one is asked for."""

from __future__ import annotations

from contextlib import AsyncExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from queen.client.consumer import Consumer
from queen.client.failure import error_text, report
from queen.client.held import Held
from queen.client.message import Message, follow
from queen.client.options import Options
from queen.engine.consume import Pace
from queen.errors import QueenError

if TYPE_CHECKING:
    from queen.client.client import Client

T = TypeVar("T")


class Stream(Generic[T]):
    """Messages of a queue, one after the other, under a lease that is renewed meanwhile.

    Asking for the next message acknowledges the one before. Used as a context, an error inside the
    block makes the current message a failed one, and what was not begun is handed back at once.
    """

    def __init__(self, client: Client, queue: str, options: Options, kind: Any) -> None:
        self._client = client
        self._options = options
        self._source = Consumer(client, queue, _nothing, options, kind)
        self._stack = AsyncExitStack()
        self._held: Held | None = None
        self._waiting: list[Message[T]] = []
        self._taken = 0
        self._current: Message[T] | None = None

    def stop(self) -> None:
        """End after the current message."""
        self._source.stop()

    async def __aenter__(self) -> Self:
        self._client.running.add(self)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        held, current = self._held, self._current
        if isinstance(error, Exception) and not isinstance(error, QueenError) and held is not None and current:
            await held.acknowledge()
            report([current], error, await held.settle([current.failed(error_text(error))]))
        await self.aclose()

    async def aclose(self) -> None:
        """Hand back what was not acknowledged."""
        self._client.running.discard(self)
        self._held, self._current, self._waiting = None, None, []
        follow(None)
        await self._stack.aclose()

    def __aiter__(self) -> Self:
        self._client.transport.attend()
        self._client.running.add(self)
        return self

    async def __anext__(self) -> Message[T]:
        if self._held is not None and self._current is not None:
            self._held.complete(self._current)
            self._current = None
            await self._held.acknowledge()
        if not self._goes_on() and not await self._fetch():
            await self.aclose()
            raise StopAsyncIteration
        self._current = self._waiting.pop(0)
        follow(self._current)
        return self._current

    def _goes_on(self) -> bool:
        """Whether the next of the messages at hand may be given."""
        held = self._held
        return bool(
            held and self._waiting and not held.lost and not self._source.stopped and not Pace.slow(held.seconds)
        )

    async def _fetch(self) -> bool:
        if self._held is not None:
            self._source.given(self._taken - len(self._waiting), self._taken, self._held.seconds)
        await self._stack.aclose()
        self._held, self._waiting = None, []
        lease, messages = await self._source.next()
        if not messages:
            return False
        self._held = await self._stack.enter_async_context(
            Held(self._client.transport, self._client.retry, messages, lease)
        )
        self._taken, self._waiting = len(messages), list(messages)
        return True


async def _nothing(_: object) -> None:
    """A stream has no handler: its work is done by whoever iterates."""
