"""The two ends of a transfer: recognised, checked, and connected."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import asyncpg

from queen.db.migrate import connect
from queen.sql import query
from queen.transfer.errors import TransferRefused, TransferStopped
from queen.transfer.model import NEXT, OLD, Phase, State, Version, aside

if TYPE_CHECKING:
    from queen.db.migrate import Connection

PATIENCE: Final = 3600.0
Columns = Mapping[str, Mapping[str, str]]

_COMMON: Final = {
    "queues": "id name namespace task lease_time retry_limit created_at",
    "partitions": "id queue_id name created_at",
    "messages": "id transaction_id trace_id partition_id payload created_at is_encrypted",
    "dead_letter_queue": "message_id partition_id consumer_group error_message retry_count failed_at",
}
_OWN: Final[Mapping[Version, Mapping[str, str]]] = {
    "v2": {
        "messages_status": "message_id consumer_group status error_message retry_count failed_at",
        "partition_cursors": "partition_id consumer_group last_consumed_created_at last_consumed_id",
        "partition_leases": "partition_id consumer_group lease_expires_at message_batch batch_size released_at",
        "consumer_groups": "queue_id name subscription_mode created_at",
    },
    "v3": {
        "partition_consumers": "partition_id consumer_group last_consumed_id last_consumed_created_at lease_expires_at "
        "message_batch batch_size acked_count worker_id batch_retry_count",
        "consumer_groups_metadata": "consumer_group queue_name partition_name namespace task subscription_mode "
        "subscription_timestamp",
        "message_traces": "id message_id partition_id transaction_id event_type data created_at",
        "message_trace_names": "trace_id trace_name",
    },
}


@dataclass(slots=True)
class Link:
    """Connections to both ends; names without a schema mean the end's own."""

    version: Version
    source: Connection
    target: Connection
    source_dsn: str
    target_dsn: str
    source_schema: str
    identity: str
    same: bool
    state: State | None

    def require(self, *phases: Phase) -> State:
        """The state, if it is one of these; otherwise say what to do first."""
        if self.state is None:
            raise TransferRefused("nothing has been copied yet: run `copy` first")
        if self.state.phase not in phases:
            raise TransferRefused(_NOT_NOW[self.state.phase])
        return self.state

    async def reload(self) -> None:
        """Read the state again."""
        self.state = await _state(self.target)


@asynccontextmanager
async def exclusive(link: Link, *, limit: float = PATIENCE) -> AsyncIterator[None]:
    """Be the only command that changes the copy: what two of them brought from different moments would get mixed up."""
    deadline = time.monotonic() + limit
    while not await link.target.fetchval(query("transfer/target/try_exclusive")):
        if time.monotonic() > deadline:
            raise TransferStopped(f"another command of this transfer is at work since {limit:.0f} s: try again later")
        await asyncio.sleep(0.05)
    try:
        await link.reload()
        yield
    finally:
        if not link.target.is_closed():
            await link.target.fetchval(query("transfer/target/end_exclusive"))


_NOT_NOW: Final[Mapping[Phase, str]] = {
    "copying": "the copy is not complete: run `copy` again, it goes on where it stopped",
    "copied": "the transfer is copied and not cut over: `verify` and `cutover` come next",
    "closing": "a cutover was interrupted: run `cutover` again, it goes on where it stopped",
    "done": "the cutover is done: `rollback` goes back, `cleanup` drops the earlier schema",
    "returning": "a rollback was interrupted: run `rollback` again, it goes on where it stopped",
    "returned": "the transfer was rolled back: run `cleanup` to drop the copy, then begin again with `copy`",
}


@asynccontextmanager
async def open_link(version: Version, source: str, target: str | None = None) -> AsyncIterator[Link]:
    """Connect to both ends for the length of a block, after a look at what they are. Changes nothing."""
    async with AsyncExitStack() as stack:
        one = await stack.enter_async_context(connect(source))
        two = await stack.enter_async_context(connect(target or source))
        here, there = [await each.fetchrow(query("transfer/identity")) for each in (one, two)]
        assert here is not None
        assert there is not None
        state = await _state(two)
        schema = await find_source(one, version, state)
        if state is not None and (state.source, state.version) != (here["database"], version):
            raise TransferRefused(
                f"the target already takes a transfer of another source (from-{state.version}): finish it, or `cleanup`"
            )
        link = Link(
            version, one, two, source, target or source, schema, here["database"],
            here["database"] == there["database"], state,
        )  # fmt: skip
        await aim(link)
        yield link


async def aim(link: Link) -> None:
    """Let names without a schema mean the source's and the target's own."""
    await link.source.fetchval(query("transfer/search_path"), link.source_schema)
    opened = not await link.target.fetchval(query("transfer/has_schema"), NEXT)
    await link.target.fetchval(query("transfer/search_path"), OLD if opened and link.state else NEXT)


async def find_source(connection: Connection, version: Version, state: State | None) -> str:
    """The schema with the earlier tables; refuses a database that has none, or those of another version."""
    live = await read_columns(connection, OLD)
    if is_version(live, version):
        return OLD
    put_aside = aside(version)
    if not is_version(await read_columns(connection, put_aside), version):
        raise TransferRefused(describe(live, version))
    if state is None:
        raise TransferRefused(
            f"the schema {put_aside} was put aside by a transfer that this target knows nothing of: give the target of "
            f"that transfer, or rename {put_aside} to queen to begin again"
        )
    return put_aside


async def read_columns(connection: Connection, schema: str) -> Columns:
    """The tables of a schema, each with its columns and their types."""
    found: dict[str, dict[str, str]] = {}
    for row in await connection.fetch(query("transfer/columns"), schema):
        found.setdefault(row["table"], {})[row["column"]] = row["type"]
    return found


def is_version(columns: Columns, version: Version) -> bool:
    """Whether these are the tables of an earlier version, whole."""
    return not missing(columns, version) and columns["messages"]["id"] == "uuid"


def missing(columns: Columns, version: Version) -> list[str]:
    """Which of the columns that a version must have are not there, or are of another type."""
    needed = {**_COMMON, **_OWN[version]}
    lacking = [
        f"{table}.{column}"
        for table, names in needed.items()
        for column in names.split()
        if column not in columns.get(table, {})
    ]
    if "created_at" in columns.get("messages", {}) and columns["messages"]["created_at"] != "timestamp with time zone":
        lacking.append("messages.created_at as timestamptz")
    return lacking


def describe(columns: Columns, version: Version) -> str:
    """Why a database is not what the command says, and what to do."""
    other: Version = "v3" if version == "v2" else "v2"
    if not columns:
        return "the source has no schema queen: is this the right database?"
    if "schema_migrations" in columns:
        return (
            "the source is not an earlier schema: its schema queen was made by this generation of Queen; "
            "`queen migrate status` shows its version, `queen migrate up` brings it up to date"
        )
    if is_version(columns, other):
        return f"the source is a {other} database: use `queen migrate from-{other}`"
    lacking = missing(columns, version)
    shown = ", ".join(lacking[:5]) + (f" and {len(lacking) - 5} more" if len(lacking) > 5 else "")
    return f"the source is not a {version} database: it lacks {shown}"


async def _state(connection: Connection) -> State | None:
    try:
        row = await connection.fetchrow(query("transfer/target/state"))
    except (asyncpg.UndefinedTableError, asyncpg.InvalidSchemaNameError):
        return None
    return None if row is None else State(*row)
