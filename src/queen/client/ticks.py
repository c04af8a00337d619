"""Periodic tasks: one push per tick, however many workers there are."""

from __future__ import annotations

import asyncio
import logging
import re
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final
from zoneinfo import ZoneInfo

from croniter import croniter

from queen.client.call import Envelope
from queen.client.push import new_message
from queen.errors import QueenError

if TYPE_CHECKING:
    from queen.client.client import Client
    from queen.client.task import Task

_log = logging.getLogger("queen.client")
_EVERY: Final = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(s|m|h|d)?\s*")
_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400, None: 1}


@dataclass(frozen=True, slots=True)
class Periodic:
    """A task and when it is pushed: a cron line, or so many seconds."""

    task: Task[[], Any]
    when: str
    zone: ZoneInfo | None = None

    def __post_init__(self) -> None:
        seconds = self._seconds
        if (seconds is None and not croniter.is_valid(self.when)) or (seconds is not None and seconds < 1):
            raise ValueError(
                f'every({self.when!r}) must be a cron line such as "*/5 * * * *", or a time from "1s" up such as "30s"'
            )

    @property
    def _seconds(self) -> float | None:
        found = _EVERY.fullmatch(self.when)
        return float(found[1]) * _SECONDS[found[2]] if found else None

    def next(self, after: datetime) -> datetime:
        """The first tick after a time. Every worker finds the same ones."""
        seconds = self._seconds
        if seconds is not None:
            return datetime.fromtimestamp((after.timestamp() // seconds + 1) * seconds, UTC)
        found = croniter(self.when, after.astimezone(self.zone or UTC))
        tick: datetime = found.get_next(datetime).astimezone(UTC)
        while self._is_second(tick):
            tick = found.get_next(datetime).astimezone(UTC)
        return tick

    def _is_second(self, tick: datetime) -> bool:
        """Whether a clock that is set back shows this hour for the second time, and the line names its hours."""
        return bool(self.zone and tick.astimezone(self.zone).fold) and not self.when.split()[1].startswith("*")

    async def run(self, client: Client, stop: asyncio.Event) -> None:
        """Push at every tick until stopped. The tick's time is the key: the first worker's push counts, once."""
        due = self.next(datetime.now(UTC))
        while not stop.is_set():
            wait = (due - datetime.now(UTC)).total_seconds()
            if wait > 0:
                with suppress(TimeoutError):
                    await asyncio.wait_for(stop.wait(), min(wait, 60))
                continue
            if self.next(due) <= datetime.now(UTC):  # a newer tick has passed: this one is left out
                due = self.next(datetime.now(UTC))
                continue
            try:
                await client.push_prepared([self._message(due)], 0)
            except QueenError as error:
                _log.warning("the tick of %s at %s is not pushed yet: %s", self.task.name, due, error)
                if datetime.now(UTC) < self.next(due):
                    await asyncio.sleep(min(1.0, client.retry.cap))
                    continue
            due = self.next(due)

    def _message(self, due: datetime) -> Any:
        name = self.task.name
        return new_message(self.task.queue, Envelope(name), f"every-{name}", f"{name}@{due.isoformat()}", None, None)
