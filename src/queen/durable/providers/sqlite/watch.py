"""Noticing commits of other processes on the same file, without running statements while nothing happens."""

import asyncio
import threading
import time
from collections.abc import Callable
from pathlib import Path

__all__ = ["Watch"]

_LIVELY, _QUIET = 0.02, 0.06
_QUIET_AFTER = 2.0
# Two commits within one tick of the file system's clock leave the same time stamp.
_SETTLED = 0.1


class Watch:
    """A thread that looks at the write-ahead log and says when it has changed.

    A look is one call to the system; a task of the event loop would cost ten times as much.
    """

    def __init__(self, path: str, is_needed: Callable[[], bool], changed: Callable[[], None]) -> None:
        self._log = Path(f"{path}-wal")
        self._is_needed = is_needed
        self._changed = changed
        self._loop = asyncio.get_running_loop()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="queen-durable-watch", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop looking."""
        self._stopped.set()
        self._thread.join()

    def _watch(self) -> None:
        seen: tuple[int, int] | None = None
        settled = False
        interval = _LIVELY
        while not self._stopped.wait(interval):
            if not self._is_needed():
                settled = False
                continue
            found = self._stamp()
            age = _QUIET_AFTER if found is None else time.time() - found[0] / 1e9
            interval = _LIVELY if age < _QUIET_AFTER else _QUIET
            if found == seen and settled:
                continue
            settled = age > _SETTLED
            seen = found
            self._loop.call_soon_threadsafe(self._changed)

    def _stamp(self) -> tuple[int, int] | None:
        try:
            found = self._log.stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size
