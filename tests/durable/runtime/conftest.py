"""Both stores, each test its own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from queen.durable import Provider, open_provider


@pytest.fixture(params=["sqlite", "postgres"])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of an empty store that several processes can open."""
    if request.param == "sqlite":
        return f"sqlite://{tmp_path / 'durable.db'}"
    return str(request.getfixturevalue("database"))


@pytest.fixture
async def provider(store_url: str) -> AsyncIterator[Provider]:
    """An open store."""
    async with await open_provider(store_url) as opened:
        yield opened
