"""Telling other processes of new work, and being told: NOTIFY, a few times a second at most."""

import asyncio
import contextlib
import secrets
import zlib
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import asyncpg

from queen.durable.providers.postgres.connection import BROKEN

__all__ = ["Listener", "Notices", "concerns"]

Connection = Any

_PAUSE = 0.025
_GRACE = 0.01
_MOST_NAMES = 500
_RETRY_SECONDS = 1.0


def _digest(instance: str) -> str:
    return f"{zlib.crc32(instance.encode()):08x}"


class Notices:
    """What to tell others. The first notice goes out inside the transaction it speaks of, those within the
    next moments are put together into one, which goes along with a transaction if one comes in time."""

    def __init__(self, send: Callable[[str], Awaitable[None]]) -> None:
        self.origin = secrets.token_hex(4)
        self._send = send
        self._queues: set[str] = set()
        self._changed: set[str] = set()
        self._last = 0.0
        self._flushing: asyncio.Task[None] | None = None

    def take(self, queues: str, changed: Iterable[str] = ()) -> str | None:
        """A notice to send along with a transaction, or ``None`` when it will go out a little later."""
        self._queues.update(queues)
        self._changed.update(map(_digest, changed))
        loop = asyncio.get_running_loop()
        if loop.time() - self._last >= _PAUSE:
            return self._text(loop.time())
        if self._flushing is None:
            self._flushing = asyncio.create_task(self._flush(self._last + _PAUSE + _GRACE - loop.time()))
        return None

    def _text(self, now: float) -> str:
        self._last = now
        names = ",".join(self._changed) if len(self._changed) <= _MOST_NAMES else "*"
        text = f"{self.origin} {''.join(sorted(self._queues))} {names}"
        self._queues.clear()
        self._changed.clear()
        return text

    async def _flush(self, delay: float) -> None:
        await asyncio.sleep(delay)
        self._flushing = None
        if self._queues or self._changed:
            # A lost notice costs others one fallback interval, no more.
            await self._send(self._text(asyncio.get_running_loop().time()))

    async def close(self) -> None:
        """Send what is left."""
        if self._flushing is not None:
            await asyncio.gather(self._flushing, return_exceptions=True)


class Listener:
    """One connection that listens, and is made again when it breaks.

    While it listens no task is running: a program that ends without closing it leaves nothing unfinished behind.
    """

    def __init__(self, url: str, channel: str, heard: Callable[[str], None]) -> None:
        self._url = url
        self._channel = channel
        self._heard = heard
        self._connection: Connection | None = None
        self._closed = False
        self._connecting = asyncio.create_task(self._connect())

    @property
    def healthy(self) -> bool:
        """Whether notices arrive."""
        return self._connection is not None

    async def close(self) -> None:
        """Stop listening."""
        self._closed = True
        self._connecting.cancel()
        await asyncio.gather(self._connecting, return_exceptions=True)
        if self._connection is not None:
            await _close(self._connection)

    async def _connect(self) -> None:
        while True:
            with contextlib.suppress(asyncpg.PostgresError, *BROKEN):
                connection = await self._listen()
                if not connection.is_closed():
                    self._connection = connection
                    self._heard("")
                    return
            await asyncio.sleep(_RETRY_SECONDS)

    async def _listen(self) -> Connection:
        connection: Connection = await asyncpg.connect(self._url, timeout=5)
        try:
            connection.add_termination_listener(self._lost)
            await connection.add_listener(self._channel, lambda *received: self._heard(str(received[3])))
        except BaseException:
            await _close(connection)
            raise
        return connection

    def _lost(self, connection: Connection) -> None:
        if connection is self._connection:
            self._connection = None
            if not self._closed and not asyncio.get_running_loop().is_closed():
                self._connecting = asyncio.create_task(self._reconnect())

    async def _reconnect(self) -> None:
        await asyncio.sleep(_RETRY_SECONDS)
        await self._connect()


async def _close(connection: Connection) -> None:
    with contextlib.suppress(asyncpg.PostgresError, *BROKEN):
        await connection.close(timeout=2)


def concerns(changed: str, instance: str) -> bool:
    """Whether a notice's list of changes may speak of an instance."""
    return changed == "*" or _digest(instance) in changed
