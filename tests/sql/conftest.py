"""The same as for the engine: what a test of the functions needs."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from queen.engine import Engine
from tests.support.clock import Clock
from tests.support.work import Sql, connect


@pytest.fixture
async def engine(database: str) -> AsyncIterator[Engine]:
    """An open engine."""
    async with Engine.connect(database) as opened:
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
