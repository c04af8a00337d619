"""Opening a store by its URL."""

from __future__ import annotations

from queen.durable.mailbox import Mailbox
from queen.durable.provider import Provider
from queen.durable.providers.postgres.mailbox import PostgresMailbox
from queen.durable.providers.postgres.provider import PostgresProvider
from queen.durable.providers.postgres.schema import DEFAULT_SCHEMA
from queen.durable.providers.sqlite.mailbox import SqliteMailbox
from queen.durable.providers.sqlite.provider import SqliteProvider, file_of
from queen.durable.providers.wake import Clock, system_clock


async def open_provider(url: str, *, schema: str | None = None, clock: Clock | None = None) -> Provider:
    """A store for workflows: a `postgresql://` URL, `sqlite:///path`, `sqlite::memory:` or a plain path.

    Use it as `async with await open_provider(url) as provider`. `schema` is for PostgreSQL only.
    """
    if url.startswith(("postgresql://", "postgres://")):
        return await PostgresProvider.connect(url, schema=schema or DEFAULT_SCHEMA, clock=clock)
    if schema is not None:
        raise ValueError("schema is an option of PostgreSQL stores only")
    return await SqliteProvider.open(url, clock=clock or system_clock)


async def open_mailbox(url: str, *, schema: str | None = None, clock: Clock | None = None) -> Mailbox:
    """The mailbox a store is built on, for queues of your own: URLs as for `open_provider`.

    Use it as `async with await open_mailbox(url) as mailbox`. The queue `orchestrator` belongs to workflows.
    """
    if url.startswith(("postgresql://", "postgres://")):
        return await PostgresMailbox.connect(url, schema=schema or DEFAULT_SCHEMA, clock=clock)
    if schema is not None:
        raise ValueError("schema is an option of PostgreSQL stores only")
    return await SqliteMailbox.open(file_of(url), clock=clock or system_clock)
