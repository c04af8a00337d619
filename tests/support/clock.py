"""Time that a test moves: `queen.clock()` of one database, replaced."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncpg

MOVABLE = """
create or replace function queen.clock() returns timestamptz language sql volatile as $$
    select coalesce(to_timestamp((s.value ->> 'frozen')::double precision), clock_timestamp())
           + make_interval(secs => (s.value ->> 'ahead')::double precision)
      from queen.settings s where s.key = 'test_clock'
$$
"""
SET = """
insert into queen.settings (key, value) values ('test_clock', '{"ahead": 0}')
on conflict (key) do update set value = queen.settings.value
"""


class Clock:
    """The time of one database: runs on by itself, ahead of the real one by what the test moved it."""

    def __init__(self, connection: asyncpg.Connection[asyncpg.Record]) -> None:
        self._connection = connection

    async def install(self) -> None:
        """Let the database go by this clock from now on."""
        await self._connection.execute(SET)
        await self._connection.execute(MOVABLE)

    async def advance(self, seconds: float) -> None:
        """Move the time on."""
        await self._connection.execute(
            "update queen.settings set value = value || jsonb_build_object('ahead', (value ->> 'ahead')::float8 + $1)"
            " where key = 'test_clock'",
            float(seconds),
        )

    async def freeze(self) -> None:
        """Let the time stand still, so that only `advance` moves it."""
        await self._connection.execute(
            "update queen.settings"
            " set value = jsonb_build_object('ahead', 0, 'frozen', extract(epoch from queen.clock()))"
            " where key = 'test_clock'"
        )

    async def now(self) -> datetime:
        """What time it is."""
        now = await self._connection.fetchval("select queen.clock()")
        assert isinstance(now, datetime)
        return now
