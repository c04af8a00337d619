"""Bring a database to the schema this release needs."""

from __future__ import annotations

import asyncpg


async def up(connection: asyncpg.Connection[asyncpg.Record]) -> None:
    """Apply what is missing."""
