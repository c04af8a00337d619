"""The pytest plugin: fixtures that give a ready, empty Queen to each test."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from importlib.util import find_spec

import pytest

from queen.client._sync.client import Client as SyncClient
from queen.client._sync.connect import connect as connect_sync
from queen.client.client import Client
from queen.client.connect import connect
from queen.testing.clock import Clock
from queen.testing.server import TestServer


@pytest.fixture(scope="session")
def queen_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestServer]:
    """The embedded PostgreSQL of this process's tests, started with the first test that needs it."""
    server = TestServer()
    yield server
    server.close()


@pytest.fixture
def queen_url(queen_server: TestServer) -> Iterator[str]:
    """The address of a fresh, empty Queen, copied from a template in milliseconds."""
    with queen_server.database() as url:
        yield url


@pytest.fixture
def queen_clock(queen_url: str) -> Clock:
    """The clock of this test's Queen; `advance(seconds)` lets time pass."""
    return Clock(queen_url)


@pytest.fixture
def queen_sync(queen_url: str) -> Iterator[SyncClient]:
    """An open synchronous client on a fresh, empty Queen."""
    with connect_sync(queen_url) as client:
        yield client


async def _client(queen_url: str) -> AsyncIterator[Client]:
    """An open client on a fresh, empty Queen; needs pytest-asyncio."""
    async with connect(queen_url) as client:
        yield client


if find_spec("pytest_asyncio") is not None:
    import pytest_asyncio

    queen_client = pytest_asyncio.fixture(_client, name="queen_client")
