"""Telling other processes of new work, and being told: NOTIFY, a few times a second at most."""

import asyncio
import contextlib
import secrets
import zlib
from collections.abc import Awaitable, Callable, Iterable

import asyncpg

from queen.durable.providers.postgres.connection import BROKEN

__all__ = ["Listener", "Notices"]

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
    """One connection that listens, and is made again when it breaks."""

    def __init__(self, url: str, channel: str, heard: Callable[[str], None]) -> None:
        self._url = url
        self._channel = channel
        self._heard = heard
        self.healthy = False
        self._task = asyncio.create_task(self._listen())

    async def close(self) -> None:
        """Stop listening."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _listen(self) -> None:
        while True:
            try:
                await self._listen_once()
            except (asyncpg.PostgresError, *BROKEN):
                self.healthy = False
            await asyncio.sleep(_RETRY_SECONDS)

    async def _listen_once(self) -> None:
        connection = await asyncpg.connect(self._url, timeout=5)
        ended = asyncio.Event()
        try:
            connection.add_termination_listener(lambda _: ended.set())
            await connection.add_listener(self._channel, lambda *received: self._heard(str(received[3])))
            self.healthy = True
            self._heard("")
            await ended.wait()
        finally:
            self.healthy = False
            with contextlib.suppress(asyncpg.PostgresError, *BROKEN):
                await connection.close(timeout=2)


def concerns(changed: str, instance: str) -> bool:
    """Whether a notice's list of changes may speak of an instance."""
    return changed == "*" or _digest(instance) in changed
