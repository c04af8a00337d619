"""Stores what a running activity tells of its progress, so that whoever runs it after a crash can go on from there."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from queen.durable.provider import ProviderError

_log = logging.getLogger("queen.durable.worker")
_INTERVAL_SECONDS = 1.0


class Progress:
    """The first thing told is stored at once, what follows at most once a second, always the latest."""

    def __init__(self, save: Callable[[str], Awaitable[None]]) -> None:
        self._save = save
        self._loop = asyncio.get_running_loop()
        self._latest: str | None = None
        self._stored: str | None = None
        self._saving: asyncio.Task[None] | None = None

    def tell(self, text: str) -> None:
        """From any thread."""
        self._loop.call_soon_threadsafe(self._note, text)

    def close(self) -> None:
        """The activity has ended."""
        if self._saving is not None:
            self._saving.cancel()

    def _note(self, text: str) -> None:
        self._latest = text
        if self._saving is None or self._saving.done():
            self._saving = asyncio.create_task(self._keep())

    async def _keep(self) -> None:
        while self._latest is not None and self._latest != self._stored:
            latest = self._latest
            try:
                await self._save(latest)
            except ProviderError as error:
                _log.warning("progress was not stored: %s", error)
            self._stored = latest
            await asyncio.sleep(_INTERVAL_SECONDS)
