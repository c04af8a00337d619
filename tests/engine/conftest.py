"""An engine on a fresh database, a connection to look behind it, and a clock to move."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from queen.db.pool import Database
from queen.engine import Engine
from tests.support.clock import Clock
from tests.support.wait import eventually
from tests.support.work import Sql, connect


@pytest.fixture
async def engine(database: str) -> AsyncIterator[Engine]:
    """An open engine."""
    async with Engine.connect(database) as opened:
        yield opened


@pytest.fixture
async def other(database: str) -> AsyncIterator[Engine]:
    """Another process, as far as the database can tell. It polls so rarely that only a wake-up can answer in time."""
    async with Engine(Database(database), listen_url=database, poll=60) as opened:
        await eventually(lambda: opened._listener is not None and opened._listener.connected)
        yield opened


@pytest.fixture
async def sql(database: str) -> AsyncIterator[Sql]:
    """A plain connection to the engine's database."""
    async with connect(database) as connection:
        yield connection


@pytest.fixture
async def clock(sql: Sql) -> Clock:
    """The database's time, to move."""
    clock = Clock(sql)
    await clock.install()
    return clock
