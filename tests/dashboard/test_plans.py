"""What a page asks the database for by itself, without the shared look, is found by an index."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import asyncpg
import pytest

from queen.sql import query
from tests.dashboard.conftest import Shop

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LARGE = ("messages", "partition_consumers", "deliveries", "stats", "audit", "traces")
ASKED: dict[str, tuple[Any, ...]] = {
    "series": (1, None, NOW - timedelta(hours=1), 60.0),
    "leases": (1, 50),
    "audit": ("orders", None, 20, None),
    "group_lanes": (1, "analytics", None, 100),
    "group_lane": (1, "analytics", "customer-1"),
    "find_by_transaction": ("orders", "t", 100),
    "trace_places": (uuid4(), 100),
    "messages_at": ([1], [1]),
    "dead_letters_of_message": (1, 1),
    "newest_dead_letter": (),
    "dead_letter_ids": (None, None, None, None, None, None, None, 0, 100, 500),
}


@pytest.mark.parametrize("name", ASKED)
async def test_a_page_reads_no_large_table_as_a_whole(shop: Shop, name: str) -> None:
    connection = await asyncpg.connect(shop.database)
    try:
        await connection.execute("set enable_seqscan = off; set search_path = queen")
        plan = await connection.fetch(f"explain {query(f'dashboard/{name}')}", *ASKED[name])
    finally:
        await connection.close()
    lines = [row[0] for row in plan]
    scans = [line for line in lines if "Seq Scan on" in line and line.split("Seq Scan on ")[1].split()[0] in LARGE]
    assert scans == [], "\n".join(lines)
