"""`python bench/app.py [URL]`: a task of an App beside a handler of `consume`, in turns, prefetching 100 messages.

Both acknowledge every message before the next and do nothing else, on one partition, so what differs is the App alone.
"""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

import queen

MESSAGES = 2_000
PREFETCH = 100
TURNS = 7


async def by_consume(url: str, queue: str) -> float:
    """Seconds of processor time and of the clock per message, with `consume`."""
    left = MESSAGES

    async def handle(message: queen.Message[dict[str, Any]]) -> None:
        nonlocal left
        _ = message.data["args"]["number"]
        left -= 1

    async with queen.connect(url) as q:
        began = time.perf_counter()
        await q.consume(queue, handle, prefetch=PREFETCH, limit=MESSAGES)
        assert left == 0
        return (time.perf_counter() - began) / MESSAGES


async def by_app(url: str, queue: str) -> float:
    """The same with a task."""
    app = queen.App(url)
    left = MESSAGES

    @app.task(queue=queue)
    async def count(number: int) -> None:
        nonlocal left
        left -= 1

    async with app:
        began = time.perf_counter()
        await app.run(concurrency=1, prefetch=PREFETCH, limit=MESSAGES)
        assert left == 0
        return (time.perf_counter() - began) / MESSAGES


async def compare(url: str, turns: int = TURNS) -> tuple[float, float, float]:
    """Microseconds per message of both, and the median of their ratios turn by turn."""
    found: list[tuple[float, float]] = []
    async with queen.connect(url) as q:
        for turn in range(turns + 1):
            took = []
            order = [("consume", by_consume), ("app", by_app)]
            for kind, run in order if turn % 2 else reversed(order):
                queue = f"bench-{kind}-{turn}"
                calls = [{"task": "count", "args": {"number": number}} for number in range(MESSAGES)]
                await q.push_many(queue, calls, partition="one")
                took.append((kind, await run(url, queue)))
            if turn:  # the first one warms up
                both = dict(took)
                found.append((both["consume"], both["app"]))
    plain, app = (median(times) * 1e6 for times in zip(*found, strict=True))
    return plain, app, median(app / plain for plain, app in found)


def main() -> None:
    """Print what was found."""
    if len(sys.argv) > 1:
        plain, app, ratio = asyncio.run(compare(sys.argv[1]))
    else:
        from queen.db import migrate  # noqa: PLC0415
        from queen.db.embedded import EmbeddedServer  # noqa: PLC0415

        async def ready(url: str) -> tuple[float, float, float]:
            async with migrate.connect(url) as connection:
                await migrate.up(connection)
            return await compare(url)

        with EmbeddedServer.start(Path(".queen-bench")) as server:
            plain, app, ratio = asyncio.run(ready(server.dsn()))
    print(f"consume {plain:.0f} us, App {app:.0f} us per message; App/consume {ratio:.3f}")


if __name__ == "__main__":
    main()
