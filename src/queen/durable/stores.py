"""Opening a store by its URL."""

from __future__ import annotations

from queen.durable.provider import Provider
from queen.durable.providers.sqlite.provider import SqliteProvider
from queen.durable.providers.wake import Clock, system_clock


async def open_provider(url: str, *, clock: Clock = system_clock) -> Provider:
    """A store for workflows: `sqlite:///path`, `sqlite::memory:` or a plain path.

    Use it as `async with await open_provider(url) as provider`.
    """
    return await SqliteProvider.open(url, clock=clock)
