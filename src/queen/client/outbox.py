"""The transactional outbox: a push on the caller's own connection, in the caller's own transaction."""

from __future__ import annotations

import asyncio
import inspect
import sys
from collections.abc import Mapping
from typing import Any, Final
from uuid import UUID

import msgspec

from queen.client.connections import library, not_in_transaction, of_this_thread
from queen.client.errors import from_answer
from queen.db.pool import translate
from queen.errors import InvalidRequest
from queen.model import NewMessage
from queen.sql import query

_KINDS: Final = "asyncpg, psycopg, SQLAlchemy or Django"
_NO_TRANSACTION: Final = "25P01"


async def push_on(connection: object, item: NewMessage) -> UUID:
    """Store one message through a connection of the caller's; it appears when the caller commits."""
    connection = of_this_thread(connection)
    push = {"asyncpg": _by_asyncpg, "psycopg": _by_psycopg, "sqlalchemy": _by_sqlalchemy}.get(library(connection))
    if push is None:
        raise InvalidRequest("connection", f"connection must be one of {_KINDS}, not {type(connection)!r}")
    try:
        return UUID(str(await push(connection, item)))
    except Exception as error:
        raise _known(error) from error


def _arguments(item: NewMessage) -> dict[str, object]:
    return {
        "queue": item.queue,
        "partition": item.partition,
        "payload": item.payload,
        "transaction_id": item.transaction_id,
        "trace_id": item.trace_id,
        "deliver_at": item.deliver_at,
        "parent_id": item.parent_id,
    }


async def _by_asyncpg(connection: Any, item: NewMessage) -> object:
    if not connection.is_in_transaction():
        raise not_in_transaction("async with connection.transaction(): ...")
    return await connection.fetchval(query("client/outbox_asyncpg"), *_arguments(item).values())


async def _by_psycopg(connection: Any, item: NewMessage) -> object:
    if connection.autocommit and connection.info.transaction_status == 0:
        raise not_in_transaction("with connection.transaction(): ..., or a connection without autocommit")
    text, arguments = query("client/outbox_psycopg"), tuple(_arguments(item).values())
    if inspect.iscoroutinefunction(connection.execute):
        row = await (await connection.execute(text, arguments)).fetchone()
    else:
        row = await asyncio.to_thread(lambda: connection.execute(text, arguments).fetchone())
    return row["id"] if isinstance(row, Mapping) else row[0]


async def _by_sqlalchemy(connection: Any, item: NewMessage) -> object:
    """Through SQLAlchemy's own execute: it is what begins the transaction, whichever driver is below."""
    session = hasattr(connection, "get_bind")
    if any(base.__module__.startswith("sqlalchemy.ext.asyncio") for base in type(connection).__mro__):
        return await (await connection.connection() if session else connection).run_sync(_execute, item)
    return await asyncio.to_thread(_execute, connection.connection() if session else connection, item)


def _execute(connection: Any, item: NewMessage) -> object:
    text = sys.modules["sqlalchemy"].text
    # Only a transaction has savepoints: an engine in AUTOCOMMIT is told by the server, whatever the driver calls it.
    connection.execute(text(query("client/outbox_savepoint")))
    connection.execute(text(query("client/outbox_release")))
    given = {name: None if value is None else str(value) for name, value in _arguments(item).items()}
    return connection.execute(text(query("client/outbox_sqlalchemy")), given).scalar_one()


def _known(error: Exception) -> Exception:
    """Our own refusals as our errors; everything else stays what the driver raised."""
    cause: Any = error
    while cause is not None and library(cause) not in ("asyncpg", "psycopg"):
        cause = getattr(cause, "orig", None) or cause.__cause__
    if cause is None or not hasattr(cause, "sqlstate"):
        return error
    if cause.sqlstate == _NO_TRANSACTION:
        return not_in_transaction("with engine.begin() as connection: ...")
    if cause.sqlstate != "QU001":
        return error
    diagnosis = getattr(cause, "diag", None)
    if diagnosis is None:
        return translate(cause)
    figures = msgspec.json.decode(diagnosis.message_hint) if diagnosis.message_hint else {}
    return from_answer(400, str(diagnosis.message_primary), str(diagnosis.message_detail), figures)
