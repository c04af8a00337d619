"""Stores on the real clock."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from queen.durable import Provider, open_provider


@pytest.fixture
async def provider(store_url: str) -> AsyncIterator[Provider]:
    """An open store."""
    async with await open_provider(store_url) as opened:
        yield opened
