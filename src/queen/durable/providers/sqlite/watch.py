"""Noticing commits of other processes on the same file, without running statements while nothing happens."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

__all__ = ["watch"]

_INTERVAL = 0.025
# Two commits within one tick of the file system's clock leave the same time stamp.
_SETTLED = 0.1


async def watch(path: Path, is_needed: Callable[[], bool], look: Callable[[], Awaitable[None]]) -> None:
    """Call ``look`` whenever the write-ahead log has changed; it decides whether that was us."""
    log = path.with_name(f"{path.name}-wal")
    seen: tuple[int, int] | None = None
    settled = False
    while True:
        await asyncio.sleep(_INTERVAL)
        if not is_needed():
            seen = None
            continue
        found = _stamp(log)
        if found == seen and settled:
            continue
        settled = found is None or time.time() - found[0] / 1e9 > _SETTLED
        seen = found
        await look()


def _stamp(log: Path) -> tuple[int, int] | None:
    try:
        stat = log.stat()
    except OSError:
        return None
    return stat.st_mtime_ns, stat.st_size
