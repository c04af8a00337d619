"""Rows from one database to another by COPY, as bytes: nothing is decoded, and only a few buffers are in memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from queen.db.migrate import Connection


BUFFERS: Final = 16


async def pipe(
    source: Connection, statement: str, arguments: tuple[Any, ...], target: Connection, table: str, columns: str
) -> int:
    """Append what a statement of the source returns to a table of the target; returns the number of rows."""
    buffers: asyncio.Queue[bytes | None] = asyncio.Queue(BUFFERS)

    async def read() -> None:
        try:
            await source.copy_from_query(statement, *arguments, output=buffers.put, format="binary")
        finally:
            await buffers.put(None)

    async def arriving() -> AsyncIterator[bytes]:
        while (data := await buffers.get()) is not None:
            yield data
        await reading

    reading = asyncio.create_task(read())
    try:
        status = await target.copy_to_table(table, source=arriving(), columns=columns.split(), format="binary")
    finally:
        # Read to the end also when the target refused a row: a statement that is cancelled ends the source's snapshot.
        while not reading.done():
            with suppress(TimeoutError):
                await asyncio.wait_for(buffers.get(), 0.05)
    return int(status.rsplit(" ", 1)[-1])
