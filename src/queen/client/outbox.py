"""The transactional outbox: a push on the caller's own connection, in the caller's own transaction."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any
from uuid import UUID

import msgspec

from queen.client.errors import from_answer
from queen.db.pool import translate
from queen.errors import InvalidRequest
from queen.model import NewMessage
from queen.sql import query


async def push_on(connection: Any, item: NewMessage) -> UUID:
    """Store one message through an asyncpg or psycopg connection; it appears when the caller commits."""
    arguments = (
        item.queue,
        item.partition,
        item.payload,
        item.transaction_id,
        item.trace_id,
        item.deliver_at,
        item.parent_id,
    )
    driver = type(connection).__module__.partition(".")[0]
    if driver == "asyncpg":
        return await _by_asyncpg(connection, arguments)
    if driver in ("psycopg", "psycopg_pool"):
        return await _by_psycopg(connection, arguments)
    raise InvalidRequest("connection", f"connection must be one of asyncpg or psycopg, not {type(connection)!r}")


async def _by_asyncpg(connection: Any, arguments: tuple[object, ...]) -> UUID:
    try:
        return UUID(str(await connection.fetchval(query("client/outbox_asyncpg"), *arguments)))
    except Exception as error:
        raise _known(error) from error


async def _by_psycopg(connection: Any, arguments: tuple[object, ...]) -> UUID:
    text = query("client/outbox_psycopg")
    try:
        if inspect.iscoroutinefunction(connection.execute):
            cursor = await connection.execute(text, arguments)
            row = await cursor.fetchone()
        else:
            row = await asyncio.to_thread(lambda: connection.execute(text, arguments).fetchone())
    except Exception as error:
        raise _known(error) from error
    return UUID(str(row["id"] if isinstance(row, dict) else row[0]))


def _known(error: Exception) -> Exception:
    """Our own refusals as our errors; everything else stays what the driver raised."""
    if getattr(error, "sqlstate", None) != "QU001":
        return error
    diagnosis = getattr(error, "diag", None)
    if diagnosis is None:
        return translate(error)
    figures = msgspec.json.decode(diagnosis.message_hint) if diagnosis.message_hint else {}
    return from_answer(400, str(diagnosis.message_primary), str(diagnosis.message_detail), figures)
