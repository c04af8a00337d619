"""The page of a move from an earlier schema: what to do first, how far it is, and what differs."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx2

from queen.sql import query
from tests.server.running import run_broker
from tests.support.work import connect

REPORT = """{"engine": "sql", "compared": {"messages": 12}, "differences": [{"verdict": "payload changed",
 "queue": "<b>mail</b>", "partition": "p1", "name": "m7", "source": "a", "target": "b"}]}"""


def test_it_teaches_then_shows_how_far_it_is(database: str, tmp_path: Path) -> None:
    with run_broker(database, tmp_path) as running, httpx2.Client(base_url=running.url, timeout=40) as client:
        assert "queen migrate from-v3 plan" in client.get("/transfer").text
        asyncio.run(begin(database))
        page = client.get("/transfer?format=json").json()["page"]
        assert (page["version"], page["phase"], page["report"]["passed"]) == ("v3", "copied", False)
        text = client.get("/transfer").text
        assert "payload changed" in text
        assert "&lt;b&gt;mail" in text


async def begin(database: str) -> None:
    async with connect(database) as sql:
        await sql.execute(query("transfer/target/tables"))
        await sql.execute("insert into queen_transfer.state (version, source, phase) values ('v3', 'x', 'copied')")
        await sql.execute("insert into queen_transfer.reports (passed, report) values (false, $1::jsonb)", REPORT)
