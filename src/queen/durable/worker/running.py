"""The activities this worker runs right now, so that a cancellation reaches them at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from queen.durable.model import ActivityKey


class RunningActivities:
    """By instance, execution and activity id."""

    def __init__(self) -> None:
        self._cancels: dict[ActivityKey, Callable[[], None]] = {}

    @contextmanager
    def entered(self, key: ActivityKey, cancel: Callable[[], None]) -> Iterator[None]:
        """The activity runs inside the block; `cancel` tells it to stop."""
        self._cancels[key] = cancel
        try:
            yield
        finally:
            self._cancels.pop(key, None)

    def cancel(self, keys: Sequence[ActivityKey]) -> None:
        """Tell those of the named activities that run here to stop."""
        for key in keys:
            cancel = self._cancels.get(key)
            if cancel is not None:
                cancel()
