"""Commits are tried again while the store says that it may help."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from queen.durable.provider import ProviderError
from queen.durable.worker.counters import Counters

_RETRIES = 5
_FIRST_BACKOFF = 0.01


async def commit(call: Callable[[], Awaitable[None]], counters: Counters) -> None:
    """Run `call`; a passing failure of the store is tried again, the sixth one raises."""
    backoff = _FIRST_BACKOFF
    for attempt in range(_RETRIES + 1):
        try:
            return await call()
        except ProviderError as error:
            if not error.retryable or attempt == _RETRIES:
                raise
            counters.provider_errors += 1
            await asyncio.sleep(backoff)
            backoff *= 2
    raise AssertionError("unreachable")
