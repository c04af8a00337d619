"""The same client over each of its set-ups: straight on the database, over HTTP, and synchronous."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

import queen
from tests.client.awaited import Awaited
from tests.server.running import run_broker


@pytest.fixture(params=["direct", "http", "sync"])
async def q(request: pytest.FixtureRequest, database: str, tmp_path: Path) -> AsyncIterator[queen.Client]:
    """A client; every test that takes it runs once per set-up."""
    if request.param == "http":
        with run_broker(database, tmp_path) as broker:
            async with queen.connect(broker.url) as client:
                yield client
    elif request.param == "sync":
        made: Any = Awaited(queen.connect_sync(database))
        async with made:
            yield made
    else:
        async with queen.connect(database) as client:
            yield client


@pytest.fixture
async def direct(database: str) -> AsyncIterator[queen.Client]:
    """A client straight on the database."""
    async with queen.connect(database) as client:
        yield client
