"""Wait for a condition, with a limit, instead of sleeping for a guess."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable


def wait_for(condition: Callable[[], object], limit: float = 20, pause: float = 0.01) -> None:
    """Wait until the condition holds; fail when it does not within `limit` seconds."""
    deadline = time.monotonic() + limit
    while not condition():
        assert time.monotonic() < deadline, f"{inspect.getsource(condition).strip()} did not hold within {limit:g} s"
        time.sleep(pause)


async def eventually(
    condition: Callable[[], object | Awaitable[object]], limit: float = 20, pause: float = 0.01
) -> None:
    """The same for asynchronous tests; the condition may be a coroutine function."""
    deadline = time.monotonic() + limit
    while True:
        held = condition()
        if inspect.isawaitable(held):
            held = await held
        if held:
            return
        assert time.monotonic() < deadline, f"{inspect.getsource(condition).strip()} did not hold within {limit:g} s"
        await asyncio.sleep(pause)
